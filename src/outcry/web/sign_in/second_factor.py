"""What one signs in with beside a password: passkeys, and an authenticator with its recovery codes.

Rules kept: a shared secret and recovery codes are shown on the one page that answers their making, which nothing keeps;
loading it again makes nothing known that was known before.
"""

import re
from collections.abc import Sequence
from typing import Any

import segno
from starlette.responses import Response

from outcry.people.model import UserRow
from outcry.people.refusals import Refused
from outcry.web.dates import moment
from outcry.web.entrance import guarded, origin_of, passkeys_work, refused
from outcry.web.forms import id_of
from outcry.web.page_context import Desk, Page, PageMissing, Visit, said

SECURITY = "/account/security"
_SECRET = re.compile(r"[A-Z2-7]{16,64}")


# -- passkeys: made by a script (`passkeys`), listed and removed here


async def passkeys(desk: Desk, visit: Visit) -> Response:
    """A user's, and where one is added."""
    user = desk.confirmed(visit)
    return desk.page(visit, "security/passkeys.html", faults={}, **await _listed(desk, visit, user))


async def remove_passkey(desk: Desk, visit: Visit) -> Response:
    """Forget one."""
    user = desk.confirmed(visit)
    form = await desk.form(visit)
    number = id_of(form.get("passkey", ""))
    try:
        await desk.ask(desk.services.identity.remove_passkey, user, number, origin_of(visit))
    except Refused as refusal:
        return refused(desk, visit, "security/passkeys.html", refusal, **await _listed(desk, visit, user))
    return desk.to(visit, f"{SECURITY}?done=passkey-removed")


async def _listed(desk: Desk, visit: Visit, user: UserRow) -> dict[str, Any]:
    rows = await desk.ask(desk.services.identity.passkeys, user)
    listed = [
        {
            "id": row.id,
            "label": row.label,
            "made": moment(visit, row.created_ns),
            "used": moment(visit, row.last_used_ns),
        }
        for row in rows
    ]
    return {"passkeys": listed, "passkeys_work": passkeys_work(visit), "port": visit.request.url.port or 80}


# -- the authenticator


async def authenticator(desk: Desk, visit: Visit) -> Response:
    """Where it is switched on; where it is on, what can be done about it."""
    user = desk.confirmed(visit)
    identity = desk.services.identity
    if user.totp_sealed is not None:
        left = await desk.ask(identity.recovery_codes_left, user)
        return desk.page(visit, "security/authenticator_on.html", secret=True, codes_left=left)
    secret, address = await desk.ask(identity.begin_totp, user)
    return desk.page(visit, "security/authenticator.html", secret=True, faults={}, **_drawn(secret, address))


async def change_authenticator(desk: Desk, visit: Visit) -> Response:
    """Switch it on with a first code, or off, or have new recovery codes."""
    user = desk.confirmed(visit)
    form = await desk.form(visit)
    identity = desk.services.identity
    wanted = form.get("do", "")
    if wanted == "on":
        return await _switch_on(desk, visit, user, form)
    if user.totp_sealed is None:
        return desk.to(visit, f"{SECURITY}/authenticator")
    if wanted == "off":
        await desk.ask(identity.stop_totp, user, origin_of(visit))
        return desk.to(visit, f"{SECURITY}?done=totp-off")
    if wanted == "codes":
        codes = await desk.ask(identity.new_recovery_codes, user, origin_of(visit))
        return _reveal(desk, visit, codes)
    raise PageMissing


async def _switch_on(desk: Desk, visit: Visit, user: UserRow, form: dict[str, str]) -> Response:
    secret = said(form, "secret")
    if user.totp_sealed is not None or _SECRET.fullmatch(secret) is None:
        return desk.to(visit, f"{SECURITY}/authenticator")
    identity = desk.services.identity
    try:
        codes = await desk.ask(identity.finish_totp, user, secret, said(form, "code"), origin_of(visit))
    except Refused as refusal:
        address = identity.totp_address(user, secret)
        return refused(desk, visit, "security/authenticator.html", refusal, **_drawn(secret, address))
    return _reveal(desk, visit, codes)


def _drawn(secret: str, address: str) -> dict[str, Any]:
    """The secret for a camera and for fingers: a picture, and groups of four."""
    picture = segno.make(address, error="m", micro=False)
    return {
        "shared": secret,
        "groups": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "picture": picture.svg_data_uri(scale=5, border=3, dark="#000", light="#fff"),
    }


def _reveal(desk: Desk, visit: Visit, codes: list[str]) -> Response:
    return desk.page(visit, "security/recovery.html", secret=True, codes=codes)


PAGES: Sequence[Page] = (
    (f"{SECURITY}/passkeys", ("GET",), guarded(passkeys)),
    (f"{SECURITY}/passkeys", ("POST",), guarded(remove_passkey)),
    (f"{SECURITY}/authenticator", ("GET",), guarded(authenticator)),
    (f"{SECURITY}/authenticator", ("POST",), guarded(change_authenticator)),
)

"""Passkeys, authenticator app and recovery codes: `/account/security/passkeys`, `/account/security/authenticator`.

The authenticator's secret is shown only while it is set up, and recovery codes only in the response that creates them.
These responses must not be cached, and no other page shows the secret or the codes.
"""

import re
from collections.abc import Sequence
from typing import Any

import segno
from starlette.responses import Response

from outcry.people.model import UserRow
from outcry.people.refusals import Refused
from outcry.web.dates import local_time
from outcry.web.form_input import Form
from outcry.web.form_state import id_of
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest
from outcry.web.sign_in_flow import origin_of, passkeys_work, private_connection_only, refused

SECURITY = "/account/security"
_SECRET = re.compile(r"[A-Z2-7]{16,64}")


# -- passkeys: the module `passkeys` adds them


async def passkeys(context: PageContext, request: PageRequest) -> Response:
    """List the user's passkeys and offer to add one."""
    user = context.confirmed(request)
    return context.page(request, "security/passkeys.html", faults={}, **await _listed(context, request, user))


async def remove_passkey(context: PageContext, request: PageRequest) -> Response:
    """Remove a passkey."""
    user = context.confirmed(request)
    form = await context.form(request)
    number = id_of(form.raw("passkey"))
    try:
        await context.ask(context.services.identity.remove_passkey, user, number, origin_of(request))
    except Refused as refusal:
        return refused(
            context, request, "security/passkeys.html", refusal, **await _listed(context, request, user)
        )
    return context.to(request, f"{SECURITY}?done=passkey-removed")


async def _listed(context: PageContext, request: PageRequest, user: UserRow) -> dict[str, Any]:
    rows = await context.ask(context.services.identity.passkeys, user)
    listed = [
        {
            "id": row.id,
            "label": row.label,
            "made": local_time(request, row.created_ns),
            "used": local_time(request, row.last_used_ns),
        }
        for row in rows
    ]
    return {"passkeys": listed, "passkeys_work": passkeys_work(request), "port": request.http.url.port or 80}


# -- authenticator app


async def authenticator(context: PageContext, request: PageRequest) -> Response:
    """Show the form to turn on the authenticator app. If it is on already, show its settings."""
    user = context.confirmed(request)
    identity = context.services.identity
    if user.totp_sealed is not None:
        left = await context.ask(identity.recovery_codes_left, user)
        return context.page(request, "security/authenticator_on.html", secret=True, codes_left=left)
    secret, address = await context.ask(identity.begin_totp, user)
    return context.page(
        request, "security/authenticator.html", secret=True, faults={}, **_drawn(secret, address)
    )


async def change_authenticator(context: PageContext, request: PageRequest) -> Response:
    """Turn the authenticator app on (needs a first code) or off, or create new recovery codes."""
    user = context.confirmed(request)
    form = await context.form(request)
    identity = context.services.identity
    wanted = form.raw("do")
    if wanted == "on":
        return await _switch_on(context, request, user, form)
    if user.totp_sealed is None:
        return context.to(request, f"{SECURITY}/authenticator")
    if wanted == "off":
        await context.ask(identity.stop_totp, user, origin_of(request))
        return context.to(request, f"{SECURITY}?done=totp-off")
    if wanted == "codes":
        codes = await context.ask(identity.new_recovery_codes, user, origin_of(request))
        return _reveal(context, request, codes)
    raise PageMissing


async def _switch_on(context: PageContext, request: PageRequest, user: UserRow, form: Form) -> Response:
    secret = form.text("secret")
    if user.totp_sealed is not None or _SECRET.fullmatch(secret) is None:
        return context.to(request, f"{SECURITY}/authenticator")
    identity = context.services.identity
    try:
        codes = await context.ask(identity.finish_totp, user, secret, form.text("code"), origin_of(request))
    except Refused as refusal:
        address = identity.totp_address(user, secret)
        return refused(context, request, "security/authenticator.html", refusal, **_drawn(secret, address))
    return _reveal(context, request, codes)


def _drawn(secret: str, address: str) -> dict[str, Any]:
    """Return the authenticator's secret as a QR code and as text in groups of four characters."""
    picture = segno.make(address, error="m", micro=False)
    return {
        "shared": secret,
        "groups": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "picture": picture.svg_data_uri(scale=5, border=3, dark="#000", light="#fff"),
    }


def _reveal(context: PageContext, request: PageRequest, codes: list[str]) -> Response:
    return context.page(request, "security/recovery.html", secret=True, codes=codes)


PAGES: Sequence[Page] = (
    (f"{SECURITY}/passkeys", ("GET",), private_connection_only(passkeys)),
    (f"{SECURITY}/passkeys", ("POST",), private_connection_only(remove_passkey)),
    (f"{SECURITY}/authenticator", ("GET",), private_connection_only(authenticator)),
    (f"{SECURITY}/authenticator", ("POST",), private_connection_only(change_authenticator)),
)

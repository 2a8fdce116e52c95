"""Coming in by password: set-up, sign-in, second factor; proving anew who it is; going out.

Rules kept: nobody is asked twice who is signed in already, so a form sent again leads on and not to an error; where to
go on to is carried in the address, and is always a page of ours.
"""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from outcry.people.refusals import Reason, Refused
from outcry.web.entrance import (
    HALF_WAY_COOKIE,
    guarded,
    let_in,
    let_out,
    next_of,
    onward,
    origin_of,
    passkeys_work,
    refused,
    renew,
    secret_in,
    with_next,
)
from outcry.web.page_context import Desk, Page, Visit, said

_LONGEST_TOKEN = 200

# -- first run


async def set_up_form(desk: Desk, visit: Visit) -> Response:
    """Where the first operator is made."""
    if not await desk.ask(desk.services.identity.needs_set_up):
        return desk.to(visit, "/sign-in")
    token = visit.request.query_params.get("token", "")[:_LONGEST_TOKEN]
    return desk.page(visit, "signin/set_up.html", secret=True, faults={}, token=token, email="")


async def set_up(desk: Desk, visit: Visit) -> Response:
    """Make the first operator and sign in as it."""
    if visit.user is not None:
        return desk.to(visit, "/")
    form = await desk.form(visit)
    token, email = said(form, "token"), said(form, "email")
    try:
        came = await desk.ask(
            desk.services.identity.set_up, token, email, secret_in(form, "password"), origin_of(visit)
        )
    except Refused as refusal:
        return refused(desk, visit, "signin/set_up.html", refusal, token=token, email=email)
    return await let_in(desk, visit, came, "/account?done=welcome")


# -- sign-in


async def sign_in_form(desk: Desk, visit: Visit) -> Response:
    """All ways in that this service has."""
    if visit.user is not None:
        return desk.to(visit, next_of(visit))
    if await desk.ask(desk.services.identity.needs_set_up):
        return desk.to(visit, "/set-up")
    return desk.page(visit, "signin/sign_in.html", faults={}, email="", **_ways(desk, visit))


async def sign_in(desk: Desk, visit: Visit) -> Response:
    """By password."""
    if visit.user is not None:
        return desk.to(visit, next_of(visit))
    form = await desk.form(visit)
    email = said(form, "email")
    try:
        came = await desk.ask(
            desk.services.identity.sign_in, email, secret_in(form, "password"), origin_of(visit)
        )
    except Refused as refusal:
        return await sign_in_again(desk, visit, refusal, email)
    return await let_in(desk, visit, came, next_of(visit))


async def sign_in_again(desk: Desk, visit: Visit, refusal: Refused, email: str = "") -> Response:
    """All ways in once more, with why the one that was taken ended here."""
    return refused(desk, visit, "signin/sign_in.html", refusal, email=email, **_ways(desk, visit))


def _ways(desk: Desk, visit: Visit) -> dict[str, Any]:
    return {
        "onward": onward(next_of(visit)),
        "passkeys": passkeys_work(visit),
        "mail": desk.services.identity.mail_works(),
        "openid": desk.services.identity.openid_name(),
    }


async def code_form(desk: Desk, visit: Visit) -> Response:
    """The second factor."""
    if visit.user is not None:
        return desk.to(visit, next_of(visit))
    if not visit.request.cookies.get(HALF_WAY_COOKIE):
        return desk.to(visit, with_next("/sign-in", next_of(visit)))
    return desk.page(visit, "signin/code.html", secret=True, faults={}, onward=onward(next_of(visit)))


async def code(desk: Desk, visit: Visit) -> Response:
    """Finish the sign-in with a code; when the time for it is over, begin again."""
    if visit.user is not None:
        return desk.to(visit, next_of(visit))
    form = await desk.form(visit)
    ticket = visit.request.cookies.get(HALF_WAY_COOKIE, "")
    try:
        came = await desk.ask(
            desk.services.identity.second_factor, ticket, said(form, "code"), origin_of(visit)
        )
    except Refused as refusal:
        if refusal.reason in {Reason.CODE, Reason.WRONG, Reason.TOO_OFTEN}:
            return refused(desk, visit, "signin/code.html", refusal, onward=onward(next_of(visit)))
        return await sign_in_again(desk, visit, refusal)
    return await let_in(desk, visit, came, next_of(visit))


# -- proving it anew


async def confirm_form(desk: Desk, visit: Visit) -> Response:
    """Before anything secret is shown or changed."""
    desk.user(visit)
    return desk.page(visit, "signin/confirm.html", secret=True, faults={}, **await _proofs(desk, visit))


async def confirm(desk: Desk, visit: Visit) -> Response:
    """By password and, where there is one, second factor."""
    desk.user(visit)
    assert visit.session is not None
    form = await desk.form(visit)
    try:
        token = await desk.ask(
            desk.services.identity.confirm,
            visit.session,
            secret_in(form, "password"),
            said(form, "code"),
            origin_of(visit),
        )
    except Refused as refusal:
        return await confirm_again(desk, visit, refusal)
    return renew(desk, visit, token, desk.to(visit, next_of(visit)))


async def confirm_again(desk: Desk, visit: Visit, refusal: Refused) -> Response:
    """All proofs once more, with why the one that was given is none."""
    return refused(desk, visit, "signin/confirm.html", refusal, **await _proofs(desk, visit))


async def _proofs(desk: Desk, visit: Visit) -> dict[str, Any]:
    user = desk.user(visit)
    has_passkey = bool(await desk.ask(desk.services.identity.passkeys, user))
    return {
        "onward": onward(next_of(visit)),
        "has_password": user.password_hash is not None,
        "has_code": user.totp_sealed is not None,
        "passkeys": has_passkey and passkeys_work(visit),
        "openid": "" if user.totp_sealed else desk.services.identity.openid_name(),
    }


# -- going out


async def sign_out(desk: Desk, visit: Visit) -> Response:
    """End this browser's session."""
    if visit.session is None:
        return desk.to(visit, next_of(visit))
    await desk.form(visit)
    await desk.ask(desk.services.identity.sign_out, visit.session, origin_of(visit))
    return let_out(desk, visit, next_of(visit))


PAGES: Sequence[Page] = (
    ("/set-up", ("GET",), guarded(set_up_form)),
    ("/set-up", ("POST",), guarded(set_up)),
    ("/sign-in", ("GET",), guarded(sign_in_form)),
    ("/sign-in", ("POST",), guarded(sign_in)),
    ("/sign-in/code", ("GET",), guarded(code_form)),
    ("/sign-in/code", ("POST",), guarded(code)),
    ("/confirm", ("GET",), guarded(confirm_form)),
    ("/confirm", ("POST",), guarded(confirm)),
    ("/sign-out", ("POST",), sign_out),
)

"""Set-up, sign-in with a password and second factor, confirmation, and sign-out.

If the user is signed in already, the sign-in pages redirect, so a form that is sent twice does not fail. The URL
contains the page to open next, which is always on this site.
"""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from outcry.people.refusals import Reason, Refused
from outcry.web.page_context import Page, PageContext, PageRequest
from outcry.web.sign_in_flow import (
    HALF_WAY_COOKIE,
    next_of,
    next_query,
    origin_of,
    passkeys_work,
    private_connection_only,
    refused,
    renew,
    sign_in_browser,
    sign_out_browser,
    with_next,
)

_LONGEST_TOKEN = 200

# -- set-up


async def set_up_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form to create the first operator."""
    if not await context.ask(context.services.identity.first_run.is_pending):
        return context.to(request, "/sign-in")
    token = request.http.query_params.get("token", "")[:_LONGEST_TOKEN]
    return context.page(request, "signin/set_up.html", secret=True, faults={}, token=token, email="")


async def set_up(context: PageContext, request: PageRequest) -> Response:
    """Create the first operator and sign in."""
    if request.user is not None:
        return context.to(request, "/")
    form = await context.form(request)
    token, email = form.text("token"), form.text("email")
    try:
        came = await context.ask(
            context.services.identity.set_up, token, email, form.secret("password"), origin_of(request)
        )
    except Refused as refusal:
        return refused(context, request, "signin/set_up.html", refusal, token=token, email=email)
    return await sign_in_browser(context, request, came, "/account?done=welcome")


# -- sign-in


async def sign_in_form(context: PageContext, request: PageRequest) -> Response:
    """Show the sign-in page."""
    if request.user is not None:
        return context.to(request, next_of(request))
    if await context.ask(context.services.identity.first_run.is_pending):
        return context.to(request, "/set-up")
    return context.page(request, "signin/sign_in.html", faults={}, email="", **_ways(context, request))


async def sign_in(context: PageContext, request: PageRequest) -> Response:
    """Sign in with a password."""
    if request.user is not None:
        return context.to(request, next_of(request))
    form = await context.form(request)
    email = form.text("email")
    try:
        came = await context.ask(
            context.services.identity.sign_in, email, form.secret("password"), origin_of(request)
        )
    except Refused as refusal:
        return await sign_in_again(context, request, refusal, email)
    return await sign_in_browser(context, request, came, next_of(request))


async def sign_in_again(
    context: PageContext, request: PageRequest, refusal: Refused, email: str = ""
) -> Response:
    """Show the sign-in page again, with the reason why the sign-in was refused."""
    return refused(context, request, "signin/sign_in.html", refusal, email=email, **_ways(context, request))


def _ways(context: PageContext, request: PageRequest) -> dict[str, Any]:
    return {
        "next_query": next_query(next_of(request)),
        "passkeys": passkeys_work(request),
        "mail": context.services.identity.mail_works(),
        "openid": context.services.identity.openid_name(),
    }


async def code_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form for the second factor."""
    if request.user is not None:
        return context.to(request, next_of(request))
    if not request.http.cookies.get(HALF_WAY_COOKIE):
        return context.to(request, with_next("/sign-in", next_of(request)))
    return context.page(
        request, "signin/code.html", secret=True, faults={}, next_query=next_query(next_of(request))
    )


async def code(context: PageContext, request: PageRequest) -> Response:
    """Finish the sign-in with a second-factor code, or start over when the sign-in has expired."""
    if request.user is not None:
        return context.to(request, next_of(request))
    form = await context.form(request)
    ticket = request.http.cookies.get(HALF_WAY_COOKIE, "")
    try:
        came = await context.ask(
            context.services.identity.second_factor, ticket, form.text("code"), origin_of(request)
        )
    except Refused as refusal:
        if refusal.reason in {Reason.CODE, Reason.WRONG, Reason.TOO_OFTEN}:
            return refused(
                context, request, "signin/code.html", refusal, next_query=next_query(next_of(request))
            )
        return await sign_in_again(context, request, refusal)
    return await sign_in_browser(context, request, came, next_of(request))


# -- confirmation


async def confirm_form(context: PageContext, request: PageRequest) -> Response:
    """Show the form to confirm the user's identity."""
    context.user(request)
    return context.page(
        request, "signin/confirm.html", secret=True, faults={}, **await _proofs(context, request)
    )


async def confirm(context: PageContext, request: PageRequest) -> Response:
    """Confirm the user's identity with a password and, if set up, a second factor."""
    context.user(request)
    assert request.session is not None
    form = await context.form(request)
    try:
        token = await context.ask(
            context.services.identity.confirm,
            request.session,
            form.secret("password"),
            form.text("code"),
            origin_of(request),
        )
    except Refused as refusal:
        return await confirm_again(context, request, refusal)
    return renew(context, request, token, context.to(request, next_of(request)))


async def confirm_again(context: PageContext, request: PageRequest, refusal: Refused) -> Response:
    """Show the confirmation page again, with the reason why the confirmation was refused."""
    return refused(context, request, "signin/confirm.html", refusal, **await _proofs(context, request))


async def _proofs(context: PageContext, request: PageRequest) -> dict[str, Any]:
    user = context.user(request)
    has_passkey = bool(await context.ask(context.services.identity.passkeys, user))
    return {
        "next_query": next_query(next_of(request)),
        "has_password": user.password_hash is not None,
        "has_code": user.totp_sealed is not None,
        "passkeys": has_passkey and passkeys_work(request),
        "openid": "" if user.totp_sealed else context.services.identity.openid_name(),
    }


# -- sign-out


async def sign_out(context: PageContext, request: PageRequest) -> Response:
    """Sign out of this browser."""
    if request.session is None:
        return context.to(request, next_of(request))
    await context.form(request)
    await context.ask(context.services.identity.sign_out, request.session, origin_of(request))
    return sign_out_browser(context, request, next_of(request))


PAGES: Sequence[Page] = (
    ("/set-up", ("GET",), private_connection_only(set_up_form)),
    ("/set-up", ("POST",), private_connection_only(set_up)),
    ("/sign-in", ("GET",), private_connection_only(sign_in_form)),
    ("/sign-in", ("POST",), private_connection_only(sign_in)),
    ("/sign-in/code", ("GET",), private_connection_only(code_form)),
    ("/sign-in/code", ("POST",), private_connection_only(code)),
    ("/confirm", ("GET",), private_connection_only(confirm_form)),
    ("/confirm", ("POST",), private_connection_only(confirm)),
    ("/sign-out", ("POST",), sign_out),
)

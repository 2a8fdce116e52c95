"""Emailed links: sign-in, password reset, email change and invitation.

Opening a link changes nothing, because email servers open links too; the page's button does. The response to a request
for a link is the same whether or not the email address has an account.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.responses import Response

from outcry.people.model import TokenRow
from outcry.people.refusals import Reason, Refused
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest, safe_path
from outcry.web.sign_in_flow import (
    delete_cookie,
    faults_of,
    next_of,
    next_query,
    origin_of,
    private_connection_only,
    refused,
    sign_in_browser,
)

#: Stores the next page in the requesting browser, because only that browser can use the sign-in link.
ONWARD_COOKIE = "outcry-onward"
_ONWARD_S = 600
_LONGEST_TOKEN = 200


def _mail(context: PageContext) -> bool:
    return context.services.identity.mail_works()


def _token(request: PageRequest) -> str:
    return request.http.query_params.get("token", "")[:_LONGEST_TOKEN]


# -- request a link


async def ask_link(context: PageContext, request: PageRequest) -> Response:
    """Show the form to request a sign-in link."""
    return _asking(context, request, "signin/ask_link.html")


async def send_link(context: PageContext, request: PageRequest) -> Response:
    """Email a sign-in link that works in this browser only."""
    form = await context.form(request)
    email, to = form.text("email"), next_of(request)
    try:
        await context.ask(context.services.identity.send_link, email, request.binding, origin_of(request))
    except Refused as refusal:
        return refused(
            context,
            request,
            "signin/ask_link.html",
            refusal,
            email=email,
            sent=False,
            next_query=next_query(to),
        )
    response = context.to(request, "/sign-in/link?sent=1")
    context.set_cookie(request, response, ONWARD_COOKIE, quote(to), _ONWARD_S)
    return response


async def ask_reset(context: PageContext, request: PageRequest) -> Response:
    """Show the form to request a password reset link."""
    return _asking(context, request, "signin/ask_reset.html")


async def send_reset(context: PageContext, request: PageRequest) -> Response:
    """Email a password reset link."""
    form = await context.form(request)
    email = form.text("email")
    try:
        await context.ask(context.services.identity.send_reset, email, origin_of(request))
    except Refused as refusal:
        return refused(context, request, "signin/ask_reset.html", refusal, email=email, sent=False)
    return context.to(request, "/reset?sent=1")


def _asking(context: PageContext, request: PageRequest, template: str) -> Response:
    if not _mail(context):
        raise PageMissing
    sent = "sent" in request.http.query_params
    return context.page(
        request, template, faults={}, email="", sent=sent, next_query=next_query(next_of(request))
    )


# -- use a link


async def link_form(context: PageContext, request: PageRequest) -> Response:
    """Show the page that a sign-in link opens."""
    return context.page(request, "signin/link.html", secret=True, faults={}, token=_token(request))


async def follow_link(context: PageContext, request: PageRequest) -> Response:
    """Sign in with an emailed link."""
    form = await context.form(request)
    token = form.text("token")
    try:
        came = await context.ask(
            context.services.identity.follow_link, token, request.binding, origin_of(request)
        )
    except Refused as refusal:
        return refused(context, request, "signin/link.html", refusal, token="")
    to = safe_path(unquote(request.http.cookies.get(ONWARD_COOKIE, "")))
    response = await sign_in_browser(context, request, came, to)
    delete_cookie(request, response, ONWARD_COOKIE)
    return response


async def reset_form(context: PageContext, request: PageRequest) -> Response:
    """Show the page that a password reset link opens."""
    return context.page(
        request, "signin/reset.html", secret=True, faults={}, token=_token(request), mail=_mail(context)
    )


async def reset(context: PageContext, request: PageRequest) -> Response:
    """Set the new password and sign in."""
    form = await context.form(request)
    token = form.text("token")
    try:
        came = await context.ask(
            context.services.identity.reset, token, form.secret("password"), origin_of(request)
        )
    except Refused as refusal:
        kept = "" if refusal.reason is Reason.LINK else token
        return refused(context, request, "signin/reset.html", refusal, token=kept, mail=_mail(context))
    return await sign_in_browser(context, request, came)


async def email_form(context: PageContext, request: PageRequest) -> Response:
    """Show the page that an email change link opens."""
    return context.page(
        request, "signin/email.html", secret=True, faults={}, token=_token(request), done=False
    )


async def new_email(context: PageContext, request: PageRequest) -> Response:
    """Change the account's email address."""
    form = await context.form(request)
    try:
        await context.ask(context.services.identity.finish_email, form.text("token"), origin_of(request))
    except Refused as refusal:
        return refused(context, request, "signin/email.html", refusal, token="", done=False)
    return context.page(request, "signin/email.html", faults={}, token="", done=True)


# -- invitations


async def invitation(context: PageContext, request: PageRequest) -> Response:
    """Show the page that an invitation link opens; status 410 if the invitation is no longer valid."""
    token = _token(request)
    invited = await context.ask(context.services.identity.invited, token)
    if invited is None:
        gone = faults_of(request, Refused(Reason.LINK))
        return context.page(
            request, "signin/invite.html", 410, secret=True, **_invited(context, None, "", ""), faults=gone
        )
    return context.page(
        request,
        "signin/invite.html",
        secret=True,
        **_invited(context, invited, token, invited.email),
        faults={},
    )


async def accept(context: PageContext, request: PageRequest) -> Response:
    """Accept an invitation: create the account and sign in."""
    form = await context.form(request)
    token, email = form.text("token"), form.text("email")
    identity = context.services.identity
    try:
        came = await context.ask(identity.accept, token, email, form.secret("password"), origin_of(request))
    except Refused as refusal:
        invited = await context.ask(identity.invited, token)
        values = _invited(context, invited, token, email)
        return refused(context, request, "signin/invite.html", refusal, **values)
    return await sign_in_browser(context, request, came)


def _invited(context: PageContext, invited: TokenRow | None, token: str, email: str) -> dict[str, Any]:
    return {
        "invited": invited,
        "token": token,
        "email": email,
        "openid": context.services.identity.openid_name(),
    }


PAGES: Sequence[Page] = (
    ("/sign-in/link", ("GET",), private_connection_only(ask_link)),
    ("/sign-in/link", ("POST",), private_connection_only(send_link)),
    ("/reset", ("GET",), private_connection_only(ask_reset)),
    ("/reset", ("POST",), private_connection_only(send_reset)),
    ("/link", ("GET",), private_connection_only(link_form)),
    ("/link", ("POST",), private_connection_only(follow_link)),
    ("/reset/new", ("GET",), private_connection_only(reset_form)),
    ("/reset/new", ("POST",), private_connection_only(reset)),
    ("/email", ("GET",), private_connection_only(email_form)),
    ("/email", ("POST",), private_connection_only(new_email)),
    ("/invite", ("GET",), private_connection_only(invitation)),
    ("/invite", ("POST",), private_connection_only(accept)),
)

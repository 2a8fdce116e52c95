"""Coming in by a link: mailed for signing in, for a new password or a new address, or given as an invitation.

Rules kept: opening a link changes nothing, for mail servers open links too: a button does. Asking for one is answered
the same whether the address has an account or not.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from starlette.responses import Response

from outcry.people.model import TokenRow
from outcry.people.refusals import Reason, Refused
from outcry.web.entrance import (
    faults_of,
    forget,
    guarded,
    let_in,
    next_of,
    onward,
    origin_of,
    refused,
    secret_in,
)
from outcry.web.page_context import Desk, Page, PageMissing, Visit, safe_path, said

#: Where to go once a mailed link was used: it is used in the browser that asked for it.
ONWARD_COOKIE = "outcry-onward"
_ONWARD_S = 600
_LONGEST_TOKEN = 200


def _mail(desk: Desk) -> bool:
    return desk.services.identity.mail_works()


def _token(visit: Visit) -> str:
    return visit.request.query_params.get("token", "")[:_LONGEST_TOKEN]


# -- asking for one


async def ask_link(desk: Desk, visit: Visit) -> Response:
    """Where a link to sign in with is asked for."""
    return _asking(desk, visit, "signin/ask_link.html")


async def send_link(desk: Desk, visit: Visit) -> Response:
    """Mail one, to be used in this browser."""
    form = await desk.form(visit)
    email, to = said(form, "email"), next_of(visit)
    try:
        await desk.ask(desk.services.identity.send_link, email, visit.binding, origin_of(visit))
    except Refused as refusal:
        return refused(
            desk, visit, "signin/ask_link.html", refusal, email=email, sent=False, onward=onward(to)
        )
    response = desk.to(visit, "/sign-in/link?sent=1")
    desk.set_cookie(visit, response, ONWARD_COOKIE, quote(to), _ONWARD_S)
    return response


async def ask_reset(desk: Desk, visit: Visit) -> Response:
    """Where a link to choose a new password with is asked for."""
    return _asking(desk, visit, "signin/ask_reset.html")


async def send_reset(desk: Desk, visit: Visit) -> Response:
    """Mail one."""
    form = await desk.form(visit)
    email = said(form, "email")
    try:
        await desk.ask(desk.services.identity.send_reset, email, origin_of(visit))
    except Refused as refusal:
        return refused(desk, visit, "signin/ask_reset.html", refusal, email=email, sent=False)
    return desk.to(visit, "/reset?sent=1")


def _asking(desk: Desk, visit: Visit, template: str) -> Response:
    if not _mail(desk):
        raise PageMissing
    sent = "sent" in visit.request.query_params
    return desk.page(visit, template, faults={}, email="", sent=sent, onward=onward(next_of(visit)))


# -- using one


async def link_form(desk: Desk, visit: Visit) -> Response:
    """The page a mailed link leads to."""
    return desk.page(visit, "signin/link.html", secret=True, faults={}, token=_token(visit))


async def follow_link(desk: Desk, visit: Visit) -> Response:
    """Sign in with it."""
    form = await desk.form(visit)
    token = said(form, "token")
    try:
        came = await desk.ask(desk.services.identity.follow_link, token, visit.binding, origin_of(visit))
    except Refused as refusal:
        return refused(desk, visit, "signin/link.html", refusal, token="")
    to = safe_path(unquote(visit.request.cookies.get(ONWARD_COOKIE, "")))
    response = await let_in(desk, visit, came, to)
    forget(visit, response, ONWARD_COOKIE)
    return response


async def reset_form(desk: Desk, visit: Visit) -> Response:
    """The page a link to a new password leads to."""
    return desk.page(
        visit, "signin/reset.html", secret=True, faults={}, token=_token(visit), mail=_mail(desk)
    )


async def reset(desk: Desk, visit: Visit) -> Response:
    """Choose it."""
    form = await desk.form(visit)
    token = said(form, "token")
    try:
        came = await desk.ask(
            desk.services.identity.reset, token, secret_in(form, "password"), origin_of(visit)
        )
    except Refused as refusal:
        kept = "" if refusal.reason is Reason.LINK else token
        return refused(desk, visit, "signin/reset.html", refusal, token=kept, mail=_mail(desk))
    return await let_in(desk, visit, came)


async def email_form(desk: Desk, visit: Visit) -> Response:
    """The page a link to a new address leads to."""
    return desk.page(visit, "signin/email.html", secret=True, faults={}, token=_token(visit), done=False)


async def new_email(desk: Desk, visit: Visit) -> Response:
    """Make it the account's."""
    form = await desk.form(visit)
    try:
        await desk.ask(desk.services.identity.finish_email, said(form, "token"), origin_of(visit))
    except Refused as refusal:
        return refused(desk, visit, "signin/email.html", refusal, token="", done=False)
    return desk.page(visit, "signin/email.html", faults={}, token="", done=True)


# -- invitations


async def invitation(desk: Desk, visit: Visit) -> Response:
    """The page an invitation leads to."""
    token = _token(visit)
    invited = await desk.ask(desk.services.identity.invited, token)
    if invited is None:
        gone = faults_of(visit, Refused(Reason.LINK))
        return desk.page(
            visit, "signin/invite.html", 410, secret=True, **_invited(desk, None, "", ""), faults=gone
        )
    return desk.page(
        visit, "signin/invite.html", secret=True, **_invited(desk, invited, token, invited.email), faults={}
    )


async def accept(desk: Desk, visit: Visit) -> Response:
    """Come in by it."""
    form = await desk.form(visit)
    token, email = said(form, "token"), said(form, "email")
    identity = desk.services.identity
    try:
        came = await desk.ask(identity.accept, token, email, secret_in(form, "password"), origin_of(visit))
    except Refused as refusal:
        invited = await desk.ask(identity.invited, token)
        values = _invited(desk, invited, token, email)
        return refused(desk, visit, "signin/invite.html", refusal, **values)
    return await let_in(desk, visit, came)


def _invited(desk: Desk, invited: TokenRow | None, token: str, email: str) -> dict[str, Any]:
    return {
        "invited": invited,
        "token": token,
        "email": email,
        "openid": desk.services.identity.openid_name(),
    }


PAGES: Sequence[Page] = (
    ("/sign-in/link", ("GET",), guarded(ask_link)),
    ("/sign-in/link", ("POST",), guarded(send_link)),
    ("/reset", ("GET",), guarded(ask_reset)),
    ("/reset", ("POST",), guarded(send_reset)),
    ("/link", ("GET",), guarded(link_form)),
    ("/link", ("POST",), guarded(follow_link)),
    ("/reset/new", ("GET",), guarded(reset_form)),
    ("/reset/new", ("POST",), guarded(reset)),
    ("/email", ("GET",), guarded(email_form)),
    ("/email", ("POST",), guarded(new_email)),
    ("/invite", ("GET",), guarded(invitation)),
    ("/invite", ("POST",), guarded(accept)),
)

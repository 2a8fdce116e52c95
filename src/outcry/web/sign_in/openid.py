"""OpenID Connect: sign-in and confirmation through the provider that the operator configured.

The browser has a cookie with a ticket, which the provider's response must match. On failure the browser returns to the
sign-in or confirmation page, which shows the reason and the other methods.
"""

from collections.abc import Sequence

from starlette.responses import RedirectResponse, Response

from outcry.people.refusals import Refused
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest, safe_path
from outcry.web.sign_in.page import confirm_again, sign_in_again
from outcry.web.sign_in_flow import (
    delete_cookie,
    next_of,
    origin_of,
    private_connection_only,
    renew,
    sign_in_browser,
)

TICKET_COOKIE = "outcry-openid"
_TICKET_S = 600


async def leave(context: PageContext, request: PageRequest) -> Response:
    """Redirect the browser to the OpenID provider.

    If the user accepts an invitation, the query parameter `token` is the invitation's token.
    """
    identity = context.services.identity
    if not identity.openid_name():
        raise PageMissing
    invitation = request.http.query_params.get("token", "")[:200]
    try:
        address, ticket = await context.ask(
            identity.begin_openid,
            next_of(request),
            invitation=invitation,
            # The invited person may not be the signed-in user.
            session=None if invitation else request.session,
        )
    except Refused as refusal:
        return await _back(context, request, refusal)
    response = context.with_page_headers(request, RedirectResponse(address, 303), secret=True)
    context.set_cookie(request, response, TICKET_COOKIE, ticket, _TICKET_S)
    return response


async def return_(context: PageContext, request: PageRequest) -> Response:
    """Complete the sign-in or confirmation with the provider's response."""
    identity = context.services.identity
    if not identity.openid_name():
        raise PageMissing
    ticket = request.http.cookies.get(TICKET_COOKIE, "")
    given = dict(request.http.query_params)
    try:
        answered = await context.ask(
            identity.finish_openid, ticket, given, request.session, origin_of(request)
        )
    except Refused as refusal:
        response = await _back(context, request, refusal)
    else:
        to = safe_path(answered.next)
        if answered.came is None:
            response = renew(context, request, answered.token, context.to(request, to))
        else:
            response = await sign_in_browser(context, request, answered.came, to)
    delete_cookie(request, response, TICKET_COOKIE)
    return response


async def _back(context: PageContext, request: PageRequest, refusal: Refused) -> Response:
    return await (sign_in_again if request.user is None else confirm_again)(context, request, refusal)


PAGES: Sequence[Page] = (
    ("/sign-in/openid", ("GET",), private_connection_only(leave)),
    ("/sign-in/openid/callback", ("GET",), private_connection_only(return_)),
)

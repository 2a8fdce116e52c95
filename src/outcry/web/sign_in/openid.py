"""Coming in, or proving anew who it is, by the sign-in service the operator named: there and back.

Rule kept: what the way back has to match travels in a cookie of this browser; whatever goes wrong ends on the page the
way began at, with a reason and the other ways in.
"""

from collections.abc import Sequence

from starlette.responses import RedirectResponse, Response

from outcry.people.refusals import Refused
from outcry.web.entrance import forget, guarded, let_in, next_of, origin_of, renew
from outcry.web.page_context import Desk, Page, PageMissing, Visit, safe_path
from outcry.web.sign_in.page import confirm_again, sign_in_again

TICKET_COOKIE = "outcry-openid"
_TICKET_S = 600


async def leave(desk: Desk, visit: Visit) -> Response:
    """Send the browser to the sign-in service. `token` in the address: of an invitation to come in by."""
    identity = desk.services.identity
    if not identity.openid_name():
        raise PageMissing
    invitation = visit.request.query_params.get("token", "")[:200]
    try:
        address, ticket = await desk.ask(
            identity.begin_openid,
            next_of(visit),
            invitation=invitation,
            session=None if invitation else visit.session,  # who is invited need not be who is signed in
        )
    except Refused as refusal:
        return await _back(desk, visit, refusal)
    response = desk.dressed(visit, RedirectResponse(address, 303), secret=True)
    desk.set_cookie(visit, response, TICKET_COOKIE, ticket, _TICKET_S)
    return response


async def return_(desk: Desk, visit: Visit) -> Response:
    """The browser comes back with what the service gave it."""
    identity = desk.services.identity
    if not identity.openid_name():
        raise PageMissing
    ticket = visit.request.cookies.get(TICKET_COOKIE, "")
    given = dict(visit.request.query_params)
    try:
        answered = await desk.ask(identity.finish_openid, ticket, given, visit.session, origin_of(visit))
    except Refused as refusal:
        response = await _back(desk, visit, refusal)
    else:
        to = safe_path(answered.next)
        if answered.came is None:
            response = renew(desk, visit, answered.token, desk.to(visit, to))
        else:
            response = await let_in(desk, visit, answered.came, to)
    forget(visit, response, TICKET_COOKIE)
    return response


async def _back(desk: Desk, visit: Visit, refusal: Refused) -> Response:
    return await (sign_in_again if visit.user is None else confirm_again)(desk, visit, refusal)


PAGES: Sequence[Page] = (
    ("/sign-in/openid", ("GET",), guarded(leave)),
    ("/sign-in/openid/callback", ("GET",), guarded(return_)),
)

"""Pages of whoever reads at an e-mail subscription's address: to say yes to its mails, and to end them.

Rules kept: neither asks who is there, for the link says enough; opening one changes nothing, for mail servers open
links too: a button does. Mails are ended by the button of a mail program as well (RFC 8058): such a form comes from
elsewhere, has no cookie and no token of ours, and is taken for this alone. A link that does not hold is a page that is
not there, whatever is wrong with it.
"""

from collections.abc import Sequence

from starlette.responses import Response

from outcry.delivery.consent_links import PAGES as AT
from outcry.delivery.consent_links import Purpose
from outcry.delivery.model import SubscriptionRow
from outcry.web.account.delivery_words import SEVERITIES, WINDOWS
from outcry.web.page_context import Page, PageContext, PageRequest

_LONGEST_TOKEN = 300


async def ask_confirm(context: PageContext, request: PageRequest) -> Response:
    """Where a reader says yes."""
    return await _asked(context, request, "confirm")


async def confirm(context: PageContext, request: PageRequest) -> Response:
    """Take the yes."""
    await context.form(request)
    row = await context.ask(context.services.consent.confirm, _token(request))
    return _page(context, request, "confirm", row, done=True)


async def ask_unsubscribe(context: PageContext, request: PageRequest) -> Response:
    """Where a reader says that they want no more."""
    return await _asked(context, request, "unsubscribe")


async def unsubscribe(context: PageContext, request: PageRequest) -> Response:
    """End it, whoever sends the form: nobody but the reader was given the link. What is in it is not looked at."""
    row = await context.ask(context.services.consent.unsubscribe, _token(request))
    return _page(context, request, "unsubscribe", row, done=True)


async def _asked(context: PageContext, request: PageRequest, purpose: Purpose) -> Response:
    row = await context.ask(context.services.consent.find, purpose, _token(request))
    return _page(context, request, purpose, row, done=False)


def _page(
    context: PageContext, request: PageRequest, purpose: Purpose, row: SubscriptionRow | None, *, done: bool
) -> Response:
    if row is None:
        return context.page(request, "digest/gone.html", 404, secret=True)
    return context.page(
        request,
        f"digest/{purpose}.html",
        secret=True,
        to=row.shown,
        symbols=row.symbols,
        severity=request.words(SEVERITIES[row.min_severity]),
        window=request.words(WINDOWS[row.window]),
        at_once=row.at_once,
        token=_token(request),
        done=done,
    )


def _token(request: PageRequest) -> str:
    return request.http.query_params.get("token", "")[:_LONGEST_TOKEN]


PAGES: Sequence[Page] = (
    (AT["confirm"], ("GET",), ask_confirm),
    (AT["confirm"], ("POST",), confirm),
    (AT["unsubscribe"], ("GET",), ask_unsubscribe),
    (AT["unsubscribe"], ("POST",), unsubscribe),
)

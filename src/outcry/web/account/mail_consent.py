"""Pages for the recipient of an email digest: confirm and unsubscribe.

Neither page needs a sign-in, because the secret link identifies the recipient. Opening a link changes nothing, because
email servers open links too; the page's button does. An email program can unsubscribe with its own button (RFC 8058).
Its request has no cookie and no form token, so only `unsubscribe` accepts such a request. Every invalid link gets the
same page with status 404.
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
    """Ask the recipient to confirm the subscription."""
    return await _asked(context, request, "confirm")


async def confirm(context: PageContext, request: PageRequest) -> Response:
    """Record the recipient's consent."""
    await context.form(request)
    row = await context.ask(context.services.consent.confirm, _token(request))
    return _page(context, request, "confirm", row, done=True)


async def ask_unsubscribe(context: PageContext, request: PageRequest) -> Response:
    """Ask the recipient to confirm that the emails should stop."""
    return await _asked(context, request, "unsubscribe")


async def unsubscribe(context: PageContext, request: PageRequest) -> Response:
    """Stop the emails to a recipient. The request comes from the page's button or from an email program.

    The form token is not checked and the body is ignored, because an email program sends neither as a browser does (RFC
    8058). The secret link is proof enough, because only the recipient received it.
    """
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

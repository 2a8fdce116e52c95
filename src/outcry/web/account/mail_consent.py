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
from outcry.web.page_context import Desk, Page, Visit

_LONGEST_TOKEN = 300


async def ask_confirm(desk: Desk, visit: Visit) -> Response:
    """Where a reader says yes."""
    return await _asked(desk, visit, "confirm")


async def confirm(desk: Desk, visit: Visit) -> Response:
    """Take the yes."""
    await desk.form(visit)
    row = await desk.ask(desk.services.consent.confirm, _token(visit))
    return _page(desk, visit, "confirm", row, done=True)


async def ask_unsubscribe(desk: Desk, visit: Visit) -> Response:
    """Where a reader says that they want no more."""
    return await _asked(desk, visit, "unsubscribe")


async def unsubscribe(desk: Desk, visit: Visit) -> Response:
    """End it, whoever sends the form: nobody but the reader was given the link. What is in it is not looked at."""
    row = await desk.ask(desk.services.consent.unsubscribe, _token(visit))
    return _page(desk, visit, "unsubscribe", row, done=True)


async def _asked(desk: Desk, visit: Visit, purpose: Purpose) -> Response:
    row = await desk.ask(desk.services.consent.find, purpose, _token(visit))
    return _page(desk, visit, purpose, row, done=False)


def _page(desk: Desk, visit: Visit, purpose: Purpose, row: SubscriptionRow | None, *, done: bool) -> Response:
    if row is None:
        return desk.page(visit, "digest/gone.html", 404, secret=True)
    return desk.page(
        visit,
        f"digest/{purpose}.html",
        secret=True,
        to=row.shown,
        symbols=row.symbols,
        severity=visit.words(SEVERITIES[row.min_severity]),
        window=visit.words(WINDOWS[row.window]),
        at_once=row.at_once,
        token=_token(visit),
        done=done,
    )


def _token(visit: Visit) -> str:
    return visit.request.query_params.get("token", "")[:_LONGEST_TOKEN]


PAGES: Sequence[Page] = (
    (AT["confirm"], ("GET",), ask_confirm),
    (AT["confirm"], ("POST",), confirm),
    (AT["unsubscribe"], ("GET",), ask_unsubscribe),
    (AT["unsubscribe"], ("POST",), unsubscribe),
)

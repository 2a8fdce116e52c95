"""The broker guide: the status of the reader's feeds, then the requirements of each source of trades.

Anyone can read the guide; only a signed-in reader sees a status. The guide works even if the database does not. Every
connection code has an anchor here, to which pages and API responses link.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from starlette.responses import Response

from outcry.base.errors import StoreUnavailable
from outcry.database.errors import StoreBusy
from outcry.web.account.broker_page import Connected, connected, names_of
from outcry.web.account.vendor_words import code_means, common_codes, cure_of, own_codes
from outcry.web.language import Words
from outcry.web.page_context import Page, PageContext, PageRequest
from outcry.wire.answers import SymbolState


@dataclass(frozen=True, slots=True)
class Source:
    """A source of trades, described in `guide/sources/<id>.html`.

    `way`: who connects it: this service, the agent on the user's machine, or the user.
    """

    id: str
    name: str
    way: Literal["service", "agent", "own"]


#: In display order. An empty name is replaced by the guide's translated one. A broker's `id` is its
#: adapter's.
SOURCES = (
    Source("databento", "Databento", "service"),
    Source("ibkr", "Interactive Brokers", "agent"),
    Source("tastytrade", "tastytrade", "service"),
    Source("tradovate", "Tradovate · NinjaTrader", "service"),
    Source("projectx", "ProjectX · TopstepX", "agent"),
    Source("massive", "Massive", "service"),
    Source("hyperliquid", "Hyperliquid", "service"),
    Source("sierra", "Sierra Chart", "agent"),
    Source("agent", "", "own"),
    Source("recordings", "", "own"),
    Source("push", "", "own"),
)


@dataclass(frozen=True, slots=True)
class Fix:
    """A code that a connection may show, what it means, and what to do."""

    code: str
    means: str
    cure: str


@dataclass(frozen=True, slots=True)
class Status:
    """The reader's data status: number of symbols by source, and the reader's own feeds."""

    personal: tuple[str, ...]
    shared: tuple[str, ...]
    delayed: int
    nothing: int
    reasons: tuple[tuple[str, int], ...]
    feeds: Sequence[Connected]


async def guide(context: PageContext, request: PageRequest) -> Response:
    """Show the guide, with the status of a signed-in reader."""
    try:
        status = await context.ask(_status, context, request) if request.user else None
        failed = False
    except (StoreBusy, StoreUnavailable):
        status, failed = None, True
    return context.page(
        request,
        "guide/guide.html",
        sources=SOURCES,
        fixes=_fixes(request.words),
        vendor_codes=[_fix(request.words, "", code) for code in common_codes()],
        standing=status,
        failed=failed,
    )


def _status(context: PageContext, request: PageRequest) -> Status:
    user, services = context.user(request), context.services
    scope = services.licences.of_user(user.id)
    symbols = services.query.symbols(scope, services.market_clock.now_ns()).answer.symbols
    names = names_of(context)
    return status_of(
        symbols, [connected(request, row, names) for row in services.connections.connections(user.id)]
    )


def status_of(symbols: Sequence[SymbolState], feeds: Sequence[Connected]) -> Status:
    """Count symbols by the source of their data."""
    by_source = {
        source: tuple(each.symbol for each in symbols if each.data_source == source)
        for source in ("personal", "shared", "delayed", None)
    }
    reasons = Counter(each.state for each in symbols if not each.live)
    return Status(
        personal=by_source["personal"],
        shared=by_source["shared"],
        delayed=len(by_source["delayed"]),
        nothing=len(by_source[None]),
        reasons=tuple(reasons.most_common(4)),
        feeds=feeds,
    )


def _fixes(words: Words) -> Mapping[str, list[Fix]]:
    """Return, by source, the connection codes that have instructions specific to that source."""
    return {source.id: [_fix(words, source.id, code) for code in own_codes(source.id)] for source in SOURCES}


def _fix(words: Words, broker: str, code: str) -> Fix:
    return Fix(code, code_means(words, code) or "", cure_of(words, broker, code))


PAGES: tuple[Page, ...] = (("/broker-guide", ("GET",), guide),)

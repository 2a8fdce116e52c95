"""The broker guide: how the reader's own feeds stand, then what each source of trades needs and does.

Rules kept: the guide can be read by anyone, the status is the reader's own; where the store does not answer the guide
still does. What this version does not connect yet is called so.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from outcry.ports.connections import ConnectionRow
from outcry.ports.store import StoreBusy
from outcry.services.answers import SymbolState
from outcry.services.errors import StoreUnavailable
from outcry.web.desk import Desk, Page, Visit
from outcry.web.moments import moment


@dataclass(frozen=True, slots=True)
class Source:
    """A way for trades to come in; what is said of it is `guide/sources/<id>.html`. `here`: in this version."""

    id: str
    name: str
    here: bool = False


#: In the order shown. A name that is empty is the guide's own word, in the reader's language.
SOURCES = (
    Source("sierra", "Sierra Chart", here=True),
    Source("recordings", "", here=True),
    Source("push", "", here=True),
    Source("databento", "Databento"),
    Source("interactive-brokers", "Interactive Brokers"),
    Source("tastytrade", "tastytrade"),
    Source("tradovate", "Tradovate"),
    Source("projectx", "ProjectX · TopstepX"),
    Source("massive", "Massive"),
)


@dataclass(frozen=True, slots=True)
class Status:
    """How the reader is answered now: symbols by where their answers come from, and the feeds that are the reader's."""

    personal: tuple[str, ...]
    shared: tuple[str, ...]
    delayed: int
    nothing: int
    reasons: tuple[tuple[str, int], ...]
    feeds: Sequence[ConnectionRow]


async def guide(desk: Desk, visit: Visit) -> Response:
    """The guide, with the reader's own status where there is a reader."""
    try:
        status = await desk.ask(_status, desk, visit) if visit.user else None
        failed = False
    except (StoreBusy, StoreUnavailable):
        status, failed = None, True
    return desk.page(
        visit,
        "guide/guide.html",
        sources=SOURCES,
        standing=status,
        failed=failed,
        when=partial(moment, visit),
    )


def _status(desk: Desk, visit: Visit) -> Status:
    user, services = desk.user(visit), desk.services
    scope = services.licences.of_user(user.id)
    symbols = services.query.symbols(scope, services.market_clock.now_ns()).answer.symbols
    return told(symbols, services.connections.connections(user.id))


def told(symbols: Sequence[SymbolState], feeds: Sequence[ConnectionRow]) -> Status:
    """Sum up how symbols are answered."""
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


PAGES: tuple[Page, ...] = (("/broker-guide", ("GET",), guide),)

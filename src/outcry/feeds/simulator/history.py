"""What the simulated market traded before today: the same rows the feed would have sent then."""

from collections.abc import Iterator
from datetime import date, timedelta

from outcry.feeds.simulator.market import Market
from outcry.market.calendar import Calendar, Session
from outcry.market.instruments import Contract
from outcry.trades.records import Rows

#: Days looked back for a trade date with regular hours: no product pauses so long that this finds too few.
_DAYS_EACH = 2
_DAYS_MORE = 14


def past_sessions(
    market: Market, contract: Contract, calendar: Calendar, until: date, count: int = 20
) -> Iterator[tuple[Session, Rows]]:
    """Both kinds of session of the last `count` trade dates with regular hours before `until`, in order of open.

    All are of the one contract, whichever was front then: levels never mix contracts.
    """
    first = until - timedelta(days=count * _DAYS_EACH + _DAYS_MORE)
    sessions = calendar.sessions(contract.root, first, until - timedelta(days=1))
    dates = sorted({session.trade_date for session in sessions})[-count:]
    for session in sessions:
        if session.trade_date in dates:
            yield session, market.trades(contract, session)

"""Past sessions of the simulated market, with the rows the feed would have sent."""

from collections.abc import Iterator
from datetime import date, timedelta

from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import Calendar, Session
from outcry.market.instruments import Contract
from outcry.trades.records import Rows

#: Days to search back per trade date, and in addition; enough for every closure in the calendar.
_DAYS_EACH = 2
_DAYS_MORE = 14


def past_sessions(
    market: SimulatedMarket, contract: Contract, calendar: Calendar, until: date, count: int = 20
) -> Iterator[tuple[Session, Rows]]:
    """Yield the sessions of the last `count` trade dates before `until`, in order of their open, with their trades.

    All trades are of `contract`, even if another contract was the front contract then, because levels never mix
    contracts.
    """
    first = until - timedelta(days=count * _DAYS_EACH + _DAYS_MORE)
    sessions = calendar.sessions(contract.root, first, until - timedelta(days=1))
    dates = sorted({session.trade_date for session in sessions})[-count:]
    for session in sessions:
        if session.trade_date in dates:
            yield session, market.trades(contract, session)

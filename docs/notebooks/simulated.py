"""Simulated trades for the notebooks: the market of `outcry serve --demo`, for any product and day."""

from datetime import date

import pandas as pd

from outcry.feeds.simulator.market import SimulatedMarket
from outcry.market.calendar import SessionKind
from outcry.trades.reference_tables import load_reference

_REFERENCE = load_reference()
_MARKET = SimulatedMarket(1848, _REFERENCE.universe.products, _REFERENCE.calendar)


def trades(symbol: str, day: date) -> pd.DataFrame:
    """Return the trades of a regular session with the columns `ts` (UTC), `price` and `size`."""
    contract = _REFERENCE.universe.front(symbol, day)
    session = _REFERENCE.calendar.session(symbol, day, SessionKind.RTH)
    if session is None:
        raise ValueError(f"{symbol} has no regular session on {day}. Choose another date.")
    rows = _MARKET.trades(contract, session)
    return pd.DataFrame(
        {
            "ts": pd.to_datetime(rows["ts_event"], utc=True),
            "price": rows["price"] / 1e9,
            "size": rows["size"],
        }
    )


def trade_dates(symbol: str, first: date, last: date) -> list[date]:
    """Return the dates with a regular session, both ends included."""
    sessions = _REFERENCE.calendar.sessions(symbol, first, last)
    return [session.trade_date for session in sessions if session.kind is SessionKind.RTH]

"""Download past sessions from Databento's historical service for import: plan, cost estimate and files.

Each file contains one trade date of one contract, so an interrupted download leaves its finished files usable. Sessions
that are already stored completely are not bought again. Near a roll both contracts are downloaded, so that the roll by
volume can be determined.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

from databento.common.error import BentoError, BentoHttpError
from databento.historical.api.metadata import MetadataHttpAPI
from databento.historical.api.timeseries import TimeseriesHttpAPI

from outcry.feeds.databento.history import HISTORICAL, RECEIPT_NS
from outcry.feeds.databento.symbols import DATASET, symbol_of
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_MINUTE

#: Volume moves to the next contract at most this long before the calendar's roll deadline.
ROLL_DAYS = timedelta(days=14)
#: A trade date is complete this long after its last window.
OVER_NS = 5 * NANOS_PER_MINUTE
_UNAUTHORIZED, _TOO_MANY, _THEIR_FAULT = 401, 429, 500


@dataclass(frozen=True, slots=True)
class TradeDateDownload:
    """A planned download: one trade date of a contract, from its first open to its last close (ns UTC)."""

    contract: Contract
    symbol: str
    trade_date: date
    begin_ns: int
    end_ns: int


class FetchRefused(Exception):
    """The service refused a download. The message states the reason and the remedy."""


def plan_downloads(
    universe: Universe, calendar: Calendar, root: str, contract: Contract | None, first: date, last: date,
    now_ns: int, stored: Container[tuple[Contract, date]],
) -> list[TradeDateDownload]:  # fmt: skip
    """Return the trade dates to download: completed, from `first` to `last` inclusive, and not stored yet.

    contract: None for the front contract by the calendar and, near a roll, the next one. The result is sorted by
    contract and date. Raises `FeedRefused` for a contract that Databento does not have.
    """
    found: list[TradeDateDownload] = []
    for day in calendar.trading_days(root, first, last):
        if day.close_ns + OVER_NS > now_ns:
            continue
        for each in [contract] if contract else _near(universe, root, day.trade_date):
            if (each, day.trade_date) not in stored and day.trade_date <= universe.expiry(each):
                symbol = symbol_of(universe, each, day.trade_date)
                found.append(TradeDateDownload(each, symbol, day.trade_date, day.open_ns, day.close_ns))
    return sorted(found, key=lambda part: (part.contract, part.trade_date))


def _near(universe: Universe, root: str, day: date) -> list[Contract]:
    front = universe.front(root, day)
    rolls = universe.roll_deadline(front) - day <= ROLL_DAYS
    return [front, universe.next_contract(front)] if rolls else [front]


class HistoricalDownloader:
    """Client of Databento's historical service with an API key. `place`: host to use instead of the vendor's."""

    def __init__(self, key: str, place: str = "") -> None:
        self._key = key
        self._prices = MetadataHttpAPI(key, place or HISTORICAL)
        self._trades = TimeseriesHttpAPI(key, place or HISTORICAL)

    def cost(self, parts: Sequence[TradeDateDownload]) -> float:
        """Return the estimated cost of downloads in US dollars. Raises `FetchRefused`."""
        total = 0.0
        for symbol, group in groupby(parts, key=lambda part: part.symbol):
            dates = list(group)
            total += self._asked(symbol, dates[0].begin_ns, dates[-1].end_ns)
        return total

    def _asked(self, symbol: str, begin_ns: int, end_ns: int) -> float:
        try:
            return self._prices.get_cost(DATASET, begin_ns, end_ns, symbols=symbol, schema="trades")
        except (BentoError, OSError) as problem:
            raise self._refused(problem) from None

    def save(self, part: TradeDateDownload, path: Path) -> None:
        """Download one trade date to a new file (`.dbn.zst`). Raises `FetchRefused`."""
        try:
            self._trades.get_range(
                DATASET, part.begin_ns, part.end_ns + RECEIPT_NS, part.symbol, "trades", path=path
            )
        except (BentoError, OSError, ValueError) as problem:
            raise self._refused(problem) from None

    def _refused(self, problem: Exception) -> FetchRefused:
        """Convert the vendor's error to `FetchRefused`, without the API key."""
        if not isinstance(problem, BentoHttpError):
            return FetchRefused(
                f"the connection to Databento failed ({type(problem).__name__}). Try again later"
            )
        if problem.http_status == _UNAUTHORIZED:
            return FetchRefused(
                "Databento rejected this key. Check it under API keys in the Databento portal"
            )
        if problem.http_status == _TOO_MANY or problem.http_status >= _THEIR_FAULT:
            return FetchRefused(f"Databento returned HTTP {problem.http_status}. Try again later")
        message = " ".join(str(problem.message or problem.http_status).replace(self._key, "…").split())[:300]
        return FetchRefused(f"Databento refused the request: {message}")

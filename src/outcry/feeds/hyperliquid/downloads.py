"""Download past days from Hyperliquid for import: plan, requests, and the reader of a downloaded day.

Hyperliquid has no trades of the past: its `info` endpoint returns the newest 5,000 candles of an interval, and the
vendor's library (0.24.0) knows no other request for market history. So a day consists of one-minute candles, and only
about three days are available.
"""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Self

from outcry.base.backoff import Backoff
from outcry.base.clock import Clock
from outcry.feeds.hyperliquid.adapter import API, coin_of
from outcry.feeds.hyperliquid.info import CANDLES_PER_WEIGHT, MAX_WEIGHT, REQUEST_WEIGHT, InfoClient
from outcry.feeds.hyperliquid.protocol import MAX_CANDLES, Asset
from outcry.feeds.hyperliquid.steps import check_listed, check_prices
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Product
from outcry.market.units import NANOS_PER_MINUTE
from outcry.recordings.file_model import NOTHING_ASSUMED, Assumptions, ReadCounts
from outcry.trades.feed import FeedLost
from outcry.trades.records import Batch, Quality, Rows

SOURCE = "hyperliquid"
#: A day is complete this long after its end.
OVER_NS = 5 * NANOS_PER_MINUTE
#: The first candles of a day at the edge of the history may be gone before the day is requested.
EDGE_NS = 10 * NANOS_PER_MINUTE
#: Attempts of one request. The pauses between them add up to about a minute and a half.
MAX_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class DayDownload:
    """A planned download: one trade date of a product, from its open to its close (ns UTC)."""

    product: Product
    coin: str
    trade_date: date
    begin_ns: int
    end_ns: int

    @property
    def weight(self) -> int:
        """Return the weight of the request in the vendor's rate limit."""
        return REQUEST_WEIGHT + -(-(self.end_ns - self.begin_ns) // (CANDLES_PER_WEIGHT * NANOS_PER_MINUTE))


@dataclass(slots=True)
class DownloadPlan:
    """The days to download, oldest first, and the requested trade dates that the vendor no longer has."""

    days: list[DayDownload] = field(default_factory=list[DayDownload])
    too_old: list[date] = field(default_factory=list[date])

    @property
    def minutes(self) -> int:
        """Return how many minutes the requests take within the rate limit; 0 if they need not wait."""
        return sum(day.weight for day in self.days) // MAX_WEIGHT


def plan_downloads(
    products: Sequence[Product], calendar: Calendar, first: date, last: date, now_ns: int,
    stored: Container[tuple[str, date]],
) -> DownloadPlan:  # fmt: skip
    """Return the days to download: completed, from `first` to `last` inclusive, and not stored yet.

    stored: roots and trade dates of complete sessions. Raises `ValueError` for a product that is not Hyperliquid's.
    """
    plan = DownloadPlan()
    oldest_ns = now_ns - MAX_CANDLES * NANOS_PER_MINUTE + EDGE_NS
    for product in products:
        coin = coin_of(product)
        if coin is None:
            raise ValueError(f"{product.root} is not a product of Hyperliquid")
        for day in calendar.trading_days(product.root, first, last):
            if day.close_ns + OVER_NS > now_ns or (product.root, day.trade_date) in stored:
                continue
            if day.open_ns < oldest_ns:
                plan.too_old.append(day.trade_date)
            else:
                plan.days.append(DayDownload(product, coin, day.trade_date, day.open_ns, day.close_ns))
    plan.days.sort(key=lambda day: day.begin_ns)
    return plan


class CandleDownloader:
    """Client of the vendor's history, as an asynchronous context manager. url: replaces the vendor's URL."""

    def __init__(self, clock: Clock, url: str = "", speedup: float = 1.0) -> None:
        self._info = InfoClient(f"{url or API}/info", clock, speedup)
        self._assets: dict[str, Asset] = {}
        self._speedup = speedup

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._info.close()

    async def bars(self, day: DayDownload) -> Rows:
        """Return the one-minute bars of a day, dtype `BAR`, in order of time.

        Retries with growing pauses. Raises `FeedLost` after the last attempt, and `FeedRefused` if the tick or size
        step of the product does not fit the vendor's.
        """
        backoff = Backoff(self._speedup)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                if not self._assets:
                    self._assets = await self._info.assets()
                check_listed(day.product, day.coin, self._assets.get(day.coin))
                rows = await self._info.bars(day.coin, day.product.size_step_e9, day.begin_ns, day.end_ns)
            except FeedLost as problem:
                if not problem.retry or attempt == MAX_ATTEMPTS:
                    raise
                await backoff.sleep()
            else:
                check_prices(day.product, day.coin, rows)
                return rows
        raise AssertionError  # the last attempt returns or raises


class CandleReading:
    """Reader of a downloaded day, for its import. Implements `Reading`. path: the file that has the bytes of `rows`."""

    format = source = SOURCE
    covered: tuple[tuple[int, int], ...] = ()
    replaces = False

    def __init__(self, path: Path, day: DayDownload, rows: Rows) -> None:
        self.path, self._day, self._rows = path, day, rows
        self.counts = ReadCounts()
        self.bytes_total, self.bytes_read = rows.nbytes, 0

    @property
    def assumed(self) -> Assumptions:
        """Return that nothing is assumed: the vendor states times in UTC, at the start of a candle."""
        return NOTHING_ASSUMED

    def batches(self) -> Iterator[Batch]:
        """Yield all rows of the day."""
        self.counts.rows, self.bytes_read = len(self._rows), self.bytes_total
        yield Batch(Contract(self._day.product.root), Quality.BARS_1M, self._rows, "")

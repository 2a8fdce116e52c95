"""The two event series of a contract: sales (time and sales, that is, its list of trades, past and live) and candles.

The server sends each series as a snapshot and then updates. A snapshot is complete when its last event has arrived and
no change is pending. Snapshots are sent newest first, so a truncated snapshot lacks its oldest events. A sale that
changes after this feed has sent it becomes an amendment; otherwise only its latest form is sent.
"""

from collections import deque
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from outcry.base.clock import Clock
from outcry.feeds.tastytrade.events import (
    REMOVE_EVENT,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    SNAPSHOT_SNIP,
    TX_PENDING,
    Candle,
    Event,
    Sale,
    read_candle,
    read_sale,
)
from outcry.market.units import NANOS_PER_MINUTE
from outcry.trades.feed import LIVE_TRADE, Amend, FeedLost, RowFlag
from outcry.trades.records import BAR, Rows

#: Past sales requested at most (a busy day of the busiest future), and stored at most.
MAX_SALES, MAX_STORED_SALES = 500_000, 1_000_000
#: Maximum stored candles: several times the minutes requested.
MAX_CANDLES = 100_000
#: Sales converted to rows at a time.
_CHUNK = 4096
#: Number of ids of sent sales that are stored, so that amendments made while no stream was open can be sent.
MAX_SENT_IDS = 512

_SNAPSHOT_OVER = SNAPSHOT_END | SNAPSHOT_SNIP


class SaleSeries:
    """The series of a contract's sales (time and sales).

    `begun`: whether the history of sales has started to arrive; `whole`: whether this history is complete; `short`:
    whether its oldest part is missing. `sent`: ids of the last sales that the previous stream has passed on.
    """

    def __init__(self, scale: Decimal, clock: Clock, sent: deque[int], since_ns: int) -> None:
        self._scale, self._clock, self._sent_ids, self._since_ns = scale, clock, sent, since_ns
        self.begun = self.whole = self.short = False
        self.amends: list[Amend] = []
        self._ended = self._taken = False
        self._removed: set[int] = set()
        self._chunks: list[Rows] = []
        self._past: list[Sale] = []
        self._count = self._received = 0
        self._pending: list[Sale] = []
        self._live: list[Sale] = []

    def receive(self, event: Event) -> None:
        """Add a received sale, past or live, to the series. Raises `FeedLost`."""
        sale = read_sale(event, self._scale)
        if sale.flags & SNAPSHOT_BEGIN:
            again, self.begun = self.begun or self._taken, True
            if again:
                raise FeedLost("vendor_error", "dxLink restarted time and sales")
            self._live.clear()  # the snapshot contains them too
        if self.begun and not self.whole:
            self._take_past(sale)
            return
        self._pending.append(sale)
        if len(self._pending) > MAX_SALES:
            raise FeedLost("protocol", f"more than {MAX_SALES:,} sales arrived in one unfinished update")
        if not sale.flags & TX_PENDING:
            self._live += self._pending
            self._pending.clear()

    def _take_past(self, sale: Sale) -> None:
        self._received += 1
        if self._received > 2 * MAX_STORED_SALES:  # an endless snapshot
            raise FeedLost("protocol", f"more than {2 * MAX_STORED_SALES:,} past sales were sent")
        if sale.trade and sale.at_ns >= self._since_ns:
            if sale.kind == "CORRECTION" and sale.id in self._sent_ids:
                self.amends.append(Amend(sale.id, "correct", sale.price_e9, sale.size_lots))
            elif not self._full(sale):
                self._past.append(sale)
        elif not sale.trade and _is_change(sale):
            self._removed.add(sale.id)
            if sale.id in self._sent_ids:
                self.amends.append(Amend(sale.id, "cancel"))
        if len(self._past) >= _CHUNK:
            self._pack()
        self.short = self.short or bool(sale.flags & SNAPSHOT_SNIP)
        self._ended = self._ended or bool(sale.flags & _SNAPSHOT_OVER)
        self.whole = self._ended and not sale.flags & TX_PENDING

    def _full(self, sale: Sale) -> bool:
        """Return whether the history has no space for another sale. History arrives newest first."""
        if self._count + len(self._past) < MAX_STORED_SALES:
            return False
        if sale.id > int(self._chunks[0]["id"][0]):
            raise FeedLost(
                "seam_overflow", f"more than {MAX_STORED_SALES:,} past sales were sent oldest first"
            )
        self.short = True
        return True

    def _pack(self) -> None:
        self._chunks.append(self._rows(self._past, RowFlag.BACKFILL))
        self._count += len(self._past)
        self._past.clear()

    def past(self) -> Rows:
        """Return the trades of the history, oldest first, without duplicates."""
        self._pack()
        rows = np.concatenate(self._chunks)
        self._chunks.clear()
        if self._removed:
            rows = rows[~np.isin(rows["id"], np.array(sorted(self._removed), np.uint64))]
        newest_first = rows[::-1]  # of duplicates, the last version counts
        rows = newest_first[np.unique(newest_first["id"], return_index=True)[1]]
        return rows[np.argsort(rows["ts_event"], kind="stable")]

    def live(self) -> tuple[Rows, list[Amend]]:
        """Return the live trades and amendments since the last call."""
        sales, self._live, self._taken = self._live, [], True
        rows = self._rows([sale for sale in sales if _is_new(sale)], RowFlag(0))
        return rows, [_amend(sale) for sale in sales if _is_change(sale)]

    def _rows(self, sales: Sequence[Sale], flag: RowFlag) -> Rows:
        now_ns = self._clock.now_ns()
        return np.array(
            [
                (s.at_ns, now_ns, s.price_e9, s.size_lots, s.side, int(flag), s.sequence, s.id)
                for s in sales
            ],
            LIVE_TRADE,
        )  # fmt: skip


def _is_new(sale: Sale) -> bool:
    return sale.trade and sale.kind == "NEW"


def _is_change(sale: Sale) -> bool:
    return sale.kind in {"CORRECTION", "CANCEL"} or bool(sale.flags & REMOVE_EVENT)


def _amend(sale: Sale) -> Amend:
    if sale.trade:
        return Amend(sale.id, "correct", sale.price_e9, sale.size_lots)
    return Amend(sale.id, "cancel")


class CandleSeries:
    """The series of one-minute candles.

    `whole` is set when all requested candles have arrived, `short` if the server left out the oldest.
    """

    def __init__(self, scale: Decimal) -> None:
        self._scale = scale
        self.whole = self.short = False
        self._ended = False
        self._bars: dict[int, tuple[int, int, int, int, int]] = {}
        self._counts: dict[int, int] = {}
        self.newest_ns = 0

    def receive(self, event: Event) -> None:
        """Add a received candle to the series, or replace an earlier version. Raises `FeedLost`."""
        candle = read_candle(event, self._scale)
        if candle.bar is None:
            self._bars.pop(candle.at_ns, None)
        else:
            self._bars[candle.at_ns], self._counts[candle.at_ns] = candle.bar, candle.count
            self.newest_ns = max(self.newest_ns, candle.at_ns)
        if len(self._bars) > MAX_CANDLES:
            raise FeedLost("protocol", f"more than {MAX_CANDLES:,} candles were sent")
        self._note(candle)

    def _note(self, candle: Candle) -> None:
        self.short = self.short or bool(candle.flags & SNAPSHOT_SNIP)
        self._ended = self._ended or bool(candle.flags & _SNAPSHOT_OVER)
        self.whole = self.whole or (self._ended and not candle.flags & TX_PENDING)

    @property
    def oldest_ns(self) -> int | None:
        """Start of the oldest candle (ns UTC); None without candles."""
        return min(self._bars, default=None)

    def reached_by(self, sales: int) -> int:
        """Return the earliest start of a minute (ns UTC) since which at most `sales` sales were made.

        The number of sales is taken from the candles. Returns 0 if all candles together count at most `sales` sales.
        """
        for at_ns in sorted(self._bars, reverse=True):
            sales -= self._counts[at_ns]
            if sales < 0:
                return at_ns + NANOS_PER_MINUTE
        return 0

    def between(self, from_ns: int, to_ns: int) -> Rows:
        """Return the bars in `[from_ns, to_ns)`, oldest first."""
        found = [(at_ns, *self._bars[at_ns]) for at_ns in sorted(self._bars) if from_ns <= at_ns < to_ns]
        return np.array(found, BAR)

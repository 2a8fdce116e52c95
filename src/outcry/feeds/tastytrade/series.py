"""What came of a contract's two series: sales, before now and from now on, and candles.

Rules kept: a snapshot is whole when its last event has come and no change is pending; it is told newest first, so one
that is cut short lacks the oldest. A sale that is changed later is an amendment if it was sent, and else only what it
has become.
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

#: Sales of the past that are asked for, by the counts of candles: a busy day of the busiest future. And kept, at most.
MOST_ASKED, MOST_PAST = 500_000, 1_000_000
#: Candles kept, at most: several times the minutes that are asked for.
MOST_CANDLES = 100_000
#: Sales that are put into rows at a time.
_CHUNK = 4096
#: Numbers of sales remembered as sent, for those that are amended while nobody listens.
MOST_SENT = 512

_END = SNAPSHOT_END | SNAPSHOT_SNIP


class Sales:
    """The series of sales. `begun`: its past is being told; `whole`: it has been; `short`: but for its oldest part.
    sent: numbers of the last sales sent by the stream before."""

    def __init__(self, scale: Decimal, clock: Clock, sent: deque[int], since_ns: int) -> None:
        self._scale, self._clock, self._sent, self._since_ns = scale, clock, sent, since_ns
        self.begun = self.whole = self.short = False
        self.amends: list[Amend] = []
        self._ended = self._asked = False
        self._gone: set[int] = set()
        self._chunks: list[Rows] = []
        self._past: list[Sale] = []
        self._count = self._told = 0
        self._pending: list[Sale] = []
        self._live: list[Sale] = []

    def take_in(self, event: Event) -> None:
        """A sale, of before or of now. Raises `FeedLost`."""
        sale = read_sale(event, self._scale)
        if sale.flags & SNAPSHOT_BEGIN:
            again, self.begun = self.begun or self._asked, True
            if again:
                raise FeedLost("vendor_error", "dxLink restarted time and sales")
            self._live.clear()  # the past has them too
        if self.begun and not self.whole:
            self._take_past(sale)
            return
        self._pending.append(sale)
        if len(self._pending) > MOST_ASKED:
            raise FeedLost("protocol", f"more than {MOST_ASKED:,} sales arrived in one unfinished update")
        if not sale.flags & TX_PENDING:
            self._live += self._pending
            self._pending.clear()

    def _take_past(self, sale: Sale) -> None:
        self._told += 1
        if self._told > 2 * MOST_PAST:  # twice what there is room for, and no end
            raise FeedLost("protocol", f"more than {2 * MOST_PAST:,} past sales were sent")
        if sale.trade and sale.at_ns >= self._since_ns:
            if sale.kind == "CORRECTION" and sale.id in self._sent:
                self.amends.append(Amend(sale.id, "correct", sale.price_e9, sale.size_lots))
            elif not self._full(sale):
                self._past.append(sale)
        elif not sale.trade and _is_change(sale):
            self._gone.add(sale.id)
            if sale.id in self._sent:
                self.amends.append(Amend(sale.id, "cancel"))
        if len(self._past) >= _CHUNK:
            self._pack()
        self.short = self.short or bool(sale.flags & SNAPSHOT_SNIP)
        self._ended = self._ended or bool(sale.flags & _END)
        self.whole = self._ended and not sale.flags & TX_PENDING

    def _full(self, sale: Sale) -> bool:
        """Whether there is no room for a sale, which is older than those there are."""
        if self._count + len(self._past) < MOST_PAST:
            return False
        if sale.id > int(self._chunks[0]["id"][0]):
            raise FeedLost("seam_overflow", f"more than {MOST_PAST:,} past sales were sent oldest first")
        self.short = True
        return True

    def _pack(self) -> None:
        self._chunks.append(self._rows(self._past, RowFlag.BACKFILL))
        self._count += len(self._past)
        self._past.clear()

    def past(self) -> Rows:
        """The trades of the past, oldest first, each once."""
        self._pack()
        rows = np.concatenate(self._chunks)
        self._chunks.clear()
        if self._gone:
            rows = rows[~np.isin(rows["id"], np.array(sorted(self._gone), np.uint64))]
        newest_first = rows[::-1]  # of one told twice, what it was told to be last
        rows = newest_first[np.unique(newest_first["id"], return_index=True)[1]]
        return rows[np.argsort(rows["ts_event"], kind="stable")]

    def live(self) -> tuple[Rows, list[Amend]]:
        """Trades of now, and what became of others, since it was asked last."""
        sales, self._live, self._asked = self._live, [], True
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


class Candles:
    """The series of one-minute candles. `whole`: all asked for has come; `short`: but for its oldest part."""

    def __init__(self, scale: Decimal) -> None:
        self._scale = scale
        self.whole = self.short = False
        self._ended = False
        self._bars: dict[int, tuple[int, int, int, int, int]] = {}
        self._counts: dict[int, int] = {}
        self.newest_ns = 0

    def take_in(self, event: Event) -> None:
        """A candle, as it stands. Raises `FeedLost`."""
        candle = read_candle(event, self._scale)
        if candle.bar is None:
            self._bars.pop(candle.at_ns, None)
        else:
            self._bars[candle.at_ns], self._counts[candle.at_ns] = candle.bar, candle.count
            self.newest_ns = max(self.newest_ns, candle.at_ns)
        if len(self._bars) > MOST_CANDLES:
            raise FeedLost("protocol", f"more than {MOST_CANDLES:,} candles were sent")
        self._note(candle)

    def _note(self, candle: Candle) -> None:
        self.short = self.short or bool(candle.flags & SNAPSHOT_SNIP)
        self._ended = self._ended or bool(candle.flags & _END)
        self.whole = self.whole or (self._ended and not candle.flags & TX_PENDING)

    @property
    def oldest_ns(self) -> int | None:
        """The start of the oldest; None where there is none."""
        return min(self._bars, default=None)

    def reached_by(self, sales: int) -> int:
        """The edge of a minute since which there were no more sales than these (ns UTC); 0 where it is all there is."""
        for at_ns in sorted(self._bars, reverse=True):
            sales -= self._counts[at_ns]
            if sales < 0:
                return at_ns + NANOS_PER_MINUTE
        return 0

    def between(self, from_ns: int, to_ns: int) -> Rows:
        """The bars of whole minutes between two edges, oldest first."""
        found = [(at_ns, *self._bars[at_ns]) for at_ns in sorted(self._bars) if from_ns <= at_ns < to_ns]
        return np.array(found, BAR)

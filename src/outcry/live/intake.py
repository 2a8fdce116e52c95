"""Checks and cleans the rows of a feed before they are logged.

Rows must be on the tick and within trading hours, and each trade is passed on once. A feed delivers each trade at least
once. After it is reopened it may repeat the last seconds (the overlap). There, and only there, repeated trades are
recognised by counting equal ones: two equal trades in one delivery are two trades. A late trade is added to its own
session. A row with a price between two ticks is left out and counted; prices are never rounded
(docs/contribute/feeds.md).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from outcry.live.columns import Columns, valid_columns
from outcry.live.entries import Day, Replacement
from outcry.market.calendar import Session
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR
from outcry.trades.dedupe import Times
from outcry.trades.feed import Replaced
from outcry.trades.overlap import Overlap
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import in_order, on_tick
from outcry.trades.session_index import SessionIndex, SessionSlice

#: Lifetime of a contract (ns UTC). Calendars of other years are never computed.
TradingPeriod = tuple[int, int]
#: A trade this much older than the newest one is an error of the feed, not a late trade.
MAX_BEHIND_NS = 10 * NANOS_PER_DAY
#: Trading hours are computed for periods of this length.
_STRETCH_NS = 30 * NANOS_PER_DAY
#: A trade dated this long after it was received comes from a wrong clock.
MAX_AHEAD_NS = NANOS_PER_HOUR

#: Returns a trade date with the end of its last window.
DayEnds = Callable[[date], Day]


@dataclass(slots=True)
class IntakeCounts:
    """Number of rows passed on, and number of rows left out, by reason.

    The reasons: off tick, outside trading hours, repeated, at an impossible time. late: rows that were passed on
    although newer ones had been received before them.
    """

    rows: int = 0
    off_tick: int = 0
    outside: int = 0
    repeated: int = 0
    impossible: int = 0
    late: int = 0

    def add(self, other: "IntakeCounts") -> None:
        """Add the counts of another intake."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class SessionRows:
    """Rows of one session and trade date that passed the checks, in order of arrival."""

    session: Session
    day: Day
    rows: Rows


class Intake:
    """Checks and cleans the rows of one contract.

    `index`: calendar index of its product. `tick_e9`: tick size in units of 10⁻⁹. `life`: from when to when the
    contract can trade (ns UTC).
    """

    def __init__(self, tick_e9: int, index: SessionIndex, day_of: DayEnds, life: TradingPeriod) -> None:
        self._tick_e9, self._index, self._day_of, self._life = tick_e9, index, day_of, life
        self._overlap = Overlap()
        self._latest_ns = 0
        self._cell: SessionSlice | None = None
        #: Trade date of the rows that were passed on last.
        self.day = Day("", 0)
        self.counts = IntakeCounts()

    def resume(self, recent: Rows, latest_ns: int, last_bar_ns: int, barred_ns: int) -> None:
        """Prepare for a reopened feed, which may repeat rows up to `latest_ns`. `recent`: the log's rows of that time.

        The log contains bars up to `last_bar_ns`. They include all trades before `barred_ns` (ns UTC).
        """
        self._overlap.resume(recent, latest_ns, last_bar_ns, barred_ns)
        self._latest_ns = max(self._latest_ns, latest_ns)

    def caught_up(self, at_ns: int) -> None:
        """Record that the feed's history is complete up to a time (ns UTC).

        Once that time is after the newest logged row, the feed repeats no more rows.
        """
        self._overlap.caught_up(at_ns)

    def trades(self, rows: Rows) -> Iterator[SessionRows]:
        """Yield the valid trades among `LIVE_TRADE` rows, split by session and trade date.

        Repeated trades are left out.
        """
        plausible = self._plausible(rows)
        fresh = self._overlap.trades(plausible)
        self.counts.repeated += len(plausible) - len(fresh)
        yield from self._cut(fresh, Quality.TICKS)

    def plain(self, rows: Rows, until_ns: int, lag_ns: int) -> Columns | None:
        """Return the rows as lists (columns) if they are valid trades of one trade date and need no further checks.

        Returns None if the rows need the checks of `trades`. Rows that need none are in order, within the trading hours
        of the rows before them, before `until_ns`, and not in an overlap (the time that a reopened feed may repeat).
        lag_ns: the delay that the feed always has.
        """
        cell = self._cell
        if self._overlap.waits or cell is None:
            return None
        first_ns = max(self._latest_ns, self._overlap.barred_ns, cell.start_ns)
        end_ns = min(cell.end_ns, until_ns)
        columns = valid_columns(rows, self._tick_e9, lag_ns, first_ns, end_ns, MAX_AHEAD_NS)
        if columns is not None:
            self._latest_ns = columns.at_ns[-1]
            self.counts.rows += len(columns.at_ns)
        return columns

    def bars(self, rows: Rows, quality: Quality, bar_ns: int) -> Iterator[SessionRows]:
        """Yield the valid bars among `records.BAR` rows, split by session and trade date. Repeated bars are left out.

        bar_ns: length of a bar.
        """
        possible = self._possible(rows["ts_event"])
        self.counts.impossible += int(len(rows) - possible.sum())
        rows = rows[possible]
        fresh = self._overlap.bars(rows, bar_ns)
        self.counts.repeated += len(rows) - len(fresh)
        yield from self._cut(fresh, quality)

    def replaced(self, event: Replaced) -> Iterator[Replacement]:
        """Yield, for each session, the trades that replace its bars. A session without such trades keeps its bars."""
        rows = event.rows[(event.rows["ts_event"] >= event.from_ns) & (event.rows["ts_event"] < event.to_ns)]
        rows, _ = in_order(self._plausible(rows), 0)
        rows, _, off_tick = on_tick(rows, self._tick_e9, Quality.TICKS)
        self.counts.off_tick += off_tick
        pieces, outside = self._index.split(rows["ts_event"])
        self.counts.outside += outside
        for cell, begin, end in pieces:
            self.counts.rows += end - begin
            from_ns, to_ns = max(event.from_ns, cell.start_ns), min(event.to_ns, cell.end_ns)
            yield Replacement(self._day_of(cell.trade_date), from_ns, to_ns, rows[begin:end].tobytes())

    def _plausible(self, rows: Rows) -> Rows:
        good = (
            self._possible(rows["ts_event"])
            & (rows["ts_event"] - MAX_AHEAD_NS <= rows["ts_recv"])
            & (rows["size"] < 2**31)
        )
        if good.all():
            return rows
        self.counts.impossible += int(len(rows) - good.sum())
        return rows[good]

    def _possible(self, times: Times) -> NDArray[np.bool_]:
        first_ns = max(self._life[0], self._latest_ns - MAX_BEHIND_NS)
        return (times >= first_ns) & (times < self._life[1])

    def _cut(self, rows: Rows, quality: Quality) -> Iterator[SessionRows]:
        """Remove rows with a price between two ticks, and split the others into groups of one session and trade date.

        Times ascend within a group.
        """
        rows, _, off_tick = on_tick(rows, self._tick_e9, quality)
        self.counts.off_tick += off_tick
        times = rows["ts_event"]
        edges = [0, *(np.flatnonzero(times[1:] < times[:-1]) + 1).tolist(), len(rows)]
        for at, last in pairwise(edges):
            first = at
            while first < last:
                end = first + int(
                    np.searchsorted(times[first:last], times[first] + _STRETCH_NS, side="right")
                )
                run, first = rows[first:end], end
                self.counts.late += int((run["ts_event"] < self._latest_ns).sum())
                self._latest_ns = max(self._latest_ns, int(run["ts_event"][-1]))
                pieces, outside = self._index.split(run["ts_event"])
                self.counts.outside += outside
                for cell, begin, until in pieces:
                    self.counts.rows += until - begin
                    self._cell, self.day = cell, self._day_of(cell.trade_date)
                    yield SessionRows(cell.session, self.day, run[begin:until])

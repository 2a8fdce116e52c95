"""Faults of a feed on demand, for tests of its consumers. Off by default."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from outcry.market.windows import Segment
from outcry.trades.feed import Amend, Event, FeedLost, Gap, Repaired, RowFlag, Trades
from outcry.trades.records import Rows

#: Maximum rows of one batch.
BATCH_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults that a feed simulates; none by default.

    gap: omit the trades of this span (ns UTC, half-open) and report a gap after it. repair: send them after the gap was
    reported. late_every: delay every n-th trade to the end of its batch. cancel_every: cancel every n-th trade after it
    was sent. lose_after: break the connection after this many trades; reopened from a cursor, the feed sends the later
    trades again.
    """

    gap: Segment | None = None
    repair: bool = False
    late_every: int = 0
    cancel_every: int = 0
    lose_after: int = 0


class FaultInjector:
    """Turns rows into feed events and adds the configured faults. One per open stream."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._missing: list[Rows] = []
        self._gap_open = faults.gap is not None
        self._sent = 0

    def inject(self, rows: Rows, due_ns: int) -> Iterator[Event]:
        """Yield the events for rows up to `due_ns` (ns UTC) in order of time.

        Raises `FeedLost` if that fault is configured.
        """
        if self._gap_open:
            rows = self._with_gap(rows)
        if self._faults.late_every:
            late = rows["sequence"] % self._faults.late_every == 0
            rows = np.concatenate((rows[~late], rows[late]))
        for first in range(0, len(rows), BATCH_ROWS):
            yield from self._batch(rows[first : first + BATCH_ROWS])
        if self._gap_open and self._faults.gap is not None and due_ns >= self._faults.gap[1]:
            yield from self._close_gap(*self._faults.gap)

    def _batch(self, rows: Rows) -> Iterator[Event]:
        faults = self._faults
        self._sent += len(rows)
        if faults.lose_after and self._sent >= faults.lose_after:
            yield Trades(rows[: len(rows) - (self._sent - faults.lose_after)])
            raise FeedLost("link_lost", "fault requested by the script")
        yield Trades(rows)
        if faults.cancel_every:
            for number in rows["id"][rows["sequence"] % faults.cancel_every == 0].tolist():
                yield Amend(number, "cancel")

    def _with_gap(self, rows: Rows) -> Rows:
        start, end = self._faults.gap or (0, 0)
        lost = (rows["ts_event"] >= start) & (rows["ts_event"] < end)
        self._missing.append(rows[lost])
        return rows[~lost]

    def _close_gap(self, start: int, end: int) -> Iterator[Event]:
        self._gap_open = False
        yield Gap(start, end, "fault requested by the script")
        if self._faults.repair:
            repaired = np.concatenate(self._missing)
            repaired["flags"] |= int(RowFlag.BACKFILL)
            yield Trades(repaired)
            yield Repaired(start, end)
        self._missing = []

"""A feed at a fixed rate of trades per second, with event time at the speed of real time.

An event is due at a time of the machine's monotonic clock, which is the same in every process. The event time of its
newest trade is that time, in whole milliseconds, on a day of the tape. So the `updatedAt` of an answer reveals its age.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from time import monotonic_ns
from typing import Any

import numpy as np
from bench.tape import CAPS, Gate, first_hour

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.trades.feed import CaughtUp, Cursor, Event, Trades
from outcry.trades.records import Quality, Rows

#: 2024-05-15 12:01 in New York: every product is in regular hours, and no bar ends for four minutes.
BASE_NS = 1_715_788_860 * NANOS_PER_SECOND
_SOON_NS = NANOS_PER_SECOND // 2

#: Called for each event that was due, with the times (ns, monotonic) at which it was sent and taken.
Noted = Callable[[str, Contract, int, int, int], None]


class Zero:
    """The monotonic time (ns) that corresponds to `BASE_NS`: half a second after all streams have opened."""

    def __init__(self, streams: int, begun: Callable[[int], object]) -> None:
        self._gate, self._begun = Gate(streams), begun
        self.at_ns = 0

    async def wait(self) -> None:
        """Register a stream and wait for all others; the last one sets the time."""
        if self._gate.there + 1 == self._gate.streams:
            self.at_ns = (monotonic_ns() + _SOON_NS) // NANOS_PER_MS * NANOS_PER_MS
            self._gate.opened.set()
            self._begun(self.at_ns)
        await self._gate.wait()


class PacedFeed:
    """Sends each contract `rows_a_beat` trades every `beat_ms`, streams one after another within the beat.

    The first hour of the rows is sent at once. Later prices repeat forwards and backwards. A late feed sends all due
    events at once. Implements `Feed`.
    """

    def __init__(
        self,
        name: str,
        rows: Mapping[Contract, Rows],
        zero: Zero,
        *,
        rows_a_beat: float,
        beat_ms: int,
        noted: Noted,
    ) -> None:
        self.name, self.caps, self.run = name, CAPS, ""
        self._rows, self._zero, self._noted = rows, zero, noted
        self._rows_a_beat, self._beat_ms = rows_a_beat, beat_ms
        self._ahead: dict[tuple[int, int], Any] = {}
        self._places = {contract: at for at, contract in enumerate(rows)}

    async def contracts(self) -> list[Contract]:
        """Return the contracts of the rows."""
        return list(self._rows)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract, from the beginning only and without end."""
        assert not since.since_ns
        rows, beat_ns = self._rows[contract], self._beat_ms * NANOS_PER_MS
        head = first_hour(rows)
        yield CaughtUp(int(rows["ts_event"][0]) - 1, Quality.TICKS)
        yield Trades(rows[:head])
        path = np.concatenate((rows[head:], rows[head:][::-1]))
        path = np.concatenate((path, path[: len(path) // 2]))  # so that a slice needs no joining at the end
        await self._zero.wait()
        due_ns = self._zero.at_ns + self._places[contract] % self._beat_ms * NANOS_PER_MS + beat_ns
        count = 0.0
        while True:
            wait_ns = due_ns - monotonic_ns()
            await asyncio.sleep(max(0, wait_ns) / NANOS_PER_SECOND)
            beats = 1 + max(0, monotonic_ns() - due_ns) // beat_ns
            first, count = int(count), count + beats * self._rows_a_beat
            last = due_ns + (beats - 1) * beat_ns
            event = self._event(path, first, int(count), last, beats * beat_ns)
            sent_ns = monotonic_ns()
            if event is not None:
                yield event
                taken_ns = monotonic_ns()
                for at_ns in range(due_ns, last + 1, beat_ns):
                    self._noted(self.name, contract, at_ns, sent_ns, taken_ns)
            due_ns = last + beat_ns

    def _event(self, path: Rows, first: int, last: int, due_ns: int, span_ns: int) -> Trades | None:
        """Copy a slice and set its times; the cost counts as the service's."""
        count = last - first
        if not count:
            return None
        start = first % (len(path) // 3 * 2)
        rows = path[start : start + count].copy()
        ahead = self._ahead.get((count, span_ns))
        if ahead is None:
            ahead = self._ahead[count, span_ns] = np.arange(count - 1, -1, -1) * (span_ns // count)
        rows["ts_event"] = times = BASE_NS + due_ns - self._zero.at_ns - ahead
        rows["ts_recv"] = times + NANOS_PER_MS
        return Trades(rows)

    async def close(self) -> None:
        """Do nothing."""

"""Replays recordings as a live feed, identically each time.

Events and their order depend on the files and the cursor, not on replay speed or batch size. A row is sent when it
becomes available: a trade at its time, a bar at its end. A heartbeat follows all rows that are available by its time.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from outcry.feeds.live_rows import NOT_RECORDED
from outcry.feeds.recording import RecordedRun, Recording, record
from outcry.feeds.replay_pacing import Pacer
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_DAY
from outcry.market.windows import LONGEST_CLOSURE_DAYS
from outcry.recordings.file_model import FileRefused, Reading, ReadOptions
from outcry.trades.feed import (  # fmt: skip
    Backfill,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    FeedCaps,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    Resume,
)
from outcry.trades.records import Quality

if TYPE_CHECKING:  # it imports the readers of all formats, which take long to load
    from outcry.recordings.formats.file_library import FileLibrary

BATCH_ROWS = 4096
#: Heartbeats of a contract continue this long after its last row, as a service follows it for a year after expiry.
AFTERWARDS_DAYS = 365

_CAPS = FeedCaps(
    resolution_ns=1, has_id=False, has_side=True, backfill=Backfill.TICKS, reach_ns=2**62, resume=Resume.BY_TIME,
    has_volume_counter=False, own_clock=True,
)  # fmt: skip
_BACKFILL = {
    Quality.TICKS: Backfill.TICKS,
    Quality.BARS_1S: Backfill.BARS_1S,
    Quality.BARS_1M: Backfill.BARS_1M,
}


def readings_of(
    library: "FileLibrary", universe: Universe, paths: Iterable[Path], options: ReadOptions
) -> list[Reading]:
    """Open files and folders of recordings; leave out files without trades. Raises `FileRefused`."""
    files = [file for path in paths for file in library.expand(path)]
    found = [library.open(file, universe, options) for file in files]
    return [reading for reading in found if reading is not None]


@dataclass(frozen=True, slots=True)
class _Mark:
    """A heartbeat or gap event that is sent between rows, at the replayed time `at_ns`.

    The event follows all rows that are available by `limit_ns`, and precedes later rows.
    """

    limit_ns: int
    at_ns: int
    event: Heartbeat | Gap


class ReplayFeed:
    """Live feed that replays recorded files. The files are read once, at the first request. Implements `Feed`.

    pace: controls the speed: `pacer_for_speed(speed, clock)` or a `StepPacer`, for this feed alone. batch_rows: maximum
    rows per event. run: see `Feed`. `caps` states the bar quality once the files have been read.
    """

    def __init__(
        self, readings: Sequence[Reading], calendar: Calendar, pace: Pacer, *, name: str = "replay",
        run: str = "", batch_rows: int = BATCH_ROWS,
    ) -> None:  # fmt: skip
        self.name, self.caps, self.run = name, _CAPS, run
        self._readings, self._calendar, self._pace, self._batch_rows = readings, calendar, pace, batch_rows
        self._reading = asyncio.Lock()
        self._recording: Recording | None = None
        self._begun = self._closed = False

    async def contracts(self) -> list[Contract]:
        """Return the recorded contracts. Raises `FeedRefused` for unreadable files, `FeedLost` if the disk is full."""
        return list((await self.recording()).contracts)

    async def recording(self) -> Recording:
        """Return the content of the recorded files, for example to see until when they have data.

        Raises the errors of `contracts`.
        """
        async with self._reading:
            if self._recording is None:
                found = await self._read()
                if self._closed:
                    found.close()
                    raise FeedLost("closed", "the feed was closed while its files were read")
                self._recording = found
                worst = max(
                    (self._recording.quality(c) for c in self._recording.contracts), key=lambda q: q.rank
                )
                self.caps = replace(_CAPS, backfill=_BACKFILL[worst])
        return self._recording

    async def _read(self) -> Recording:
        try:
            return await asyncio.to_thread(record, self._readings, self._calendar, lambda: self._closed)
        except FileRefused as problem:
            raise FeedRefused("file_refused", str(problem)) from problem
        except OSError as problem:
            raise FeedLost("disk_error", f"cannot store the recording: {problem.strerror}") from problem
        except asyncio.CancelledError:
            self._closed = True  # stops the thread at its next batch
            raise

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. All rows are sent as live trades, none as history."""
        recording = await self.recording()
        if contract not in recording.rows:
            raise FeedRefused("unknown_contract", f"{contract.key} is not in the files")
        start = max(since.since_ns, recording.origin_ns)
        if not self._begun:
            self._begun = True
            self._pace.begin(recording.timeline, start)
        if 0 < since.since_ns < recording.origin_ns and self._traded(contract.root, since.since_ns, start):
            yield Gap(since.since_ns, start, NOT_RECORDED)
        with self._pace.stream():
            await self._pace.reach(start)
            if self._closed:
                return
            yield CaughtUp(start, recording.quality(contract))
            async for event in self._events(recording, contract, start, since.since_ns):
                yield event

    async def close(self) -> None:
        """End every stream and delete the temporary file."""
        self._closed = True
        self._pace.stop()
        if self._recording is not None:
            self._recording.close()

    def _traded(self, root: str, start_ns: int, end_ns: int) -> bool:
        """Return whether a product has trading hours between two times (ns UTC)."""
        start_ns = max(start_ns, end_ns - LONGEST_CLOSURE_DAYS * NANOS_PER_DAY)
        session = self._calendar.session_at(root, start_ns) or self._calendar.next_session(root, start_ns)
        return session is not None and any(a < end_ns and start_ns < b for a, b in session.segments)

    async def _events(
        self, recording: Recording, contract: Contract, start: int, since_ns: int
    ) -> AsyncIterator[Event]:
        """Yield rows, heartbeats and gaps from the start to the end of the product's recording.

        For a contract that expired years before the end of the recording, stop a year after the contract's last row.
        """
        silent_ns = (recording.days(contract, 0)[-1] + AFTERWARDS_DAYS) * NANOS_PER_DAY
        end = max(start, min(recording.end_ns(contract.root), silent_ns))
        marks = self._marks(recording, contract.root, start, end)
        mark = next(marks, None)
        for day in recording.days(contract, since_ns):
            for run in await asyncio.to_thread(recording.load, contract, day, since_ns):
                sent = 0
                while sent < len(run.rows):
                    known = int(run.known_ns[sent])
                    if mark is not None and mark.limit_ns < known:
                        await self._pace.reach(mark.at_ns)
                        event, mark = mark.event, next(marks, None)
                    else:
                        now = await self._pace.reach(known)
                        stop = self._stop(run, sent, now if mark is None else min(now, mark.limit_ns))
                        event, sent = run.event(sent, stop), stop
                    if self._closed:
                        return
                    yield event
        while mark is not None:
            await self._pace.reach(mark.at_ns)
            if self._closed:
                return
            yield mark.event
            mark = next(marks, None)
        if not self._closed:
            yield Ended(end)

    def _stop(self, run: RecordedRun, first: int, limit_ns: int) -> int:
        """Return where a batch of rows that begins at `first` ends: at `limit_ns`, or at the batch size."""
        return min(first + self._batch_rows, int(np.searchsorted(run.known_ns, limit_ns, "right")))

    def _marks(self, recording: Recording, root: str, start: int, end: int) -> Iterator[_Mark]:
        """Return the heartbeats and gaps after the start, in order.

        A gap is reported at its end, before later rows.
        """
        holes = recording.holes(root, start)
        gaps = (_Mark(b - 1, b, Gap(a, b, NOT_RECORDED)) for a, b in holes if b <= end)
        beats = recording.timeline.beats(start, end, self._pace.step_ns)
        return heapq.merge(
            gaps, (_Mark(at, at, Heartbeat(at)) for at in beats), key=lambda mark: mark.limit_ns
        )

"""Streams taken up: from the snapshot and the log to a runner, and forgotten where they begin anew.

Rules kept: a stream that is taken up is what its log says; where several processes may write to a log, taking a stream
up is itself an entry of it, so that whoever had it before can add nothing more; reading is done off the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outcry.core.calendar import Calendar
from outcry.core.instruments import Universe
from outcry.ports.feed import Feed
from outcry.ports.live import LiveStore, LogDamaged, LogTakenOver, Snapshots, StreamKey, TradeLog
from outcry.ports.records import Quality
from outcry.ports.store import StoreBusy
from outcry.services.grid import Grid
from outcry.services.listed import listed_ns
from outcry.services.live import entries as log
from outcry.services.live.recorder import Recorder
from outcry.services.live.runner import Runner, Ways

T = TypeVar("T")

#: Between two attempts to take a stream up; and how many there are where another process writes to it.
_AGAIN_S, _TRIES = 0.25, 8


class Recovery:
    """Takes streams up. For one event loop. `by`: the name under which this process takes streams up from others that
    write to the same log; empty where there are none."""

    def __init__(
        self, trades: TradeLog, snapshots: Snapshots, live: LiveStore, universe: Universe, calendar: Calendar,
        ways: Ways, recorder: Recorder, by: str = "",
    ) -> None:  # fmt: skip
        self._log, self._snapshots, self._live = trades, snapshots, live
        self._universe, self._calendar = universe, calendar
        self._ways, self._recorder, self._by = ways, recorder, by
        self._grids: dict[str, Grid] = {}
        self._threads = ThreadPoolExecutor(4 if by else 1, "outcry-recovery")

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown()

    async def runner(self, key: StreamKey) -> Runner:
        """A stream as its log says, however long that cannot be reached. Raises `LogDamaged`, and `LogTakenOver` where
        another process goes on writing to it."""
        tries = _TRIES
        while True:
            try:
                return await self._taken_up(key)
            except StoreBusy as problem:
                self._recorder.tell("a log cannot be read yet", stream=key.text, problem=str(problem))
            except LogTakenOver:  # whoever had it may have had something on the way yet
                tries -= 1
                if not tries:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _taken_up(self, key: StreamKey) -> Runner:
        product = self._universe.products[key.contract.root]
        runner = Runner(
            key,
            product.tick_e9,
            self._grid(product.root),
            listed_ns(self._universe, key.contract),
            self._ways,
        )
        last = await self.patiently(lambda: self._log.last(key.text))  # first: from here on it is ours
        snapshot = await self.patiently(lambda: self._snapshots.snapshot(key.text))
        if snapshot is not None and snapshot[0] > last:
            # a log taken away, or one of an older backup: what it held is asked of the feed again
            self._recorder.tell(
                "the log of a stream is older than its snapshot: it begins anew", stream=key.text
            )
            await self.forget(key)
            snapshot = None
        await runner.recover(snapshot, self._threads)
        if self._by and runner.stream.position:
            runner.channel.taken_at = runner.stream.position
            runner.logged.log(log.Taken(self._by))
            await runner.kept()
        return runner

    async def runner_or_anew(self, key: StreamKey, feed: Feed) -> Runner:
        """The same for a feed that has come. A log that cannot be read ends with the performance that wrote it: another
        one begins anew."""
        try:
            return await self.runner(key)
        except (LogDamaged, ValueError, LookupError) as problem:
            if not feed.run:
                raise
            self._recorder.tell(
                "a stream could not be recovered: it begins anew", stream=key.text, problem=repr(problem)
            )
            await self.forget(key)
            return await self.runner(key)

    async def forget(self, key: StreamKey) -> None:
        """Let a stream begin anew."""
        await self.patiently(lambda: self._log.forget(key.text))
        await self.patiently(lambda: self._snapshots.forget_snapshot(key.text))
        await self.patiently(lambda: self._live.forget_stream(key.text))

    async def forget_alerts(self, key: StreamKey) -> None:
        """Let the alerts of a stream that begins anew fire and be recorded again."""
        await self.patiently(lambda: self._live.forget_alerts(key))

    async def barred(self, runner: Runner) -> tuple[int, ...]:
        """Minutes of a stream's days under way that only bars have told of, by its log."""
        stream = runner.stream
        if not stream.barred_ns or stream.own_clock:
            return ()
        first, position, days = stream.needed_from, stream.position, {day for day, _ in stream.days}

        def work() -> tuple[int, ...]:
            frames = self._log.read(runner.name, first)
            entries = [log.decode(frame) for frame in frames if frame.first < position]
            settled = log.settled(log.of_days(entries, days))
            bars = [one for one in settled if isinstance(one, log.BarRows) and one.quality is Quality.BARS_1M]
            return tuple(sorted({start for one in bars for start in one.rows["ts_event"].tolist()}))

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def patiently(self, work: Callable[[], T]) -> T:
        """Ask log or store for something, however long it is busy, apart from what is recorded."""
        return await self._recorder.patiently(work, self._threads)

    def _grid(self, root: str) -> Grid:
        if root not in self._grids:
            self._grids[root] = Grid(self._calendar, root)
        return self._grids[root]

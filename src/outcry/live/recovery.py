"""Recovery of streams from their snapshots and logs.

A damaged log is renamed, never removed, and its stream continues from the snapshot and the readable entries. If several
processes may write to a log, a process acquires a stream by appending an entry to the log; the previous owner can
append nothing after it. Logs are read off the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from outcry.base.log_events import LogEvent, Report
from outcry.database.errors import StoreBusy
from outcry.live import entries as log
from outcry.live.amendments import amended_rows
from outcry.live.database_calls import DatabaseCalls
from outcry.live.live_stream import StreamServices
from outcry.live.model import LogDamaged, LogTakenOver, Snapshots, StreamKey
from outcry.live.runner import Runner
from outcry.live.store import LiveStore
from outcry.live.stream_snapshot import SnapshotDamaged, plays_back, unsealed
from outcry.live.trade_log import TradeLog
from outcry.market.calendar import Calendar
from outcry.market.instruments import Universe
from outcry.trades.contract_lifetime import lifetime_ns
from outcry.trades.feed import Feed
from outcry.trades.records import Quality
from outcry.trades.session_index import SessionIndex

T = TypeVar("T")

#: Pause between two attempts to acquire a stream, and the number of attempts while another process writes to it.
_AGAIN_S, _TRIES = 0.25, 8


class Recovery:
    """Restores streams from their snapshots and logs.

    by: the name under which this process acquires streams whose logs it shares with other processes; empty if it shares
    none. Not thread-safe: use it on one event loop.
    """

    def __init__(
        self, trades: TradeLog, snapshots: Snapshots, live: LiveStore, universe: Universe, calendar: Calendar,
        services: StreamServices, calls: DatabaseCalls, report: Report, by: str = "",
    ) -> None:  # fmt: skip
        self._log, self._snapshots, self._live = trades, snapshots, live
        self._universe, self._calendar = universe, calendar
        self._services, self._calls, self._report, self._by = services, calls, report, by
        self._indexes: dict[str, SessionIndex] = {}
        self._threads = ThreadPoolExecutor(4 if by else 1, "outcry-recovery")

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown()

    async def runner(self, key: StreamKey) -> Runner:
        """Restore a stream from its snapshot and log, and return its runner; retry while the log is unavailable.

        Raises `LogDamaged`, and `LogTakenOver` if another process keeps writing to the log.
        """
        tries = _TRIES
        while True:
            try:
                return await self._salvaged_or_read(key)
            except StoreBusy as problem:
                self._report(LogEvent.LOG_UNREADABLE, stream=key.text, problem=str(problem))
            except LogTakenOver:  # an append of the previous owner may still have been on its way
                tries -= 1
                if not tries:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _salvaged_or_read(self, key: StreamKey) -> Runner:
        try:
            runner = await self._read(key)
        except LogDamaged as problem:
            snapshot = await self._snapshot(key)
            position = snapshot[0] if snapshot else 0
            lost = await self.patiently(lambda: self._log.salvage(key.text, position, _lost))
            if not lost:
                raise
            self._report(LogEvent.LOG_DAMAGED, stream=key.text, problem=str(problem))
            for line in lost:
                self._report(LogEvent.LOG_SALVAGED, stream=key.text, lost=line)
            runner = await self._read(key)
            await self._log_lost_spans(runner)
        for line in await self.patiently(lambda: self._log.take_notices(key.text)):
            self._report(LogEvent.LOG_TAIL_QUARANTINED, stream=key.text, lost=line)
        return runner

    async def _snapshot(self, key: StreamKey) -> tuple[int, bytes] | None:
        """Return the stored snapshot of a stream; None if there is none or it is damaged.

        Without a snapshot, the stream is restored from the whole log.
        """
        found = await self.patiently(lambda: self._snapshots.snapshot(key.text))
        if found is None:
            return None
        try:
            return found[0], unsealed(key.text, *found)
        except SnapshotDamaged as problem:
            self._report(LogEvent.SNAPSHOT_DAMAGED, stream=key.text, problem=str(problem))
            return None

    async def _log_lost_spans(self, runner: Runner) -> None:
        """Log a gap for the time of lost log entries, so that no session with lost trades counts as complete."""
        first, position, stream = runner.stream.needed_from, runner.stream.position, runner.stream

        def work() -> list[tuple[int, int]]:
            entries = log.entries_between(self._log.read(runner.name, first), first, position)
            return log.lost_spans((entry for _, entry in entries), stream.covered_ns, stream.time_ns)

        for from_ns, to_ns in await self.patiently(work):
            runner.log(log.Hole(from_ns, to_ns, "its log was damaged"))

    async def _read(self, key: StreamKey) -> Runner:
        product = self._universe.products[key.contract.root]
        runner = Runner(
            key,
            product.tick_e9,
            self._index(product.root),
            lifetime_ns(self._universe, key.contract),
            self._services,
        )
        # The first access to the log: from here on this process owns it.
        last = await self.patiently(lambda: self._log.last(key.text))
        snapshot = await self._snapshot(key)
        if snapshot is not None and snapshot[0] > last:
            # the log was removed or restored from an older backup: request its entries from the feed again
            if last and not plays_back(snapshot[1]):
                raise LogDamaged(f"the log ends at entry {last}, the snapshot is of entry {snapshot[0]}")
            self._report(
                LogEvent.LOG_OLDER_THAN_SNAPSHOT,
                stream=key.text,
            )
            await self.reset(key)
            snapshot = None
        await runner.recover(snapshot, self._threads)
        if self._by and runner.stream.position:
            runner.channel.acquired_at = runner.stream.position
            runner.log(log.Taken(self._by))
            await runner.stream.persisted()
        return runner

    async def runner_or_empty(self, key: StreamKey, feed: Feed) -> Runner:
        """Restore a stream for a feed, as `runner` does.

        If the feed plays back a recording and the log cannot be read, the stream starts empty, because the recording
        can be played again.
        """
        try:
            return await self.runner(key)
        except (LogDamaged, ValueError, LookupError) as problem:
            if not feed.run:
                raise
            self._report(LogEvent.STREAM_RESTARTED_EMPTY, stream=key.text, problem=repr(problem))
            await self.reset(key)
            return await self.runner(key)

    async def reset(self, key: StreamKey) -> None:
        """Make a stream start empty, because its log is unusable. The files of the log are renamed."""
        await self.patiently(lambda: self._log.quarantine(key.text))
        await self.forget(key)

    async def forget(self, key: StreamKey) -> None:
        """Remove the log, the snapshot and the position of a stream, so that it starts empty."""
        await self.patiently(lambda: self._log.forget(key.text))
        await self.patiently(lambda: self._snapshots.forget_snapshot(key.text))
        await self.patiently(lambda: self._live.forget_stream(key.text))

    async def forget_alerts(self, key: StreamKey) -> None:
        """Remove the alerts of a stream that starts empty, because they will fire and be recorded again."""
        await self.patiently(lambda: self._live.forget_alerts(key))

    async def barred_minutes(self, runner: Runner) -> tuple[int, ...]:
        """Return the minutes (ns UTC) for which the stream's log has bars but no trades.

        Only trade dates that are not stored yet count.
        """
        stream = runner.stream
        if not stream.barred_ns or stream.own_clock:
            return ()
        first, position, days = stream.needed_from, stream.position, {day for day, _ in stream.days}

        def work() -> tuple[int, ...]:
            entries = log.entries_between(self._log.read(runner.name, first), first, position)
            settled = amended_rows(log.of_days([entry for _, entry in entries], days))
            bars = [one for one in settled if isinstance(one, log.BarRows) and one.quality is Quality.BARS_1M]
            return tuple(sorted({start for one in bars for start in one.rows["ts_event"].tolist()}))

        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def patiently(self, work: Callable[[], T]) -> T:
        """Run a blocking call to the log or the database on a thread, and repeat it while the database is busy."""
        return await self._calls.patiently(work, self._threads)

    def _index(self, root: str) -> SessionIndex:
        if root not in self._indexes:
            self._indexes[root] = SessionIndex(self._calendar, root)
        return self._indexes[root]


def _lost(entries: int) -> bytes:
    """Return an encoded log entry that stands for this number of lost entries."""
    return log.encode(log.Lost(entries))

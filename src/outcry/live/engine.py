"""The engine runs the live streams of all feeds, and stores alerts, snapshots and completed sessions.

An alert enters the registry only after the database has recorded it. A feed that fails is opened again after increasing
delays; the engine stops trying only if the user must act. Everything that may block runs off the event loop. If another
process acquires a stream, this engine releases it at once and publishes nothing more of it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TypeVar

from outcry.access.licences import OPERATOR, Scope
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import BackgroundTasks
from outcry.live.acquired_streams import AcquiredStreams
from outcry.live.alert_recorder import AlertRecorder, FanOutNow, to_nobody
from outcry.live.archive import Archive
from outcry.live.database_calls import DatabaseCalls
from outcry.live.history_start import begin_ns
from outcry.live.intake import IntakeCounts
from outcry.live.live_feeds import LiveFeeds
from outcry.live.live_stream import StreamServices
from outcry.live.model import LogTakenOver, Snapshots, StreamKey
from outcry.live.recovery import Recovery
from outcry.live.registry import Registry
from outcry.live.runner import Runner
from outcry.live.runners import Runners
from outcry.live.session_writer import SessionWriter
from outcry.live.snapshot_writer import SYNC_S, SnapshotWriter
from outcry.live.store import LiveStore
from outcry.live.stream_status import StreamProgress, StreamStatus, status_of
from outcry.live.stream_watch import TICK_S, StreamWatch
from outcry.live.trade_log import TradeLog
from outcry.market.calendar import Calendar, Session
from outcry.market.instruments import Contract, Universe
from outcry.market.opening import Opening
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.sessions.store import SqlStore
from outcry.trades.feed import Feed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stores:
    """The stores that an engine writes to."""

    log: TradeLog
    snapshots: Snapshots
    live: LiveStore
    sessions: SqlStore
    archive: Archive


@dataclass(frozen=True, slots=True)
class Market:
    """Instruments, calendar and clock that an engine uses, and which users may see which streams.

    scope_of: returns what a user may see besides their own recordings. fan_out: called when alerts are recorded;
    returns who receives them.
    """

    universe: Universe
    calendar: Calendar
    clock: Clock
    scope_of: Callable[[int], Scope]
    fan_out: FanOutNow = to_nobody


class Engine:
    """Runs the live streams of this process on its event loop.

    speedup: divides all pauses, for tests. by: the name under which this process acquires streams whose logs it shares
    with other processes; see `Recovery`.
    """

    def __init__(
        self, stores: Stores, market: Market, registry: Registry, report: Report = discard, *, speedup: float = 1.0,
        by: str = "",
    ) -> None:  # fmt: skip
        self._stores, self._market, self._registry, self.report = stores, market, registry, report
        self._completed = CompletedSessions(stores.sessions, market.universe, market.calendar)
        self._session_writer = SessionWriter(stores.log, stores.archive, speedup, self._report)
        self._calls = DatabaseCalls(self._report, speedup)
        self.alerts = AlertRecorder(
            stores.log,
            stores.live,
            self._calls,
            registry,
            market.clock,
            self._report,
            speedup,
            market.fan_out,
        )
        services = StreamServices(
            stores.log, registry, market.clock, market.calendar, self._opening, self._session_writer.store, self.alerts,
        )  # fmt: skip
        self._snapshots = SnapshotWriter(
            stores.log, stores.snapshots, self.alerts, self._calls, self._report, speedup
        )
        self._recovery = Recovery(
            stores.log, stores.snapshots, stores.live, market.universe, market.calendar, services, self._calls,
            self._report, by,
        )  # fmt: skip
        self.runners = Runners()
        self._streams = AcquiredStreams(self.runners, registry, self._recovery)
        self._feeds = LiveFeeds(self._streams, self.taken_over, self._report, speedup)
        self._tasks = BackgroundTasks(self._report)
        self._watch = StreamWatch(
            self._streams, self._feeds, market.clock, self._tasks, self._report, speedup
        )
        #: Called with a stream that another process has acquired.
        self.on_taken_over: Callable[[StreamKey], object] = lambda _key: None
        #: Separate from the store's thread, so that no alert waits for the references of a session.
        self._reference_thread = ThreadPoolExecutor(1, "outcry-references")

    def _report(self, event: LogEvent, **details: object) -> None:
        """Write an event to the service's log with `report`, a function that the server replaces at its start."""
        self.report(event, **details)

    # -- start and stop

    async def start(self, names_of: Callable[[], Sequence[str]] | None = None) -> None:
        """Recover streams, then start the background tasks.

        names_of: returns the streams; None recovers every stream.
        """
        self._tasks.start("alerts", self.alerts.record())
        for runner in await self._recover_all(await self.patiently(names_of or self._stores.log.keys)):
            await self._snapshots.store_pending(runner)
        owners = sorted(self.runners.owners)
        if owners:
            await self.alerts.show_known(owners)
        self._tasks.every(TICK_S, "time", self._watch.check)
        self._tasks.start("snapshots", self._snapshots.keep_snapshots(self.runners))
        self._tasks.every(SYNC_S, "sync", self._snapshots.sync)

    async def acquire(self, names: Iterable[str]) -> None:
        """Acquire streams that another process owned, by recovering them from their logs.

        Sessions that wait to be stored are stored in the background, because the other process may still be storing
        them.
        """
        for runner in await self._recover_all(names):
            if runner.stream.pending:
                self._tasks.start(f"store {runner.name}", self._snapshots.store_pending(runner))

    async def _recover_all(self, names: Iterable[str]) -> Sequence[Runner]:
        """Recover streams from their logs. They are reported as `connecting` until their feed delivers.

        All of them are recovered before any is used, because the front contract is chosen among them.
        """
        acquired: list[Runner] = []
        for text in names:
            try:
                runner = await self._streams.acquire(StreamKey.read(text, self._market.universe))
                acquired.append(runner)
                if not runner.stream.own_clock and runner.expired:
                    await self._streams.forget(runner.key)
            except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one stream must not stop the others
                self._report(LogEvent.STREAM_RECOVERY_FAILED, stream=text, problem=repr(problem))
        return acquired

    async def release(self, names: Iterable[str]) -> None:
        """Save and release streams, so that another process can acquire them."""
        named = list(names)
        await self._feeds.end(named)
        runners = [self.runners[name] for name in named if name in self.runners]
        try:
            await self._snapshots.save(runners)
        finally:  # even if saving failed, because another process owns it now
            for runner in runners:
                self._streams.drop(runner.key)

    @property
    def stream_names(self) -> set[str]:
        """Return the names of the streams of this process, including streams that are being recovered for a feed."""
        return {*self.runners, *self._feeds.names}

    def contracts_of(self, owner: int, feed: str) -> frozenset[Contract]:
        """Return the contracts of a feed, as the feed last listed them."""
        return self._feeds.contracts_of(owner, feed)

    def status(self, key: StreamKey) -> StreamStatus | None:
        """Return the status of a stream; None if this process does not have the stream."""
        runner = self.runners.get(key.text)
        return status_of(runner) if runner else None

    async def progress(self, key: StreamKey) -> StreamProgress:
        """Return up to when a stream has data. First wait until the log has persisted that data.

        So a feed that starts from there need not deliver older data. Raises `LogTakenOver`.
        """
        runner = self.runners.get(key.text)
        if runner is None or not runner.stream.latest_ns:
            market = self._market
            return StreamProgress(
                0, 0, begin_ns=await begin_ns(market.calendar, self._opening, key, market.clock.now_ns())
            )
        stream, barred_ns = runner.stream, await self._recovery.barred_minutes(runner)
        progress = StreamProgress(stream.latest_ns, stream.time_ns if stream.covered_ns else 0, barred_ns)
        await runner.stream.persisted()
        return progress

    def follows(self, key: StreamKey) -> bool:
        """Return whether a feed currently delivers the events of a stream."""
        return key.text in self._feeds.followed

    def history(self, key: StreamKey) -> str:
        """Return the quality (trades or bars) of the data from which the stream's session is computed."""
        return self.runners[key.text].quality

    def feeds(self) -> set[tuple[int, str]]:
        """Return the owner and name of every feed that has streams."""
        return self.runners.feeds

    def streams(self, owner: int, feed: str) -> list[StreamKey]:
        """Return the streams of a feed."""
        return [runner.key for runner in self.runners.of(owner, feed)]

    async def persisted(self, key: StreamKey) -> None:
        """Wait until every entry of a stream's log would survive the end of this process.

        Raises `LogTakenOver`, also if this process has released the stream.
        """
        runner = self.runners.get(key.text)
        if runner is None:
            raise LogTakenOver(key.text)
        await runner.stream.persisted()

    def streams_of(self, owner: int) -> set[tuple[str, Contract]]:
        """Return feed and contract of each stream of an owner in this process."""
        return {(runner.key.feed, runner.key.contract) for runner in self.runners.of_owner(owner)}

    def retire(self, key: StreamKey) -> None:
        """Remove a stream from the registry, unless a feed delivers it. Its sessions are still stored when they end."""
        if key.text not in self._feeds.followed and self._registry.shows(key):
            self._registry.drop(key)

    def refuse(self, key: StreamKey, code: str) -> None:
        """Record that no feed delivers a stream. code: the reason."""
        runner = self.runners.get(key.text)
        if runner is not None and key.text not in self._feeds.followed and runner.health.refusal != code:
            runner.refused(code, asyncio.get_running_loop().time())

    async def stop(self) -> None:
        """Stop the feeds and save every stream."""
        await self._feeds.stop()
        await self._snapshots.save(list(self.runners.values()))
        await self._snapshots.sync()
        await self._tasks.stop()
        self._snapshots.close()
        self._calls.close()
        self._recovery.close()
        self._session_writer.close()
        self._reference_thread.shutdown()

    async def patiently(self, work: Callable[[], T]) -> T:
        """Run a blocking call to the log or the database on a thread; repeat it while the database is busy."""
        return await self._recovery.patiently(work)

    async def drained(self) -> None:
        """Wait until every alert fired so far is recorded and in the registry."""
        await self.alerts.drained()

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Receive every contract of a feed in a background task, until the feed ends or is attached again.

        Contracts that the feed lists later, after a roll, are included.
        """
        return self._feeds.attach(owner, feed)

    def attach_contract(self, owner: int, feed: Feed, contract: Contract) -> asyncio.Task[None]:
        """Receive one contract in a background task, from a feed that delivers only requested contracts."""
        return self._feeds.attach_contract(owner, feed, contract)

    def counted(self) -> dict[str, int]:
        """Return the number of rows accepted since the start, and of rows rejected, by reason of rejection."""
        total = IntakeCounts()
        for runner in list(self.runners.values()):
            total.add(runner.intake.counts)
        return asdict(total)

    def taken_over(self, key: StreamKey) -> None:
        """Release a stream of this process, because another process has acquired it."""
        self._report(LogEvent.STREAM_TAKEN_OVER, stream=key.text)
        self._streams.drop(key)
        self.on_taken_over(key)

    # -- services of runners

    async def _opening(self, key: StreamKey, session: Session, overnight: tuple[int, int] | None) -> Opening:
        contracts = [runner.key.contract for runner in self.runners.of(key.owner, key.feed)]
        contracts += self.contracts_of(key.owner, key.feed)
        streamed = [contract for contract in contracts if contract.root == key.contract.root]

        def work() -> Opening:
            scope = None if key.owner == OPERATOR else self._market.scope_of(key.owner)
            now_ns = self._market.clock.now_ns()
            return self._completed.opening(scope, key.contract, session, overnight, streamed, now_ns)

        return await self._calls.patiently(work, self._reference_thread)

"""The engine runs the streams of all feeds, and stores alerts, snapshots and completed sessions.

An alert enters the registry only after it is recorded. A feed that fails is reopened with increasing delays, and
abandoned only if the user must act. Everything that may block runs off the event loop. A stream that another process
has acquired is released at once, and nothing more of it is published.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from outcry.access.licences import OPERATOR, Scope
from outcry.base.backoff import Backoff
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import CANCEL_AGAIN_S, end
from outcry.database.errors import StoreBusy
from outcry.live.alert_queue import AlertQueue
from outcry.live.archive import Archive
from outcry.live.history_start import begin_ns
from outcry.live.intake import IntakeCounts
from outcry.live.model import LiveStore, LogTakenOver, Snapshots, StreamKey, TradeLog
from outcry.live.recorder import FanOutNow, Recorder, to_nobody
from outcry.live.recovery import Recovery
from outcry.live.registry import Registry
from outcry.live.runner import Runner, StreamServices
from outcry.live.runners import Runners
from outcry.live.session_writer import SessionWriter
from outcry.live.stream_status import StreamProgress, StreamStatus, status_of
from outcry.market.calendar import Calendar, Session
from outcry.market.instruments import Contract, Universe
from outcry.market.opening import Opening
from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND
from outcry.sessions.completed_sessions import CompletedSessions
from outcry.sessions.store import SqlStore
from outcry.trades.feed import Feed, FeedLost, FeedRefused, LoginRefused

T = TypeVar("T")

TICK_S = 0.25
#: Streams checked before other tasks may run.
_AT_ONCE = 50
DRIFT_S = 5.0
#: After a connection of this length the next backoff starts again at its first pause.
GOOD_SESSION_S = 60.0
#: How often the contracts of a feed are listed again, because a roll adds one.
CONTRACTS_S = 60.0
#: After a feed has been lost this long, sessions that ended are stored without it.
LOST_FOR_GOOD_S = 3600.0


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
    """The instruments, their calendar, the clock and the users.

    scope_of: what a user may see besides their own recordings. fan_out: who receives alerts that are recorded now.
    """

    universe: Universe
    calendar: Calendar
    clock: Clock
    scope_of: Callable[[int], Scope]
    fan_out: FanOutNow = to_nobody


class Engine:
    """Runs the streams of this process on its event loop.

    speedup: divides all pauses, for tests. by: the name of this process in shared logs; see `Recovery`.
    """

    def __init__(
        self, stores: Stores, market: Market, registry: Registry, report: Report = discard, *, speedup: float = 1.0,
        by: str = "",
    ) -> None:  # fmt: skip
        self._stores, self._market, self._registry = stores, market, registry
        self.report, self._speedup = report, speedup
        self._completed = CompletedSessions(stores.sessions, market.universe, market.calendar)
        self._session_writer = SessionWriter(stores.log, stores.archive, speedup, lambda: self.report)
        #: Alerts that streams fired and that are not recorded yet.
        self.alerts = AlertQueue(stores.log)
        services = StreamServices(
            stores.log,
            registry,
            market.clock,
            market.calendar,
            self._opening,
            self._session_writer.store,
            self.alerts,
        )
        #: Contracts of feeds that list them, by owner and name.
        self._brought: dict[tuple[int, str], frozenset[Contract]] = {}
        self.runners = Runners()
        self._feeds: dict[str, asyncio.Task[None]] = {}
        #: Names of the streams that a feed follows.
        self._streams: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._recorder = Recorder(
            stores.log,
            stores.snapshots,
            stores.live,
            registry,
            self.alerts,
            market.clock,
            speedup,
            market.fan_out,
        )
        self._recovery = Recovery(
            stores.log,
            stores.snapshots,
            stores.live,
            market.universe,
            market.calendar,
            services,
            self._recorder,
            by,
        )
        #: Called with a stream that another process has acquired.
        self.on_taken_over: Callable[[StreamKey], object] = lambda _key: None
        #: Separate from the store's thread, so that no alert waits for the references of a session.
        self._reference_thread = ThreadPoolExecutor(1, "outcry-references")

    # -- start and stop

    async def start(self, names_of: Callable[[], Sequence[str]] | None = None) -> None:
        """Recover every stream, or those that `names_of` returns, then start the background tasks."""
        self._recorder.report = self.report
        self._start_task(self._recorder.record(), "alerts")
        for runner in await self._recover_all(await self.patiently(names_of or self._stores.log.keys)):
            await self._recorder.store_pending(runner)
        owners = sorted(self.runners.owners)
        if owners:
            await self._recorder.show_known(owners)
        self._start_task(self._watch_streams(), "time")
        self._start_task(self._recorder.keep_snapshots(self.runners), "snapshots")
        self._start_task(self._recorder.keep_synced(), "sync")

    async def acquire(self, names: Iterable[str]) -> None:
        """Acquire streams of another process by recovering them from their logs.

        Pending sessions are stored in the background, because another process may still be storing them.
        """
        for runner in await self._recover_all(names):
            if runner.stream.pending:
                self._in_background(f"store {runner.name}", partial(self._recorder.store_pending, runner))

    async def _recover_all(self, names: Iterable[str]) -> Sequence[Runner]:
        """Recover streams; they are `connecting` until their feed is back.

        All are recovered before any is used, because the front contract is chosen among them.
        """
        taken: list[Runner] = []
        for text in names:
            try:
                runner = await self._recovered(StreamKey.read(text, self._market.universe))
                taken.append(runner)
                if not runner.stream.own_clock and runner.expired:
                    await self._forget_stream(runner)
            except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one stream must not stop the others
                self.report(LogEvent.STREAM_RECOVERY_FAILED, stream=text, problem=repr(problem))
        return taken

    async def release(self, names: Iterable[str]) -> None:
        """Save and release streams that another process will acquire."""
        named = list(names)
        await end([self._feeds.pop(name) for name in named if name in self._feeds], CANCEL_AGAIN_S)
        runners = [self.runners[name] for name in named if name in self.runners]
        try:
            await self._recorder.save(runners)
        finally:  # even if saving failed, because another process owns it now
            for runner in runners:
                self._drop(runner.key)

    @property
    def here(self) -> set[str]:
        """Names of the streams of this process, including those that are being recovered for a feed."""
        return {*self.runners, *self._feeds}

    def _drop(self, key: StreamKey) -> None:
        """Forget a stream in this process; its log stays."""
        runner = self.runners.pop(key.text)
        if runner is not None:
            runner.stream.close()
        self._registry.drop(key)

    def contracts_of(self, owner: int, feed: str) -> frozenset[Contract]:
        """Return the contracts of a feed, as it last listed them."""
        return self._brought.get((owner, feed), frozenset())

    def status(self, key: StreamKey) -> StreamStatus | None:
        """Return the status of a stream; None if it has not begun."""
        runner = self.runners.get(key.text)
        return status_of(runner) if runner else None

    async def reach(self, key: StreamKey) -> StreamProgress:
        """Return the progress of a stream, after everything up to it is persisted.

        A feed that starts there delivers nothing older. Raises `LogTakenOver`.
        """
        runner = self.runners.get(key.text)
        if runner is None or not runner.stream.latest_ns:
            market = self._market
            return StreamProgress(
                0, 0, begin_ns=await begin_ns(market.calendar, self._opening, key, market.clock.now_ns())
            )
        stream, barred_ns = runner.stream, await self._recovery.barred_minutes(runner)
        reach = StreamProgress(stream.latest_ns, stream.time_ns if stream.covered_ns else 0, barred_ns)
        await runner.persisted()
        return reach

    def follows(self, key: StreamKey) -> bool:
        """Return whether a feed follows a stream."""
        return key.text in self._streams

    def history(self, key: StreamKey) -> str:
        """Return the quality of the data that the stream's session is computed from."""
        return self.runners[key.text].quality

    def feeds(self) -> set[tuple[int, str]]:
        """Return the owner and name of every feed that has streams."""
        return self.runners.feeds

    def streams(self, owner: int, feed: str) -> list[StreamKey]:
        """Return the streams of a feed."""
        return [runner.key for runner in self.runners.of(owner, feed)]

    async def persisted(self, key: StreamKey) -> None:
        """Wait until every entry of a stream survives this process.

        Raises `LogTakenOver`, also if this process has released the stream.
        """
        runner = self.runners.get(key.text)
        if runner is None:
            raise LogTakenOver(key.text)
        await runner.persisted()

    def streams_of(self, owner: int) -> set[tuple[str, Contract]]:
        """Return the feeds and contracts that an owner has streams of in this process."""
        return {(runner.key.feed, runner.key.contract) for runner in self.runners.of_owner(owner)}

    def retire(self, key: StreamKey) -> None:
        """Remove a stream from the registry if no feed follows it. Its sessions are stored when they end."""
        if key.text not in self._streams and self._registry.shows(key):
            self._registry.drop(key)

    def refuse(self, key: StreamKey, code: str) -> None:
        """Set the reason why a stream is not followed."""
        runner = self.runners.get(key.text)
        if runner is not None and key.text not in self._streams and runner.health.refusal != code:
            runner.refused(code, asyncio.get_running_loop().time())

    async def stop(self) -> None:
        """Stop the feeds and save every stream."""
        feeds = list(self._feeds.values())
        for task in feeds:
            task.cancel()
        await asyncio.gather(*feeds, return_exceptions=True)
        await self._recorder.save(list(self.runners.values()))
        await self._recorder.sync()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._recorder.close()
        self._recovery.close()
        self._session_writer.close()
        self._reference_thread.shutdown()

    async def patiently(self, work: Callable[[], T]) -> T:
        """Run a blocking call to the log or the store off the event loop, repeated while the store is busy."""
        return await self._recovery.patiently(work)

    async def drained(self) -> None:
        """Wait until every alert fired so far is recorded and in the registry."""
        await self._recorder.drained()

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Run every contract of a feed, including later rolls, until the feed ends or is attached again."""
        for runner in self.runners.of(owner, feed.name):
            runner.asked()
        return self._attach(f"{owner}/{feed.name}#{id(feed)}", lambda: self._run_feed(owner, feed))

    def attach_contract(self, owner: int, feed: Feed, contract: Contract) -> asyncio.Task[None]:
        """Run one contract of a feed that delivers any contract on request."""
        key = StreamKey(owner, feed.name, contract)
        return self._attach(key.text, lambda: self._run_stream(key, feed))

    def _attach(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        known = self._feeds.pop(name, None)

        async def after() -> None:
            if known is not None:
                known.cancel()
                await asyncio.wait([known])
            await run()

        task = self._feeds[name] = asyncio.get_running_loop().create_task(after(), name=name)
        task.add_done_callback(self._finished)
        return task

    def _start_task(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._feeds.get(task.get_name()) is task:
            del self._feeds[task.get_name()]
        if not task.cancelled() and task.exception() is not None:
            self.report(LogEvent.BACKGROUND_TASK_FAILED, task=task.get_name(), problem=repr(task.exception()))

    def counted(self) -> dict[str, int]:
        """Count the rows taken since the start, and those set aside, by reason."""
        total = IntakeCounts()
        for runner in list(self.runners.values()):
            total.add(runner.intake.counts)
        return asdict(total)

    # -- feeds and streams

    async def _run_feed(self, owner: int, feed: Feed) -> None:
        """Run a stream for each contract of a feed, and look for new contracts regularly."""
        streams: dict[Contract, asyncio.Task[None]] = {}
        try:
            while True:
                contracts = await feed.contracts()
                self._brought[owner, feed.name] = frozenset(contracts)
                for contract in contracts:
                    if contract not in streams or _faulty(streams[contract]):
                        key = StreamKey(owner, feed.name, contract)
                        running = asyncio.get_running_loop().create_task(
                            self._run_stream(key, feed), name=key.text
                        )
                        running.add_done_callback(self._finished)
                        streams[contract] = running
                if all(task.done() for task in streams.values()):
                    return
                under_way = [task for task in streams.values() if not task.done()]
                await asyncio.wait(under_way, timeout=CONTRACTS_S / self._speedup)
        finally:
            try:
                await end(streams.values(), CANCEL_AGAIN_S)
            finally:  # also if cancelled twice
                await feed.close()

    async def _run_stream(self, key: StreamKey, feed: Feed) -> None:
        """Follow a feed for one stream until the feed ends, refuses, or another process acquires the stream."""
        try:
            runner = await self._acquire_patiently(key, feed)
            self._streams.add(key.text)
            await self._follow(runner, feed)
        except LogTakenOver:
            current = self.runners.get(key.text)
            if (
                current is None or current.stream.closed
            ):  # otherwise this process has acquired it again already
                self.taken_over(key)
        finally:
            self._streams.discard(key.text)

    async def _acquire_patiently(self, key: StreamKey, feed: Feed) -> Runner:
        """Return the runner of a stream, retrying while its log cannot be read or written."""
        backoff = Backoff(self._speedup)
        while True:
            try:
                return await self._acquire_for(key, feed)
            except (StoreBusy, OSError) as problem:
                self.report(LogEvent.STREAM_NOT_ACQUIRED, stream=key.text, problem=str(problem))
            await backoff.sleep()

    async def _follow(self, runner: Runner, feed: Feed) -> None:
        """Follow a feed and reopen it after errors, until it ends or refuses. Raises `LogTakenOver`."""
        key, loop = runner.key, asyncio.get_running_loop()
        backoff = Backoff(self._speedup)
        while True:
            began_s = loop.time()
            try:
                await runner.follow(feed)
                if runner.ended:
                    return
            except FeedRefused as problem:
                runner.refused(problem.code, loop.time(), login=isinstance(problem, LoginRefused))
                self.report(LogEvent.FEED_REJECTED, stream=key.text, code=problem.code, problem=str(problem))
                return
            except FeedLost as problem:
                runner.lost_code = problem.code
                self.report(LogEvent.FEED_LOST, stream=key.text, code=problem.code, problem=str(problem))
            except LogTakenOver:
                raise
            except OSError as problem:
                self.report(LogEvent.LOG_STALLED, stream=key.text, problem=str(problem))
            except Exception as problem:  # noqa: BLE001 - a supervisor: an error of one stream must not stop the others
                self.report(LogEvent.STREAM_FAILED, stream=key.text, problem=repr(problem))
                if runner.stream.inconsistent:
                    self._drop(key)
                    runner = await self._acquire_patiently(key, feed)
            if loop.time() - began_s > GOOD_SESSION_S:
                backoff.reset()
            await backoff.sleep()

    def taken_over(self, key: StreamKey) -> None:
        """Release a stream that another process has acquired."""
        self.report(LogEvent.STREAM_TAKEN_OVER, stream=key.text)
        self._drop(key)
        self.on_taken_over(key)

    async def _acquire_for(self, key: StreamKey, feed: Feed) -> Runner:
        """Return the runner of a stream. A recording that is played again starts with an empty stream."""
        runner = self.runners.get(key.text)
        if runner is None:
            runner = self._known(await self._recovery.runner_or_empty(key, feed))
        if runner.stream.position and runner.stream.own_clock and runner.stream.run != feed.run:
            self._drop(key)
            await self._recovery.forget(key)
            await self._recovery.forget_alerts(key)
            runner = await self._recovered(key)
        runner.begin(feed)
        runner.barred_ns = await self._recovery.barred_minutes(runner)
        self._registry.put(runner.channel)  # the stream may have been retired
        return runner

    async def _recovered(self, key: StreamKey) -> Runner:
        return self._known(await self._recovery.runner(key))

    def _known(self, runner: Runner) -> Runner:
        self.runners.put(runner)
        self._registry.put(runner.channel)
        runner.update_availability(asyncio.get_running_loop().time())
        return runner

    # -- services of runners

    async def _opening(self, key: StreamKey, session: Session, overnight: tuple[int, int] | None) -> Opening:
        contracts = [runner.key.contract for runner in self.runners.of(key.owner, key.feed)]
        contracts += self.contracts_of(key.owner, key.feed)
        streamed = [contract for contract in contracts if contract.root == key.contract.root]
        return await self._recorder.patiently(
            lambda: self._opening_of(key, session, overnight, streamed),
            self._reference_thread,
        )

    def _opening_of(
        self,
        key: StreamKey,
        session: Session,
        overnight: tuple[int, int] | None,
        streamed: Sequence[Contract],
    ) -> Opening:
        market = self._market
        scope = None if key.owner == OPERATOR else market.scope_of(key.owner)
        return self._completed.opening(
            scope, key.contract, session, overnight, streamed, market.clock.now_ns()
        )

    def _is_abandoned(self, runner: Runner, now_s: float) -> bool:
        """Return whether no feed follows a stream, or only a feed that has been lost for an hour.

        Completed sessions are then stored without waiting for the feed.
        """
        if runner.stream.own_clock:
            return False
        if runner.name in self._streams:
            return runner.lost_for_s(now_s) > LOST_FOR_GOOD_S
        waited_ns = (
            self._market.clock.now_ns() - runner.since_ns
        )  # after a start its feed may still be connecting
        return runner.health.heard_s > 0 or waited_ns > LOST_FOR_GOOD_S * NANOS_PER_SECOND

    def _in_background(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a task in the background, unless one of that name is running."""
        if all(task.get_name() != name for task in self._tasks):
            self._start_task(work(), name)

    def _is_over(self, runner: Runner) -> bool:
        """Return whether a stream was retired and everything in it is stored."""
        stream = runner.stream
        shown = self._registry.shows(runner.key) or runner.name in self._streams
        return not (shown or stream.own_clock or stream.days or stream.pending)

    async def _forget_stream(self, runner: Runner) -> None:
        """Forget a stream that is over, with its log. It starts empty if a feed delivers its contract again."""
        self._drop(runner.key)
        await self._recovery.forget(runner.key)

    # -- background tasks

    async def _watch_streams(self) -> None:
        """Detect stalled links, markets and logs, ended sessions and clock drift. Never ends."""
        checked_s = 0.0
        while True:
            now_s = asyncio.get_running_loop().time()
            check_drift = now_s - checked_s >= DRIFT_S / self._speedup
            checked_s = now_s if check_drift else checked_s
            for count, runner in enumerate(list(self.runners.values()), 1):
                if not count % _AT_ONCE:
                    await asyncio.sleep(0)
                if self.runners.get(runner.name) is not runner:
                    continue  # released meanwhile
                runner.update_availability(now_s)
                if (problem := runner.log_trouble()) is not None:
                    self.report(
                        LogEvent.LOG_STALLED if problem else LogEvent.LOG_RESUMED,
                        stream=runner.name,
                        problem=problem,
                    )
                if runner.stream.deadline_ns <= runner.market_ns and self._is_abandoned(runner, now_s):
                    self._in_background(f"settle {runner.name}", runner.settle)
                elif runner.stream.amended and not runner.stream.history_loaded:
                    self._in_background(f"look back {runner.name}", runner.stream.load_history)
                elif self._is_over(runner):
                    self._in_background(f"forget {runner.name}", partial(self._forget_stream, runner))
                if check_drift and (drift_ns := runner.drifted()) is not None:
                    self.report(LogEvent.CLOCK_DRIFT, stream=runner.name, drift_ms=drift_ns // NANOS_PER_MS)
            await asyncio.sleep(TICK_S)


def _faulty(stream: asyncio.Task[None]) -> bool:
    """Return whether a stream's task failed by a programming error, so that it is started again."""
    return stream.done() and not stream.cancelled() and stream.exception() is not None

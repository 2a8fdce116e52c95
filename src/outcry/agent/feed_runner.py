"""Runs feeds, writes their events to a spool (a queue on disk), and sends the spool to a service.

The runner reopens a failed feed with growing pauses. It ends a feed only if the user must act, and then other feeds
continue.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from outcry.agent.contract_follower import ContractFollower
from outcry.agent.spool import Spool
from outcry.agent.spool_sender import PushTransport, SpoolSender
from outcry.agent.spooled_queue import SpooledQueue
from outcry.base.backoff import Backoff
from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import BackgroundTasks, end, repeat
from outcry.live.feed_supervisor import FeedSupervisor, follow_until_ended
from outcry.live.model import LogDamaged, StreamKey
from outcry.live.stream_status import StreamProgress
from outcry.market.calendar import Calendar
from outcry.market.instruments import Contract, Universe
from outcry.trades.contract_lifetime import lifetime_ns
from outcry.trades.feed import Backfill, Feed, FeedCaps, FeedLost, FeedRefused, LoginRefused, Resume

SYNC_S = 1.0
#: The spool bridges interruptions that are longer than the feed's own history.
_REACH_NS = 2**62

#: Returns the service's position in a stream, or None if it has no data or is not asked. May take long.
ProgressLookup = Callable[[StreamKey, FeedCaps], Awaitable[StreamProgress | None]]


@dataclass(frozen=True, slots=True)
class MarketContext:
    """Instruments, trading calendar and clock."""

    universe: Universe
    calendar: Calendar
    clock: Clock


async def _unknown_progress(_key: StreamKey, _caps: FeedCaps) -> StreamProgress | None:
    """Return None: how far the service has data of a stream is unknown."""


class FeedRunner:
    """Runs feeds of one or more owners and sends their events to a service, on one event loop.

    report: writes a log event, called as `(event, **details)`. speedup: divides all pauses, for tests. progress_of:
    returns how far the service has data of a stream, None if that is unknown.
    """

    def __init__(
        self, spool: Spool, transport: PushTransport, market: MarketContext, report: Report, speedup: float = 1.0,
        progress_of: ProgressLookup = _unknown_progress,
    ) -> None:  # fmt: skip
        self.spool, self.report = spool, report
        self._market, self._speedup, self._progress_of = market, speedup, progress_of
        self.sender = SpoolSender(transport, self._log_service, speedup)
        self._supervisor = FeedSupervisor(self._follow_contract, report, speedup)
        self.followers: dict[StreamKey, ContractFollower] = {}
        self.disk_problem = ""
        self._added: dict[StreamKey, asyncio.Event] = {}
        self._send_tasks = BackgroundTasks(report)
        self._sending: dict[StreamKey, asyncio.Task[None]] = {}

    # -- feeds

    async def follow(self, owner: int, name: str, feed: Feed) -> None:
        """Receive each contract of a feed until all have ended permanently, or until cancelled.

        At the end the feed is closed; the events in the spool are still sent.
        """
        await self._supervisor.follow(owner, name, feed)

    def contracts_of(self, owner: int, feed: str) -> frozenset[Contract]:
        """Return the contracts of a feed, as the feed last listed them."""
        return self._supervisor.contracts_of(owner, feed)

    async def _follow_contract(self, key: StreamKey, feed: Feed) -> None:
        """Receive the events of one contract until its feed ends or refuses the contract."""
        backoff = Backoff(self._speedup)
        progress = await self._progress_of(key, feed.caps)
        while (queue := await self.open_queue(key, _spooled_caps(feed.caps))) is None:
            await backoff.sleep()
        follower = self.followers[key] = ContractFollower(
            feed, queue, self._market.calendar, self._market.clock, lifetime_ns(self._market.universe, key.contract),
            progress, added=self._added[key].set, changed=lambda: self.log_status(key, follower),
        )  # fmt: skip
        await follow_until_ended(_FollowedQueue(self, key, follower), self._speedup)

    def report_status(self, follower: ContractFollower, phase: str, code: str, text: str = "") -> None:
        """Record why a contract receives no data, and report it to the service."""
        try:
            follower.report_status(phase, code, text)
        except OSError as problem:  # the spool is full, so the status is only shown here
            self.disk_problem = str(problem)

    # -- queues

    async def open_queue(self, key: StreamKey, caps: FeedCaps) -> SpooledQueue | None:
        """Return the queue of a stream and start sending it; None if its files are unreadable."""
        try:
            queue = await asyncio.to_thread(self.spool.queue, key, caps)
        except (LogDamaged, OSError) as problem:
            self.report(LogEvent.SPOOL_UNREADABLE, **self.log_fields(key), problem=str(problem))
            return None
        self._added[key] = asyncio.Event()
        self._sending[key] = self._send_tasks.start(
            f"send {key.text}", self.sender.send_continuously(key, queue, self._added[key])
        )
        return queue

    async def flush(self, keys: Collection[StreamKey], patience_s: float) -> None:
        """Wait until these queues are sent, at most `patience_s` seconds and only while the service responds."""
        deadline_s = asyncio.get_running_loop().time() + patience_s
        queues = {key: self.spool.queues[key] for key in keys if key in self.spool.queues}
        while any(queue.waiting and self.sender.is_answering(key) for key, queue in queues.items()):
            if asyncio.get_running_loop().time() > deadline_s:
                return
            await asyncio.sleep(0.02)

    async def delete_queue(self, key: StreamKey) -> None:
        """Stop sending the queue of a stream, and delete it."""
        self.followers.pop(key, None)
        self._added.pop(key, None)
        self.sender.forget(key)
        if (sending := self._sending.pop(key, None)) is not None:
            await end([sending])
        try:
            await asyncio.to_thread(self.spool.forget, key)
        except OSError as problem:
            self.report(LogEvent.SPOOL_NOT_REMOVED, **self.log_fields(key), problem=str(problem))

    async def close(self) -> None:
        """Stop sending; the spool stays on disk."""
        await self._send_tasks.stop()
        self.sender.close()
        await asyncio.to_thread(self._sync)

    async def sync_regularly(self) -> None:
        """Flush the spool to the disk every second and enforce its size limit. Never ends."""

        def failed(problem: Exception) -> None:
            self.report(LogEvent.SPOOL_FAILED, problem=repr(problem))

        await repeat(lambda: asyncio.to_thread(self._sync), SYNC_S / self._speedup, failed)

    def _sync(self) -> None:
        try:
            gone = self.spool.make_room()
            self.spool.sync()
        except OSError as problem:
            if not self.disk_problem:
                self.report(LogEvent.SPOOL_UNWRITABLE, problem=str(problem))
            self.disk_problem = str(problem)
            return
        if gone:
            self.report(LogEvent.SPOOL_TRIMMED, batches=gone)
        if self.disk_problem and not any(queue.unsaved for queue in list(self.spool.queues.values())):
            self.report(LogEvent.SPOOL_WRITABLE)
            self.disk_problem = ""

    # -- log events

    def log_fields(self, key: StreamKey) -> dict[str, str]:
        """Return the fields that name a stream in log events."""
        return {"feed": key.feed, "contract": key.contract.key}

    def log_status(self, key: StreamKey, follower: ContractFollower) -> None:
        """Log the new status of a contract's feed."""
        status = follower.status
        details = {"code": status.code, "problem": status.text} if status.code else {}
        self.report(LogEvent.FEED_STATUS_CHANGED, **self.log_fields(key), phase=status.phase, **details)

    def _log_service(self) -> None:
        service = self.sender.service
        if service.code == "ok":
            self.report(LogEvent.PUSH_ACCEPTED)
        else:
            self.report(LogEvent.PUSH_REJECTED, code=service.code, problem=service.text)


class _FollowedQueue:
    """The queue of one contract together with the feed that fills it. Implements `FollowedStream`."""

    def __init__(self, runner: FeedRunner, key: StreamKey, follower: ContractFollower) -> None:
        self._runner, self._key, self._follower = runner, key, follower

    async def follow(self) -> bool:
        return await self._follower.follow()

    def refused(self, problem: FeedRefused) -> None:
        phase = "needs_sign_in" if isinstance(problem, LoginRefused) else "refused"
        self._runner.report_status(self._follower, phase, problem.code, str(problem))

    def lost(self, problem: FeedLost) -> None:
        self._runner.report_status(self._follower, "lost", problem.code, str(problem))

    def closed(self) -> None:
        self._runner.report_status(self._follower, "lost", "disconnected")

    def not_stored(self, problem: OSError) -> None:
        self._runner.disk_problem = str(problem)
        self._runner.report_status(self._follower, "lost", "no_room", str(problem))

    async def failed(self, problem: Exception) -> None:
        self._runner.report(
            LogEvent.STREAM_FAILED, **self._runner.log_fields(self._key), problem=repr(problem)
        )
        self._runner.report_status(self._follower, "lost", "fault")


def _spooled_caps(caps: FeedCaps) -> FeedCaps:
    """Return a feed's capabilities as the service should know them: the spool can send every event again."""
    backfill = Backfill.TICKS if caps.backfill is Backfill.NONE else caps.backfill
    return FeedCaps(
        caps.resolution_ns, caps.has_id, caps.has_side, backfill, _REACH_NS, Resume.BY_TIME,
        caps.has_volume_counter, caps.lag_ns, caps.own_clock, caps.invented,
    )  # fmt: skip

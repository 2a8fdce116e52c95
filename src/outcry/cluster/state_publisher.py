"""Publish the states of the live streams that this process computes to every process that answers requests.

The publisher waits until the log has stored the trades of a state, so no published state is lost with this process. It
publishes a stream that changes up to 20 times a second (less often if there are many), and a change of a stream's
status at once. Heartbeats name the streams whose newest state could not be published, so no other process presents an
old state as current.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

import msgspec

from outcry.base.log_events import Report, discard
from outcry.base.tasks import BackgroundTasks, is_set_within, repeat
from outcry.cluster.calls import BusDown
from outcry.cluster.latest import RETENTION_S, Latest
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.latest import JetStreamLatest
from outcry.cluster.wire_state import ALIVE, ProcessHeartbeat, state_of
from outcry.database.errors import StoreBusy
from outcry.live import entries
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.live.registry import Channel, Registry
from outcry.live.runner import Runner
from outcry.live.trade_log import TradeLog
from outcry.market.units import NANOS_PER_SECOND

#: The name of the notification that alerts were recorded.
ALERTS = "alerts"
HEARTBEAT_INTERVAL_S = 1.0
#: Every state is published again at this interval, because NATS keeps states in memory and may lose them.
AGAIN_S = RETENTION_S / 10
_SHORTEST_PAUSE_S = 0.05
#: Ratio of the pause to the round before it: rounds take a fifth of the time, and publishing about as much.
_PAUSES_A_LOOK = 4
_RETRY_S = 0.25
#: Heartbeats name a stream whose change is unpublished for this long (s). Above this number no heartbeat is sent.
_LATE_S, _MOST_LATE = 2.0, 256
#: Interval at which a change of only a feed's own clock is published.
_CLOCK_S = 1.0
#: Number of streams examined before other tasks get a turn.
_TURN = 500


@dataclass(slots=True, eq=False)
class _PublishedStream:
    """What was last published of a stream.

    channel, version: the published channel (registry entry) and its version; None: not published yet. at_s: time of
    publication. first, count: the order of the published state, which says which of two states is newer. since_s: time
    of the first unpublished change, 0 without one. busy: a state is being published. dropped: the stream has left the
    registry and its removal is not published yet; gone: the removal is published.
    """

    key: StreamKey
    channel: Channel | None = None
    version: int = 0
    market_ns: int = 0
    at_s: float = 0.0
    first: int = 0
    count: int = 0
    since_s: float = 0.0
    busy: bool = False
    dropped: bool = False
    removed: bool = False


@dataclass(slots=True, eq=False)
class _PendingState:
    """A state that is to be published, with its channel (live stream), version and market time."""

    shown: _PublishedStream
    state: Latest
    channel: Channel | None = None
    version: int = 0
    market_ns: int = 0


class StatePublisher:
    """Publish the states of the live streams that this process computes, on the event loop of their engine.

    Only streams of acquired partitions are published; see `take_up` and `let_go`.

    name: the name that other processes know this process by. lost: called with a stream that now belongs to another
    process, according to the log.
    """

    def __init__(
        self, registry: Registry, runners: Mapping[str, Runner], log: TradeLog, latest: JetStreamLatest,
        calls: NatsCalls, name: str, lost: Callable[[str], object] = lambda _key: None, report: Report = discard,
    ) -> None:  # fmt: skip
        self._registry, self._runners, self._log = registry, runners, log
        self._latest, self._calls, self._name, self._lost = latest, calls, name, lost
        self._partitions: set[int] = set()
        self._shown: dict[str, _PublishedStream] = {}
        self._hurried: set[str] = set()
        self._ready: list[_PendingState] = []
        self._hurry, self._some, self._alerted = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._pending = BackgroundTasks(report)
        registry.on_channels(self._moved)
        registry.on_alerts(self._alerted.set)

    # -- lifecycle

    async def run(self) -> None:
        """Publish changed states and heartbeats until cancelled."""
        async with self._pending, asyncio.TaskGroup() as group:
            heartbeats = repeat(self._send_heartbeat, HEARTBEAT_INTERVAL_S)
            for work in (self._look(), self._put(), heartbeats, self._publish_alerts()):
                group.create_task(work)

    async def take_up(self, partition: int) -> None:
        """Publish the streams of a partition from now on. Call it before the streams enter the registry."""
        self._partitions.add(partition)
        await self._send_heartbeat()

    def let_go(self, partition: int) -> None:
        """Stop publishing a partition that another process will own.

        Call it before the partition's streams leave the registry. Their removal is then not published, because the next
        owner publishes them.
        """
        self._partitions.discard(partition)
        remaining = {text: one for text, one in self._shown.items() if partition_of_stream(text) != partition}
        self._shown = remaining

    # -- changes

    def _moved(self, key: StreamKey) -> None:
        """Note that a channel (registry entry of a stream) was added or removed, or that its status changed."""
        if partition_of_stream(key.text) not in self._partitions:
            return
        shown = self._shown.get(key.text)
        if shown is None:
            shown = self._shown[key.text] = _PublishedStream(key)
        if (runner := self._runners.get(key.text)) is not None:
            shown.first = max(shown.first, runner.channel.acquired_at)
        shown.removed = False
        shown.dropped = shown.dropped or not self._registry.shows(key)
        self._hurried.add(key.text)
        self._hurry.set()

    async def _look(self) -> None:
        """Repeatedly look for changed streams and capture their state; a new status is captured at once."""
        loop = asyncio.get_running_loop()
        next_s = loop.time()
        while True:
            await is_set_within(self._hurry, next_s - loop.time())
            if loop.time() < next_s:
                await self._hurry_on()
            else:
                spent_s = await self._look_at_all()
                next_s = loop.time() + max(_SHORTEST_PAUSE_S, _PAUSES_A_LOOK * spent_s)

    async def _hurry_on(self) -> None:
        """Capture the state of the streams whose status changed, to publish it at once.

        A stream of which an earlier state is still being published follows afterwards.
        """
        self._hurry.clear()
        for text in list(self._hurried):
            shown = self._shown.get(text)
            if shown is None or not shown.busy:
                self._hurried.discard(text)
                if self._take_if_moved(text):
                    await asyncio.sleep(0)

    async def _look_at_all(self) -> float:
        """Capture every stream that changed; return the time (s) that this took, without the time of other tasks."""
        spent_s, began_s = 0.0, perf_counter()
        for at, text in enumerate(list(self._shown), 1):
            if self._take_if_moved(text) or at % _TURN == 0:
                spent_s += perf_counter() - began_s
                await asyncio.sleep(0)
                await self._hurry_on()
                began_s = perf_counter()
        return spent_s + perf_counter() - began_s

    def _take_if_moved(self, text: str) -> bool:
        shown, now_s = self._shown.get(text), asyncio.get_running_loop().time()
        if shown is None or shown.busy:
            return False
        runner = self._runners.get(text) if self._registry.shows(shown.key) else None
        if runner is not None and not shown.dropped:
            return self._is_due(shown, runner, now_s) and self._take(shown, runner, now_s)
        if not shown.removed:
            self._send(_PendingState(shown, self._ordered(shown, b"")))
        elif now_s - shown.at_s > RETENTION_S:  # its last state has expired on the bus
            del self._shown[text]
        return False

    def _is_due(self, shown: _PublishedStream, runner: Runner, now_s: float) -> bool:
        channel, ago_s = runner.channel, now_s - shown.at_s
        if channel is not shown.channel or channel.version != shown.version or ago_s >= AGAIN_S:
            return True
        moved_ns = channel.availability.market_ns - shown.market_ns
        return runner.stream.own_clock and ago_s >= _CLOCK_S and moved_ns >= NANOS_PER_SECOND

    def _take(self, shown: _PublishedStream, runner: Runner, now_s: float) -> bool:
        """Capture a stream's state, and publish it once the log has stored its trades.

        Return False if the state is unavailable now.
        """
        shown.since_s = shown.since_s or now_s
        channel = runner.channel
        version = channel.version  # read first: a change during the capture is captured again
        if runner.stream.amended and not runner.stream.history_loaded:  # the engine is about to load it
            return False
        try:
            capture = runner.stream.capture()
        except (OSError, StoreBusy):  # the log has moved on and is unavailable
            return False
        body = state_of(channel, capture, self._name, own_clock=runner.stream.own_clock)
        shown.first = max(shown.first, channel.acquired_at)
        taken = _PendingState(
            shown, self._ordered(shown, body), channel, version, channel.availability.market_ns
        )
        keeping = self._log.pending_write(shown.key.text)
        if keeping is None:
            self._send(taken)
        else:
            shown.busy = True
            self._pending.start("state to publish", self._when_stored(taken, keeping))
        return True

    @staticmethod
    def _ordered(shown: _PublishedStream, body: bytes) -> Latest:
        shown.count += 1
        return Latest(shown.key.text, (shown.first, shown.count), body)

    async def _when_stored(self, taken: _PendingState, keeping: Awaitable[None]) -> None:
        try:
            await keeping
        except LogTakenOver:  # the writer of these entries receives the same error
            self._free(taken.shown)
        else:
            self._send(taken)

    def _send(self, taken: _PendingState) -> None:
        taken.shown.busy = True
        self._ready.append(taken)
        self._some.set()

    # -- publishing

    async def _put(self) -> None:
        while True:
            await self._some.wait()
            self._some.clear()
            ready, self._ready = self._ready, []
            ready = [one for one in ready if self._shown.get(one.shown.key.text) is one.shown]
            try:
                refused = await self._latest.put([one.state for one in ready])
            except BusDown:
                await asyncio.sleep(_RETRY_S)
                for one in ready:
                    self._free(one.shown)
                continue
            for one in ready:
                if (there := refused.get(one.state.key)) is not None:
                    self._pending.start("state refused", self._doubt(one.shown, there[0]))
                else:
                    self._was_put(one)
                    self._free(one.shown)

    def _was_put(self, one: _PendingState) -> None:
        shown = one.shown
        shown.at_s, shown.since_s = asyncio.get_running_loop().time(), 0.0
        shown.channel, shown.version, shown.market_ns = one.channel, one.version, one.market_ns
        if not one.state.body:
            shown.dropped, shown.removed = False, not self._registry.shows(shown.key)

    async def _doubt(self, shown: _PublishedStream, there: int) -> None:
        """Check whether this process still owns a stream, because another process has published a newer state of it.

        The check appends an entry to the stream's log, which succeeds only for the owner. The next state of
        this process then counts as the newer one. there: log position of the other process's state.
        """
        text = shown.key.text
        runner = self._runners.get(text)
        try:
            if runner is not None and runner.stream.position:
                position = runner.stream.position
                runner.log(entries.Taken(self._name))
                await runner.stream.persisted()
                runner.channel.acquired_at, shown.first = position, max(position, there + 1)
            elif runner is None:  # released in the meantime
                self._shown.pop(text, None)
        except LogTakenOver:
            self._shown.pop(text, None)
            self._lost(text)
        except OSError:  # the next refusal retries
            pass
        finally:
            self._free(shown)

    def _free(self, shown: _PublishedStream) -> None:
        shown.busy = False
        if shown.key.text in self._hurried:
            self._hurry.set()

    # -- heartbeats and notifications

    async def _send_heartbeat(self) -> None:
        now_s = asyncio.get_running_loop().time()
        late = [
            text for text, shown in self._shown.items() if shown.since_s and now_s - shown.since_s > _LATE_S
        ]
        if len(late) <= _MOST_LATE:
            alive = ProcessHeartbeat(self._name, sorted(self._partitions), late)
            await self._notify(ALIVE, msgspec.msgpack.encode(alive))

    async def _publish_alerts(self) -> None:
        """Notify the other processes of recorded alerts, so that they read the alerts from the database at once."""
        while True:
            await self._alerted.wait()
            self._alerted.clear()
            await self._notify(ALERTS, b"")

    async def _notify(self, name: str, body: bytes) -> None:
        with suppress(BusDown):
            await self._calls.tell(name, body)

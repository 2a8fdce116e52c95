"""Copy the states of live streams, which other processes publish, to a process that answers requests.

A stream's channel (its entry in the registry of live streams) is live only while the process that owns the stream sends
heartbeats. An older state never replaces a newer one. The replica stores a state as received, and decodes it only when
a request reads it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from time import monotonic

import msgspec

from outcry.base.clock import Clock
from outcry.base.log_events import LogEvent, Report, discard
from outcry.base.tasks import repeat
from outcry.cluster.calls import BusDown
from outcry.cluster.latest import RETENTION_S, Latest, Order
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.latest import JetStreamLatest
from outcry.cluster.wire_state import ALIVE, ProcessHeartbeat, State, read_state
from outcry.live.model import Frame, StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.live.registry import Channel, Registry
from outcry.market.live_session import LiveView

#: States of a process without a heartbeat for this long (s) become invalid.
SILENT_S = 3.0
_TICK_S = 0.25
#: Number of ticks in which every channel's market clock is set once.
_TICKS_A_ROUND = 20
_RETRY_S = 0.25
#: States processed before other tasks run; states per second, about a tenth of a CPU; and the largest burst.
#: Beyond that rate only the newest state of each stream is processed.
_TURN, _A_SECOND, _AT_ONCE = 50, 2000, 200

#: Reads the log of the stream with a name (`StreamKey.text`) from a position on.
ReadStreamLog = Callable[[str, int], Iterator[Frame]]
#: A process and one partition that it owns: a heartbeat covers several.
_Source = tuple[str, int]


class _ReplicatedStream:
    """The latest published state of a stream, and when this process received that state (monotonic clock)."""

    __slots__ = ("at_s", "channel", "order", "state")

    def __init__(self, key: StreamKey, order: Order, state: State, read_log: ReadStreamLog | None) -> None:
        self.order, self.state, self.at_s = order, state, monotonic()
        self.channel = Channel(
            key, simulated=state.invented, peek=self._view,
            read_log=partial(read_log, key.text) if read_log else None,
        )  # fmt: skip
        self.channel.feed_code = state.feed_code

    def _view(self) -> LiveView | None:
        return self.state.view()

    @property
    def source(self) -> _Source:
        return self.state.by, partition_of_stream(self.channel.key.text)


class StateReplica:
    """Fill the registry of live streams with the states that other processes publish, on one event loop.

    key_of: parses `StreamKey.text`; raises `LookupError` or `ValueError`. read_log: reads a stream's log, for requests
    that need its trades.
    """

    def __init__(
        self, registry: Registry, latest: JetStreamLatest, calls: NatsCalls, key_of: Callable[[str], StreamKey],
        clock: Clock, report: Report = discard, read_log: ReadStreamLog | None = None,
    ) -> None:  # fmt: skip
        self._read_log = read_log
        self._registry, self._latest, self._calls = registry, latest, calls
        self._key_of, self._clock, self._report = key_of, clock, report
        self._known: dict[str, _ReplicatedStream] = {}
        self._sources: dict[_Source, dict[str, _ReplicatedStream]] = {}
        #: Sources with a valid heartbeat, and its time by the monotonic clock.
        self._heartbeat_at_s: dict[_Source, float] = {}
        #: Streams that each process reports as out of date.
        self._late: dict[str, frozenset[str]] = {}
        self._unreadable: set[str] = set()
        #: Sources that this round of `_keep_time` has not reached.
        self._unchecked: list[_Source] = []
        #: Whether every state has been received since NATS was last unavailable.
        self.complete = False

    async def run(self) -> None:
        """Receive states until cancelled. Then mark all streams as not live."""
        try:
            async with self._calls.listen(ALIVE, self._hear), asyncio.TaskGroup() as group:
                group.create_task(repeat(self._watch, _RETRY_S))
                group.create_task(repeat(self._keep_time, _TICK_S))
        finally:
            self.complete = False
            self._heartbeat_at_s.clear()
            for reflected in self._known.values():
                self._judge(reflected)

    # -- states

    async def _watch(self) -> None:
        """Receive and process states until NATS is unavailable."""
        with suppress(BusDown):
            async with aclosing(self._latest.watch()) as states:
                turn, until_s = 0, 0.0
                async for latest in states:
                    self._take(latest)
                    turn = (turn + 1) % _TURN
                    if not turn:
                        now_s = monotonic()
                        until_s = max(until_s, now_s - _AT_ONCE / _A_SECOND) + _TURN / _A_SECOND
                        await asyncio.sleep(until_s - now_s if self.complete else 0)
        self.complete = False

    def _take(self, latest: Latest | None) -> None:
        if latest is None:
            self.complete = True
            now_s = monotonic()
            # states deleted while the bus was unavailable expire from now on
            for reflected in self._known.values():
                reflected.at_s = now_s
            return
        known = self._known.get(latest.key)
        if known is not None and latest.order <= known.order:
            return
        if not latest.body:
            self._forget(latest.key)
            return
        try:
            state = read_state(latest.body)
            key = known.channel.key if known else self._key_of(latest.key)
        except (ValueError, LookupError) as problem:
            self._handle_unreadable(latest, problem)
            return
        if known is None:
            self._show(key, latest.order, state)
        else:
            self._change(latest.key, known, latest.order, state)

    def _handle_unreadable(self, latest: Latest, problem: Exception) -> None:
        """Mark a stream's stored state invalid, because its newer state is in a format this version cannot read.

        This happens during a rolling upgrade, when the stream's owner runs a newer version.
        """
        if latest.key not in self._unreadable:
            self._unreadable.add(latest.key)
            self._report(LogEvent.STREAM_STATE_UNREADABLE, stream=latest.key, problem=repr(problem))
        if (known := self._known.get(latest.key)) is not None:
            self._change(latest.key, known, latest.order, msgspec.structs.replace(known.state, by=""))

    def _show(self, key: StreamKey, order: Order, state: State) -> None:
        reflected = self._known[key.text] = _ReplicatedStream(key, order, state, self._read_log)
        self._sources.setdefault(reflected.source, {})[key.text] = reflected
        self._registry.put(reflected.channel)
        self._judge(reflected)

    def _change(self, text: str, reflected: _ReplicatedStream, order: Order, state: State) -> None:
        before, channel = reflected.source, reflected.channel
        reflected.order, reflected.state, reflected.at_s = order, state, monotonic()
        channel.simulated, channel.feed_code = state.invented, state.feed_code
        channel.version += 1
        if reflected.source != before:
            self._leave(before, text)
            self._sources.setdefault(reflected.source, {})[text] = reflected
        self._judge(reflected)

    def _forget(self, text: str) -> None:
        known = self._known.pop(text, None)
        if known is not None:
            self._leave(known.source, text)
            self._registry.drop(known.channel.key)

    def _leave(self, source: _Source, text: str) -> None:
        streams = self._sources[source]
        del streams[text]
        if not streams:
            del self._sources[source]

    # -- heartbeats

    def _hear(self, body: bytes) -> None:
        try:
            alive = msgspec.msgpack.decode(body, type=ProcessHeartbeat)
        except msgspec.MsgspecError:  # another edition, whose states are unreadable too
            return
        now_s = monotonic()
        for partition in alive.partitions:
            source = (alive.by, partition)
            known, self._heartbeat_at_s[source] = source in self._heartbeat_at_s, now_s
            if not known:
                self._judge_all(source)
        late, before = frozenset(alive.but), self._late.pop(alive.by, frozenset())
        if late:
            self._late[alive.by] = late
        for text in late ^ before:
            if (reflected := self._known.get(text)) is not None:
                self._judge(reflected)

    async def _keep_time(self) -> None:
        """Regularly detect missing heartbeats, set the market time of streams, and remove streams without updates."""
        now_s = monotonic()
        for source in [one for one, at_s in self._heartbeat_at_s.items() if now_s - at_s > SILENT_S]:
            del self._heartbeat_at_s[source]
            self._judge_all(source)
        self._late = {
            by: late for by, late in self._late.items() if any(by == s[0] for s in self._heartbeat_at_s)
        }
        rest = self._unchecked = self._unchecked or [*self._sources]
        for _ in range(min(len(rest), len(self._sources) // _TICKS_A_ROUND + 1)):
            source = rest.pop()
            self._let_go(source, now_s)
            self._judge_all(source)

    def _let_go(self, source: _Source, now_s: float) -> None:
        if self.complete:
            for text, reflected in [*self._sources.get(source, {}).items()]:
                if now_s - reflected.at_s > RETENTION_S:
                    self._forget(text)

    def _judge_all(self, source: _Source) -> None:
        for reflected in [*self._sources.get(source, {}).values()]:
            self._judge(reflected)

    def _judge(self, reflected: _ReplicatedStream) -> None:
        """Show a stream's availability as published while its owner confirms it, otherwise as `stale_link`.

        An owner confirms a stream by each heartbeat that does not list the stream among its exceptions.
        """
        availability, source, text = (
            reflected.state.availability,
            reflected.source,
            reflected.channel.key.text,
        )
        if source not in self._heartbeat_at_s or text in self._late.get(source[0], ()):
            if availability.listed:
                availability = replace(availability, live=False, reason="stale_link")
        elif not reflected.state.own_clock:
            availability = replace(availability, market_ns=self._clock.now_ns())
        self._registry.set_availability(reflected.channel, availability)

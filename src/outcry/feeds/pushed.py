"""Feeds that other processes push into this one: `PushedFeeds` takes pushes in, a `PushedFeed` yields their events.

Rules kept: an event is acknowledged only once its reader asks for the next one, so what a pusher was told is taken has
been journalled; at most one push of a contract waits, so a pusher is never faster than the service; a contract of a
feed is fed by one run at a time. Pushes may come on another thread, and another event loop, than they are read on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from threading import Lock
from time import monotonic

from outcry.access.licences import OPERATOR
from outcry.base.errors import StoreUnavailable
from outcry.feeds.push_queue import CLOSED, STOPPING, PushQueue
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.partitions import partition_of_stream
from outcry.live.quotas import Quotas
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import Bars, CaughtUp, Cursor, Ended, Event, FeedCaps, FeedRefused, Trades
from outcry.trades.push_format import WAIT_S, Origin, Push, Usage, is_feed_name, refused

#: Contracts an owner may have pushed at a time; more than the universe has front and next months.
MAX_PUSH_QUEUES = 256
#: Streams a user may have at all: each has its log and its answers, and is kept when nothing is pushed any more.
MAX_STREAMS = 64
SIMULATOR = "simulator"

Kept = Callable[[StreamKey], Awaitable[None]]
StreamsOf = Callable[[int], Collection[tuple[str, Contract]]]
ReservedOf = Callable[[int], Collection[str]]
FeedListener = Callable[[int, "PushedFeed", Contract], object]


class PushedFeed:
    """One run of a pushed feed, with all its contracts. Implements `Feed`."""

    def __init__(self, name: str, caps: FeedCaps, run: str) -> None:
        self.name, self.caps, self.run = name, caps, run
        self.inlets: dict[Contract, PushQueue] = {}

    async def contracts(self) -> list[Contract]:
        """What was pushed so far."""
        return sorted(self.inlets)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """See `Feed`. The newest reader of a contract is the one that reads; a link silent for `SILENCE_S` is lost, and
        whoever comes back to it waits for it."""
        inlet = self.inlets.get(contract)
        if inlet is None:
            raise FeedRefused("unsubscribed", f"no program has pushed {contract.key}")
        reader = object()
        repeat, again = inlet.begin(reader)
        if not await inlet.awake(reader):
            return
        for event in repeat:
            if (wanted := _since(event, since.since_ns)) is not None:
                yield wanted
        caught_up = again.caught_up
        while True:
            if caught_up is not None and inlet.taken >= again.until:
                yield caught_up
                caught_up = None
            event = await inlet.next(reader)
            if event is None:
                return
            if isinstance(event, Ended):
                if caught_up is not None:
                    yield caught_up
                inlet.done(reader)  # before it is handed out: after the last event nobody asks for another
                yield event
                return
            if isinstance(event, CaughtUp) and caught_up is not None:
                caught_up = event  # said once what may be known already is over
            elif (wanted := _since(event, since.since_ns)) is not None:
                yield wanted
            inlet.done(reader)

    async def close(self) -> None:
        """End every stream; what else is pushed of this run is refused."""
        for inlet in list(self.inlets.values()):
            inlet.finish(CLOSED)


def _since(event: Event, since_ns: int) -> Event | None:
    """Leave out rows from before the cursor: whoever set it has them. A bar is, when it is over before it."""
    if isinstance(event, Trades | Bars):
        length_ns = event.quality.length_ns if isinstance(event, Bars) else 0
        late = event.rows["ts_event"] + length_ns < since_ns
        if late.all():
            return None
        if late.any():
            return replace(event, rows=event.rows[~late])
    return event


class PushedFeeds:
    """Every feed pushed into this service. Implements `Intake`.

    reserved: names that are the service's own feeds'. reserved_of: names of feeds that the service itself brings an
    owner, by a broker that is connected. streams_of: feeds and contracts that an owner has streams of, whether anything
    is pushed of them now or not. quotas: how much users may push. kept: waits until what a stream was given is in its
    log. wait_s: how long a push is waited for until its events are taken; `WAIT_S` unless given.
    """

    def __init__(
        self, universe: Universe, *, reserved: Iterable[str] = (), reserved_of: ReservedOf | None = None,
        streams_of: StreamsOf = lambda _owner: (), kept: Kept | None = None, quotas: Quotas | None = None,
        wait_s: float | None = None,
    ) -> None:  # fmt: skip
        self.universe, self._wait_s = universe, wait_s
        self._reserved = frozenset(reserved) | {SIMULATOR}
        self._reserved_of, self._streams_of, self._kept = reserved_of, streams_of, kept
        self._quotas = quotas
        self._most_streams = quotas.limits.limit_streams if quotas is not None else MAX_STREAMS
        self._inlets: dict[tuple[int, str, Contract], PushQueue] = {}
        self._feeds: dict[tuple[int, str, str], PushedFeed] = {}
        self._listeners: list[FeedListener] = []
        self._lock = Lock()
        self._closed = False

    def subscribe(self, listener: FeedListener) -> None:
        """Call `listener(owner, feed, contract)` for each contract a run begins to push, and those there are now.

        It is called on the thread of the push and must not block. The same owner, feed name and contract comes again
        with another `PushedFeed` when another run takes over; streams of the former are refused by then.
        """
        with self._lock:
            self._listeners.append(listener)
            known = [
                (owner, self._feeds[owner, name, inlet.session], contract)
                for (owner, name, contract), inlet in self._inlets.items()
            ]
        for found in known:
            listener(*found)

    async def take(self, owner: int, feed: str, push: Push, origin: Origin = Origin.PROGRAM) -> int:
        """See `Intake`. May raise `StoreBusy`."""
        if (
            origin is Origin.PROGRAM
            and self._is_new(owner, feed, push)
            and feed in await self._connected(owner)
        ):
            raise refused("connected")
        if self._quotas is not None and push.events:
            await self._quotas.admit(owner, push.size_bytes)
        inlet = self._inlet(owner, feed, push, origin)
        inlet.occupy()
        try:
            deadline_s = monotonic() + (WAIT_S if self._wait_s is None else self._wait_s)
            await inlet.drained(inlet.end, deadline_s)  # what an earlier push left over goes first
            taken = await inlet.drained(inlet.add(push), deadline_s)
            if taken > push.first:
                await self._logged(StreamKey(owner, feed, push.contract), deadline_s)
            return taken
        finally:
            inlet.release()

    async def usage(self, owner: int) -> Usage | None:
        """See `Intake`."""
        return None if self._quotas is None or owner == OPERATOR else await self._quotas.usage(owner)

    async def _logged(self, key: StreamKey, deadline_s: float) -> None:
        """Wait until events are in the log: a pusher forgets those that are acknowledged. Raises `StoreUnavailable`
        where that takes too long: the same push may come again."""
        if self._kept is None:
            return
        try:
            async with asyncio.timeout(max(0.0, deadline_s - monotonic())):
                await self._kept(key)
        except (TimeoutError, LogTakenOver):
            raise StoreUnavailable("upstream_unavailable") from None

    def close(self) -> None:
        """End everything; pushes under way are refused, to be sent again to whoever comes after us."""
        with self._lock:
            self._closed = True
            inlets = list(self._inlets.values())
        for inlet in inlets:
            inlet.finish(STOPPING)

    def leave(self, key: StreamKey, code: str, session: str = "") -> bool:
        """End what a process of ours pushes of a stream, if it is that session's or none is named: `code` says why.
        False where nothing was."""
        with self._lock:
            held = self._inlets.get((key.owner, key.feed, key.contract))
        if held is None or held.origin is Origin.PROGRAM or held.over or session not in {"", held.session}:
            return False
        held.finish(code)
        return True

    def end(self, partition: int) -> None:
        """End what is pushed of a partition's streams: pushes under way are to be sent again to who has it next."""
        with self._lock:
            ended = [
                place for place in self._inlets if partition_of_stream(StreamKey(*place).text) == partition
            ]
            inlets = [self._inlets.pop(place) for place in ended]
            self._forget_runs()
        for inlet in inlets:
            inlet.finish(STOPPING)

    async def _connected(self, owner: int) -> Collection[str]:
        """Names of an owner's feeds that the service itself brings: the store is asked, once a run."""
        return () if self._reserved_of is None else await asyncio.to_thread(self._reserved_of, owner)

    def _is_new(self, owner: int, feed: str, push: Push) -> bool:
        held = self._inlets.get((owner, feed, push.contract))
        return held is None or held.session != push.session

    def _inlet(self, owner: int, feed: str, push: Push, origin: Origin) -> PushQueue:
        """The inlet of a push, made if its run is new; raises `InvalidRequest`."""
        ours = origin is not Origin.PROGRAM
        if not is_feed_name(feed) or feed == SIMULATOR or (feed in self._reserved and not ours):
            raise refused("feed")
        place = owner, feed, push.contract
        with self._lock:
            if self._closed:
                raise StoreUnavailable("upstream_unavailable")
            held = self._inlets.get(place)
            run = self._feeds.get((owner, feed, push.session))
            caps = replace(push.caps, from_cursor=ours)  # a program never sees the cursor
            if run is not None and run.caps != caps:
                raise refused("caps")
            if held is not None and held.session == push.session and held.over in {"", CLOSED, STOPPING}:
                return held
            run = self._begun(place, held, run or PushedFeed(feed, caps, push.session), push, origin)
            inlet, listeners = run.inlets[push.contract], list(self._listeners)
        for listener in listeners:
            listener(owner, run, push.contract)
        return inlet

    def _begun(
        self,
        place: tuple[int, str, Contract],
        held: PushQueue | None,
        run: PushedFeed,
        push: Push,
        origin: Origin,
    ) -> PushedFeed:
        """Begin an inlet, in the place of one that is through, or that nothing is heard of."""
        owner, feed, contract = place
        followed = push.again is not None and held is not None and push.again.after == held.session
        if origin is Origin.RUNNER:
            if held is not None and held.replaces == push.session:
                raise refused("replaced")  # it is told before it may come back
            followed = True
        if held is not None and held.in_use and not followed:
            raise refused("occupied")
        if push.first and push.again is None:
            raise refused("hole", next=0)
        self._sweep()
        if origin is Origin.PROGRAM:
            self._limit(place)
        if held is not None:
            held.finish("replaced")
        self._feeds[owner, feed, push.session] = run
        run.inlets[contract] = self._inlets[place] = PushQueue(push, origin, held.session if held else "")
        return run

    def _limit(self, place: tuple[int, str, Contract]) -> None:
        """Refuse a contract too many of one owner."""
        owner, feed, contract = place
        if sum(other == owner for other, _, _ in self._inlets) >= MAX_PUSH_QUEUES:
            raise refused("too_many")
        if owner != OPERATOR:
            streams = {(name, one) for other, name, one in self._inlets if other == owner}
            streams.update(self._streams_of(owner))
            if (feed, contract) not in streams and len(streams) >= self._most_streams:
                raise refused("streams", streams=len(streams), limit_streams=self._most_streams)

    def _sweep(self) -> None:
        """Forget runs that nothing was heard of for long."""
        for place, inlet in list(self._inlets.items()):
            if inlet.forgotten:
                inlet.finish("disconnected")
                del self._inlets[place]
        self._forget_runs()

    def _forget_runs(self) -> None:
        kept = {(owner, name, inlet.session) for (owner, name, _), inlet in self._inlets.items()}
        self._feeds = {place: feed for place, feed in self._feeds.items() if place in kept}

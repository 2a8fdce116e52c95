"""Feeds that other processes push into this one: `PushedFeeds` accepts pushes, a `PushedFeed` yields their events.

An event is acknowledged once its reader requests the next one, so an acknowledged event has been logged. At most one
push of a contract waits, which limits the pusher to the service's speed. One run (execution) of a program at a time
feeds a contract. Pushes may arrive on another thread and event loop than the reader's.
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

#: Limit on contracts an owner pushes at a time, above the number of front and next contracts.
MAX_PUSH_QUEUES = 256
#: Limit on a user's streams. Each has its own log, which remains when pushes end.
MAX_STREAMS = 64
SIMULATOR = "simulator"

Kept = Callable[[StreamKey], Awaitable[None]]
StreamsOf = Callable[[int], Collection[tuple[str, Contract]]]
ReservedOf = Callable[[int], Collection[str]]
FeedListener = Callable[[int, "PushedFeed", Contract], object]


class PushedFeed:
    """The feed that one run (execution) of a program pushes, with all contracts of the run. Implements `Feed`."""

    def __init__(self, name: str, caps: FeedCaps, run: str) -> None:
        self.name, self.caps, self.run = name, caps, run
        self.inlets: dict[Contract, PushQueue] = {}

    async def contracts(self) -> list[Contract]:
        """Return the contracts pushed so far."""
        return sorted(self.inlets)

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract. A new reader replaces the previous one.

        If the program that pushes is idle for `SILENCE_S`, raises `FeedLost`. A later reader waits for the program's
        next push.
        """
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
                # The event is done before it is yielded, because the reader requests no further one.
                inlet.done(reader)
                yield event
                return
            if isinstance(event, CaughtUp) and caught_up is not None:
                caught_up = event  # yielded after the events that may be duplicates
            elif (wanted := _since(event, since.since_ns)) is not None:
                yield wanted
            inlet.done(reader)

    async def close(self) -> None:
        """End every stream; later pushes of the same run of the program are refused."""
        for inlet in list(self.inlets.values()):
            inlet.finish(CLOSED)


def _since(event: Event, since_ns: int) -> Event | None:
    """Return an event without the rows before the cursor `since_ns` (ns UTC); None if no rows are left.

    Bars are left out if they end before the cursor.
    """
    if isinstance(event, Trades | Bars):
        length_ns = event.quality.length_ns if isinstance(event, Bars) else 0
        late = event.rows["ts_event"] + length_ns < since_ns
        if late.all():
            return None
        if late.any():
            return replace(event, rows=event.rows[~late])
    return event


class PushedFeeds:
    """All feeds pushed into this service. Implements `Intake`.

    reserved: names of the service's own feeds. reserved_of: returns the names of feeds from an owner's broker
    connections. streams_of: returns an owner's streams as feed and contract, even those that no program pushes now.
    quotas: limits on pushes. kept: waits until a stream's events are in its log. wait_s: how long a push waits until
    the reader has taken its events (s), `WAIT_S` by default.
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
        """Call `listener(owner, feed, contract)` for each contract that programs push now or start to push later.

        The listener runs on the push's thread and must not block. It is called again with a new `PushedFeed` when
        another run (execution) of the program takes over; the streams of the former run have ended by then.
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
        """Queue events and wait until they are taken. Raises the errors of `Intake.take`, and `StoreBusy`."""
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
            await inlet.drained(inlet.end, deadline_s)  # events of an earlier push first
            taken = await inlet.drained(inlet.add(push), deadline_s)
            if taken > push.first:
                await self._logged(StreamKey(owner, feed, push.contract), deadline_s)
            return taken
        finally:
            inlet.release()

    async def usage(self, owner: int) -> Usage | None:
        """Return how many streams an owner has, and the limit."""
        return None if self._quotas is None or owner == OPERATOR else await self._quotas.usage(owner)

    async def _logged(self, key: StreamKey, deadline_s: float) -> None:
        """Wait until pushed events are in the log, because a pusher discards acknowledged events.

        Raises `StoreUnavailable` after the deadline; the pusher may repeat the push.
        """
        if self._kept is None:
            return
        try:
            async with asyncio.timeout(max(0.0, deadline_s - monotonic())):
                await self._kept(key)
        except (TimeoutError, LogTakenOver):
            raise StoreUnavailable("upstream_unavailable") from None

    def close(self) -> None:
        """End all queues, and refuse pushes in progress.

        The senders push again to the process that continues the service.
        """
        with self._lock:
            self._closed = True
            inlets = list(self._inlets.values())
        for inlet in inlets:
            inlet.finish(STOPPING)

    def leave(self, key: StreamKey, code: str, session: str = "") -> bool:
        """End the push of a stream if another process of this service sends it; return False if there is no such push.

        Pushes from users' programs continue. code: the reason. session: id of the only run to end; empty for any run.
        """
        with self._lock:
            held = self._inlets.get((key.owner, key.feed, key.contract))
        if held is None or held.origin is Origin.PROGRAM or held.over or session not in {"", held.session}:
            return False
        held.finish(code)
        return True

    def end(self, partition: int) -> None:
        """End the pushes of a partition's streams, because another process will own the partition.

        Pushes in progress are refused; their senders push again to the new owner.
        """
        with self._lock:
            ended = [
                place for place in self._inlets if partition_of_stream(StreamKey(*place).text) == partition
            ]
            inlets = [self._inlets.pop(place) for place in ended]
            self._forget_runs()
        for inlet in inlets:
            inlet.finish(STOPPING)

    async def _connected(self, owner: int) -> Collection[str]:
        """Read the feed names of an owner's broker connections from the database.

        It is called only when a new run (execution) of a program starts to push.
        """
        return () if self._reserved_of is None else await asyncio.to_thread(self._reserved_of, owner)

    def _is_new(self, owner: int, feed: str, push: Push) -> bool:
        held = self._inlets.get((owner, feed, push.contract))
        return held is None or held.session != push.session

    def _inlet(self, owner: int, feed: str, push: Push, origin: Origin) -> PushQueue:
        """Return the queue for a push, and create it if a new run (execution) of the sender starts.

        Raises `InvalidRequest`.
        """
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
        """Create the queue of a run (execution of the sender) that starts to push.

        The queue replaces `held`, an earlier queue that has ended or is idle.
        """
        owner, feed, contract = place
        followed = push.again is not None and held is not None and push.again.after == held.session
        if origin is Origin.RUNNER:
            if held is not None and held.replaces == push.session:
                raise refused("replaced")  # the replaced run must receive this refusal before it may return
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
        """Raise `InvalidRequest` if the owner of a new stream already pushes the maximum number of contracts."""
        owner, feed, contract = place
        if sum(other == owner for other, _, _ in self._inlets) >= MAX_PUSH_QUEUES:
            raise refused("too_many")
        if owner != OPERATOR:
            streams = {(name, one) for other, name, one in self._inlets if other == owner}
            streams.update(self._streams_of(owner))
            if (feed, contract) not in streams and len(streams) >= self._most_streams:
                raise refused("streams", streams=len(streams), limit_streams=self._most_streams)

    def _sweep(self) -> None:
        """Remove the queues of programs that have not pushed for ten minutes (`EXPIRY_S`)."""
        for place, inlet in list(self._inlets.items()):
            if inlet.forgotten:
                inlet.finish("disconnected")
                del self._inlets[place]
        self._forget_runs()

    def _forget_runs(self) -> None:
        kept = {(owner, name, inlet.session) for (owner, name, _), inlet in self._inlets.items()}
        self._feeds = {place: feed for place, feed in self._feeds.items() if place in kept}

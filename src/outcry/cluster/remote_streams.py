"""Streams whose feeds run in this process, while another process of the cluster computes their levels.

The owner of a stream is the process that computes its levels. A feed that starts asks the owner how far it has data, so
the feed requests only missing history from the vendor. A feed that stops sends its remaining events and reports its
end, so the next process need not wait. If a process crashes, the next one requests the unsent trades from the vendor
again.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from outcry.agent.contract_follower import ContractFollower
from outcry.agent.feed_runner import FeedRunner, MarketContext
from outcry.agent.spool import Spool
from outcry.base.errors import ServiceError, StoreUnavailable
from outcry.base.log_events import LogEvent, Report
from outcry.base.tasks import CANCEL_AGAIN_S, BackgroundTasks
from outcry.cluster.bus_transport import BusTransport
from outcry.cluster.stream_owner.client import StreamOwnerClient
from outcry.live import health
from outcry.live.health import Phase
from outcry.live.model import StreamKey
from outcry.live.registry import Registry
from outcry.live.stream_status import StreamProgress, StreamStatus
from outcry.trades.feed import Backfill, Feed, FeedCaps

#: Longest time for sending the remaining events of a feed that stops.
FLUSH_S = 1.0
#: Attempts to ask a stream's owner for its position before a feed without history starts anyway, and their interval.
_TRIES, _RETRY_S = 6, 0.5
#: Attempts to report a stream without a feed. After five minutes its owner detects that itself.
_NOTIFY_TRIES = 600
_LINKS = {
    "connecting": Phase.CONNECTING, "catching_up": Phase.CATCHING_UP, "live": Phase.CURRENT, "ended": Phase.ENDED,
    "refused": Phase.REFUSED, "needs_sign_in": Phase.REFUSED,
}  # fmt: skip


class RemoteStreams(FeedRunner):
    """Run feeds whose streams are owned by other processes. Implements `ConnectionStreams`.

    registry: the streams as their owners publish them. complete: returns whether the registry contains all of them.
    """

    def __init__(
        self, spool: Spool, owners: StreamOwnerClient, market: MarketContext, registry: Registry,
        complete: Callable[[], bool], report: Report, speedup: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(spool, BusTransport(owners), market, report, speedup, self._progress)
        self._owners, self._registry, self._complete = owners, registry, complete
        #: Feeds, and reports on streams without a feed.
        self._tasks = BackgroundTasks(report)
        #: Last status of streams whose feed has ended.
        self._last: dict[StreamKey, StreamStatus] = {}
        #: Reports in progress on streams without a feed.
        self._notifying: dict[StreamKey, asyncio.Task[None]] = {}
        #: What they report: the code of a refusal, or None to remove the stream from display.
        self._unsent: dict[StreamKey, str | None] = {}

    async def run(self) -> None:
        """Regularly write the queue of unsent events to disk until cancelled; then end every feed."""
        try:
            await self.sync_regularly()
        finally:
            await self._tasks.stop(CANCEL_AGAIN_S)
            await self.close()

    # -- feeds of this process

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Run a feed in a task, which ends with the feed."""
        for key in [key for key in self._last if (key.owner, key.feed) == (owner, feed.name)]:
            del self._last[key]
        for key in [key for key in self._notifying if (key.owner, key.feed) == (owner, feed.name)]:
            self._notifying.pop(key).cancel()
        return self._tasks.start(f"{owner}/{feed.name}", self._attached_to(owner, feed))

    async def _attached_to(self, owner: int, feed: Feed) -> None:
        try:
            await self.follow(owner, feed.name, feed)
        finally:
            keys = [key for key, follower in self.followers.items() if follower.feed is feed]
            self._last |= {key: last for key in keys if (last := self.status(key)) is not None}
            sessions = {key: self.followers[key].queue.session for key in keys}
            await self.flush(keys, FLUSH_S / self._speedup)
            for key in keys:
                await self.delete_queue(key)
            await asyncio.gather(*(self._leave(key, session) for key, session in sessions.items()))

    async def _leave(self, key: StreamKey, session: str) -> None:
        with suppress(ServiceError, TimeoutError):  # the next process then waits for the run to time out
            async with asyncio.timeout(FLUSH_S / self._speedup):
                await self._owners.leave(key, session)

    async def _progress(self, key: StreamKey, caps: FeedCaps) -> StreamProgress | None:
        """Ask the owner of a stream for its position (how far it has data), with retries; return None if it is unknown.

        If the feed delivers no history, give up after `_TRIES` attempts, because trades that the feed misses meanwhile
        cannot be requested later.
        """
        tries = _TRIES if caps.backfill is Backfill.NONE else 0
        while True:
            try:
                return await self._owners.progress(key)
            except StoreUnavailable:
                tries -= 1
                if not tries:
                    return None
            except ServiceError:  # the owner refuses the contract, and later its pushes too
                return None
            await asyncio.sleep(_RETRY_S / self._speedup)

    # -- status

    def log_fields(self, key: StreamKey) -> dict[str, str]:
        """Return the fields that identify a stream in log events."""
        return {"stream": key.text}

    def log_status(self, key: StreamKey, follower: ContractFollower) -> None:
        """Log a change of a feed's status if the feed has lost its connection, is refused or needs sign-in."""
        if (seen := follower.status).phase in {"lost", "refused", "needs_sign_in"}:
            event = LogEvent.FEED_LOST if seen.phase == "lost" else LogEvent.FEED_REJECTED
            self.report(event, stream=key.text, code=seen.code, problem=seen.text)

    def status(self, key: StreamKey) -> StreamStatus | None:
        """Return the current or last status of a stream's feed in this process; None if the feed never ran here.

        While the feed here delivers current data, return the status that the stream's owner has published.
        """
        follower = self.followers.get(key)
        if follower is None:
            return self._last.get(key)
        seen, link = follower.status, _LINKS.get(follower.status.phase, Phase.LOST)
        if not seen.subscribed:
            return StreamStatus(Phase.CURRENT, seen.code, subscribed=False)
        match link:
            case Phase.REFUSED:
                return StreamStatus(link, seen.code, login=seen.phase == "needs_sign_in")
            case Phase.LOST:
                return StreamStatus(link, link.value, seen.code)
            case Phase.CURRENT:
                return StreamStatus(link, self._current_reason(key, follower))
            case _:
                return StreamStatus(link, link.value)

    def _current_reason(self, key: StreamKey, follower: ContractFollower) -> str:
        if asyncio.get_running_loop().time() - follower.last_event_s > health.LINK_TIMEOUT_S:
            return "stale_link"
        channel = self._registry.channel(key)
        if channel is None:
            return "catching_up"
        reason = channel.availability.reason
        return channel.feed_code or reason if reason == "unsubscribed" else reason

    def history(self, key: StreamKey) -> str:
        """Return the data quality of a stream's history, such as ticks or bars; empty if that is unknown."""
        follower = self.followers.get(key)
        return follower.status.quality if follower else ""

    # -- streams without a feed here

    def feeds(self) -> Collection[tuple[int, str]] | None:
        """Return owner and name of every feed with a stream, or None while the list is incomplete."""
        return {(key.owner, key.feed) for key in self._registry.keys()} if self._complete() else None  # noqa: SIM118

    def streams(self, owner: int, feed: str) -> Sequence[StreamKey]:
        """Return the keys of a feed's streams."""
        return [key for key in self._registry.keys(owner) if key.feed == feed]

    def refuse(self, key: StreamKey, code: str) -> None:
        """Report to a stream's owner why no feed delivers the stream, unless its status shows the reason already.

        `code`: the reason.
        """
        channel = self._registry.channel(key)
        if channel is not None and channel.availability.reason != code:
            self._notify(key, code)

    def retire(self, key: StreamKey) -> None:
        """Ask a stream's owner to remove the stream from display."""
        if self._registry.channel(key) is not None:
            self._notify(key, None)

    def _notify(self, key: StreamKey, code: str | None) -> None:
        """Report on a stream. If its owner has not confirmed an earlier report yet, send this one after it."""
        self._unsent[key] = code
        if key not in self._notifying:
            task = self._notifying[key] = self._tasks.start(key.text, self._send_until_received(key))
            task.add_done_callback(lambda done: self._notified(key, done))

    def _notified(self, key: StreamKey, done: asyncio.Task[None]) -> None:
        if self._notifying.get(key) is done:
            del self._notifying[key], self._unsent[key]

    async def _send_until_received(self, key: StreamKey) -> None:
        for _ in range(_NOTIFY_TRIES):
            code = self._unsent[key]
            try:
                await (self._owners.retire(key) if code is None else self._owners.refuse(key, code))
            except ServiceError:
                await asyncio.sleep(_RETRY_S / self._speedup)
                continue
            if self._unsent[key] == code:
                return

"""The agent runs feeds on the user's machine and pushes their events to a service.

Events wait in the spool, a queue on disk, until the service accepts them. The spool outlives the program. The next
start sends the remaining events, even of feeds that are no longer configured.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outcry.access.licences import OPERATOR
from outcry.agent.feed_runner import SYNC_S, FeedRunner, MarketContext
from outcry.agent.spool import Spool
from outcry.agent.spool_sender import PushTransport
from outcry.base.log_events import LogEvent
from outcry.base.tasks import BackgroundTasks, end
from outcry.live.model import StreamKey
from outcry.trades.feed import Feed, FeedCaps

#: Longest time for sending the remaining events at the end.
FLUSH_S = 3.0
#: Refusals after which a service never accepts events of the contract.
_NEVER = frozenset({"expired", "unknown_contract"})


@dataclass(frozen=True, slots=True)
class Source:
    """A feed that the agent runs, and the name under which the service knows the feed (`name`)."""

    name: str
    feed: Feed


class Agent(FeedRunner):
    """Runs feeds and pushes their events, until cancelled. All feeds belong to one owner.

    The service identifies the owner by the agent's API key.
    """

    def __init__(
        self, sources: Sequence[Source], spool: Spool, transport: PushTransport, market: MarketContext,
        report: Callable[..., object], speedup: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(spool, transport, market, report, speedup)
        self.sources = sources
        self._clearing = BackgroundTasks(report)

    async def run(self) -> None:
        """Run until cancelled; then stop cleanly and keep the spool."""
        syncing = asyncio.create_task(self.sync_regularly())
        following = [
            asyncio.create_task(self.follow(OPERATOR, source.name, source.feed)) for source in self.sources
        ]
        try:
            await self._send_left_over()
            await asyncio.gather(*following)
            await asyncio.Event().wait()  # all feeds have ended; the spool may still contain events to send
        finally:
            await end(following)
            await self._report_stop()
            await end([syncing])
            await self._clearing.stop()
            await self.close()

    async def _send_left_over(self) -> None:
        """Send the events that an earlier start of the agent left in the spool, of feeds that do not run now."""
        await asyncio.sleep(0)
        feeds = {source.name: source.feed for source in self.sources}
        for key, caps in await asyncio.to_thread(self.spool.left_over, self._market.universe):
            try:
                wanted = await feeds[key.feed].contracts() if key.feed in feeds else []
            except Exception as problem:  # noqa: BLE001 - a supervisor: the next start retries
                self.report(LogEvent.FEED_FAILED, feed=key.feed, problem=repr(problem))
                continue
            if key.contract not in wanted:
                self._clearing.start(f"clear {key.text}", self._send_and_delete(key, caps))

    async def _send_and_delete(self, key: StreamKey, caps: FeedCaps) -> None:
        """Send all events of a queue, then delete the queue.

        If the service will never accept the events, delete the queue without sending them.
        """
        queue = await self.open_queue(key, caps)
        if queue is None:
            return
        while queue.waiting and self.sender.refused.get(key) not in _NEVER:
            await asyncio.sleep(SYNC_S / self._speedup)
        await self.delete_queue(key)

    async def _report_stop(self) -> None:
        """Tell the service that the agent stops, if the service is available."""
        for follower in self.followers.values():
            if follower.status.phase in {"catching_up", "live"}:
                self.report_status(follower, "stopped", "agent_stopped")
        await self.flush(list(self.spool.queues), FLUSH_S / self._speedup)

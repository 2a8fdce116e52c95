"""The agent: runs feeds next to their owner and pushes what they bring outward to a service.

Rule kept: ended cleanly, the spool stays for the next start, which sends what is left of it, also of feeds that are not
run any more.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from outcry.access.licences import OPERATOR
from outcry.agent.feed_runner import SYNC_S, FeedRunner, MarketContext, cancel_all
from outcry.agent.spool import Spool
from outcry.agent.spool_sender import PushTransport
from outcry.base.log_events import LogEvent
from outcry.live.model import StreamKey
from outcry.trades.feed import Feed, FeedCaps

#: How long the end may take, to send what is left.
FLUSH_S = 3.0
#: Of what is refused so a service never takes anything.
_NEVER = frozenset({"expired", "unknown_contract"})


@dataclass(frozen=True, slots=True)
class Source:
    """A feed to be run. `name`: what the service is to call it."""

    name: str
    feed: Feed


class Agent(FeedRunner):
    """Runs sources until cancelled. The service knows whose they are: here all are one owner's."""

    def __init__(
        self, sources: Sequence[Source], spool: Spool, carrier: PushTransport, market: MarketContext,
        report: Callable[..., object], rush: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(spool, carrier, market, report, rush)
        self.sources = sources
        self._clearing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until cancelled; then end cleanly, the spool kept."""
        keeping = asyncio.create_task(self.keep())
        following = [
            asyncio.create_task(self.follow(OPERATOR, source.name, source.feed)) for source in self.sources
        ]
        try:
            await self._send_left_over()
            await asyncio.gather(*following)
            await asyncio.Event().wait()  # every feed is over: what is in the spool is still to be sent
        finally:
            await cancel_all(following)
            await self._say_goodbye()
            await cancel_all([keeping, *self._clearing])
            await self.close()

    async def _send_left_over(self) -> None:
        """Send what a former start left of feeds and contracts that are no longer read."""
        await asyncio.sleep(0)
        feeds = {source.name: source.feed for source in self.sources}
        for key, caps in await asyncio.to_thread(self.spool.left_over, self._market.universe):
            try:
                wanted = await feeds[key.feed].contracts() if key.feed in feeds else []
            except Exception as problem:  # noqa: BLE001 - a supervisor: what cannot be told is left for the next start
                self.report(LogEvent.FEED_FAILED, feed=key.feed, problem=repr(problem))
                continue
            if key.contract not in wanted:
                self._begin(self._clear(key, caps))

    async def _clear(self, key: StreamKey, caps: FeedCaps) -> None:
        """Send what a line has, then forget it; also where the service will never take it."""
        line = await self.line(key, caps)
        if line is None:
            return
        while line.waiting and self.outward.refused.get(key) not in _NEVER:
            await asyncio.sleep(SYNC_S / self._rush)
        await self.let_go(key)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def _say_goodbye(self) -> None:
        """Tell the service that the agent stops, if it is there to hear it."""
        for follower in self.followers.values():
            if follower.seen.phase in {"catching_up", "live"}:
                self.lost(follower, "stopped", "agent_stopped")
        await self.flushed(list(self.spool.lines), FLUSH_S / self._rush)

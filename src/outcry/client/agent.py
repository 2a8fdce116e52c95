"""The agent: runs feeds next to their owner and pushes what they bring outward to a service.

Rules kept: what a feed brings is in the spool before anything else; a feed that breaks is opened again as the service
would, later each time, and given up only when a person has to act, which stops no other feed; ended cleanly, the spool
stays for the next start.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from outcry.client.following import Follower
from outcry.client.outward import Outward, Service
from outcry.client.spool import Spool
from outcry.client.spooled import SpooledLine
from outcry.core.calendar import Calendar
from outcry.core.instruments import Contract, Universe
from outcry.ports.clock import Clock
from outcry.ports.feed import Backfill, Feed, FeedCaps, FeedLost, FeedRefused, LoginRefused, Resume
from outcry.ports.live import LogDamaged
from outcry.services.listed import listed_ns
from outcry.services.live.engine import CONTRACTS_S, FIRST_PAUSE_S, GOOD_SESSION_S, LONGEST_PAUSE_S

#: How long the end may take, to send what is left.
FLUSH_S = 3.0
_SYNC_S = 1.0
#: Of what is refused so a service never takes anything.
_NEVER = frozenset({"expired", "unknown_contract"})
#: The spool bridges what a feed by itself could not.
_REACH_NS = 2**62


@dataclass(frozen=True, slots=True)
class Source:
    """A feed to be run. `name`: what the service is to call it."""

    name: str
    feed: Feed


@dataclass(frozen=True, slots=True)
class Market:
    """What is traded when, and what time it is."""

    universe: Universe
    calendar: Calendar
    clock: Clock


class Agent:
    """Runs sources until cancelled. tell: `(event, **details)`, for a log. rush: pauses are this many times shorter."""

    def __init__(
        self, sources: Sequence[Source], spool: Spool, service: Service, market: Market,
        tell: Callable[..., object], rush: float = 1.0,
    ) -> None:  # fmt: skip
        self.sources, self.spool = sources, spool
        self._market, self._tell, self._rush = market, tell, rush
        self.outward = Outward(service, self._reached, rush)
        #: By name of the source and contract.
        self.followers: dict[tuple[str, Contract], Follower] = {}
        #: Sources whose login is refused, and the code: nobody asks there again.
        self.over: dict[str, str] = {}
        self.disk = ""
        self._news: dict[tuple[str, Contract], asyncio.Event] = {}
        self._carrying: dict[tuple[str, Contract], asyncio.Task[None]] = {}
        self._clearing: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Run until cancelled; then end cleanly, the spool kept."""
        keeping = asyncio.create_task(self._keep())
        following = [asyncio.create_task(self._run_source(source)) for source in self.sources]
        try:
            await self._send_left_over()
            await asyncio.gather(*following)
            await asyncio.Event().wait()  # every feed is over: what is in the spool is still to be sent
        finally:
            await _end(following)
            await self._say_goodbye()
            await _end([keeping, *self._clearing, *self._carrying.values()])
            self.outward.close()
            await asyncio.to_thread(self._sync)

    # -- feeds

    async def _run_source(self, source: Source) -> None:
        """Follow each contract a feed brings; ask again now and then, for a roll adds one."""
        running: dict[Contract, asyncio.Task[None]] = {}
        pause_s = FIRST_PAUSE_S
        try:
            while source.name not in self.over:
                try:
                    contracts = await source.feed.contracts()
                except Exception as problem:  # noqa: BLE001 - a supervisor: one feed's fault is no other's
                    self._tell("a feed met a fault", feed=source.name, problem=repr(problem))
                    pause_s = await self._rest(pause_s)
                    continue
                pause_s = FIRST_PAUSE_S
                for contract in contracts:
                    if contract not in running:
                        running[contract] = asyncio.create_task(self._run_contract(source, contract))
                if running and all(task.done() for task in running.values()):
                    return
                await asyncio.sleep(CONTRACTS_S / self._rush)
        finally:
            await _end(list(running.values()))
            await source.feed.close()

    async def _run_contract(self, source: Source, contract: Contract) -> None:
        """Follow one contract for as long as it can be followed."""
        place, pause_s = (source.name, contract), FIRST_PAUSE_S
        line = await self._line(source.name, contract, _told_caps(source.feed.caps))
        if line is None:
            return
        follower = self.followers[place] = Follower(
            source.feed, line, self._market.calendar, self._market.clock,
            listed_ns(self._market.universe, contract), added=self._news[place].set,
            changed=lambda: self._stands(source.name, follower),
        )  # fmt: skip
        loop = asyncio.get_running_loop()
        while True:
            began_s = loop.time()
            try:
                if await follower.follow():
                    return
                self._lost(follower, "lost", "disconnected")
            except LoginRefused as problem:
                self._lost(follower, "needs_sign_in", problem.code, str(problem))
                self.over[source.name] = problem.code
                return
            except FeedRefused as problem:
                self._lost(follower, "refused", problem.code, str(problem))
                return
            except FeedLost as problem:
                self._lost(follower, "lost", problem.code, str(problem))
            except OSError as problem:
                self.disk = str(problem)
                self._lost(follower, "lost", "no_room", str(problem))
            except Exception as problem:  # noqa: BLE001 - a supervisor: one stream's fault is no other's
                self._tell(
                    "a stream met a fault", feed=source.name, contract=contract.key, problem=repr(problem)
                )
                self._lost(follower, "lost", "fault")
            if loop.time() - began_s > GOOD_SESSION_S / self._rush:
                pause_s = FIRST_PAUSE_S
            pause_s = await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> float:
        """Pause before the next attempt; return how long the pause after it is to be."""
        spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads attempts; nothing secret about it
        await asyncio.sleep(pause_s * spread / self._rush)
        return min(2 * pause_s, LONGEST_PAUSE_S)

    def _lost(self, follower: Follower, phase: str, code: str, text: str = "") -> None:
        try:
            follower.tell(phase, code, text)
        except OSError as problem:  # there is no room to say so: it is shown here all the same
            self.disk = str(problem)

    async def _line(self, feed: str, contract: Contract, caps: FeedCaps) -> SpooledLine | None:
        """The line of a contract, on its way out from now on; None where what is on disk cannot be read."""
        place = feed, contract
        try:
            line = await asyncio.to_thread(self.spool.line, feed, contract, caps)
        except (LogDamaged, OSError) as problem:
            self._tell("a spool cannot be read", feed=feed, contract=contract.key, problem=str(problem))
            return None
        self._news[place] = asyncio.Event()
        self._carrying[place] = asyncio.create_task(self.outward.carry(feed, line, self._news[place]))
        return line

    # -- the spool

    async def _send_left_over(self) -> None:
        """Send what a former start left of feeds and contracts that are no longer read."""
        await asyncio.sleep(0)
        feeds = {source.name: source.feed for source in self.sources}
        for feed, contract, caps in await asyncio.to_thread(self.spool.left_over, self._market.universe):
            try:
                wanted = await feeds[feed].contracts() if feed in feeds else []
            except Exception as problem:  # noqa: BLE001 - a supervisor: what cannot be told is left for the next start
                self._tell("a feed met a fault", feed=feed, problem=repr(problem))
                continue
            if contract not in wanted:
                self._begin(self._clear(feed, contract, caps))

    async def _clear(self, feed: str, contract: Contract, caps: FeedCaps) -> None:
        """Send what a line has, then forget it; also where the service will never take it."""
        place = feed, contract
        line = await self._line(feed, contract, caps)
        if line is None:
            return
        while line.waiting and self.outward.refused.get((feed, contract.key)) not in _NEVER:
            await asyncio.sleep(_SYNC_S / self._rush)
        await _end([self._carrying.pop(place)])
        try:
            await asyncio.to_thread(self.spool.forget, feed, contract)
        except OSError as problem:
            self._tell("a spool cannot be removed", feed=feed, contract=contract.key, problem=str(problem))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def _keep(self) -> None:
        """Put the spool on the disk itself every second, and keep it within its limit."""
        while True:
            await asyncio.sleep(_SYNC_S / self._rush)
            try:
                await asyncio.to_thread(self._sync)
            except Exception as problem:  # noqa: BLE001 - a supervisor: what is on disk is looked after again
                self._tell("the spool met a fault", problem=repr(problem))

    def _sync(self) -> None:
        try:
            gone = self.spool.make_room()
            self.spool.sync()
        except OSError as problem:
            if not self.disk:
                self._tell("the spool cannot be written; what comes waits in memory", problem=str(problem))
            self.disk = str(problem)
            return
        if gone:
            self._tell("the spool is full: the oldest was let go, and is told as a gap", pieces=gone)
        if self.disk and not any(line.unsaved for line in self.spool.lines.values()):
            self._tell("the spool can be written again")
            self.disk = ""

    async def _say_goodbye(self) -> None:
        """Tell the service that the agent stops, if it is there to hear it."""
        for follower in self.followers.values():
            if follower.seen.phase in {"catching_up", "live"}:
                self._lost(follower, "stopped", "agent_stopped")
        deadline_s = asyncio.get_running_loop().time() + FLUSH_S / self._rush
        lines = list(self.spool.lines.values())
        while any(line.waiting for line in lines) and self.outward.reached.code == "ok":
            if asyncio.get_running_loop().time() > deadline_s:
                return
            await asyncio.sleep(0.02)

    # -- what it says

    def _stands(self, feed: str, follower: Follower) -> None:
        seen = follower.seen
        details = {"code": seen.code, "problem": seen.text} if seen.code else {}
        self._tell(seen.phase.replace("_", " "), feed=feed, contract=follower.line.contract.key, **details)

    def _reached(self) -> None:
        reached = self.outward.reached
        if reached.code == "ok":
            self._tell("the service takes what is sent")
        else:
            self._tell("the service does not take what is sent", code=reached.code, problem=reached.text)


def _told_caps(caps: FeedCaps) -> FeedCaps:
    """What the feed can do through us: whatever was read once can be had again."""
    backfill = Backfill.TICKS if caps.backfill is Backfill.NONE else caps.backfill
    return FeedCaps(
        caps.resolution_ns, caps.has_id, caps.has_side, backfill, _REACH_NS, Resume.BY_TIME,
        caps.has_volume_counter, caps.lag_ns, caps.own_clock, caps.invented,
    )  # fmt: skip


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

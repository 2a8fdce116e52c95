"""What the symbols of open streams are answered from: live lines, shared by all who follow them, or completed sessions.

Rules kept: an answer is made once for all who read it, and in a thread; which feed answers is decided by the query
service, as for every other endpoint.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from outcry.access.licences import Scope
from outcry.answers.live_answers import LiveAnswers
from outcry.answers.streaming import (
    NO_EVENTS,
    AlertFilter,
    RequestedSymbol,
    SymbolEvents,
    delayed_events,
    live_events,
)
from outcry.api.follower import Follower, Line, Slot
from outcry.api.query import Query
from outcry.base.errors import NoLicensedSource, StoreUnavailable, UnknownSymbol
from outcry.http.edge import Edge
from outcry.live.model import LiveStore
from outcry.live.registry import Channel, LiveSource, Registry, VisibleChannel
from outcry.market.instruments import Universe
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

T = TypeVar("T")
_MOST_DELAYED = 2048
_MOST_SCOPES = 2048
_STORE_THREADS = 2


@dataclass(frozen=True, slots=True)
class LiveSide:
    """What streams are made of besides the query service. `store`: where alerts are kept, None if nowhere."""

    registry: Registry
    universe: Universe
    store: LiveStore | None


class Lookup:
    """Finds out what symbols are answered from. For one event loop."""

    def __init__(self, edge: Edge, query: Query, live: LiveSide, timeout_s: float) -> None:
        self._edge, self._query, self._live, self._timeout_s = edge, query, live, timeout_s
        self._live_answers = LiveAnswers(live.universe)
        self._lines: dict[tuple[Channel, LiveSource], Line] = {}
        self._completed: OrderedDict[tuple[Scope, str], tuple[int, int, SymbolEvents]] = OrderedDict()
        self._answered: OrderedDict[Scope, tuple[int, int, frozenset[str]]] = OrderedDict()
        self._registry_thread = ThreadPoolExecutor(1, "outcry-registry")
        self._store_threads = ThreadPoolExecutor(_STORE_THREADS, "outcry-stream")

    def close(self) -> None:
        """Let the threads end."""
        for pool in (self._registry_thread, self._store_threads):
            pool.shutdown(wait=False, cancel_futures=True)

    async def on_registry_thread(self, job: Callable[[], T]) -> T:
        """Run in its thread what only reads the registry: never waits for the store."""
        return await asyncio.get_running_loop().run_in_executor(self._registry_thread, job)

    async def in_store(self, job: Callable[[], T]) -> T:
        """Run in a thread what may ask the store; raise `StoreUnavailable` when it takes too long."""
        running = asyncio.get_running_loop().run_in_executor(self._store_threads, job)
        done, _ = await asyncio.wait([running], timeout=self._timeout_s)
        if not done:
            running.cancel()
            raise StoreUnavailable("upstream_unavailable")
        return running.result()

    def marker(self) -> tuple[int, int, int]:
        """Moves whenever a symbol may have to be answered from something else."""
        return (
            self._live.registry.generation,
            self._edge.poller.store_revision,
            self._edge.authenticator.generation,
        )

    def due(self, follower: Follower) -> bool:
        """Whether a stream's symbols have to be looked up again."""
        return follower.looked_up != self.marker() or self._edge.clock.now_ns() >= follower.look_again_ns

    async def mean(self, scope: Scope, symbols: Sequence[str]) -> list[RequestedSymbol]:
        """What these symbols mean. Raises `UnknownSymbol`."""
        now_ns = self._edge.clock.now_ns()

        def resolve() -> list[RequestedSymbol]:
            found = [(symbol, self._query.watch(scope, symbol, now_ns)) for symbol in symbols]
            return [RequestedSymbol(symbol, each.root, each.contract) for symbol, each in found]

        return await self.on_registry_thread(resolve)

    async def refresh(self) -> set[Follower]:
        """Ask the lines that moved what they say now; return whom that may concern."""
        for place in [place for place, line in self._lines.items() if not line.followers]:
            del self._lines[place]
        return await self._ask(
            [line for line in self._lines.values() if line.version != line.channel.version]
        )

    async def look_up(self, follower: Follower, *, opening: bool = False) -> None:
        """Find out what answers each symbol of a stream now. Raises `StoreBusy`, `StoreUnavailable`, and on opening
        `UnknownSymbol`."""
        marker, now_ns = self.marker(), self._edge.clock.now_ns()
        caller = self._edge.authenticator.reauthenticate(follower.caller)
        if caller is None or caller.scope is None or caller.role != "read":
            follower.end("unauthorized")
            return
        scope = caller.scope
        if follower.everything:
            for root in await self._visible(scope, now_ns):
                follower.slots.setdefault(root, Slot(RequestedSymbol(root, root, None)))
        slots = list(follower.slots.values())
        found = await self.on_registry_thread(
            lambda: [self._watched(scope, slot.asked, now_ns) for slot in slots]
        )
        if follower.ended:  # while we looked
            return
        again_ns = now_ns + NANOS_PER_MINUTE
        for slot, (seen, reason) in zip(slots, found, strict=True):
            slot.reason = reason
            follower.lead(slot, self._line(seen) if seen is not None else None)
            if reason == "no_trades":  # the first trade moves no marker
                again_ns = now_ns + NANOS_PER_SECOND
        await self._ask([slot.line for slot in slots if slot.line is not None and slot.line.version < 0])
        for slot in slots:
            if slot.line is None or slot.line.said is None:
                try:
                    again_ns = min(again_ns, await self._fill(slot, scope, now_ns))
                except UnknownSymbol:
                    if opening:
                        raise
                    slot.delayed = NO_EVENTS
        follower.caller, follower.looked_up, follower.look_again_ns = caller, marker, again_ns
        asked = None if follower.everything else [slot.asked for slot in slots]
        follower.wanted = AlertFilter(self._live.universe, scope, asked)

    async def _ask(self, lines: Sequence[Line]) -> set[Follower]:
        if not lines:
            return set()
        asked = [(VisibleChannel(line.channel, line.source), line.said) for line in lines]
        found = await self.on_registry_thread(lambda: [self._said(seen, said) for seen, said in asked])
        woken: set[Follower] = set()
        for line, (version, said) in zip(lines, found, strict=True):
            line.version = version
            if said is not line.said:
                line.said = said
                woken |= line.followers
                if said is None:  # the completed session answers again
                    for follower in line.followers:
                        follower.look_again_ns = 0
        return woken

    def _said(self, seen: VisibleChannel, before: SymbolEvents | None) -> tuple[int, SymbolEvents | None]:
        """In a thread."""
        version = seen.channel.version
        found = self._live_answers.live_bytes(seen)
        if found is None:
            return version, None
        if before is not None and before.answer == found[1]:
            return found[0], before
        return found[0], live_events(found, seen.source)

    def _line(self, seen: VisibleChannel) -> Line:
        place = (seen.channel, seen.source)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = Line(seen.channel, seen.source)
        return line

    async def _visible(self, scope: Scope, now_ns: int) -> list[str]:
        """Every product the scope is answered anything of."""
        revision = self._edge.poller.store_revision
        held = self._answered.get(scope)
        if held is None or held[0] != revision or now_ns >= held[1]:
            found = await self.in_store(lambda: self._query.symbols(scope, now_ns))
            roots = frozenset(each.symbol for each in found.answer.symbols if each.data_source is not None)
            held = self._answered[scope] = (revision, now_ns + NANOS_PER_MINUTE, roots)
            if len(self._answered) > _MOST_SCOPES:
                self._answered.popitem(last=False)
        live = {seen.channel.key.contract.root for seen in self._live.registry.channels(scope)}
        return sorted(held[2] | live)

    def _watched(
        self, scope: Scope, asked: RequestedSymbol, now_ns: int
    ) -> tuple[VisibleChannel | None, str]:
        """In a thread: what answers a symbol live, or why nothing does."""
        try:
            found = self._query.watch(scope, asked.symbol, now_ns)
        except UnknownSymbol:  # a contract forgotten since the stream was opened
            return None, "no_connection"
        if found.state != "live":
            return found.seen, found.state
        return found.seen, "no_trades" if found.seen is None else "no_prior"

    async def _fill(self, slot: Slot, scope: Scope, now_ns: int) -> int:
        """Find what a symbol says while it is not live; return until when (ns UTC) that holds if the store does not
        move. Nothing is known where it went live just now."""
        symbol, revision = slot.asked.symbol, self._edge.poller.store_revision
        held = self._completed.get((scope, symbol))
        if held is None or held[0] != revision or now_ns >= held[1]:
            said, until_ns = await self.in_store(lambda: self._newest(scope, symbol, now_ns))
            if said is None:
                slot.delayed = None
                return until_ns
            held = self._completed[scope, symbol] = (revision, until_ns, said)
            if len(self._completed) > _MOST_DELAYED:
                self._completed.popitem(last=False)
        if slot.delayed is None or slot.delayed.rest != held[2].rest:
            slot.delayed = held[2]
        return held[1]

    def _newest(self, scope: Scope, symbol: str, now_ns: int) -> tuple[SymbolEvents | None, int]:
        """In a thread."""
        try:
            found = self._query.levels(scope, symbol, now_ns)
        except NoLicensedSource:
            return NO_EVENTS, now_ns + NANOS_PER_MINUTE  # an embargo may end
        if found.answer.live:
            return None, now_ns + NANOS_PER_SECOND
        until_ns = found.fresh_until_ns
        return delayed_events(found.answer), now_ns + NANOS_PER_MINUTE if until_ns is None else until_ns

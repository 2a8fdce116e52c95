"""Selects where the events of open streams come from: for each symbol a live feed, or the newest completed session.

A thread builds each answer once, for all streams that show it. The query service selects the feed, as for every other
endpoint.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from outcry.access.licences import Scope
from outcry.answers.live_answers import LiveAnswers
from outcry.answers.query import Query
from outcry.answers.streaming import (
    NO_EVENTS,
    AlertFilter,
    RequestedSymbol,
    SymbolEvents,
    delayed_events,
    live_events,
)
from outcry.api.stream_push import ChannelUpdate
from outcry.api.stream_reader import SharedChannel, StreamReader, SymbolCursor
from outcry.base.errors import NoLicensedSource, StoreUnavailable, UnknownSymbol
from outcry.http.edge import Edge
from outcry.live.registry import Channel, LiveSource, Registry, VisibleChannel
from outcry.live.store import LiveStore
from outcry.market.instruments import Universe
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

T = TypeVar("T")
_MAX_DELAYED = 2048
_MAX_SCOPES = 2048
_STORE_THREADS = 2


@dataclass(frozen=True, slots=True)
class LiveInputs:
    """The live data that streams need besides the query service. `store`: the alert store, if there is one."""

    registry: Registry
    universe: Universe
    store: LiveStore | None


class StreamSources:
    """Finds the data source of each symbol of a stream. Used on one event loop."""

    def __init__(self, edge: Edge, query: Query, live: LiveInputs, timeout_s: float) -> None:
        self._edge, self._query, self._live, self._timeout_s = edge, query, live, timeout_s
        self._live_answers = LiveAnswers(live.universe)
        self._shared: dict[tuple[Channel, LiveSource], SharedChannel] = {}
        self._delayed: OrderedDict[tuple[Scope, str], tuple[int, int, SymbolEvents]] = OrderedDict()
        self._visible: OrderedDict[Scope, tuple[int, int, frozenset[str]]] = OrderedDict()
        self._registry_thread = ThreadPoolExecutor(1, "outcry-registry")
        self._store_threads = ThreadPoolExecutor(_STORE_THREADS, "outcry-stream")

    def close(self) -> None:
        """Stop the threads that build the answers."""
        for pool in (self._registry_thread, self._store_threads):
            pool.shutdown(wait=False, cancel_futures=True)

    async def on_registry_thread(self, job: Callable[[], T]) -> T:
        """Run a job that reads the registry only, in its own thread, so that it never waits for the database."""
        return await asyncio.get_running_loop().run_in_executor(self._registry_thread, job)

    async def on_database_thread(self, job: Callable[[], T]) -> T:
        """Run a job that may read the database, in a thread. Raises `StoreUnavailable` on a time-out."""
        running = asyncio.get_running_loop().run_in_executor(self._store_threads, job)
        done, _ = await asyncio.wait([running], timeout=self._timeout_s)
        if not done:
            running.cancel()
            raise StoreUnavailable("upstream_unavailable")
        return running.result()

    def version_now(self) -> tuple[int, int, int]:
        """Return a value that changes whenever the data source of a symbol may have changed."""
        return (
            self._live.registry.generation,
            self._edge.poller.store_revision,
            self._edge.authenticator.generation,
        )

    def stale(self, readers: Sequence[StreamReader]) -> list[StreamReader]:
        """Return the streams whose data sources must be selected again."""
        version_now, now_ns = self.version_now(), self._edge.clock.now_ns()
        return [
            reader
            for reader in readers
            if reader.resolved_version != version_now or now_ns >= reader.refresh_at_ns
            if not reader.ended and not reader.opening
        ]

    async def resolve_symbols(self, scope: Scope, symbols: Sequence[str]) -> list[RequestedSymbol]:
        """Return the product and contract of each symbol. Raises `UnknownSymbol`."""
        now_ns = self._edge.clock.now_ns()

        def resolve() -> list[RequestedSymbol]:
            found = [(symbol, self._query.watch(scope, symbol, now_ns)) for symbol in symbols]
            return [RequestedSymbol(symbol, each.root, each.contract) for symbol, each in found]

        return await self.on_registry_thread(resolve)

    async def refresh(self) -> list[ChannelUpdate]:
        """Render the channels (contracts' live data) that changed; return those with new events."""
        for place in [place for place, shared in self._shared.items() if not shared.readers]:
            del self._shared[place]
        return await self._render(
            [shared for shared in self._shared.values() if shared.version != shared.channel.version]
        )

    async def resolve(self, reader: StreamReader, *, opening: bool = False) -> None:
        """Select the data source of each symbol of a stream.

        Raises `StoreBusy`, `StoreUnavailable`, and `UnknownSymbol` if the stream is opening.
        """
        version_now, now_ns = self.version_now(), self._edge.clock.now_ns()
        caller = self._edge.authenticator.reauthenticate(reader.caller)
        if caller is None or caller.scope is None or caller.role != "read":
            reader.end("unauthorized")
            return
        scope = caller.scope
        if reader.all_symbols:
            for root in await self._visible_products(scope, now_ns):
                reader.cursors.setdefault(root, SymbolCursor(RequestedSymbol(root, root, None)))
        cursors = list(reader.cursors.values())
        found = await self.on_registry_thread(
            lambda: [self._live_source(scope, cursor.requested, now_ns) for cursor in cursors]
        )
        if reader.ended:  # while the thread ran
            return
        again_ns = now_ns + NANOS_PER_MINUTE
        for cursor, (seen, reason) in zip(cursors, found, strict=True):
            cursor.reason = reason
            reader.use_channel(cursor, self._share(seen) if seen is not None else None)
            if reason == "no_trades":  # the first trade does not change the version
                again_ns = now_ns + NANOS_PER_SECOND
        await self._render(
            [cursor.shared for cursor in cursors if cursor.shared is not None and cursor.shared.version < 0]
        )
        for cursor in cursors:
            if cursor.shared is None or cursor.shared.events is None:
                try:
                    again_ns = min(again_ns, await self._load_delayed(cursor, scope, now_ns))
                except UnknownSymbol:
                    if opening:
                        raise
                    cursor.delayed = NO_EVENTS
        reader.caller, reader.resolved_version, reader.refresh_at_ns = caller, version_now, again_ns
        requested = None if reader.all_symbols else [cursor.requested for cursor in cursors]
        reader.alert_filter = AlertFilter(self._live.universe, scope, requested)

    async def _render(self, changed: Sequence[SharedChannel]) -> list[ChannelUpdate]:
        if not changed:
            return []
        requested = [(VisibleChannel(shared.channel, shared.source), shared.events) for shared in changed]
        found = await self.on_registry_thread(
            lambda: [self._events_of(seen, events) for seen, events in requested]
        )
        updates: list[ChannelUpdate] = []
        for shared, (version, events) in zip(changed, found, strict=True):
            shared.version = version
            if events is not shared.events:
                updates.append(ChannelUpdate(shared, shared.events))
                shared.events = events
                if events is None:  # no longer live: show the completed session again
                    for reader in shared.readers:
                        reader.refresh_at_ns = 0
        return updates

    def _events_of(
        self, seen: VisibleChannel, before: SymbolEvents | None
    ) -> tuple[int, SymbolEvents | None]:
        """Return the version and the events of a channel (live data); `before` if it has not changed.

        Runs in a thread.
        """
        version = seen.channel.version  # read first: a change during the computation is then computed again
        view = self._live_answers.view(seen)
        if view is None or view.live is None:
            return version, None
        return version, live_events(view, view.live, before)

    def _share(self, seen: VisibleChannel) -> SharedChannel:
        place = (seen.channel, seen.source)
        shared = self._shared.get(place)
        if shared is None:
            shared = self._shared[place] = SharedChannel(seen.channel, seen.source)
        return shared

    async def _visible_products(self, scope: Scope, now_ns: int) -> list[str]:
        """Return the products that the caller with this scope may read any data of."""
        revision = self._edge.poller.store_revision
        cached = self._visible.get(scope)
        if cached is None or cached[0] != revision or now_ns >= cached[1]:
            found = await self.on_database_thread(lambda: self._query.symbols(scope, now_ns))
            roots = frozenset(each.symbol for each in found.answer.symbols if each.data_source is not None)
            cached = self._visible[scope] = (revision, now_ns + NANOS_PER_MINUTE, roots)
            if len(self._visible) > _MAX_SCOPES:
                self._visible.popitem(last=False)
        live = {seen.channel.key.contract.root for seen in self._live.registry.channels(scope)}
        return sorted(cached[2] | live)

    def _live_source(
        self, scope: Scope, requested: RequestedSymbol, now_ns: int
    ) -> tuple[VisibleChannel | None, str]:
        """Return the channel (live data) of a symbol, and `live` or why it is not live. Runs in a thread."""
        try:
            found = self._query.watch(scope, requested.symbol, now_ns)
        except UnknownSymbol:  # removed since the stream was opened
            return None, "no_connection"
        if found.state != "live":
            return found.seen, found.state
        return found.seen, "no_trades" if found.seen is None else "no_prior"

    async def _load_delayed(self, cursor: SymbolCursor, scope: Scope, now_ns: int) -> int:
        """Load the events of a completed session into a stream's cursor; return when they expire (ns UTC).

        A change of the database makes them expire earlier. Nothing is loaded if the symbol went live in the meantime.
        """
        symbol, revision = cursor.requested.symbol, self._edge.poller.store_revision
        cached = self._delayed.get((scope, symbol))
        if cached is None or cached[0] != revision or now_ns >= cached[1]:
            events, until_ns = await self.on_database_thread(
                lambda: self._newest_completed(scope, symbol, now_ns)
            )
            if events is None:
                cursor.delayed = None
                return until_ns
            cached = self._delayed[scope, symbol] = (revision, until_ns, events)
            if len(self._delayed) > _MAX_DELAYED:
                self._delayed.popitem(last=False)
        if cursor.delayed is None or cursor.delayed.rest != cached[2].rest:
            cursor.delayed = cached[2]
        return cached[1]

    def _newest_completed(self, scope: Scope, symbol: str, now_ns: int) -> tuple[SymbolEvents | None, int]:
        """Return the events of the newest completed session and their expiry (ns UTC). Runs in a thread."""
        try:
            found = self._query.levels(scope, symbol, now_ns)
        except NoLicensedSource:
            return NO_EVENTS, now_ns + NANOS_PER_MINUTE  # an embargo may end
        if found.answer.live:
            return None, now_ns + NANOS_PER_SECOND
        until_ns = found.fresh_until_ns
        return delayed_events(found.answer), now_ns + NANOS_PER_MINUTE if until_ns is None else until_ns

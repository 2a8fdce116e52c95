"""What runs connections sees of streams, and what the pages see of what runs connections.

Rule kept: whether streams are of this process or of others, the same is asked of them and the same is told.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Protocol

from outcry.base.log_events import Report
from outcry.connections.model import ConnectionRow, Finding
from outcry.live.model import StreamKey
from outcry.live.stream_status import StreamStatus
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed


class ConnectionStreams(Protocol):
    """ConnectionStreams as feeds are attached to them. For one event loop. `report`: for an operator."""

    report: Report

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Run every contract a feed brings, now and as it rolls; cancelled, the task first ends the feed."""
        ...

    def brought(self, owner: int, feed: str) -> frozenset[Contract]:
        """The contracts that a feed brings, as it last said."""
        ...

    def status(self, key: StreamKey) -> StreamStatus | None:
        """What a stream says that is brought here; None where it has not begun."""
        ...

    def history(self, key: StreamKey) -> str:
        """The quality that the session of a stream brought here is computed from, as `records.Quality` has it."""
        ...

    def feeds(self) -> Collection[tuple[int, str]] | None:
        """Owner and name of every feed there are streams of, whoever brings it; None while that is not known yet."""
        ...

    def streams(self, owner: int, feed: str) -> Sequence[StreamKey]:
        """The streams there are of a feed, whoever brings it."""
        ...

    def refuse(self, key: StreamKey, code: str) -> None:
        """Say of a stream that nobody follows why."""
        ...

    def retire(self, key: StreamKey) -> None:
        """Show a stream no more, if nobody follows it now; what it has goes to the store when it has ended."""
        ...


class ConnectionRunner(Protocol):
    """What runs connections, here or in another process."""

    def wake(self) -> None:
        """The store has changed: see to it at once, if anybody hears this; soon in any case. From any thread."""
        ...

    def held(self, user_id: int) -> set[str]:
        """Brokers whose streams of a user are a connection's still, though it may just have ended, as far as known."""
        ...

    async def check(self, row: ConnectionRow) -> Sequence[Finding]:
        """See `Connections.check`. May raise `StoreBusy`."""
        ...

"""The ports between connections and their streams, for streams of this process and of other processes alike."""

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
    """Streams to which connections attach their feeds. For one event loop. `report`: logs for the operator."""

    report: Report

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Run all contracts of a feed, including later ones; if cancelled, the task closes the feed first."""
        ...

    def contracts_of(self, owner: int, feed: str) -> frozenset[Contract]:
        """Return the contracts a feed last reported."""
        ...

    def status(self, key: StreamKey) -> StreamStatus | None:
        """Return the status of a stream of this process's feeds; None if it has not started."""
        ...

    def history(self, key: StreamKey) -> str:
        """Return the quality of the data in a stream's session, a value of `records.Quality`."""
        ...

    def feeds(self) -> Collection[tuple[int, str]] | None:
        """Return owner and name of every feed with streams, in any process; None while this is unknown."""
        ...

    def streams(self, owner: int, feed: str) -> Sequence[StreamKey]:
        """Return the streams of a feed, in any process."""
        ...

    def refuse(self, key: StreamKey, code: str) -> None:
        """Set the reason shown for a stream that no feed supplies."""
        ...

    def retire(self, key: StreamKey) -> None:
        """Hide a stream that no feed supplies; its session is stored when it ends."""
        ...


class ConnectionRunner(Protocol):
    """Runs connections, in this process or another one."""

    def wake(self) -> None:
        """Report that the store changed, so that it is read at once instead of at the next interval. Thread-safe."""
        ...

    def connected_brokers(self, user_id: int) -> set[str]:
        """Return brokers whose streams still belong to a user's connection, which may just have been removed."""
        ...

    async def check(self, row: ConnectionRow) -> Sequence[Finding]:
        """See `Connections.check`. May raise `StoreBusy`."""
        ...

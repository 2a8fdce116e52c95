"""Interfaces between connections and their streams, which may run in this process or in others."""

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
    """The live streams that connections deliver data to, on one event loop. `report`: logs for the operator."""

    report: Report

    def attach(self, owner: int, feed: Feed) -> asyncio.Task[None]:
        """Run all contracts of a feed in a task, also those that the feed lists later.

        If cancelled, the task closes the feed first.
        """
        ...

    def contracts_of(self, owner: int, feed: str) -> frozenset[Contract]:
        """Return the contracts a feed last reported."""
        ...

    def status(self, key: StreamKey) -> StreamStatus | None:
        """Return the status of a stream of this process's feeds; None if it has not started."""
        ...

    def history(self, key: StreamKey) -> str:
        """Return the data quality of a stream's session (ticks or bars), a value of `records.Quality`."""
        ...

    def feeds(self) -> Collection[tuple[int, str]] | None:
        """Return owner and name of every feed with streams, in any process; None while this is unknown."""
        ...

    def streams(self, owner: int, feed: str) -> Sequence[StreamKey]:
        """Return the streams of a feed, in any process."""
        ...

    def refuse(self, key: StreamKey, code: str) -> None:
        """Set the reason (`code`) that users see for a stream that has no feed."""
        ...

    def retire(self, key: StreamKey) -> None:
        """Hide a stream that has no feed any more; its session is stored when it ends."""
        ...


class ConnectionRunner(Protocol):
    """Interface of the component that runs the connections, in this process or another one."""

    def wake(self) -> None:
        """Read changed connections from the database at once, not at the next interval. Thread-safe."""
        ...

    def connected_brokers(self, user_id: int) -> set[str]:
        """Return the brokers of a user whose streams still belong to a connection, even one just removed."""
        ...

    async def check(self, row: ConnectionRow) -> Sequence[Finding]:
        """Check which parts of a connection work, within 30 s; return the findings. May raise `StoreBusy`."""
        ...

"""Broker connections in a cluster: each process with role `feeds` runs a share of them; pages reach it by calls.

The database defines which connections run. Notifications between processes only shorten the delay until a change takes
effect.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from outcry.base.errors import StoreUnavailable
from outcry.cluster.calls import BusDown, CallRefused
from outcry.cluster.nats.calls import NatsCalls
from outcry.connections.connection_check import CHECK_TIMEOUT_S, sign_in_failed
from outcry.connections.feed_factory import partition_of_feed
from outcry.connections.model import ConnectionRow, Finding
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.database.errors import StoreBusy
from outcry.live.partitions import Partitions

#: The name of the notification that the store has changed.
CHANGED = "connections"
#: Timeout of a remote check: the longest check and a margin.
CHECK_S = CHECK_TIMEOUT_S + 3.0
_FINDINGS = msgspec.msgpack.Decoder(tuple[Finding, ...])


class SharedConnections:
    """Run this process's share of the broker connections, while other processes run the rest."""

    def __init__(self, supervisor: ConnectionSupervisor, partitions: Partitions, calls: NatsCalls) -> None:
        self._supervisor, self._partitions, self._calls = supervisor, partitions, calls
        self._served: dict[int, AsyncExitStack] = {}

    async def run(self) -> None:
        """Run this process's share of the connections until cancelled; then end them."""
        await self._supervisor.start()
        try:
            async with self._calls.listen(CHANGED, lambda _: self._supervisor.wake()):
                await self._partitions.run(self._gained, self._lost)
        finally:
            await self._supervisor.stop()

    async def _gained(self, partition: int) -> None:
        await self._supervisor.gained(partition)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._calls.serve(_name(partition), self._check))
            self._served[partition] = stack.pop_all()

    async def _lost(self, partition: int) -> None:
        if (served := self._served.pop(partition, None)) is not None:
            await served.aclose()
        await self._supervisor.lost(partition)

    async def _check(self, body: bytes) -> bytes:
        row = msgspec.msgpack.decode(body, type=ConnectionRow)
        try:
            return msgspec.msgpack.encode(await self._supervisor.check(row))
        except StoreBusy:
            raise CallRefused(StoreUnavailable.code) from None


class RemoteConnections:
    """Access to broker connections that run in other processes. Implements `ConnectionRunner`."""

    def __init__(self, calls: NatsCalls) -> None:
        self._calls = calls
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Send notifications of changed connections to the other processes, until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._calls.tell(CHANGED, b"")

    def wake(self) -> None:
        """Notify the other processes that connections in the database have changed, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    def connected_brokers(self, user_id: int) -> set[str]:
        """Return an empty set, because this process runs no connections."""
        return set()

    async def check(self, row: ConnectionRow) -> Sequence[Finding]:
        """Ask the process that runs a connection to check it; return the findings."""
        name, body = _name(partition_of_feed(row.user_id, row.broker)), msgspec.msgpack.encode(row)
        try:
            return _FINDINGS.decode(await self._calls.ask(name, body, CHECK_S))
        except BusDown:
            return sign_in_failed("unreachable")
        except CallRefused as problem:
            raise StoreBusy("the process that runs the connection cannot check it now") from problem


def _name(partition: int) -> str:
    return f"connection.{partition}"

"""The list of running processes, from their heartbeats over NATS. A process without heartbeats is removed.

Missing heartbeats of others count only while NATS delivers this process's own heartbeats. After an interruption every
process has `_GRACE_S` to reconnect.
"""

import asyncio
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec
from nats.aio.msg import Msg

from outcry.base.tasks import BackgroundTasks, repeat
from outcry.cluster.calls import BusDown
from outcry.cluster.nats.link import Link, bus_errors
from outcry.cluster.nats.subscribing import subscribed

HEARTBEAT_INTERVAL_S = 0.4
#: A process without a heartbeat for this long is removed.
SILENCE_S = 1.6
#: Longest time a process needs to reconnect.
_GRACE_S = 3.0
_CONNECTED_S = 2.0
_SUBJECT = "outcry.here"


class _Heartbeat(msgspec.Struct, frozen=True):
    """A heartbeat of a process with its roles. A heartbeat without roles announces that the process ends."""

    name: str
    roles: tuple[str, ...]


_HEARTBEAT = msgspec.json.Decoder(_Heartbeat)


class NatsPresence:
    """List the processes of each role, on one event loop.

    The list is at most about two seconds old. While NATS is unavailable it is the last known one.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self._roles: Counter[str] = Counter()
        self._blocks = 0
        self._heartbeats = BackgroundTasks()
        self._others: dict[str, tuple[float, tuple[str, ...]]] = {}  # expiry and roles of each process
        self._received_at_s = float("-inf")
        #: Set once NATS has delivered a heartbeat of this process. Before, it knows of no other process.
        self.joined = asyncio.Event()

    @property
    def name(self) -> str:
        """This process's name: host, process id and a random suffix."""
        return self._name

    @property
    def connected(self) -> bool:
        """Whether NATS has delivered our heartbeat within the last two seconds."""
        return time.monotonic() - self._received_at_s < _CONNECTED_S

    def members(self, role: str) -> Sequence[str]:
        """Return the names of the processes of a role, sorted; complete only within a block of `announce`."""
        found = [
            name
            for name, (until_s, roles) in self._others.items()
            if role in roles and until_s > self._received_at_s
        ]
        return sorted([*found, self._name] if self._roles[role] else found)

    @asynccontextmanager
    async def announce(self, roles: Sequence[str]) -> AsyncGenerator[None]:
        """Announce this process to the others under these roles until the block ends.

        While NATS is unavailable, the announcement waits until it is back.
        """
        self._roles.update(roles)
        self._blocks += 1
        if self._blocks == 1:
            self._heartbeats.start("presence", self._send_heartbeats())
        try:
            await self._send_heartbeat()
            yield
        finally:
            self._roles.subtract(roles)
            self._blocks -= 1
            await self._send_heartbeat()
            if not self._blocks:
                await self._heartbeats.stop()

    async def _send_heartbeats(self) -> None:
        async with subscribed(self._link, _SUBJECT, self._take):
            await repeat(self._send_heartbeat, HEARTBEAT_INTERVAL_S)

    async def _send_heartbeat(self) -> None:
        heartbeat = _Heartbeat(self._name, tuple(+self._roles))
        with suppress(BusDown), bus_errors():
            await self._link.client.publish(_SUBJECT, msgspec.json.encode(heartbeat))

    async def _take(self, message: Msg) -> None:
        heartbeat, now_s = _HEARTBEAT.decode(message.data), time.monotonic()
        # NATS was unavailable, or this process was suspended
        if now_s - self._received_at_s > 2 * HEARTBEAT_INTERVAL_S:
            for name, (_, roles) in self._others.items():
                self._others[name] = now_s + _GRACE_S, roles
        self._received_at_s = now_s
        self.joined.set()
        if heartbeat.name != self._name:
            if heartbeat.name not in self._others:
                await self._send_heartbeat()  # a new process learns of us at once
            self._others[heartbeat.name] = now_s + SILENCE_S, heartbeat.roles
            self._forget(now_s)

    def _forget(self, now_s: float) -> None:
        for name in [name for name, (until_s, _) in self._others.items() if until_s <= now_s]:
            del self._others[name]

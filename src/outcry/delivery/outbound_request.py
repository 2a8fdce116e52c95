"""One HTTP request to a webhook: its current stage, its deadline and its slots.

A slot is the permission for one request at an IP address. Sockets are created for a request only, and only to IP
addresses that its destination allows. A request has a slot at each IP address that it has a socket to. The TLS library
reports the progress: the first step of a handshake ends the connect stage, the last one begins the wait for the
response.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address
from typing import Any

from outcry.delivery.slots import NoSlotFree, Slots
from outcry.delivery.tls_sessions import Origin, TlsSessions, Trusted
from outcry.delivery.url_rule import Destination, IpAddress

#: The request that the running code belongs to, callbacks of its connection included.
CURRENT_REQUEST: ContextVar["OutboundRequest"] = ContextVar("CURRENT_REQUEST")


class Stage(IntEnum):
    """Progress of a request. A reused connection skips all stages between the first and the last."""

    START = 0
    DNS = 1
    SLOT = 2
    CONNECT = 3
    TLS = 4
    ANSWER = 5


@dataclass(slots=True)
class OutboundRequest:
    """The state of one HTTP request to a webhook.

    - `allows`: returns whether the request may connect to an IP address.
    - `deadline`: the deadline of the stage; `end_s`: the final deadline, in the loop's time.
    - `slots`: permissions for one request each, by IP address; `acquired`: addresses at which this request has one.
    - `sessions`: TLS sessions to resume; `handshake`: the last handshake, None on a reused connection.
    - `code`: the reason if the request was refused before it was sent, else empty.
    - `phases_ms`: duration of each stage. The wait for a slot counts in none.
    """

    destination: Destination
    allows: Callable[[Destination, IpAddress], bool]
    deadline: asyncio.Timeout
    end_s: float
    connect_s: float
    slots: Slots
    slot_wait_s: float
    sessions: TlsSessions
    handshake: "ObservedHandshake | None" = None
    acquired: set[str] = field(default_factory=set[str])
    code: str = ""
    stage: Stage = Stage.START
    finished: bool = False
    phases_ms: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _since_s: float = field(default_factory=time.perf_counter)

    def enter(self, stage: Stage) -> None:
        """Begin a stage, and end the previous one. Entering the current stage again has no effect."""
        if self.finished or stage <= self.stage:
            return
        self._leave()
        self.stage, self._since_s = stage, time.perf_counter()
        if stage is Stage.CONNECT:
            self._extend_to(min(self.end_s, asyncio.get_running_loop().time() + self.connect_s))
        elif stage is Stage.ANSWER:
            self._extend_to(self.end_s)

    def finish(self) -> None:
        """End the last stage: the response has begun, or there will be none."""
        if self.finished:
            return
        if self.stage is Stage.START:  # on a reused connection
            self.stage = Stage.ANSWER
        self._leave()
        self.finished = True

    async def acquire(self, addresses: Collection[str]) -> str:
        """Acquire a slot (permission for one request) at the first of these IP addresses that has one free.

        Release the slots at all others, and return the IP address. Raises `NoSlotFree`.
        """
        self.release()
        address = await self.slots.acquire(addresses, self.slot_wait_s)
        if self.finished:  # otherwise it would never be released
            self.slots.release(address)
            raise NoSlotFree
        self.acquired.add(address)
        return address

    def try_acquire(self, address: str) -> bool:
        """Acquire a slot at one more IP address if a slot is free there.

        Return whether the request now has a slot at this IP address.
        """
        if self.finished or (address not in self.acquired and not self.slots.try_acquire(address)):
            return False
        self.acquired.add(address)
        return True

    def release(self, *addresses: str) -> None:
        """Release the slots at these IP addresses; without arguments, all slots."""
        for address in addresses or tuple(self.acquired):
            if address in self.acquired:
                self.acquired.remove(address)
                self.slots.release(address)

    def _leave(self) -> None:
        if self.stage not in (Stage.START, Stage.SLOT):
            took_ms = round((time.perf_counter() - self._since_s) * 1000)
            self.phases_ms.append((self.stage.name.lower(), took_ms))

    def _extend_to(self, end_s: float) -> None:
        if not self.deadline.expired():
            self.deadline.reschedule(end_s)


class ObservedHandshake(ssl.SSLObject):
    """A TLS connection that reports its progress to the current request, and resumes a session if there is one."""

    _origin: Origin
    _began_ns: int
    _trusted: Trusted | None = None

    def do_handshake(self) -> None:
        """Do a step of the handshake, and record its stage."""
        request = CURRENT_REQUEST.get(None)
        if request is not None and request.handshake is not self:
            request.enter(Stage.TLS)
            request.handshake = self
            self._resume(request)
        super().do_handshake()
        if request is not None:
            request.enter(Stage.ANSWER)

    def _resume(self, request: OutboundRequest) -> None:
        """Offer a stored session of this server. The server may decline, and is then verified again."""
        self._origin = (self.context, str(self.server_hostname), request.destination.port)
        self._began_ns = request.sessions.now_ns()
        if (stored := request.sessions.take(self._origin)) is not None:
            self.session, self._trusted = stored

    def keep_session(self, sessions: TlsSessions) -> None:
        """Store the session that the server issued. TLS 1.3 servers issue it after the handshake."""
        sessions.keep(self._origin, self, self._trusted, self._began_ns)

    def suspend_sessions(self, sessions: TlsSessions) -> None:
        """Resume no session of this server for some time, because the handshake failed."""
        sessions.suspend(self._origin)


class _RequestSocket(socket.socket):
    """A socket that was created for a request, and whose closing releases the request's slot.

    A later request that reuses the connection acquires its own slot.
    """

    request: OutboundRequest
    address: str

    def close(self) -> None:
        """Close the socket, and release the request's slot at its IP address."""
        super().close()
        self.request.release(self.address)


def guarded_socket(info: tuple[Any, ...]) -> socket.socket:
    """Create a socket for the current request, if its destination allows the IP address and a slot is free.

    Raises `OSError`.
    """
    request = CURRENT_REQUEST.get(None)
    family, kind, protocol, _, peer = info
    if request is None:
        raise PermissionError("socket without a request")
    ip = ip_address(peer[0])
    if not request.allows(request.destination, ip):
        request.code = "blocked_address"
        raise PermissionError(request.code)
    if not request.try_acquire(str(ip)):
        raise BlockingIOError("no slot is free at this address")
    request.enter(Stage.CONNECT)
    made = _RequestSocket(family, kind, protocol)
    made.request, made.address = request, str(ip)
    return made

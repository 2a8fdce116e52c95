"""One message's way to where it goes: what it has come to, since when, and until when it may take.

Rules kept: a socket is made for a trip only, and only to an address its place may be reached at; the clock of a stage
starts when the stage does. The TLS library itself tells where a trip is: the first step of a handshake is the end of
connecting, the last the beginning of waiting for the answer.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from ipaddress import ip_address
from typing import Any

from outcry.deliver.address import Number, Place

#: The trip that whatever runs now belongs to, also in the callbacks of its connection.
UNDER_WAY: ContextVar["Trip"] = ContextVar("UNDER_WAY")


class Stage(IntEnum):
    """Where a trip is. A connection that is used again leaves out all between the first and the last."""

    SETTING_OUT = 0
    DNS = 1
    TURN = 2
    CONNECT = 3
    TLS = 4
    ANSWER = 5


@dataclass(slots=True)
class Trip:
    """`allows`: whether its place may be reached at an address; `limit`: its deadline, moved from stage to stage;
    `end_s`: the last one, by the loop's clock; `code`: why it was ended here, empty where it was not; `turns`: those
    it holds. `phases_ms`: what took how long; the wait for a turn is in none."""

    place: Place
    allows: Callable[[Place, Number], bool]
    limit: asyncio.Timeout
    end_s: float
    connect_s: float
    turns: tuple[str, ...] = ()
    code: str = ""
    stage: Stage = Stage.SETTING_OUT
    over: bool = False
    phases_ms: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _since_s: float = field(default_factory=time.perf_counter)

    def reach(self, stage: Stage) -> None:
        """A stage begins. One that was reached before does not begin again: its time runs on."""
        if self.over or stage <= self.stage:
            return
        self._leave()
        self.stage, self._since_s = stage, time.perf_counter()
        if stage is Stage.CONNECT:
            self._allow_until(min(self.end_s, asyncio.get_running_loop().time() + self.connect_s))
        elif stage is Stage.ANSWER:
            self._allow_until(self.end_s)

    def finish(self) -> None:
        """The answer has begun, or none will come."""
        if self.over:
            return
        if self.stage is Stage.SETTING_OUT:  # by a connection there was
            self.stage = Stage.ANSWER
        self._leave()
        self.over = True

    def _leave(self) -> None:
        if self.stage not in (Stage.SETTING_OUT, Stage.TURN):
            took_ms = round((time.perf_counter() - self._since_s) * 1000)
            self.phases_ms.append((self.stage.name.lower(), took_ms))

    def _allow_until(self, end_s: float) -> None:
        if not self.limit.expired():
            self.limit.reschedule(end_s)


class Handshake(ssl.SSLObject):
    """A TLS connection that tells its trip how far it is."""

    def do_handshake(self) -> None:
        """See `ssl.SSLObject`."""
        trip = UNDER_WAY.get(None)
        if trip is not None:
            trip.reach(Stage.TLS)
        super().do_handshake()
        if trip is not None:
            trip.reach(Stage.ANSWER)


def judged_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for the trip under way; for nobody and nowhere else. Raises `OSError`."""
    trip = UNDER_WAY.get(None)
    family, kind, protocol, _, destination = info
    if trip is None:
        raise PermissionError("a connection outside any trip")
    if not trip.allows(trip.place, ip_address(destination[0])):
        trip.code = "blocked_address"
        raise PermissionError(trip.code)
    trip.reach(Stage.CONNECT)
    return socket.socket(family, kind, protocol)

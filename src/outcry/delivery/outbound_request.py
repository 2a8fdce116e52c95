"""One message's way to where it goes: what it has come to, since when, and until when it may take.

Rules kept: a socket is made for a trip only, and only to an address its place may be reached at; a trip has a turn at
each address it has a socket to, and no longer than that; the clock of a stage starts when the stage does. The TLS
library itself tells where a trip is: the first step of a handshake is the end of connecting, the last the beginning of
waiting for the answer.
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

from outcry.delivery.slots import NoTurn, Turns
from outcry.delivery.url_rule import Number, Place

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
    `end_s`: the last one, by the loop's clock; `turns`: at addresses; `held`: where it holds one; `code`: why it was
    ended here, empty where it was not. `phases_ms`: what took how long; the wait for a turn is in none."""

    place: Place
    allows: Callable[[Place, Number], bool]
    limit: asyncio.Timeout
    end_s: float
    connect_s: float
    turns: Turns
    turn_s: float
    held: set[str] = field(default_factory=set[str])
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

    async def take(self, numbers: Collection[str]) -> str:
        """Hold a turn at one of these addresses, the first that has one, and at no other; return which. Raises
        `NoTurn`."""
        self.give_back()
        number = await self.turns.take(numbers, self.turn_s)
        if self.over:  # nobody would give it back
            self.turns.give_back(number)
            raise NoTurn
        self.held.add(number)
        return number

    def hold(self, number: str) -> bool:
        """Hold a turn at one more address; whether there is one now."""
        if self.over or (number not in self.held and not self.turns.take_now(number)):
            return False
        self.held.add(number)
        return True

    def give_back(self, *numbers: str) -> None:
        """Give back the turns at these addresses, or at all."""
        for number in numbers or tuple(self.held):
            if number in self.held:
                self.held.remove(number)
                self.turns.give_back(number)

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


class _Try(socket.socket):
    """A socket that was made for a trip: with its end, the trip's turn there ends. (The turn of one that is used again
    is another trip's.)"""

    trip: Trip
    number: str

    def close(self) -> None:
        """See `socket.socket`."""
        super().close()
        self.trip.give_back(self.number)


def judged_socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket for the trip under way, which has a turn where it leads; for nobody and nowhere else. Raises
    `OSError`."""
    trip = UNDER_WAY.get(None)
    family, kind, protocol, _, destination = info
    if trip is None:
        raise PermissionError("a connection outside any trip")
    number = ip_address(destination[0])
    if not trip.allows(trip.place, number):
        trip.code = "blocked_address"
        raise PermissionError(trip.code)
    if not trip.hold(str(number)):
        raise BlockingIOError("too many are connected there")
    trip.reach(Stage.CONNECT)
    made = _Try(family, kind, protocol)
    made.trip, made.number = trip, str(number)
    return made

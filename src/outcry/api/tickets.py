"""Tickets for the event stream: what a browser page shows instead of a key, which `EventSource` cannot send.

Rule kept: a ticket opens one stream within 30 seconds for the key it was made with, and nothing else; it is sealed, so
that any process that shares the secret can read it and nobody else make one; that it was used is remembered by the
process it was used at; it is logged nowhere (`http.redaction`).
"""

import secrets

from outcry.base.clock import Clock
from outcry.http.auth import Caller
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.tickets import Tickets as Sealed

LIFETIME_S = 30
_LASTING_NS = LIFETIME_S * NANOS_PER_SECOND
_PURPOSE = "stream"


class Tickets:
    """Gives tickets and takes them. For one event loop. `secret`: shared by all processes that answer."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._sealed, self._clock = Sealed(secret, clock), clock
        self._used: dict[str, int] = {}  # until when they would hold, in the order used

    def __len__(self) -> int:
        """How many used ones are remembered."""
        return len(self._used)

    def give(self, caller: Caller) -> str:
        """Make a ticket for the caller's key."""
        once = secrets.token_urlsafe(12)
        return self._sealed.give(_PURPOSE, _LASTING_NS, key=caller.name, subject=caller.subject, once=once)

    def take(self, ticket: str) -> tuple[str, str] | None:
        """Use a ticket up: return the name and the subject of the key it was made with, None where it is unknown, used
        or too old."""
        self._forget_old()
        facts = self._sealed.read(_PURPOSE, ticket)
        if facts is None or facts["once"] in self._used:
            return None
        self._used[facts["once"]] = self._clock.now_ns() + _LASTING_NS
        return facts["key"], facts["subject"]

    def _forget_old(self) -> None:
        now_ns = self._clock.now_ns()
        while self._used and next(iter(self._used.values())) <= now_ns:
            del self._used[next(iter(self._used))]

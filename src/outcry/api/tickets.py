"""Tickets for the event stream. A page sends a ticket instead of a key, because `EventSource` cannot send headers.

A ticket opens one stream within 30 seconds, for the key that requested it. It is encrypted, so only processes that
share the secret can create and read tickets. Each process records the tickets used there and rejects a second use. The
logs never contain a ticket.
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
    """Issues and redeems tickets. Used on one event loop. `secret`: shared by all processes."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._sealed, self._clock = Sealed(secret, clock), clock
        self._used: dict[str, int] = {}  # used tickets with their expiry (ns UTC), in order of use

    def __len__(self) -> int:
        """Return the number of used tickets that have not expired."""
        return len(self._used)

    def give(self, caller: Caller) -> str:
        """Issue a ticket for the caller's key."""
        once = secrets.token_urlsafe(12)
        return self._sealed.give(_PURPOSE, _LASTING_NS, key=caller.name, subject=caller.subject, once=once)

    def take(self, ticket: str) -> tuple[str, str] | None:
        """Mark a ticket as used; return the name and limiter subject of the key that requested the ticket.

        Return None if the ticket is invalid, used or expired.
        """
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

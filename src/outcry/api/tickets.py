"""Tickets for the event stream: what a browser page shows instead of a key, which `EventSource` cannot send.

Rule kept: a ticket opens one stream within 30 seconds for the key it was made with, and nothing else; only its digest
is kept, in this process's memory, and it is logged nowhere (`http.redaction`).
"""

import hashlib
import secrets

from outcry.core.units import NANOS_PER_SECOND
from outcry.http.auth import Caller
from outcry.ports.clock import Clock

LIFETIME_S = 30
TICKET_BYTES = 32


class Tickets:
    """Tickets given and not yet used. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._given: dict[bytes, tuple[Caller, int]] = {}  # in the order given, so in that of their ends

    def __len__(self) -> int:
        return len(self._given)

    def give(self, caller: Caller) -> str:
        """Make a ticket for the caller's key: 256 random bits in URL-safe Base64."""
        self._forget_old()
        ticket = secrets.token_urlsafe(TICKET_BYTES)
        self._given[_digest(ticket)] = (caller, self._clock.now_ns() + LIFETIME_S * NANOS_PER_SECOND)
        return ticket

    def take(self, ticket: str) -> Caller | None:
        """Use a ticket up: return whoever it was given to, None where it is unknown, used or too old."""
        self._forget_old()
        found = self._given.pop(_digest(ticket), None)
        return found[0] if found else None

    def _forget_old(self) -> None:
        now_ns = self._clock.now_ns()
        while self._given:
            oldest = next(iter(self._given))
            if self._given[oldest][1] > now_ns:
                return
            del self._given[oldest]


def _digest(ticket: str) -> bytes:
    return hashlib.blake2b(ticket.encode(), digest_size=32).digest()

"""Tickets: what a browser carries from one step to the next, sealed so that it can neither read nor alter it.

Rule kept: nothing is stored of a ticket; it holds for one purpose and some minutes.
"""

import base64
import binascii
import json

from outcry.core.units import NANOS_PER_MINUTE
from outcry.ports.clock import Clock
from outcry.services.sealing import Seal, SealBroken

LASTING_NS = 5 * NANOS_PER_MINUTE
_LONGEST = 4_000  # what fits a cookie


class Tickets:
    """Gives tickets and reads them."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._seal, self._clock = Seal(secret, "ticket"), clock

    def give(self, purpose: str, lasting_ns: int = LASTING_NS, **facts: str) -> str:
        """A ticket that tells these facts for a while."""
        ends_ns = self._clock.now_ns() + lasting_ns
        sealed = self._seal.close(json.dumps([ends_ns, facts]), purpose)
        return base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, purpose: str, ticket: str) -> dict[str, str] | None:
        """What it tells; None where it is not ours, for something else, or over."""
        if not ticket.isascii() or len(ticket) > _LONGEST:
            return None
        try:
            sealed = base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
            ends_ns, facts = json.loads(self._seal.open(sealed, purpose))
        except (binascii.Error, SealBroken):
            return None
        return facts if self._clock.now_ns() < ends_ns else None

"""Tickets: encrypted data that expires, carried by a browser cookie or a link.

The holder of a ticket can neither read nor change its data. Sign-in steps, form cookies, event streams and links in
email use tickets. The server stores no tickets. A ticket is valid for one purpose. Decision record 0053.
"""

import base64
import binascii
import json

from outcry.base.clock import Clock
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.market.units import NANOS_PER_MINUTE

LASTING_NS = 5 * NANOS_PER_MINUTE
_LONGEST = 4_000  # a cookie has at most 4,096 bytes, its name and attributes included


class Tickets:
    """Issues tickets and reads them. Processes that share `secret` read each other's tickets."""

    def __init__(self, secret: bytes, clock: Clock) -> None:
        self._encryptor, self._clock = Encryptor(secret, "ticket"), clock

    def give(self, purpose: str, lasting_ns: int | None = LASTING_NS, /, **facts: str) -> str:
        """Return a new ticket that contains these values. With `lasting_ns` None it never expires."""
        ends_ns = None if lasting_ns is None else self._clock.now_ns() + lasting_ns
        text = json.dumps([ends_ns, facts], ensure_ascii=False, separators=(",", ":"))
        return base64.urlsafe_b64encode(self._encryptor.encrypt(text, purpose)).decode().rstrip("=")

    def read(self, purpose: str, ticket: str) -> dict[str, str] | None:
        """Return the values in a ticket; None if it is expired, changed, or for another purpose or secret."""
        if not ticket.isascii() or len(ticket) > _LONGEST:
            return None
        try:
            sealed = base64.urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4))
            ends_ns, facts = json.loads(self._encryptor.decrypt(sealed, purpose))
        except (binascii.Error, DecryptionFailed):
            return None
        return facts if ends_ns is None or self._clock.now_ns() < ends_ns else None

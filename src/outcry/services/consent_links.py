"""Links in mail to whoever reads at an e-mail subscription's address: one to say yes, one to end it.

Rules kept: a link holds for one subscription and the address it was mailed to, one to say yes only until its reader
says no; nothing is kept of it, so that one can be made for every mail; who has none cannot make one.
"""

import base64
import hashlib
import hmac
import re
from typing import Literal

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.ports.clock import Clock
from outcry.ports.delivery import SubscriptionRow, Target

Purpose = Literal["confirm", "unsubscribe"]
PAGES = {"confirm": "/digest/confirm", "unsubscribe": "/digest/unsubscribe"}
#: How long a question can be answered; a mail can be unsubscribed from for as long as it is kept.
ASKED_FOR_NS = 7 * NANOS_PER_DAY
_FOR_EVER = 0
_TOKEN = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,12})\.[\w-]{43}", re.ASCII)


class ConsentLinks:
    """Makes them and reads them. `key`: not used for anything else; `public_url`: what links begin with."""

    def __init__(self, key: bytes, public_url: str, clock: Clock) -> None:
        self._key, self.site, self._clock = key, public_url.rstrip("/"), clock

    def confirm(self, row: SubscriptionRow) -> str:
        """Where a reader says yes; it holds for a week."""
        until_s = (self._clock.now_ns() + ASKED_FOR_NS) // NANOS_PER_SECOND
        return f"{self.site}{PAGES['confirm']}?token={self._token('confirm', row, until_s)}"

    def unsubscribe(self, row: SubscriptionRow) -> str:
        """Where a reader says that they want no more of it."""
        return f"{self.site}{PAGES['unsubscribe']}?token={self._token('unsubscribe', row, _FOR_EVER)}"

    def whose(self, token: str) -> tuple[int, int] | None:
        """The user and the subscription a token says it is about; None where it cannot be one, or its time is over."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        user_id, subscription_id, until_s = map(int, parts.groups())
        over = until_s != _FOR_EVER and self._clock.now_ns() >= until_s * NANOS_PER_SECOND
        return None if over else (user_id, subscription_id)

    def holds(self, purpose: Purpose, token: str, row: SubscriptionRow) -> bool:
        """Whether a token was made here, for this, and for the address the subscription still has."""
        parts = _TOKEN.fullmatch(token)
        if parts is None or row.target is not Target.EMAIL:
            return False
        return hmac.compare_digest(self._token(purpose, row, int(parts[3])), token)

    def _token(self, purpose: Purpose, row: SubscriptionRow, until_s: int) -> str:
        """Whose subscription, which one, until when (0: for ever), and that this was made here for its address. An
        address is sealed anew when its reader unsubscribes: no yes from before holds then."""
        said = f"{row.user_id}.{row.id}.{until_s}"
        text = f"{purpose}:{said}:{row.shown.lower()}".encode()
        if purpose == "confirm":
            text += row.sealed_address
        digest = hashlib.blake2b(text, digest_size=32, key=self._key, person=b"mail consent").digest()
        return f"{said}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"

"""Links in emails by which a reader agrees to receive the alerts of a subscription, or unsubscribes.

A link is valid for one subscription and the email address it was sent to. A link to agree expires after seven days, and
becomes invalid when the reader unsubscribes. Links are not stored: each contains an encrypted ticket. Decision record
0053.
"""

import base64
import hashlib
import hmac
import re
from typing import Literal

from outcry.base.clock import Clock
from outcry.delivery.model import SubscriptionRow, Target
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.people.tickets import Tickets

Purpose = Literal["confirm", "unsubscribe"]
PAGES = {"confirm": "/digest/confirm", "unsubscribe": "/digest/unsubscribe"}
#: How long a link to agree is valid. A link to unsubscribe does not expire.
CONFIRM_WITHIN_NS = 7 * NANOS_PER_DAY


class ConsentLinks:
    """Create and validate consent links.

    `key`: encrypts the tickets in the links, and is used for nothing else. `public_url`: the start of every link.
    """

    def __init__(self, key: bytes, public_url: str, clock: Clock) -> None:
        self._key, self.site, self._clock = key, public_url.rstrip("/"), clock
        self._tickets = Tickets(key, clock)

    def confirm(self, row: SubscriptionRow) -> str:
        """Return the link by which the reader agrees to receive a subscription's alerts; it expires in seven days."""
        return self._link("confirm", row, CONFIRM_WITHIN_NS)

    def unsubscribe(self, row: SubscriptionRow) -> str:
        """Return the link by which the reader of a subscription unsubscribes."""
        return self._link("unsubscribe", row, None)

    def whose(self, purpose: Purpose, token: str) -> tuple[int, int] | None:
        """Return the user id and the subscription id that a link's token contains; None if it is invalid or expired.

        Call `holds` afterwards, because the subscription may have changed since the link was sent.
        """
        if earlier := _EARLIER.fullmatch(token):
            return int(earlier[1]), int(earlier[2])
        facts = self._tickets.read(purpose, token)
        return None if facts is None else (int(facts["user"]), int(facts["subscription"]))

    def holds(self, purpose: Purpose, token: str, row: SubscriptionRow) -> bool:
        """Return whether a token is valid for a purpose, a subscription and its current email address."""
        if row.target is not Target.EMAIL:
            return False
        if _EARLIER.fullmatch(token):
            return _holds_earlier(self._key, purpose, token, row, self._clock.now_ns() // NANOS_PER_SECOND)
        return self._tickets.read(purpose, token) == _facts(purpose, row)

    def _link(self, purpose: Purpose, row: SubscriptionRow, lasting_ns: int | None) -> str:
        token = self._tickets.give(purpose, lasting_ns, **_facts(purpose, row))
        return f"{self.site}{PAGES[purpose]}?token={token}"


def _facts(purpose: Purpose, row: SubscriptionRow) -> dict[str, str]:
    """Return the data that a link's token contains.

    `to` is a digest of the email address. In links to agree, the digest also covers the stored ciphertext of the
    address. When a reader unsubscribes, the address is encrypted again, which invalidates earlier links to agree.
    """
    to = row.shown.lower().encode()
    if purpose == "confirm":
        to += b"\0" + row.sealed_address
    return {
        "user": str(row.user_id),
        "subscription": str(row.id),
        "to": hashlib.sha256(to).hexdigest()[:32],
    }


# -- links in the format before record 0053, which messages already sent contain; remove with version 1.0

#: User, subscription, expiry in seconds (0: never), signature.
_EARLIER = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,12})\.([\w-]{43})", re.ASCII)


def _holds_earlier(key: bytes, purpose: Purpose, token: str, row: SubscriptionRow, now_s: int) -> bool:
    signed, _, signature = token.rpartition(".")
    *ids, until_s = map(int, signed.split("."))
    if ids != [row.user_id, row.id] or (until_s and now_s >= until_s):
        return False
    text = f"{purpose}:{signed}:{row.shown.lower()}".encode()
    text += row.sealed_address if purpose == "confirm" else b""
    digest = hashlib.blake2b(text, digest_size=32, key=key, person=b"mail consent").digest()
    return hmac.compare_digest(base64.urlsafe_b64encode(digest).decode().rstrip("="), signature)

"""The demonstration's own receiver of webhooks: what came in, whether it was signed, and how it answers.

Rules kept: everything is in memory and bounded; a secret that is given to it is used to check signatures and never
shown again; whatever came in is data, to be shown as text.
"""

import base64
import binascii
import hashlib
import hmac
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from threading import Lock

from outcry.base.clock import Clock
from outcry.delivery.signing_secrets import MARK, end_of
from outcry.market.units import NANOS_PER_SECOND

MOST_RECEIPTS = 200
MOST_SECRETS = 20
LONGEST_BODY_BYTES = 64 * 1024
#: Of the headers of one request, in characters: several times what a delivery has.
LONGEST_HEADERS = 4 * 1024
#: How far a signature's time may lie from ours, by Standard Webhooks' advice.
TOLERANCE_S = 5 * 60


class Manner(StrEnum):
    """How the receiver answers: well, or in one of the ways receivers go wrong."""

    WELL = "well"
    ERROR = "error"  # 500
    SLOW = "slow"  # later than anybody waits
    REDIRECT = "redirect"  # 302 to somewhere else
    BUSY = "busy"  # 429, asking for half a minute
    GONE = "gone"  # 410


class Signature(StrEnum):
    """What a signature is worth, by the secrets known."""

    GOOD = "good"
    OLD = "old"  # good, but made too long ago, or for a time to come
    BAD = "bad"  # by none of the secrets
    UNKNOWN = "unknown"  # no secret was given yet
    MISSING = "missing"  # there is none


@dataclass(frozen=True, slots=True)
class Receipt:
    """Something that came in. `number`: from 1, in the order it came. `headers`: names in small letters, as they came,
    bytes that are no text among them; what is too much of them is left out.
    `tries`: how often this message has come by now, this time included. `status`: what it was answered, None while no
    answer is given."""

    number: int
    at_ns: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    message_id: str
    tries: int
    status: int | None

    def header(self, name: str) -> str:
        """One of them; empty where there is none."""
        return next((value for known, value in self.headers if known == name), "")


#: What each manner answers at once.
STATUSES: Mapping[Manner, int | None] = {
    Manner.WELL: 200,
    Manner.ERROR: 500,
    Manner.SLOW: None,
    Manner.REDIRECT: 302,
    Manner.BUSY: 429,
    Manner.GONE: 410,
}


class SecretRefused(ValueError):
    """Not a signing secret."""


class Sink:
    """What came in, and how it is answered. `address`: where webhooks are sent to reach it. Safe in any thread."""

    def __init__(self, address: str, clock: Clock) -> None:
        self.address = address
        self._clock = clock
        self._lock = Lock()
        self._receipts: deque[Receipt] = deque(maxlen=MOST_RECEIPTS)
        self._secrets: deque[tuple[bytes, str]] = deque(maxlen=MOST_SECRETS)
        self._count = 0
        self.manner = Manner.WELL

    @property
    def receipts(self) -> Sequence[Receipt]:
        """The newest, newest first."""
        with self._lock:
            return list(reversed(self._receipts))

    @property
    def secrets(self) -> Sequence[str]:
        """The last four characters of the secrets given, newest first."""
        with self._lock:
            return [shown for _, shown in reversed(self._secrets)]

    def take(self, headers: Sequence[tuple[str, str]], body: bytes) -> Manner:
        """Keep what came in; return how to answer it."""
        sizes = accumulate(len(name) + len(value) for name, value in headers)
        named = tuple(
            (name.lower(), value)
            for (name, value), size in zip(headers, sizes, strict=True)
            if size <= LONGEST_HEADERS
        )
        message_id = next((value for name, value in named if name == "webhook-id"), "")
        with self._lock:
            self._count += 1
            tries = 1 + sum(bool(message_id) and one.message_id == message_id for one in self._receipts)
            manner = self.manner
            self._receipts.append(
                Receipt(self._count, self._clock.now_ns(), named, body, message_id, tries, STATUSES[manner])
            )
        return manner

    def trust(self, secret: str) -> None:
        """Check signatures by this secret too. Raises `SecretRefused`."""
        try:
            key = base64.b64decode(secret.removeprefix(MARK), validate=True)
        except (binascii.Error, ValueError):
            raise SecretRefused from None
        if not secret.startswith(MARK) or not 16 <= len(key) <= 64:
            raise SecretRefused
        with self._lock:
            if all(known != key for known, _ in self._secrets):
                self._secrets.append((key, end_of(secret)))

    def signature(self, receipt: Receipt) -> Signature:
        """What the signature of something received is worth."""
        given, sent = receipt.header("webhook-signature"), receipt.header("webhook-timestamp")
        if not given or not receipt.message_id or not (sent.isascii() and sent.isdigit()):
            return Signature.MISSING
        with self._lock:
            keys = [key for key, _ in self._secrets]
        if not keys:
            return Signature.UNKNOWN
        signed = _bytes_of(f"{receipt.message_id}.{sent}.") + receipt.body
        right = [b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)) for key in keys]
        if not any(hmac.compare_digest(_bytes_of(one), good) for one in given.split() for good in right):
            return Signature.BAD
        apart_s = abs(receipt.at_ns // NANOS_PER_SECOND - int(sent[:15]))
        return Signature.GOOD if apart_s <= TOLERANCE_S else Signature.OLD

    def clear(self) -> None:
        """Forget what came in; secrets stay."""
        with self._lock:
            self._receipts.clear()


def _bytes_of(header: str) -> bytes:
    """A header's text, whatever it was read from."""
    return header.encode("utf-8", "surrogatepass")

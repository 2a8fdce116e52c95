"""Webhook receiver of the demo: stores received requests, verifies their signatures, and chooses how to respond.

All data is in memory and bounded. A secret is used to verify signatures and never displayed again. Received data is
displayed as text.
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
#: Maximum size of a request's headers in characters, several times that of a delivery.
LONGEST_HEADERS = 4 * 1024
#: Maximum difference of a signature's time, as Standard Webhooks advises.
TOLERANCE_S = 5 * 60


class Manner(StrEnum):
    """How the demo's receiver responds to requests: correctly, or with a typical fault."""

    WELL = "well"
    ERROR = "error"  # 500
    SLOW = "slow"  # after every timeout
    REDIRECT = "redirect"  # 302 to another URL
    BUSY = "busy"  # 429, asking for half a minute
    GONE = "gone"  # 410


class Signature(StrEnum):
    """Result of verifying the signature of a received request against the known secrets."""

    GOOD = "good"
    OLD = "old"  # valid, but too old or in the future
    BAD = "bad"  # by none of the added secrets
    UNKNOWN = "unknown"  # no secret was added yet
    MISSING = "missing"  # no signature


@dataclass(frozen=True, slots=True)
class Receipt:
    """A request that the demo's webhook receiver has stored.

    - `number`: from 1, in the order received.
    - `headers`: lower-case names, as received with undecodable bytes; headers beyond the limit are left out.
    - `tries`: how often this message was received, including this time.
    - `status`: the status of the response, None without one.
    """

    number: int
    at_ns: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    message_id: str
    tries: int
    status: int | None

    def header(self, name: str) -> str:
        """Return the value of a request header; empty if missing."""
        return next((value for known, value in self.headers if known == name), "")


#: Status of the immediate response.
STATUSES: Mapping[Manner, int | None] = {
    Manner.WELL: 200,
    Manner.ERROR: 500,
    Manner.SLOW: None,
    Manner.REDIRECT: 302,
    Manner.BUSY: 429,
    Manner.GONE: 410,
}


class SecretRefused(ValueError):
    """The text is not a signing secret."""


class Sink:
    """The received requests of the demo's receiver, and its response mode.

    `address`: URL of the receiver. Thread-safe.
    """

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
        """Return the latest requests, newest first."""
        with self._lock:
            return list(reversed(self._receipts))

    @property
    def secrets(self) -> Sequence[str]:
        """Return the last four characters of the known secrets, newest first."""
        with self._lock:
            return [shown for _, shown in reversed(self._secrets)]

    def take(self, headers: Sequence[tuple[str, str]], body: bytes) -> Manner:
        """Store a request; return how to respond."""
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
        """Add a secret for verifying signatures. Raises `SecretRefused`."""
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
        """Verify the signature of a request."""
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
        """Delete all received requests. Secrets stay."""
        with self._lock:
            self._receipts.clear()


def _bytes_of(header: str) -> bytes:
    """Convert a header's text back to the bytes that were received."""
    return header.encode("utf-8", "surrogatepass")

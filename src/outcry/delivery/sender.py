"""Interface for sending one message to one target, once.

A sender returns a result and never raises. It does not decide on retries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from outcry.delivery.outbox_model import Message


class Verdict(StrEnum):
    """What the outcome of an attempt means for the message, such as delivered, retry or failed."""

    ARRIVED = "arrived"
    LATER = "later"  # failed, and may succeed later
    SLOWER = "slower"  # rate limited: not a failure of the endpoint
    EXPIRED = "expired"  # too old to be sent: not an attempt
    BUSY = "busy"  # no free slot on our side: not an attempt
    REFUSED = "refused"  # the receiver will never accept this message, but may accept others
    GONE = "gone"  # the endpoint no longer exists
    BOUNCED = "bounced"  # the mailbox rejected it permanently


@dataclass(frozen=True, slots=True)
class SendResult:
    """Result of one attempt to send a message.

    - `code`: `ok`, or a stable code that has a text.
    - `status`: HTTP or SMTP status, None without a response.
    - `wait_ns`: pause that the receiver asks for, None if it does not.
    - `excerpt`: start of the response, as received.
    - `request`: the request sent, without secrets, for tests of a webhook.
    - `reported_missed`: the message reported the missed alerts.
    """

    verdict: Verdict
    code: str
    status: int | None = None
    wait_ns: int | None = None
    took_ms: int = 0
    phases_ms: tuple[tuple[str, int], ...] = ()
    excerpt: str = ""
    request: str = ""
    reported_missed: bool = False


class Sender(Protocol):
    """Interface for sending messages to one kind of target. Used on the event loop."""

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """Send a message once, within 20 seconds.

        A message without entries is a test. `address` is the decrypted URL or email address. `secrets` sign the
        message, newest first; empty if the target is not signed.
        """
        ...

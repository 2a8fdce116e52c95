"""The port for sending one message to one subscription's target, once.

Rule kept: a sender says what came of it and never raises; whether it is tried again, and when, is not its business.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from outcry.delivery.outbox_model import Message


class Verdict(StrEnum):
    """What an attempt means."""

    ARRIVED = "arrived"
    LATER = "later"  # it failed, and may work another time
    SLOWER = "slower"  # the other side asks for fewer messages: no failure of the endpoint
    BUSY = "busy"  # nothing was tried, for want of a place in a queue of ours: no attempt
    REFUSED = "refused"  # this message will never be taken; the endpoint may take others
    GONE = "gone"  # the endpoint will take nothing any more
    BOUNCED = "bounced"  # the mailbox refused it for good


@dataclass(frozen=True, slots=True)
class SendResult:
    """What came of one attempt. `code`: `ok`, or a stable code that has words; `status`: HTTP or SMTP status, None
    without an answer; `wait_ns`: how long the other side asks to be left alone, None where it does not; `excerpt`: of
    the answer, as it came; `request`: what was sent, without secrets, for who tests; `told`: whether it told of the
    missed."""

    verdict: Verdict
    code: str
    status: int | None = None
    wait_ns: int | None = None
    took_ms: int = 0
    phases_ms: tuple[tuple[str, int], ...] = ()
    excerpt: str = ""
    request: str = ""
    told: bool = False


class Sender(Protocol):
    """Sends to one kind of target. Used on the event loop."""

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """Try once, within 20 seconds in all. A message without entries is the test. `address`: the target's, opened;
        `secrets`: what to sign with, newest first, empty where the target is not signed for."""
        ...

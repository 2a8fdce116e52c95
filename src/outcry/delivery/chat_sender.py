"""Send messages to chats: the parts that Slack and Discord share.

Each URL must have the chat's own format, so messages go to the chat's own hosts only. If a chat reports that a message
is malformed, the sender sends the message once more as plain text, so that a formatting bug of ours loses no alert.
Missed alerts count as reported only once a message that mentions them was delivered.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from outcry.base.clock import Clock
from outcry.delivery.chat_content import ChatContent, build_content
from outcry.delivery.egress import Egress, Reply
from outcry.delivery.model import Target
from outcry.delivery.outbox_model import Message
from outcry.delivery.payload import body_of, encoded
from outcry.delivery.replies import LONGEST_EXCERPT, unanswered
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.target_addresses import form_fault

#: Code of a message that the chat cannot parse.
OUR_MESSAGE = "our_message"
#: No second message after a slower first response, because both must fit the time limit.
_TIME_FOR_TWO_MS = 4000
_HEADERS = {"content-type": "application/json"}


class ChatSender(ABC):
    """Base class of senders to chats. `pages` is the base URL of the service's pages."""

    target: ClassVar[Target]

    def __init__(self, egress: Egress, pages: str, clock: Clock) -> None:
        self._egress, self._pages, self._clock = egress, pages, clock

    @abstractmethod
    def payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON to post to the chat, in the chat's own format."""

    @abstractmethod
    def plain_payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON of the same content as plain text."""

    @abstractmethod
    def judged(self, reply: Reply, address: str, body: bytes, now_ns: int) -> SendResult:
        """Interpret the chat's HTTP response to `body`.

        The result's code is `our_message` if the chat reports `body` as malformed.
        """

    def delay_ns(self, now_ns: int) -> int:
        """Return how long (ns) the chat's rate limit forbids sending; 0 if sending is allowed."""
        return 0

    def posted_to(self, address: str) -> str:
        """Return the URL to post to, given the URL stored in the subscription."""
        return address

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """Send a message once, within 20 seconds."""
        if form_fault(self.target, address):
            return SendResult(Verdict.GONE, "endpoint_invalid")
        now_ns = self._clock.now_ns()
        delay_ns = self.delay_ns(now_ns)
        if delay_ns > 0:
            return SendResult(Verdict.BUSY, "too_busy", wait_ns=delay_ns)
        chat = build_content(message, body_of(message, self._pages, now_ns), now_ns)
        sent = await self._post(address, self.payload(chat))
        if sent.code == OUR_MESSAGE:
            if sent.took_ms > _TIME_FOR_TWO_MS:
                return replace(sent, verdict=Verdict.LATER)
            sent = _both(sent, await self._post(address, self.plain_payload(chat)))
        return replace(sent, reported_missed=message.missed > 0 and sent.verdict is Verdict.ARRIVED)

    async def _post(self, address: str, payload: dict[str, object]) -> SendResult:
        body = encoded(payload)
        reply = await self._egress.post(self.posted_to(address), body, _HEADERS)
        return unanswered(reply, address, body) or self.judged(reply, address, body, self._clock.now_ns())


def _both(first: SendResult, second: SendResult) -> SendResult:
    """Combine the results of the formatted attempt and the plain-text attempt.

    The combined result is that of the second attempt, with the response excerpts of both attempts. The first excerpt
    shows what was wrong with our format.
    """
    excerpt = f"{first.excerpt[: LONGEST_EXCERPT // 2]} (then, as plain text:) {second.excerpt}"[
        :LONGEST_EXCERPT
    ]
    return replace(second, took_ms=first.took_ms + second.took_ms, excerpt=excerpt)

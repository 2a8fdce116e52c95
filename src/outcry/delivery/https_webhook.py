"""A generic HTTPS endpoint: a signed POST, and what its answer means.

Rule kept: only a 2xx is taken for received; whatever else comes, the message is kept.
"""

from collections.abc import Sequence

from outcry.base.clock import Clock
from outcry.delivery.egress import Egress, Reply
from outcry.delivery.outbox_model import Message
from outcry.delivery.payload import body_of, encoded
from outcry.delivery.replies import ordinary, sent_of, unanswered
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing import signed

#: `ES=41 ES=42 NQ=7`: each alert's number among those of its symbol that this subscription was ever sent.
NUMBERS_HEADER = "outcry-seq"
#: With this header an answer says more than its status can.
WISH_HEADER = "webhook-delivery"


class HttpsSender:
    """Implements `Sender` for an endpoint of the subscriber's. `pages`: where the service's pages are."""

    def __init__(self, egress: Egress, pages: str, clock: Clock) -> None:
        self._egress, self._pages, self._clock = egress, pages, clock

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """See `Sender`."""
        now_ns = self._clock.now_ns()
        body = encoded(body_of(message, self._pages, now_ns))
        headers = {"content-type": "application/json", **signed(message.message_id, body, secrets, now_ns)}
        if message.entries:
            headers[NUMBERS_HEADER] = " ".join(
                f"{entry.alert.symbol}={entry.number}" for entry in message.entries
            )
        reply = await self._egress.post(address, body, headers)
        return unanswered(reply, address, body, secrets) or _judged(
            reply, address, body, self._clock.now_ns(), secrets
        )


def _judged(reply: Reply, address: str, body: bytes, now_ns: int, secrets: Sequence[str]) -> SendResult:
    wishes = {wish.strip().lower() for wish in reply.headers.get(WISH_HEADER, "").split(",")}
    if "disable" in wishes:  # whatever its status: it wants no more, and what it was sent is kept for it
        return sent_of(reply, Verdict.GONE, "gone", address, body, secrets=secrets)
    sent = ordinary(reply, address, body, now_ns, secrets)
    if "abort-message" in wishes and sent.verdict in {Verdict.LATER, Verdict.SLOWER}:
        return sent_of(reply, Verdict.REFUSED, "aborted", address, body, secrets=secrets)
    return sent

"""Send alerts to HTTPS endpoints of programs: a signed POST, and how its response is interpreted.

Only a 2xx status means delivered. After any other response the message is retried, or retained as failed.
"""

from collections import OrderedDict
from collections.abc import Sequence

from outcry.base.clock import Clock
from outcry.delivery.egress import Egress
from outcry.delivery.outbox_model import Message
from outcry.delivery.payload import body_of, encoded
from outcry.delivery.replies import ordinary, sent_of, unanswered
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing import signed

#: `ES=41 ES=42 NQ=7`: number of each alert among the subscription's alerts of its symbol.
NUMBERS_HEADER = "outcry-seq"
#: Response header by which a receiver can disable the webhook or refuse a message.
WISH_HEADER = "webhook-delivery"
_MOST_CACHED_BODIES = 64


class HttpsSender:
    """Implements `Sender` for HTTPS endpoints. `pages` is the base URL of the service's pages."""

    def __init__(self, egress: Egress, pages: str, clock: Clock) -> None:
        self._egress, self._pages, self._clock = egress, pages, clock
        self._bodies: OrderedDict[tuple[tuple[int, str], ...], bytes] = OrderedDict()

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        """Send a message once, within 20 seconds."""
        now_ns = self._clock.now_ns()
        body = self._body(message, now_ns)
        headers = {"content-type": "application/json", **signed(message.message_id, body, secrets, now_ns)}
        if message.entries:
            headers[NUMBERS_HEADER] = " ".join(
                f"{entry.alert.symbol}={entry.number}" for entry in message.entries
            )
        reply = await self._egress.post(address, body, headers)
        if (failed := unanswered(reply, address, body, secrets)) is not None:
            return failed
        wishes = {wish.strip().lower() for wish in reply.headers.get(WISH_HEADER, "").split(",")}
        if "disable" in wishes:  # at any status; the outbox retains the messages
            return sent_of(reply, Verdict.GONE, "gone", address, body, secrets=secrets)
        sent = ordinary(reply, address, body, self._clock.now_ns(), secrets)
        if "abort-message" in wishes and sent.verdict in {Verdict.LATER, Verdict.SLOWER}:
            return sent_of(reply, Verdict.REFUSED, "aborted", address, body, secrets=secrets)
        return sent

    def _body(self, message: Message, now_ns: int) -> bytes:
        """Return the encoded body of a message.

        The body is cached, because all subscriptions that receive the same alerts get the same body.
        """
        if not message.entries:
            return encoded(body_of(message, self._pages, now_ns))
        alerts = tuple((entry.alert.seq, entry.alert.key) for entry in message.entries)
        body = self._bodies.get(alerts)
        if body is None:
            body = self._bodies[alerts] = encoded(body_of(message, self._pages, now_ns))
            if len(self._bodies) > _MOST_CACHED_BODIES:
                self._bodies.popitem(last=False)
        return body

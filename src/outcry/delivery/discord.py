"""Send alerts to a Discord channel through a webhook.

Text from data is escaped, and a message never mentions a user or role. A text is never longer than Discord allows. The
sender stops before it reaches Discord's rate limits, because Discord blocks a machine that ignores the limits.
"""

import re
from collections import deque
from dataclasses import replace

import msgspec

from outcry.base.clock import Clock
from outcry.delivery.chat_content import NOT_ADVICE, ChatContent, one_line, plain
from outcry.delivery.chat_sender import OUR_MESSAGE, ChatSender
from outcry.delivery.egress import Egress, Reply
from outcry.delivery.model import Severity, Target
from outcry.delivery.payload import shortened
from outcry.delivery.replies import ordinary, seconds_ns, sent_of, waited_ns
from outcry.delivery.sender import SendResult, Verdict
from outcry.market.units import NANOS_PER_MINUTE

LONGEST_CONTENT = 2000
COLOURS: dict[Severity, int] = {"critical": 0xC0392B, "warn": 0xD68910, "info": 0x2E6DA4}
#: Discord allows 256 characters in an embed's title, 4,096 in its description, and 6,000 in ten embeds together.
#: `_LINE`: characters of an alert in a plain text message.
_TITLE, _DESCRIPTION, _LINE = 120, 450, 165
#: Discord blocks a machine after 10,000 such responses in ten minutes. Outcry stops much earlier.
MOST_INVALID, INVALID_WINDOW_NS = 2000, 10 * NANOS_PER_MINUTE
_INVALID = frozenset({401, 403, 404, 429})
#: Unknown webhook; invalid webhook token.
_GONE = frozenset({(404, 10015), (401, 50027)})
#: Empty message; invalid form body; invalid JSON.
_MALFORMED = frozenset({(400, 50006), (400, 50035), (400, 50109)})
#: Characters that Markdown interprets, anywhere or at the beginning of a line, and the slashes that turn text into a
#: link.
_MEANING = re.compile(r"([\\*_~`|<>\[\]@#]|^[-+]|(?<=:)/(?=/))")


class _Problem(msgspec.Struct):
    """Error body of a Discord response."""

    code: int = 0
    retry_after: float | None = None


class Restraint:
    """Discord's rate limits for all webhooks of this machine, and when they allow sending again."""

    def __init__(self, most_invalid: int = MOST_INVALID) -> None:
        self._invalid_ns: deque[int] = deque(maxlen=most_invalid)
        self._limited_until_ns = 0

    def count(self, now_ns: int) -> None:
        """Count a response that indicates abuse; after too many of them Discord blocks the machine."""
        self._invalid_ns.append(now_ns)

    def pause(self, until_ns: int) -> None:
        """Send nothing from this machine before a time, because Discord asked for it."""
        self._limited_until_ns = max(self._limited_until_ns, until_ns)

    def delay_ns(self, now_ns: int) -> int:
        """Return how long (ns) to wait before sending; 0 if sending is allowed."""
        invalid = self._invalid_ns
        full_until_ns = invalid[0] + INVALID_WINDOW_NS if len(invalid) == invalid.maxlen else 0
        return max(full_until_ns, self._limited_until_ns, now_ns) - now_ns


class DiscordSender(ChatSender):
    """Implements `Sender` for Discord. Create one instance per process, because limits apply to the machine."""

    target = Target.DISCORD

    def __init__(self, egress: Egress, pages: str, clock: Clock, restraint: Restraint | None = None) -> None:
        super().__init__(egress, pages, clock)
        self._restraint = restraint or Restraint()

    def delay_ns(self, now_ns: int) -> int:
        """Return how long (ns) Discord's rate limits forbid sending; 0 if sending is allowed."""
        return self._restraint.delay_ns(now_ns)

    def posted_to(self, address: str) -> str:
        """Return the URL to post to, given the URL stored in the subscription.

        The URL gets the parameter `wait`. Without it, Discord may accept a message and then drop it without an error.
        """
        return f"{address}?wait=true"

    def payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON of a Discord message: a line shown in notifications, then an embed for each alert."""
        embeds: list[dict[str, object]] = [
            {
                "title": _escaped(alert.title, _TITLE),
                "description": _escaped(alert.sentence, _DESCRIPTION),
                "url": chat.url,
                "color": COLOURS[alert.severity],
            }
            for alert in chat.shown
        ]
        embeds[-1]["footer"] = {"text": NOT_ADVICE}
        notes = [f"{note}: <{chat.url}>" for note in chat.notes]  # brackets prevent a link preview
        content = "\n".join([_escaped(chat.headline, LONGEST_CONTENT // 2), *notes])
        return {**_content(content), "embeds": embeds}

    def plain_payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON of a Discord message with the same content as plain text."""
        return _content(plain(chat, lambda line: _escaped(line, _LINE)))

    def judged(self, reply: Reply, address: str, body: bytes, now_ns: int) -> SendResult:
        """Interpret Discord's HTTP response to `body`.

        The result's code is `our_message` if Discord reports `body` as malformed.
        """
        problem, status = _problem(reply.body), reply.status or 0
        # Responses caused by others are not counted.
        if status in _INVALID and _header(reply, "x-ratelimit-scope") != "shared":
            self._restraint.count(now_ns)
        if (status, problem.code) in _GONE:
            return sent_of(reply, Verdict.GONE, "gone", address, body)
        if (status, problem.code) in _MALFORMED:
            return sent_of(reply, Verdict.REFUSED, OUR_MESSAGE, address, body)
        sent = ordinary(reply, address, body, now_ns)
        if sent.verdict is Verdict.SLOWER and problem.retry_after is not None:
            # The body's time is more precise than the header's whole seconds.
            sent = replace(sent, wait_ns=waited_ns(problem.retry_after))
        if sent.verdict is Verdict.SLOWER and _header(reply, "x-ratelimit-global") == "true":
            self._restraint.pause(now_ns + (sent.wait_ns or 0))
        if sent.verdict is Verdict.ARRIVED and _header(reply, "x-ratelimit-remaining") == "0":
            sent = replace(sent, wait_ns=seconds_ns(_header(reply, "x-ratelimit-reset-after")))
        return sent


def _header(reply: Reply, name: str) -> str:
    return reply.headers.get(name, "").strip().lower()


def _content(text: str) -> dict[str, object]:
    """Return the JSON of a plain text message. `allowed_mentions` prevents all mentions."""
    return {"content": shortened(text, LONGEST_CONTENT), "allowed_mentions": {"parse": []}}


def _problem(body: bytes) -> _Problem:
    try:
        return msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Problem()


def _escaped(text: str, most: int) -> str:
    """Return escaped text in one line of at most `most` characters."""
    line = one_line(text)
    escaped = _MEANING.sub(r"\\\1", line)
    if shortened(escaped, most) == escaped:
        return escaped
    return _MEANING.sub(r"\\\1", shortened(line, most // 2))

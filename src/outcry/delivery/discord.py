"""Alerts in a Discord channel, by a webhook.

Rules kept: what comes from data is escaped, and nobody is ever called by a message; a text is never longer than Discord
takes; what Discord says of its limits is heeded before they are reached, for who goes on answers for the whole machine.
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
#: An embed's title may have 256 signs, its description 4,096, and all ten together 6,000: these stay below it. `_LINE`:
#: of an alert where all of them are lines of one text.
_TITLE, _DESCRIPTION, _LINE = 120, 450, 165
#: Ten thousand answers of these kinds in ten minutes have Discord shut a machine out: it stops long before.
MOST_INVALID, INVALID_WINDOW_NS = 2000, 10 * NANOS_PER_MINUTE
_INVALID = frozenset({401, 403, 404, 429})
#: A webhook nobody knows, and a token that is not its own.
_GONE = frozenset({(404, 10015), (401, 50027)})
#: An empty message, a form that is not as it should be, no JSON.
_MALFORMED = frozenset({(400, 50006), (400, 50035), (400, 50109)})
#: What Markdown gives a meaning, anywhere or where a line begins, and what makes a link of an address.
_MEANING = re.compile(r"([\\*_~`|<>\[\]@#]|^[-+]|(?<=:)/(?=/))")


class _Problem(msgspec.Struct):
    """What Discord says of a refusal."""

    code: int = 0
    retry_after: float | None = None


class Restraint:
    """When nothing may be sent to Discord from this machine, whatever the webhook."""

    def __init__(self, most_invalid: int = MOST_INVALID) -> None:
        self._invalid_ns: deque[int] = deque(maxlen=most_invalid)
        self._asked_until_ns = 0

    def count(self, now_ns: int) -> None:
        """There was one more of the answers that get a machine shut out."""
        self._invalid_ns.append(now_ns)

    def pause(self, until_ns: int) -> None:
        """Discord asks the whole machine to wait."""
        self._asked_until_ns = max(self._asked_until_ns, until_ns)

    def held_ns(self, now_ns: int) -> int:
        """For how long from now; 0: it may be sent."""
        invalid = self._invalid_ns
        full_until_ns = invalid[0] + INVALID_WINDOW_NS if len(invalid) == invalid.maxlen else 0
        return max(full_until_ns, self._asked_until_ns, now_ns) - now_ns


class DiscordSender(ChatSender):
    """Implements `Sender` for Discord; one in a process, for its limits are those of a machine."""

    target = Target.DISCORD

    def __init__(self, egress: Egress, pages: str, clock: Clock, restraint: Restraint | None = None) -> None:
        super().__init__(egress, pages, clock)
        self._restraint = restraint or Restraint()

    def held_ns(self, now_ns: int) -> int:
        """See `ChatSender`."""
        return self._restraint.held_ns(now_ns)

    def posted_to(self, address: str) -> str:
        """See `ChatSender`. Without `wait` Discord takes a message it then does not keep, and says nothing of it."""
        return f"{address}?wait=true"

    def payload(self, said: ChatContent) -> dict[str, object]:
        """An embed for each alert, under a line that notices show."""
        embeds: list[dict[str, object]] = [
            {
                "title": _escaped(alert.title, _TITLE),
                "description": _escaped(alert.sentence, _DESCRIPTION),
                "url": said.url,
                "color": COLOURS[alert.severity],
            }
            for alert in said.shown
        ]
        embeds[-1]["footer"] = {"text": NOT_ADVICE}
        notes = [f"{note}: <{said.url}>" for note in said.notes]  # in brackets no preview is made of it
        content = "\n".join([_escaped(said.headline, LONGEST_CONTENT // 2), *notes])
        return {**_content(content), "embeds": embeds}

    def plain_payload(self, said: ChatContent) -> dict[str, object]:
        """See `ChatSender`."""
        return _content(plain(said, lambda line: _escaped(line, _LINE)))

    def judged(self, reply: Reply, address: str, body: bytes, now_ns: int) -> SendResult:
        """See `ChatSender`."""
        problem, status = _problem(reply.body), reply.status or 0
        if (
            status in _INVALID and _header(reply, "x-ratelimit-scope") != "shared"
        ):  # others' doing is not counted
            self._restraint.count(now_ns)
        if (status, problem.code) in _GONE:
            return sent_of(reply, Verdict.GONE, "gone", address, body)
        if (status, problem.code) in _MALFORMED:
            return sent_of(reply, Verdict.REFUSED, OUR_MESSAGE, address, body)
        sent = ordinary(reply, address, body, now_ns)
        if sent.verdict is Verdict.SLOWER and problem.retry_after is not None:
            sent = replace(
                sent, wait_ns=waited_ns(problem.retry_after)
            )  # finer than the header's whole seconds
        if sent.verdict is Verdict.SLOWER and _header(reply, "x-ratelimit-global") == "true":
            self._restraint.pause(now_ns + (sent.wait_ns or 0))
        if sent.verdict is Verdict.ARRIVED and _header(reply, "x-ratelimit-remaining") == "0":
            sent = replace(sent, wait_ns=seconds_ns(_header(reply, "x-ratelimit-reset-after")))
        return sent


def _header(reply: Reply, name: str) -> str:
    return reply.headers.get(name, "").strip().lower()


def _content(text: str) -> dict[str, object]:
    """`allowed_mentions`: whatever the text, it calls nobody."""
    return {"content": shortened(text, LONGEST_CONTENT), "allowed_mentions": {"parse": []}}


def _problem(body: bytes) -> _Problem:
    try:
        return msgspec.json.decode(body, type=_Problem)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Problem()


def _escaped(text: str, most: int) -> str:
    """Words of ours or of data in a line of at most so many signs."""
    line = one_line(text)
    escaped = _MEANING.sub(r"\\\1", line)
    if shortened(escaped, most) == escaped:
        return escaped
    return _MEANING.sub(r"\\\1", shortened(line, most // 2))

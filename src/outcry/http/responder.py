"""Answers HTTP requests whose header lines and request line are both cached.

It is the part of the fast path that runs for each packet. `responder.c` does the same several times as fast. A build
that compiles modules uses the C version in place of this module (decision 0063); tests check that both give equal
results.
"""

from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from outcry.access.limiter import Limiter, Verdict
from outcry.http.cache import Encoded
from outcry.http.limits import Headers
from outcry.http.logs import AccessLog
from outcry.http.recently_used import RecentlyUsed
from outcry.http.records import CONDITION, LONGEST_REQUEST, Audience, Outcome, Question, Sender
from outcry.http.requests import RequestIds
from outcry.http.revision_poller import Freshness

_LINE_END, _HEAD_END = b"\r\n", b"\r\n\r\n"


class Steps(Protocol):
    """Interface to the steps of a response that are rarely needed. The fast path implements them."""

    def check_sender(self, block: bytes, sender: Sender, stamp: object) -> bool:
        """Return whether the caller is still valid. If so, record `stamp` as the time of this check."""
        ...

    def check_question(self, question: Question, stamp: object) -> bool:
        """Return whether a cached response (`question`) is valid, that is, of the current database revision.

        If so, record `stamp` as the time of this check.
        """
        ...

    def prepare(self, question: Question, encoded: Encoded) -> None:
        """Prepare the responses to a cached request line (`question`), given the encoded body."""
        ...

    def refuse(self, question: Question, audience: Audience, verdict: Verdict) -> Outcome:
        """Return the response to a request that exceeds the rate limit, and count the refusal."""
        ...

    def date(self, outcome: Outcome, question: Question, audience: Audience, dated: Headers) -> None:
        """Set the status line and the `Date` header of a cached response (`outcome`), which change every second."""
        ...


class Responder:
    """Answers received packets (requests) from the caches of the fast path.

    `now_ns`: the clock. `limit_headers`: encodes a rate limit's verdict as headers, up to where the request id begins.
    """

    __slots__ = (
        "_freshness",
        "_limit_headers",
        "_log",
        "_make_id",
        "_now_ns",
        "_questions",
        "_refusal",
        "_senders",
        "_steps",
        "_take",
    )  # fmt: skip

    def __init__(
        self,
        senders: RecentlyUsed[bytes, Sender],
        questions: RecentlyUsed[bytes, Question],
        steps: Steps,
        freshness: Freshness,
        limiter: Limiter,
        now_ns: Callable[[], int],
        ids: RequestIds,
        limit_headers: Callable[[Verdict], bytes],
        log: AccessLog,
        /,
    ) -> None:
        self._senders, self._questions, self._steps = senders, questions, steps
        self._freshness, self._take, self._refusal = freshness, limiter.take, limiter.refusal
        self._now_ns, self._make_id, self._limit_headers, self._log = (
            now_ns,
            ids.make_bytes,
            limit_headers,
            log,
        )

    def serve(self, data: bytes, dated: Headers, /) -> bytes | None:
        """Return the response to a received packet; None if the application must handle it.

        `dated`: the server's default headers; they change every second.
        """
        if len(data) > LONGEST_REQUEST:
            return None
        end = data.find(_LINE_END)
        block = data[end:]
        sender, condition = self._senders.get(block), None
        if sender is None:
            cut = CONDITION.search(block)
            if cut is None:
                return None
            block, condition = block[: cut.start()] + block[cut.end() :], cut[1]
            sender = self._senders.get(block)
            if sender is None:
                return None
        audience = sender.audience
        question = self._questions.get(data[:end] + audience.mark)
        if question is None:
            return None
        steps = self._steps
        started_ns = monotonic_ns()
        stamp = self._freshness.stamp  # before the checks, so that a change meanwhile is found next time
        if sender.stamp is not stamp and not steps.check_sender(block, sender, stamp):
            return None
        if question.stamp is not stamp and not steps.check_question(question, stamp):
            return None
        now_ns = self._now_ns()
        if started_ns >= self._freshness.until_ns or now_ns >= question.until_ns:
            return None
        if question.current is not None:
            encoded = question.current()
            if encoded is None:  # it has changed: the application renders it once for all callers
                return None
            if encoded is not question.encoded:
                steps.prepare(question, encoded)
        outcome = question.full
        decide = self._refusal if outcome is None else self._take
        verdict = decide(sender.subject, audience.limit)
        if verdict is None:  # nothing was counted
            return None
        if not verdict.allowed:
            outcome = steps.refuse(question, audience, verdict)
        elif condition is not None and condition == question.etag:
            outcome = question.unchanged
        assert outcome is not None, "a request without an answer only gets here if it is over the limit"
        if outcome.dated is not dated:
            steps.date(outcome, question, audience, dated)
        request_id = self._make_id()
        limit_headers = self._limit_headers(verdict)
        body = request_id.join(outcome.pieces)
        response = b"".join(
            (outcome.beginning, outcome.head, audience.fixed, limit_headers, request_id, _HEAD_END, body)
        )
        took_ns = monotonic_ns() - started_ns
        outcome.tally.add(took_ns)
        self._log.add(now_ns, outcome.stem, sender.name, request_id, took_ns)
        return response

"""The fast path: answer a repeated question from memory, before parsing.

A client sends the same header lines with each request, and many clients ask the same questions. After the application
has answered a request, two things are cached separately: its header lines with their caller, and its request line with
the answer. A later request is answered if its header lines and its request line are both cached, even if they never
came together. The line `If-None-Match` is removed from the header lines first.

The fast path accepts nothing that the parser refuses: the parser has accepted both parts, and neither part changes how
the other is parsed. Whether key, answer and rate limit are still valid is checked each time. Live answers are always
current.

The response is byte for byte the application's (a test compares them over sockets). The fast path can be disabled.
"""

import re
from dataclasses import replace
from functools import lru_cache
from time import monotonic_ns

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.access.tiers import ApiTier
from outcry.http.auth import Caller
from outcry.http.cache import CacheEntry, Encoded, EncodedLiveAnswer
from outcry.http.edge import Edge, Reply, fixed_bytes
from outcry.http.errors import Problem, RenderedProblem, media_type, rate_limited, render
from outcry.http.limits import Headers, header_bytes, limit_header_bytes
from outcry.http.logs import log_name
from outcry.http.metrics import Tally
from outcry.http.recently_used import RecentlyUsed
from outcry.http.requests import Request

LONGEST_REQUEST = 2048
#: Memory for header lines and for questions, and of an entry beside its key.
MOST_BYTES = 2**24
_SENDER_BYTES, _QUESTION_BYTES, _AUDIENCE_BYTES = 400, 800, 400
_LINE_END, _HEAD_END = b"\r\n", b"\r\n\r\n"
#: A header line with one entity tag of ours. The next line must not continue it.
_CONDITION = re.compile(rb'\r\n[Ii][Ff]-[Nn]one-[Mm]atch: ("[0-9a-f]{32}")(?=\r\n[^ \t])')
_NEVER_NS = 2**63


class Audience:
    """Callers with the same scope and tier. They receive the same answers and share most headers."""

    __slots__ = ("fixed", "limit", "tier")

    def __init__(self, caller: Caller) -> None:
        self.tier: ApiTier = caller.tier
        self.limit = caller.limit
        self.fixed = fixed_bytes(caller)


class Sender:
    """The meaning of a request's header lines: the caller, and the form of error messages.

    `stamp`: the freshness stamp (`Freshness`) at which the caller was last found to be valid.
    """

    __slots__ = ("audience", "generation", "language", "media", "name", "stamp", "subject")

    def __init__(self, caller: Caller, audience: Audience, language: str, media: str) -> None:
        self.subject = caller.subject
        self.generation = caller.generation
        self.name = log_name(caller.name)
        self.audience = audience
        self.language, self.media = language, media
        self.stamp: object = None


class Outcome:
    """Metrics and log text of all responses with one status to one question."""

    __slots__ = ("stem", "tally")

    def __init__(self, tally: Tally, stem: bytes) -> None:
        self.tally, self.stem = tally, stem


class Question:
    """The meaning of a request line for an audience: the answer, or None if only its route is known.

    `stamp`: the freshness stamp (`Freshness`) at which the answer was last found to be valid.
    """

    __slots__ = ("content", "outcomes", "path", "query", "rendered", "revision", "route", "stamp", "until_ns")

    def __init__(self, request: Request, route: str, entry: CacheEntry | None) -> None:
        self.path, self.query, self.route = request.path, request.query, route
        self.content: Encoded | EncodedLiveAnswer | Problem | None = entry.content if entry else None
        self.revision = entry.revision if entry else -1
        self.until_ns = _NEVER_NS if entry is None or entry.fresh_until_ns is None else entry.fresh_until_ns
        #: Error responses by language and media type, and outcomes by status.
        self.rendered: dict[tuple[str, str], RenderedProblem] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.stamp: object = None


class FastPathCache:
    """Callers by header lines, and answers by request line and audience.

    Only requests with a valid key are cached, so other clients cannot fill the memory. `most_bytes`: memory for each of
    the two caches.
    """

    def __init__(self, edge: Edge, most_bytes: int = MOST_BYTES) -> None:
        self._edge = edge
        self._senders = RecentlyUsed[bytes, Sender](most_bytes, lambda block: len(block) + _SENDER_BYTES)
        self._questions = RecentlyUsed[tuple[bytes, Audience], Question](
            most_bytes, lambda asked: len(asked[0]) + _QUESTION_BYTES
        )
        #: An audience that was dropped and is needed again begins without answers.
        self._audiences = RecentlyUsed[tuple[Scope | None, ApiTier, int], Audience](
            most_bytes, lambda _key: _AUDIENCE_BYTES
        )
        self._take, self._refusal = edge.limiter.take, edge.limiter.refusal
        self._now_ns = edge.clock.now_ns
        self._make_id = edge.ids.make_bytes
        self._log = edge.access_log
        self._poller = edge.poller
        self._freshness = edge.poller.freshness
        self._authenticator = edge.authenticator
        #: The server's default headers, which change every second, and with them the first lines by status.
        self._dated: Headers | None = None
        self._beginnings: dict[int, bytes] = {}
        self._over_limit = lru_cache(1024)(self._render_over_limit)

    def __len__(self) -> int:
        return len(self._senders) + len(self._questions)

    def serve(self, data: bytes, dated: Headers) -> bytes | None:
        """Return the response to a received packet; None if the application must handle it."""
        if len(data) > LONGEST_REQUEST:
            return None
        end = data.find(_LINE_END)
        block = data[end:]
        sender, condition = self._senders.get(block), None
        if sender is None:
            cut = _CONDITION.search(block)
            if cut is None:
                return None
            block, condition = block[: cut.start()] + block[cut.end() :], cut[1]
            sender = self._senders.get(block)
            if sender is None:
                return None
        question = self._questions.get((data[:end], sender.audience))
        if question is None:
            return None
        started_ns = monotonic_ns()
        stamp = self._freshness.stamp  # read before the checks, so that a change meanwhile is found next time
        if sender.stamp is not stamp and not self._check_sender(block, sender, stamp):
            return None
        if question.stamp is not stamp and not self._check_question(question, stamp):
            return None
        now_ns = self._now_ns()
        if started_ns >= self._poller.fresh_until_ns or now_ns >= question.until_ns:
            return None
        content = question.content
        if isinstance(content, EncodedLiveAnswer):
            content = content.current()
            if content is None:  # it has changed: the application renders it once for all callers
                return None
        audience = sender.audience
        decide = self._refusal if content is None else self._take
        verdict = decide(sender.subject, audience.limit)
        if verdict is None:  # nothing was counted
            return None
        if dated is not self._dated:
            self._dated, self._beginnings = dated, {}
        request_id = self._make_id()
        if not verdict.allowed:
            status, head, body = self._refuse(sender, verdict, request_id)
        elif isinstance(content, Encoded):
            if condition == content.etag:
                status, head, body = 304, content.unchanged_head, b""
            else:
                status, head, body = 200, content.head, content.body
        else:
            status, head, body = self._explain(sender, question, content, request_id)
        beginning = self._beginnings.get(status) or self._begin(status, dated)
        response = b"".join(
            (beginning, head, audience.fixed, limit_header_bytes(verdict), request_id, _HEAD_END, body)
        )
        outcome = question.outcomes.get(status) or self._outcome(question, status, audience.tier)
        took_ns = monotonic_ns() - started_ns
        outcome.tally.add(took_ns)
        if self._log.enabled:
            self._log.add(now_ns, outcome.stem, sender.name, request_id, took_ns)
        return response

    def _check_sender(self, block: bytes, sender: Sender, stamp: object) -> bool:
        """Return whether the caller is still valid; if not, drop its header lines from the cache."""
        if sender.generation != self._authenticator.generation:
            self._senders.drop(block)
            return False
        sender.stamp = stamp
        return True

    def _check_question(self, question: Question, stamp: object) -> bool:
        """Return whether the answer is of the current revision."""
        if question.content is not None and question.revision != self._poller.revision:
            return False
        question.stamp = stamp
        return True

    def _begin(self, status: int, dated: Headers) -> bytes:
        """Return the status line and the server's default headers."""
        beginning = self._beginnings[status] = STATUS_LINE[status] + header_bytes(dated)
        return beginning

    def _outcome(self, question: Question, status: int, tier: ApiTier) -> Outcome:
        """Return the counter and the log text for responses with a status to a question."""
        stem = self._log.stem("GET", question.path, question.query, question.route, status, tier)
        tally = self._edge.metrics.tally(question.route, status, tier)
        outcome = question.outcomes[status] = Outcome(tally, stem)
        return outcome

    # -- errors

    def _explain(
        self, sender: Sender, question: Question, problem: Problem | None, request_id: bytes
    ) -> tuple[int, bytes, bytes]:
        """Return status, encoded headers and body of the error response to a question."""
        assert problem is not None, "a request without an answer only gets here if it is over the limit"
        form = sender.language, sender.media
        rendered = question.rendered.get(form)
        if rendered is None:
            rendered = question.rendered[form] = render(problem, self._edge.catalogue, *form)
        body = rendered.body(request_id)
        return problem.status, rendered.head(body), body

    def _refuse(self, sender: Sender, verdict: Verdict, request_id: bytes) -> tuple[int, bytes, bytes]:
        """Return status, encoded headers and body of a response to a request over the limit."""
        audience, wait_ms = sender.audience, verdict.retry_after_ms
        self._edge.metrics.refuse(audience.tier)
        seconds = -(-wait_ms // 1000)
        rendered = self._over_limit(audience.limit, audience.tier, seconds, sender.language, sender.media)
        body = b'%s,"retry_after_ms":%d}' % (rendered.body(request_id)[:-1], wait_ms)
        return 429, rendered.head(body), body

    def _render_over_limit(
        self, limit: int, tier: ApiTier, seconds: int, language: str, media: str
    ) -> RenderedProblem:
        """Render the error of an exceeded limit, without the member of the body that changes every millisecond."""
        problem = replace(rate_limited(seconds * 1000, limit, tier), details={})
        return render(problem, self._edge.catalogue, language, media)

    # -- learning

    def learn(
        self, data: bytes, target: bytes, request: Request, reply: Reply, entry: CacheEntry | None
    ) -> None:
        """Cache the two parts of a packet that the parser has accepted as exactly one request.

        `target`: the parsed request target. `entry`: the answer; None if the request was over the limit.
        """
        end = data.find(_LINE_END)
        line, block = data[:end], data[end:]
        if line != b"GET %s HTTP/1.1" % target or not _is_one_head(data) or request.names_itself:
            return
        if request.if_none_match is not None:
            cut = _CONDITION.search(block)
            if cut is None or cut[1].decode("ascii") != request.if_none_match:
                return
            block = block[: cut.start()] + block[cut.end() :]
        caller = reply.caller
        audience = self._audience(caller)
        language = self._edge.catalogue.choose(request.accept_language)
        self._senders.put(block, Sender(caller, audience, language, media_type(request.accept)))
        self._questions.put((line, audience), Question(request, reply.route, entry))

    def _audience(self, caller: Caller) -> Audience:
        key = (caller.scope, caller.tier, caller.limit)
        found = self._audiences.get(key)
        if found is None:
            found = Audience(caller)
            self._audiences.put(key, found)
        return found


def _is_one_head(data: bytes) -> bool:
    """Return whether a packet consists of exactly one short request head."""
    return len(data) <= LONGEST_REQUEST and data.find(_HEAD_END) == len(data) - len(_HEAD_END)

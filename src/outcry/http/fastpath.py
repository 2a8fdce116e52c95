"""The fast path: answers a repeated request from memory, before it is parsed.

A client sends the same header lines with each request, and many clients send the same request lines. After the
application has answered a request, two things are cached separately: its header lines with their caller, and its
request line with the response. A later request is answered if its header lines and its request line are both cached,
even if they never came together. The line `If-None-Match` is removed from the header lines first.

The fast path accepts nothing that the parser refuses: the parser has accepted both parts, and neither part changes how
the other is parsed. Each time it checks whether key, response and rate limit are still valid. Responses about live
sessions always show the current state.

The response is byte for byte that of the application (a test compares them over sockets). The fast path can be
disabled.
"""

from dataclasses import replace
from itertools import count

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.access.tiers import ApiTier
from outcry.http.auth import Caller
from outcry.http.cache import CacheEntry, Encoded
from outcry.http.edge import STATUS_LINE, Edge, Reply, fixed_bytes
from outcry.http.errors import Problem, media_type, rate_limited, render
from outcry.http.limits import Headers, header_bytes, limit_header_bytes
from outcry.http.logs import log_name
from outcry.http.recently_used import RecentlyUsed
from outcry.http.records import CONDITION, LONGEST_REQUEST, Audience, Outcome, Question, Refusal, Sender
from outcry.http.requests import ID_BYTES, Request
from outcry.http.responder import Responder

#: Memory for header lines and for questions, and of an entry beside its key.
MOST_BYTES = 2**24
_SENDER_BYTES, _QUESTION_BYTES, _AUDIENCE_BYTES = 400, 1100, 600
_LINE_END, _HEAD_END = b"\r\n", b"\r\n\r\n"
#: As long as every request id of ours.
_SAMPLE_ID = b"0" * ID_BYTES


class FastPathCache:
    """The caches of the fast path: callers by header lines, and responses by request line and audience.

    An audience is the callers who get the same responses. Only requests with a valid key are cached, so other clients
    cannot fill the memory. `most_bytes`: memory for each of the two caches. `serve`: see `Responder.serve`. The other
    public methods are steps that the responder calls.
    """

    def __init__(self, edge: Edge, most_bytes: int = MOST_BYTES) -> None:
        self._edge = edge
        self._senders = RecentlyUsed[bytes, Sender](most_bytes, lambda block: len(block) + _SENDER_BYTES)
        self._questions = RecentlyUsed[bytes, Question](
            most_bytes, lambda asked: len(asked) + _QUESTION_BYTES
        )
        #: An audience that was dropped and is needed again begins without answers.
        self._audiences = RecentlyUsed[tuple[Scope | None, ApiTier, int, str, str], Audience](
            most_bytes, lambda _key: _AUDIENCE_BYTES
        )
        #: Prepared errors for an exceeded rate limit. Audiences that differ only in what they may see share them.
        self._refusals: dict[tuple[ApiTier, int, str, str], dict[int, Refusal]] = {}
        self._marks = count(1)
        self._log = edge.access_log
        self._poller = edge.poller
        self._authenticator = edge.authenticator
        #: First lines of responses by status, and the server's default headers in them, which change every second.
        self._dated: Headers | None = None
        self._beginnings: dict[int, bytes] = {}
        self.serve = Responder(
            self._senders, self._questions, self, edge.poller.freshness, edge.limiter, edge.clock.now_ns,
            edge.ids, limit_header_bytes, edge.access_log,
        ).serve  # fmt: skip

    def __len__(self) -> int:
        return len(self._senders) + len(self._questions)

    def check_sender(self, block: bytes, sender: Sender, stamp: object) -> bool:
        """Return whether the caller is still valid; if not, remove its header lines from the cache."""
        if sender.generation != self._authenticator.generation:
            self._senders.drop(block)
            return False
        sender.stamp = stamp
        return True

    def check_question(self, question: Question, stamp: object) -> bool:
        """Return whether a cached response (`question`) is valid, that is, of the current database revision."""
        if question.content is not None and question.revision != self._poller.revision:
            return False
        question.stamp = stamp
        return True

    def prepare(self, question: Question, encoded: Encoded) -> None:
        """Prepare the responses to a cached request line (`question`): the whole body, and status 304 without it."""
        question.full = Outcome(200, encoded.head, (encoded.body,))
        question.unchanged = Outcome(304, encoded.unchanged_head, (b"",))
        question.encoded, question.etag = encoded, encoded.etag

    def _prepare_problem(self, question: Question, audience: Audience, problem: Problem) -> None:
        """Prepare the response to a cached request line (`question`) that is answered with an error."""
        rendered = render(problem, self._edge.catalogue, audience.language, audience.media)
        head = rendered.head(rendered.body(_SAMPLE_ID))
        question.full = Outcome(problem.status, head, rendered.pieces)

    def refuse(self, question: Question, audience: Audience, verdict: Verdict) -> Outcome:
        """Return the response to a request that exceeds the rate limit, and count the refusal."""
        self._edge.metrics.refuse(audience.tier)
        wait_ms = verdict.retry_after_ms
        digits = b"%d}" % wait_ms
        seconds = -(-wait_ms // 1000)
        kind = 8 * seconds + len(digits)
        prepared = audience.refusals.get(kind)
        if prepared is None:
            prepared = audience.refusals[kind] = self._prepare_refusal(audience, seconds, digits)
        outcome = question.refused
        if outcome is None:
            outcome = question.refused = Outcome(429)
        outcome.head, pieces, last = prepared
        outcome.pieces = (*pieces, last + digits)
        return outcome

    def _prepare_refusal(self, audience: Audience, seconds: int, digits: bytes) -> Refusal:
        """Prepare the error for an exceeded rate limit, but for the digits that change every millisecond."""
        problem = replace(rate_limited(seconds * 1000, audience.limit, audience.tier), details={})
        rendered = render(problem, self._edge.catalogue, audience.language, audience.media)
        *pieces, last = rendered.pieces
        last = last[:-1] + b',"retry_after_ms":'
        head = rendered.head(_SAMPLE_ID.join((*pieces, last + digits)))
        return head, tuple(pieces), last

    def date(self, outcome: Outcome, question: Question, audience: Audience, dated: Headers) -> None:
        """Set the status line and the `Date` header of a cached response (`outcome`), which change every second.

        The first call also sets its counter and its log text.
        """
        if dated is not self._dated:
            self._dated, self._beginnings = dated, {}
        status, tier = outcome.status, audience.tier
        beginning = self._beginnings.get(status)
        if beginning is None:
            beginning = self._beginnings[status] = STATUS_LINE[status] + header_bytes(dated)
        if outcome.dated is None:
            outcome.tally = self._edge.metrics.tally(question.route, status, tier)
            outcome.stem = self._log.stem("GET", question.path, question.query, question.route, status, tier)
        outcome.beginning, outcome.dated = beginning, dated

    # -- learning

    def learn(
        self, data: bytes, target: bytes, request: Request, reply: Reply, entry: CacheEntry | None
    ) -> None:
        """Cache the header lines and the request line of a packet that the parser has accepted as exactly one request.

        `target`: the parsed request target. `entry`: the response; None if the request exceeded the rate limit.
        """
        end = data.find(_LINE_END)
        line, block = data[:end], data[end:]
        if line != b"GET %s HTTP/1.1" % target or not _is_one_head(data) or request.names_itself:
            return
        if request.if_none_match is not None:
            cut = CONDITION.search(block)
            if cut is None or cut[1].decode("ascii") != request.if_none_match:
                return
            block = block[: cut.start()] + block[cut.end() :]
        caller = reply.caller
        audience = self._audience(caller, request)
        question = Question(request, reply.route, entry)
        if isinstance(question.content, Problem):
            self._prepare_problem(question, audience, question.content)
        elif isinstance(question.content, Encoded):
            self.prepare(question, question.content)
        self._senders.put(block, Sender(caller, audience, log_name(caller.name)))
        self._questions.put(line + audience.mark, question)

    def _audience(self, caller: Caller, request: Request) -> Audience:
        """Return the audience (callers who get the same responses) to which a request belongs."""
        language = self._edge.catalogue.choose(request.accept_language)
        media = media_type(request.accept)
        key = (caller.scope, caller.tier, caller.limit, language, media)
        found = self._audiences.get(key)
        if found is None:
            mark = b" %d" % next(self._marks)
            refusals = self._refusals.setdefault((caller.tier, caller.limit, language, media), {})
            found = Audience(caller.tier, caller.limit, language, media, fixed_bytes(caller), mark, refusals)
            self._audiences.put(key, found)
        return found


def _is_one_head(data: bytes) -> bool:
    """Return whether a packet consists of exactly one short request head (request line and headers)."""
    return len(data) <= LONGEST_REQUEST and data.find(_HEAD_END) == len(data) - len(_HEAD_END)

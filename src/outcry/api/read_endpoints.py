"""Answer requests at the read endpoints, from the cache or the query service."""

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import NamedTuple

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.answers.live_answers import QueryResult
from outcry.answers.query import Query
from outcry.api.endpoints import ENDPOINTS_BY_PATH, Endpoint, Prepared
from outcry.api.parameters import read_query
from outcry.base.errors import ServiceError
from outcry.database.errors import StoreBusy
from outcry.http.auth import Caller
from outcry.http.cache import AnswerCache, CacheEntry, Encoded, names_etag
from outcry.http.edge import Edge, Reply
from outcry.http.errors import NOT_FOUND, UNAVAILABLE, Problem, method_not_allowed, problem_of, wrong_key
from outcry.http.requests import Request
from outcry.wire.answers import Answer

ALLOWED = ("GET", "HEAD")
_LONGEST_REMEMBERED = 128
_MOST_REMEMBERED = 1024


class _Question(NamedTuple):
    """A parsed request: the key of its answer in the cache, and the query to run as of `now_ns`."""

    key: Hashable
    now_ns: int
    ask: Callable[[], QueryResult[Answer]]


class ReadEndpoints:
    """Answers requests at the endpoints of `api/endpoints.py`."""

    def __init__(self, edge: Edge, query: Query, timeout_s: float) -> None:
        self._edge, self._query = edge, query
        self._cache = AnswerCache(timeout_s)

    def close(self) -> None:
        """Let the threads that compute answers end."""
        self._cache.close()

    async def reply(
        self, request: Request, endpoint: Endpoint | None, route: str, caller: Caller, verdict: Verdict, *,
        current: bool,
    ) -> Reply:  # fmt: skip
        """Answer an authenticated caller. `current`: whether keys were checked within the last second."""
        edge = self._edge
        if endpoint is None:
            return edge.refuse(request, route, caller, verdict, NOT_FOUND)
        if request.method not in ALLOWED:
            return edge.refuse(request, route, caller, verdict, method_not_allowed(ALLOWED))
        if caller.role != "read":
            return edge.refuse(request, route, caller, verdict, wrong_key("read"))
        if not current or caller.scope is None:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        try:
            question = self._question(request, endpoint, caller.scope)
            found = await self._cache.answer(
                question.key, edge.poller.revision, question.now_ns, question.ask
            )
        except ServiceError as error:
            return edge.refuse(request, route, caller, verdict, problem_of(error))
        except StoreBusy:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - report the error with its caller
            return edge.failed(request, route, error, caller)
        return self.reply_with(request, route, found, caller, verdict)

    def find(self, request: Request, endpoint: Endpoint | None, scope: Scope) -> CacheEntry | None:
        """Return the cached answer to a plain request with a key that may read; None if it is not cached."""
        revision = self._edge.poller.revision
        if endpoint is None:
            return CacheEntry(NOT_FOUND, revision, None)
        try:
            question = self._question(request, endpoint, scope)
        except ServiceError as error:
            return CacheEntry(problem_of(error), revision, None)
        return self._cache.find(question.key, revision, question.now_ns)

    def reply_with(
        self, request: Request, route: str, found: Encoded | Problem, caller: Caller, verdict: Verdict
    ) -> Reply:
        """Build the reply of an answer, or of the reason why there is none."""
        if isinstance(found, Problem):
            return self._edge.refuse(request, route, caller, verdict, found)
        if request.if_none_match is not None and names_etag(request.if_none_match, found.etag):
            return Reply(304, found.unchanged, b"", route, caller, verdict, found.unchanged_head)
        return Reply(200, found.headers, found.body, route, caller, verdict, found.head)

    def _question(self, request: Request, endpoint: Endpoint, scope: Scope) -> _Question:
        """Parse a request. Parsed query strings are cached, except long ones."""
        query = request.query
        parse = _parsed if len(query) <= _LONGEST_REMEMBERED else _parsed.__wrapped__
        terms, ask = parse(endpoint.path, query)
        now_ns = self._edge.clock.now_ns()
        return _Question((scope, endpoint.path, terms), now_ns, lambda: ask(self._query, scope, now_ns))


@lru_cache(_MOST_REMEMBERED)
def _parsed(path: str, query: bytes) -> Prepared:
    """Parse the query string into the question for an endpoint."""
    endpoint = ENDPOINTS_BY_PATH[path]
    names = frozenset(parameter.name for parameter in endpoint.parameters)
    return endpoint.prepare(read_query(query, names))

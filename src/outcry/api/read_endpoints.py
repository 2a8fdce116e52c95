"""Answer requests at the read endpoints, from the cache or the query service."""

from functools import lru_cache
from typing import Final

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
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

ALLOWED = ("GET", "HEAD")
_LONGEST_REMEMBERED: Final = 128
_MOST_REMEMBERED = 1024


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
            scope, now_ns = caller.scope, edge.clock.now_ns()
            terms, ask = _parse(endpoint.path, request.query)
            found = await self._cache.answer(
                (scope, endpoint.path, terms),
                edge.poller.revision,
                now_ns,
                lambda: ask(self._query, scope, now_ns),
            )
        except ServiceError as error:
            return edge.refuse(request, route, caller, verdict, problem_of(error))
        except StoreBusy:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - report the error with its caller
            return edge.failed(request, route, error, caller)
        return self.reply_with(request, route, found, caller, verdict)

    def find(self, request: Request, endpoint: Endpoint | None, scope: Scope) -> CacheEntry | None:
        """Return the cached answer to a plain request of a caller who may read; None if it is not cached."""
        revision = self._edge.poller.revision
        if endpoint is None:
            return CacheEntry(NOT_FOUND, revision, None)
        try:
            terms, _ = _parse(endpoint.path, request.query)
        except ServiceError as error:
            return CacheEntry(problem_of(error), revision, None)
        return self._cache.find((scope, endpoint.path, terms), revision, self._edge.clock.now_ns())

    def reply_with(
        self, request: Request, route: str, found: Encoded | Problem, caller: Caller, verdict: Verdict
    ) -> Reply:
        """Build the HTTP response from an answer, or from the error if there is none."""
        if isinstance(found, Problem):
            return self._edge.refuse(request, route, caller, verdict, found)
        if request.if_none_match is not None and names_etag(request.if_none_match, found.etag):
            return Reply(304, found.unchanged, b"", route, caller, verdict, found.unchanged_head)
        return Reply(200, found.headers, found.body, route, caller, verdict, found.head)


def _parse(path: str, query: bytes) -> Prepared:
    """Parse the query string for an endpoint. Results are cached, except for long query strings."""
    return _parsed(path, query) if len(query) <= _LONGEST_REMEMBERED else _parsed.__wrapped__(path, query)


@lru_cache(_MOST_REMEMBERED)
def _parsed(path: str, query: bytes) -> Prepared:
    endpoint = ENDPOINTS_BY_PATH[path]
    names = frozenset(parameter.name for parameter in endpoint.parameters)
    return endpoint.prepare(read_query(query, names))

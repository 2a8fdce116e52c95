"""Answer requests at the read endpoints, from the cache or the query service."""

from functools import lru_cache

from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.answers.query import Query
from outcry.api.endpoints import ENDPOINTS_BY_PATH, Endpoint, Prepared
from outcry.api.parameters import read_query
from outcry.base.errors import ServiceError
from outcry.database.errors import StoreBusy
from outcry.http.auth import Caller
from outcry.http.cache import AnswerCache, names_etag
from outcry.http.edge import Edge, Headers, Reply
from outcry.http.errors import NOT_FOUND, UNAVAILABLE, method_not_allowed, problem_of, wrong_key
from outcry.http.fastpath import FastPathCache
from outcry.http.requests import Request

ALLOWED = ("GET", "HEAD")
_LONGEST_REMEMBERED = 128
_MOST_REMEMBERED = 1024


class ReadEndpoints:
    """Answers requests at the endpoints of `api/endpoints.py`. `fast_path`: learns the answers, unless None."""

    def __init__(self, edge: Edge, query: Query, fast_path: FastPathCache | None, timeout_s: float) -> None:
        self._edge, self._query, self._fast_path = edge, query, fast_path
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
            return await self._answer(request, endpoint, caller, caller.scope, verdict)
        except ServiceError as error:
            return edge.refuse(request, route, caller, verdict, problem_of(error))
        except StoreBusy:
            return edge.refuse(request, route, caller, verdict, UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - report the error with its caller
            return edge.failed(request, route, error, caller)

    async def _answer(
        self, request: Request, endpoint: Endpoint, caller: Caller, scope: Scope, verdict: Verdict
    ) -> Reply:
        """Answer from the cache or the query service, with an entity tag."""
        edge, query = self._edge, request.query
        # parsed query strings are cached, except long ones
        parse = _parsed if len(query) <= _LONGEST_REMEMBERED else _parsed.__wrapped__
        terms, ask = parse(endpoint.path, query)
        now_ns = edge.clock.now_ns()
        entry, encoded = await self._cache.answer(
            (scope, endpoint.path, terms),
            edge.poller.revision,
            now_ns,
            lambda: ask(self._query, scope, now_ns),
        )
        if request.if_none_match is not None and names_etag(request.if_none_match, encoded.etag):
            headers: Headers = [(b"etag", encoded.etag), (b"cache-control", b"private, no-cache")]
            return Reply(304, headers, b"", request.path, caller, verdict)
        if request.plain and self._fast_path is not None:
            self._fast_path.learn_request(request, caller, entry, endpoint.path)
        return Reply(200, encoded.headers, encoded.body, request.path, caller, verdict, encoded.head)


@lru_cache(_MOST_REMEMBERED)
def _parsed(path: str, query: bytes) -> Prepared:
    """Parse the query string into the question for an endpoint."""
    endpoint = ENDPOINTS_BY_PATH[path]
    names = frozenset(parameter.name for parameter in endpoint.parameters)
    return endpoint.prepare(read_query(query, names))

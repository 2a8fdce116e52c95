"""The dispatcher of `/api`: authenticate, count, route and answer. It bypasses the page framework, which is slower.

It checks the key first, then the rate limit, the path and the parameters. A client without a key therefore cannot tell
which paths exist. Every request within the limit counts, even if it fails later.
"""

from collections.abc import Callable
from functools import lru_cache
from time import monotonic_ns
from typing import Any

import msgspec

from outcry.access.keys import KeyRefusal
from outcry.access.licences import Scope
from outcry.access.limiter import Verdict
from outcry.answers.query import Query
from outcry.api.endpoints import ENDPOINTS, Ask, Endpoint, Prepared
from outcry.api.hub import Hub
from outcry.api.ingest import PATH as INGEST_PATH
from outcry.api.ingest import Ingest
from outcry.api.parameters import read_query
from outcry.api.stream import STREAM, TICKET, OpenedStream, Streams
from outcry.api.stream_writer import write_stream
from outcry.base.errors import ServiceError
from outcry.database.errors import StoreBusy
from outcry.http.auth import Caller, anonymous
from outcry.http.cache import AnswerCache, CacheEntry, Computed, Encoded, LiveContent, names_etag
from outcry.http.edge import Edge, Headers, Receive, Reply, Send
from outcry.http.errors import (
    NOT_FOUND,
    STARTING,
    UNAVAILABLE,
    method_not_allowed,
    problem_of,
    rate_limited,
    unauthorized,
    wrong_key,
)
from outcry.http.fastpath import FastPathCache
from outcry.http.requests import Request

ALLOWED = ("GET", "HEAD")
API, PAGE = "/api", "/page"
UNKNOWN_ROUTE = "/api/*"
_LONGEST_REMEMBERED = 128
_MOST_REMEMBERED = 1024
_ROUTES = {endpoint.path: endpoint for endpoint in ENDPOINTS}


class Dispatcher:
    """Answers every request to a path under `/api`."""

    def __init__(
        self,
        edge: Edge,
        query: Query,
        fast_path: FastPathCache,
        hub: Hub,
        timeout_s: float,
        ingest: Ingest | None = None,
        *,
        pages: bool = False,
    ) -> None:
        self._edge = edge
        self._hub = hub
        self._authenticate = (
            edge.authenticator.authenticate_page if pages else edge.authenticator.authenticate
        )
        self._streams = Streams(edge, hub)
        self._streamed = (STREAM,) if pages else (STREAM, TICKET)
        self._pages = pages
        self._query = query
        self._fast_path = fast_path
        self._timeout_s = timeout_s
        self._ingest = ingest
        self.cache = AnswerCache(timeout_s)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request. No exception reaches the server."""
        edge = self._edge
        started_ns = monotonic_ns()
        request = Request(scope, edge.ids)
        if self._pages:
            request.place = API + request.path.removeprefix(PAGE)
        endpoint = _ROUTES.get(request.place)
        route = request.path if endpoint or request.place in self._streamed else UNKNOWN_ROUTE
        try:
            reply = await self._reply(request, endpoint, route, receive)
        except Exception as error:  # noqa: BLE001 - the last supervisor before the socket
            reply = edge.failed(request, route, error)
        if isinstance(reply, OpenedStream):
            await write_stream(edge, self._hub, request, reply, started_ns, receive, send)
        else:
            await edge.send(request, reply, started_ns, send)

    async def _reply(
        self, request: Request, endpoint: Endpoint | None, route: str, receive: Receive
    ) -> Reply:
        """Authenticate and count the caller, then answer or refuse the request."""
        edge = self._edge
        if not edge.poller.started:
            caller = anonymous(request.client)
            return edge.refuse(request, route, caller, edge.limit_state(caller), STARTING)
        current = edge.poller.fresh or await edge.poller.ensure(self._timeout_s)
        streams = self._streams if request.place in self._streamed else None
        caller, reason = (
            self._authenticate(request) if streams is None or self._pages else streams.authenticate(request)
        )
        if streams is not None and streams.full(request, caller):
            return streams.too_many(route, request, caller, edge.limit_state(caller))
        ingest = self._ingest if request.place == INGEST_PATH else None
        count_request = ingest is None or ingest.counts(caller)
        if count_request:
            verdict = await edge.count_request(caller)
        else:
            verdict = edge.limit_state(caller)
        if reason is KeyRefusal.UNKNOWN and verdict.allowed:
            caller, reason, verdict = await self._ask_again(request, caller, verdict)
        if not verdict.allowed and count_request:
            edge.metrics.refuse(caller.tier)
            problem = rate_limited(verdict.retry_after_ms, caller.limit, caller.tier)
            return edge.refuse(request, route, caller, verdict, problem)
        if reason is not None:
            return edge.refuse(request, route, caller, verdict, unauthorized(reason))
        if ingest is not None:
            return await ingest.reply(request, receive, caller, verdict, current=current)
        if streams is not None:
            return await streams.reply(request, caller, verdict, current=current)
        return await self._read(request, endpoint, route, caller, verdict, current=current)

    async def _read(
        self, request: Request, endpoint: Endpoint | None, route: str, caller: Caller, verdict: Verdict, *,
        current: bool,
    ) -> Reply:  # fmt: skip
        """Answer an authenticated caller's request at a read endpoint.

        current: whether keys were checked within the last second.
        """
        edge = self._edge
        if endpoint is None:
            return edge.refuse(request, route, caller, verdict, NOT_FOUND)
        if request.method not in ("GET", "HEAD"):
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

    async def _ask_again(
        self, request: Request, caller: Caller, verdict: Verdict
    ) -> tuple[Caller, KeyRefusal | None, Verdict]:
        """Load changes from the database and authenticate again.

        Another process may have just created the key.
        """
        edge = self._edge
        await edge.poller.next(self._timeout_s)
        found, reason = self._authenticate(request)
        if reason is None:
            return found, None, await edge.count_request(found)
        return caller, reason, verdict

    async def _answer(
        self, request: Request, endpoint: Endpoint, caller: Caller, scope: Scope, verdict: Verdict
    ) -> Reply:
        """Answer from the cache or the query service, with an entity tag."""
        terms, ask = _question(endpoint, request.query)
        entry, encoded = await self._cached((scope, endpoint.path, terms), scope, ask)
        if request.if_none_match is not None and names_etag(request.if_none_match, encoded.etag):
            headers: Headers = [(b"etag", encoded.etag), (b"cache-control", b"private, no-cache")]
            return Reply(304, headers, b"", request.path, caller, verdict)
        if request.plain and not self._pages:
            self._fast_path.learn_request(request, caller, entry, endpoint.path)
        return Reply(200, encoded.headers, encoded.body, request.path, caller, verdict, encoded.head)

    async def _cached(self, key: tuple[Any, ...], scope: Scope, ask: Ask) -> tuple[CacheEntry, Encoded]:
        """Return a cache entry and its encoded answer; compute them if they are missing or outdated."""
        edge = self._edge
        now_ns = edge.clock.now_ns()
        revision = edge.poller.revision
        entry = self.cache.get(key, revision, now_ns)
        encoded = entry and (entry.current() or await self.cache.renew(entry, now_ns))
        if entry and encoded:
            return entry, encoded
        return await self.cache.fetch(key, revision, _computation(self._query, scope, ask, now_ns))


def _question(endpoint: Endpoint, query: bytes) -> Prepared:
    """Parse the query string into the question for an endpoint. The result is cached, unless the string is long."""
    return (_parsed if len(query) <= _LONGEST_REMEMBERED else _parsed.__wrapped__)(endpoint.path, query)


@lru_cache(_MOST_REMEMBERED)
def _parsed(path: str, query: bytes) -> Prepared:
    endpoint = _ROUTES[path]
    return endpoint.prepare(read_query(query, endpoint.names))


def _computation(query: Query, scope: Scope, ask: Ask, now_ns: int) -> Callable[[], Computed]:
    """Return a function, to be run in a thread, that queries and encodes an answer."""

    def compute() -> Computed:
        found = ask(query, scope, now_ns)
        live_answer = found.live_answer
        if live_answer is None:
            return Computed(Encoded.of(msgspec.json.encode(found.answer)), found.fresh_until_ns)
        rendered = live_answer.render(now_ns)
        if rendered is None:  # the session has just ended: send its last answer, and do not cache it
            return Computed(Encoded.of(msgspec.json.encode(found.answer)), now_ns)
        return Computed(LiveContent(live_answer, rendered), found.fresh_until_ns)

    return compute

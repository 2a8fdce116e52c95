"""The dispatcher of `/api`: authenticate, count and route. It bypasses the page framework, which is slower.

It checks the key first, then the rate limit, the path and the parameters. A client without a key therefore cannot tell
which paths exist. Every request within the limit counts, even if it fails later.
"""

from time import monotonic_ns
from typing import Any, Final

from outcry.access.keys import KeyRefusal
from outcry.access.limiter import Verdict, count_request
from outcry.answers.query import Query
from outcry.api.endpoints import ENDPOINTS_BY_PATH, Endpoint
from outcry.api.hub import Hub
from outcry.api.ingest import PATH as INGEST_PATH
from outcry.api.ingest import Ingest
from outcry.api.read_endpoints import ReadEndpoints
from outcry.api.stream import STREAM, TICKET, OpenedStream, Streams
from outcry.api.stream_writer import write_stream
from outcry.http.auth import Caller, anonymous
from outcry.http.edge import Edge, Receive, Reply, Send
from outcry.http.errors import STARTING, rate_limited, unauthorized
from outcry.http.requests import Request

API, PAGE = "/api", "/page"
UNKNOWN_ROUTE: Final = "/api/*"


class Dispatcher:
    """Answers every request to a path under `/api`."""

    def __init__(
        self,
        edge: Edge,
        query: Query,
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
        self._reads = ReadEndpoints(edge, query, timeout_s)
        self._timeout_s = timeout_s
        self._ingest = ingest

    def close(self) -> None:
        """Let the threads that compute answers end."""
        self._reads.close()

    def answer_at_once(self, request: Request) -> Reply | None:
        """Answer a plain GET request with a valid key from memory, or return None and count nothing.

        After None, the server passes the request to `__call__`, which handles it from the beginning.
        """
        if not self._edge.poller.fresh:
            return None
        try:
            return self._answer_at_once(request)
        except Exception as error:  # noqa: BLE001 - the last supervisor before the socket
            return self._edge.failed(request, UNKNOWN_ROUTE, error)

    def _answer_at_once(self, request: Request) -> Reply | None:
        edge, limiter = self._edge, self._edge.limiter
        endpoint = ENDPOINTS_BY_PATH.get(request.place)
        if endpoint is None and (request.place in self._streamed or request.place == INGEST_PATH):
            return None
        caller, refusal = edge.authenticator.authenticate_header(request)
        if refusal is not None or caller.role != "read" or caller.scope is None:
            return None
        route = request.path if endpoint is not None else UNKNOWN_ROUTE
        entry = self._reads.find(request, endpoint, caller.scope)
        found = entry.current() if entry is not None else None
        decide = limiter.take if found is not None else limiter.refusal
        verdict = decide(caller.subject, caller.limit)
        if verdict is None:
            return None
        if found is None or not verdict.allowed:
            edge.metrics.refuse(caller.tier)
            problem = rate_limited(verdict.retry_after_ms, caller.limit, caller.tier)
            reply = edge.refuse(request, route, caller, verdict, problem)
        else:
            reply = self._reads.reply_with(request, route, found, caller, verdict)
        reply.entry = entry
        return reply

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request. No exception reaches the server."""
        edge = self._edge
        started_ns = monotonic_ns()
        request = Request.of_scope(scope, edge.ids)
        if self._pages:
            request.place = API + request.path.removeprefix(PAGE)
        endpoint = ENDPOINTS_BY_PATH.get(request.place)
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
    ) -> Reply | OpenedStream:
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
        counted = ingest is None or ingest.counts(caller)
        if counted:
            verdict = await count_request(edge.limiter, caller.subject, caller.limit)
        else:
            verdict = edge.limit_state(caller)
        if reason is KeyRefusal.UNKNOWN and verdict.allowed:
            caller, reason, verdict = await self._ask_again(request, caller, verdict)
        if not verdict.allowed and counted:
            edge.metrics.refuse(caller.tier)
            problem = rate_limited(verdict.retry_after_ms, caller.limit, caller.tier)
            return edge.refuse(request, route, caller, verdict, problem)
        if reason is not None:
            return edge.refuse(request, route, caller, verdict, unauthorized(reason))
        if ingest is not None:
            return await ingest.reply(request, receive, caller, verdict, current=current)
        if streams is not None:
            return await streams.reply(request, caller, verdict, current=current)
        return await self._reads.reply(request, endpoint, route, caller, verdict, current=current)

    async def _ask_again(
        self, request: Request, caller: Caller, verdict: Verdict
    ) -> tuple[Caller, KeyRefusal | None, Verdict]:
        """Reload the keys from the database, and authenticate the request again.

        Another process may have just created the key.
        """
        edge = self._edge
        await edge.poller.next(self._timeout_s)
        found, reason = self._authenticate(request)
        if reason is None:
            return found, None, await count_request(edge.limiter, found.subject, found.limit)
        return caller, reason, verdict

"""The edge: the steps common to all requests and responses, such as headers, limits, errors and logging.

Every response carries its rate limit, tier and request id. No exception reaches the client: it receives
`internal_error` with the request id, and the log has the details.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from time import monotonic_ns
from typing import Any, NamedTuple, cast

from outcry.access.limiter import Limiter, Verdict
from outcry.access.tiers import ApiTier
from outcry.base.clock import Clock
from outcry.base.log_events import EventLog, LogEvent
from outcry.base.redaction import for_log
from outcry.http.auth import Authenticator, Caller, anonymous
from outcry.http.cache import CacheEntry
from outcry.http.errors import INTERNAL, Problem, RenderedProblem, media_type, render
from outcry.http.limits import Headers, header_bytes, limit_header_bytes, limit_headers, tier_headers
from outcry.http.logs import AccessLog, log_name
from outcry.http.messages import Catalogue
from outcry.http.metrics import Metrics
from outcry.http.requests import Request, RequestIds
from outcry.http.revision_poller import RevisionPoller

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
AsgiApp = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

#: Scope extension: a function of the server that writes a whole response at once, its head given in parts. It returns
#: False if it cannot.
WHOLE = "outcry.whole"
#: Scope extension with the server's transport, for long-running responses.
TRANSPORT = "outcry.transport"
WriteWhole = Callable[[int, list[bytes], bytes], bool]

SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
VARY = (b"vary", b"x-api-key, accept, accept-language")
VARY_PAGE = (b"vary", b"cookie, accept, accept-language")


@dataclass(slots=True)  # not frozen: that would triple the construction time
class Reply:
    """A response, with the route and caller for metrics and logs, and the state of the caller's limit.

    `headers`: those that only this response has. `head`: the same headers encoded, if already available.
    """

    status: int
    headers: Headers
    body: bytes
    route: str
    caller: Caller
    verdict: Verdict
    head: bytes | None = None


class Answered(NamedTuple):
    """A reply from memory, and the cached answer in it. The answer is None if the request was over the limit."""

    reply: Reply
    entry: CacheEntry | None


@dataclass(frozen=True, slots=True)
class Edge:
    """The steps common to all requests of one service."""

    authenticator: Authenticator
    limiter: Limiter
    poller: RevisionPoller
    clock: Clock
    catalogue: Catalogue
    metrics: Metrics
    access_log: AccessLog
    event_log: EventLog
    ids: RequestIds
    #: Maximum request size in bytes, head included, at paths that accept large requests.
    roomy: Mapping[str, int] = field(default_factory=dict[str, int])

    def refuse(
        self, request: Request, route: str, caller: Caller, verdict: Verdict, problem: Problem
    ) -> Reply:
        """Build the reply for a problem, in the client's language."""
        rendered = self.rendered(problem, request)
        body = rendered.body(request.request_id.encode("ascii"))
        return Reply(problem.status, rendered.headers(body), body, route, caller, verdict)

    def rendered(self, problem: Problem, request: Request) -> RenderedProblem:
        """Render a problem in the language and media type that a client prefers."""
        language = self.catalogue.choose(request.accept_language)
        return render(problem, self.catalogue, language, media_type(request.accept))

    def limit_state(self, caller: Caller) -> Verdict:
        """Return the state of a caller's rate limit, for a response that is not counted."""
        return self.limiter.peek(caller.subject, caller.limit)

    def failed(self, request: Request, route: str, error: Exception, caller: Caller | None = None) -> Reply:
        """Log an unexpected exception and build a reply that does not disclose it."""
        path, query = for_log(request.path, request.query)
        self.event_log.error(
            LogEvent.REQUEST_FAILED, request_id=request.request_id, path=path, query=query, exc_info=error
        )
        caller = caller or anonymous(request.client)
        return self.refuse(request, route, caller, self.limit_state(caller), INTERNAL)

    async def send(self, request: Request, reply: Reply, started_ns: int, send: Send) -> None:
        """Send a reply with the common headers, then count and log it."""
        request_id = request.request_id.encode("ascii")
        body = b"" if request.method == "HEAD" else reply.body
        extensions = request.scope.get("extensions")
        whole: WriteWhole | None = extensions.get(WHOLE) if extensions else None
        if whole is None or not whole(reply.status, head_parts(reply, request_id), body):
            headers = [*reply.headers, *fixed_headers(reply.caller)]
            headers += limit_headers(reply.verdict, request_id)
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        self.note(request, reply.route, reply.status, reply.caller, started_ns)

    def note(self, request: Request, route: str, status: int, caller: Caller, started_ns: int) -> None:
        """Count a finished response in the metrics, and log it."""
        took_ns = monotonic_ns() - started_ns
        self.metrics.tally(route, status, caller.tier).add(took_ns)
        if self.access_log.enabled:
            name = caller.name if caller.scope is not None else caller.subject
            stem = self.access_log.stem(
                request.method, request.path, request.query, route, status, caller.tier
            )
            request_id = request.request_id.encode("ascii")
            self.access_log.add(self.clock.now_ns(), stem, log_name(name), request_id, took_ns)

    def around(self, app: AsgiApp) -> AsgiApp:
        """Wrap an application whose requests no limit counts, so that its responses carry the common headers."""

        async def wrapped(scope: dict[str, Any], receive: Receive, send: Send) -> None:
            started_ns = monotonic_ns()
            request = Request(scope, self.ids)
            caller, _ = self.authenticator.authenticate(request)
            status: int | None = None

            async def dressed(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = cast("int", message["status"])
                    headers = list(cast("Headers", message["headers"]))
                    given = {name for name, _ in headers}
                    headers += [header for header in fixed_headers(caller) if header[0] not in given]
                    headers += limit_headers(self.limit_state(caller), request.request_id.encode("ascii"))
                    message["headers"] = headers
                await send(message)

            scope["outcry.request"] = request
            try:
                await app(scope, receive, dressed)
            except Exception as error:  # noqa: BLE001 - the last supervisor before the socket
                reply = self.failed(request, "*", error, caller)
                if status is None:
                    await self.send(request, reply, started_ns, send)
                return
            self.note(request, route_of(scope), status or 500, caller, started_ns)

        return wrapped


def head_parts(reply: Reply, request_id: bytes) -> list[bytes]:
    """Return the encoded headers of a reply, up to those of the connection."""
    return [
        header_bytes(reply.headers) if reply.head is None else reply.head,
        fixed_bytes(reply.caller),
        limit_header_bytes(reply.verdict),
        request_id,
        b"\r\n",
    ]


def fixed_headers(caller: Caller) -> Headers:
    """Return the headers that every response to a caller carries. Do not modify the list."""
    return _fixed(caller.tier, caller.limit, caller.session is not None)[0]


def fixed_bytes(caller: Caller) -> bytes:
    """Return `fixed_headers` encoded."""
    return _fixed(caller.tier, caller.limit, caller.session is not None)[1]


@cache
def _fixed(tier: ApiTier, limit: int, by_cookie: bool) -> tuple[Headers, bytes]:  # noqa: FBT001 - a cache's key
    """Return the headers that every response to a caller carries, as a list and encoded."""
    headers = [VARY_PAGE if by_cookie else VARY, *SECURITY_HEADERS, *tier_headers(tier, limit)]
    return headers, header_bytes(headers)


def route_of(scope: dict[str, Any]) -> str:
    """Return the route template for metrics; `*` if no route matches."""
    route = scope.get("route")
    return getattr(route, "path", "*") if route is not None else "*"

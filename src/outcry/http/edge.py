"""The steps common to all requests and responses ("the edge"): headers, limits, errors and logging.

Every response carries its rate limit, tier and request id. If an exception occurs, the client receives only
`internal_error` with the request id, and the log has the details.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cache
from http import HTTPStatus
from time import monotonic_ns
from typing import Any, cast

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
from outcry.http.requests import PlainTargets, Request, RequestIds
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
#: The first line of a response by its status.
STATUS_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

SECURITY_HEADERS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
VARY = (b"vary", b"x-api-key, accept, accept-language")
VARY_PAGE = (b"vary", b"cookie, accept, accept-language")


class Reply:
    """A response, with the route and caller for metrics and logs, and the state of the caller's rate limit.

    `headers`: headers that only this response has. `head`: the same headers encoded, if already available. `entry`: the
    cache entry whose response this is, if there is one.
    """

    __slots__ = ("body", "caller", "entry", "head", "headers", "route", "status", "verdict")

    def __init__(  # written out: the compiler makes a dataclass's constructor slower
        self, status: int, headers: Headers, body: bytes, route: str, caller: Caller, verdict: Verdict,
        head: bytes | None = None, entry: CacheEntry | None = None,
    ) -> None:  # fmt: skip
        self.status = status
        self.headers = headers
        self.body = body
        self.route = route
        self.caller = caller
        self.verdict = verdict
        self.head = head
        self.entry = entry


class FirstLines:
    """Encoded status lines, each with the server's default headers, which change every second (`Date`)."""

    __slots__ = ("_dated", "_lines")

    def __init__(self) -> None:
        self._dated: Headers = []
        self._lines: dict[int, bytes] = {}

    def of(self, status: int, dated: Headers) -> bytes:
        """Return the status line and the default headers as bytes.

        dated: the default headers; the server passes a new list whenever they have changed.
        """
        if dated is not self._dated:
            self._dated, self._lines = dated, {}
        lines = self._lines.get(status)
        if lines is None:
            lines = self._lines[status] = STATUS_LINE[status] + header_bytes(dated)
        return lines


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
    first_lines: FirstLines = field(default_factory=FirstLines)
    targets: PlainTargets = field(default_factory=PlainTargets)

    def refuse(
        self, request: Request, route: str, caller: Caller, verdict: Verdict, problem: Problem
    ) -> Reply:
        """Return the reply that reports a problem, in the client's language."""
        rendered = self.rendered(problem, request)
        body = rendered.body(request.id_bytes)
        return Reply(problem.status, rendered.headers(body), body, route, caller, verdict)

    def rendered(self, problem: Problem, request: Request) -> RenderedProblem:
        """Return the error response for a problem, in the language and media type that the client prefers."""
        language = self.catalogue.choose(request.accept_language)
        return render(problem, self.catalogue, language, media_type(request.accept))

    def limit_state(self, caller: Caller) -> Verdict:
        """Return the state of a caller's rate limit without counting a request."""
        return self.limiter.peek(caller.subject, caller.limit)

    def failed(self, request: Request, route: str, error: Exception, caller: Caller | None = None) -> Reply:
        """Log an unexpected exception, and return a reply that does not disclose it."""
        path, query = for_log(request.path, request.query)
        self.event_log.error(
            LogEvent.REQUEST_FAILED, request_id=request.request_id, path=path, query=query, exc_info=error
        )
        caller = caller or anonymous(request.client)
        return self.refuse(request, route, caller, self.limit_state(caller), INTERNAL)

    async def send(self, request: Request, reply: Reply, started_ns: int, send: Send) -> None:
        """Send a reply with the common headers, then count and log it."""
        request_id = request.id_bytes
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
            request_id = request.id_bytes
            self.access_log.add(self.clock.now_ns(), stem, log_name(name), request_id, took_ns)

    def around(self, app: AsgiApp) -> AsgiApp:
        """Wrap an application so that its responses have the common headers. Rate limits do not count its requests."""

        async def wrapped(scope: dict[str, Any], receive: Receive, send: Send) -> None:
            started_ns = monotonic_ns()
            request = Request.of_scope(scope, self.ids)
            caller, _ = self.authenticator.authenticate(request)
            status: int | None = None

            async def dressed(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = cast("int", message["status"])
                    headers = list(cast("Headers", message["headers"]))
                    given = {name for name, _ in headers}
                    headers += [header for header in fixed_headers(caller) if header[0] not in given]
                    headers += limit_headers(self.limit_state(caller), request.id_bytes)
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
    """Return the encoded headers of a reply, without those about the connection."""
    return [
        header_bytes(reply.headers) if reply.head is None else reply.head,
        fixed_bytes(reply.caller),
        limit_header_bytes(reply.verdict),
        request_id,
        b"\r\n",
    ]


def fixed_headers(caller: Caller) -> Headers:
    """Return the headers that are the same in all responses to a caller. Do not modify the list."""
    return _fixed(caller.tier, caller.limit, caller.session is not None)[0]


def fixed_bytes(caller: Caller) -> bytes:
    """Return the result of `fixed_headers`, encoded."""
    return _fixed(caller.tier, caller.limit, caller.session is not None)[1]


@cache
def _fixed(tier: ApiTier, limit: int, by_cookie: bool) -> tuple[Headers, bytes]:  # noqa: FBT001 - a cache's key
    """Return the headers that all responses to callers of a tier have in common, as a list and encoded.

    limit: their rate limit. by_cookie: whether the callers are authenticated by a cookie instead of a key.
    """
    headers = [VARY_PAGE if by_cookie else VARY, *SECURITY_HEADERS, *tier_headers(tier, limit)]
    return headers, header_bytes(headers)


def route_of(scope: dict[str, Any]) -> str:
    """Return the template of the route that matched the request, as a label for metrics; `*` if none matched."""
    route = scope.get("route")
    return getattr(route, "path", "*") if route is not None else "*"

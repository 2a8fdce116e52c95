"""The fast path: answer a repeated request by its raw bytes, before parsing.

A polling client sends the same bytes again and again. After the application has answered such a request, the result of
each step is cached here by the request's bytes. The protocol looks up every received packet before it parses it. Each
time, the fast path checks that the key, the answer and the rate limit are still valid. Otherwise the application
handles the request. Live answers are always current.

The response is byte for byte the application's (a test compares them over sockets). The fast path can be disabled.
"""

from dataclasses import dataclass
from time import monotonic_ns
from weakref import WeakValueDictionary

from outcry.http.auth import Caller
from outcry.http.cache import CacheEntry, Encoded, EncodedLiveAnswer
from outcry.http.edge import Edge, fixed_bytes
from outcry.http.limits import header_bytes, limit_header_bytes
from outcry.http.logs import log_name
from outcry.http.metrics import Tally
from outcry.http.requests import Request

EXTENSION = "outcry.learn"
_MOST_ENTRIES = 4096
LONGEST_REQUEST = 2048
_HEAD_END = b"\r\n\r\n"


class SharedResponse:
    """The part of a response head that all callers of one tier share.

    Sharing keeps it in the processor's cache. It is built again when the answer or the current second changes.
    """

    __slots__ = ("__weakref__", "_dated", "_encoded", "_fixed", "begin", "content", "stem", "tally")

    def __init__(self, content: Encoded | EncodedLiveAnswer, fixed: bytes, tally: Tally, stem: bytes) -> None:
        self.content = content
        self.tally = tally
        self.stem = stem
        self.begin = b""
        self._fixed = fixed
        #: Sources of `begin`: the answer, and the server's default headers, which change every second.
        self._encoded: Encoded | None = None
        self._dated: list[tuple[bytes, bytes]] | None = None

    def write(self, encoded: Encoded, dated: list[tuple[bytes, bytes]]) -> bytes:
        """Return the response head up to the headers that differ by caller."""
        if self._encoded is not encoded or self._dated is not dated:
            self.begin = b"HTTP/1.1 200 OK\r\n" + header_bytes(dated) + encoded.head + self._fixed
            self._encoded, self._dated = encoded, dated
        return self.begin


@dataclass(slots=True, frozen=True, eq=False)
class CachedRequest:
    """What the application derived from a request's bytes, such as its caller and answer."""

    subject: str
    limit: int
    generation: int
    entry: CacheEntry
    shared: SharedResponse
    name: bytes


class FastPathCache:
    """Answers to requests by the requests' bytes.

    Only requests with a valid key are cached, so others cannot fill the memory.
    """

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._requests: dict[bytes, CachedRequest] = {}
        self._shared = WeakValueDictionary[bytes, SharedResponse]()
        self._take = edge.limiter.take
        self._now_ns = edge.clock.now_ns
        self._make_id = edge.ids.make_bytes
        self._log = edge.access_log
        self._poller = edge.poller
        self._authenticator = edge.authenticator

    def __len__(self) -> int:
        return len(self._requests)

    def serve(self, request: bytes, default_headers: list[tuple[bytes, bytes]]) -> tuple[bytes, ...] | None:
        """Return the whole response in parts; None if the application must handle the request."""
        cached = self._requests.get(request)
        if cached is None:
            return None
        started_ns = monotonic_ns()
        now_ns = self._now_ns()
        entry = cached.entry
        if not (
            started_ns < self._poller.fresh_until_ns
            and cached.generation == self._authenticator.generation
            and entry.is_valid(self._poller.revision, now_ns)
        ):
            del self._requests[request]
            return None
        encoded = entry.current()
        if encoded is None:  # it has changed: the application renders it once for all callers
            return None
        verdict = self._take(cached.subject, cached.limit)
        if (
            verdict is None or not verdict.allowed
        ):  # nothing was counted: the application consults other processes or refuses
            return None
        shared = cached.shared
        request_id = self._make_id()
        parts = (
            shared.write(encoded, default_headers),
            limit_header_bytes(verdict),
            request_id,
            _HEAD_END,
            encoded.body,
        )
        took_ns = monotonic_ns() - started_ns
        shared.tally.add(took_ns)
        if self._log.enabled:
            self._log.add(now_ns, shared.stem, cached.name, request_id, took_ns)
        return parts

    def learn(self, request: bytes, cached: CachedRequest) -> None:
        """Cache a request; drop the oldest if the cache is full."""
        if len(self._requests) >= _MOST_ENTRIES and request not in self._requests:
            del self._requests[next(iter(self._requests))]
        self._requests[request] = cached

    def learn_request(self, request: Request, caller: Caller, entry: CacheEntry, route: str) -> None:
        """Cache a request and its answer if the status was 200 and the protocol offered the request's bytes."""
        extensions = request.scope.get("extensions")
        offer: OfferedBytes | None = extensions.get(EXTENSION) if extensions else None
        if offer is None or not offer.is_complete:
            return
        stem = self._log.stem(request, route, 200, caller.tier)
        shared = self._shared.get(stem)
        if shared is None or shared.content is not entry.content:
            tally = self._edge.metrics.tally(route, 200, caller.tier)
            shared = self._shared[stem] = SharedResponse(entry.content, fixed_bytes(caller), tally, stem)
        cached = CachedRequest(
            caller.subject, caller.limit, caller.generation, entry, shared, log_name(caller.name)
        )
        self.learn(offer.request, cached)


class OfferedBytes:
    """The bytes of a request, which the protocol offers for caching.

    `is_complete`: they are exactly one whole request.
    """

    __slots__ = ("is_complete", "request")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.is_complete = False


def whole_request(data: bytes) -> bool:
    """Return whether a packet looks like exactly one request without a body."""
    return (
        len(data) <= LONGEST_REQUEST
        and data.startswith(b"GET /api/")
        and data.find(_HEAD_END) == len(data) - len(_HEAD_END)
    )

"""The fast path: answers a repeated request from its very bytes, before it is parsed.

A client that polls sends the same bytes again and again. The application, having answered such a request,
leaves here all it concluded from it; the protocol then looks each arriving packet up before parsing it.
Nothing is decided here that the application has not decided: whether the key still lives, the answer still
holds and the limit allows is asked each time, and whenever the answer is not a plain yes the request takes
the ordinary way. Of a live answer the newest form is given, whoever it was made for.

Rule kept: byte for byte what the application sends (a test compares them over sockets), and it can be
switched off.
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
    """An answer as all callers of one tier get it: shared by them, so that it stays in the processor's
    cache. It is written anew when the answer moves or the second does."""

    __slots__ = ("__weakref__", "_dated", "_encoded", "_fixed", "begin", "content", "stem", "tally")

    def __init__(self, content: Encoded | EncodedLiveAnswer, fixed: bytes, tally: Tally, stem: bytes) -> None:
        self.content = content
        self.tally = tally
        self.stem = stem
        self.begin = b""
        self._fixed = fixed
        #: What `begin` was written of: the answer, and the default headers, which are new each second.
        self._encoded: Encoded | None = None
        self._dated: list[tuple[bytes, bytes]] | None = None

    def write(self, encoded: Encoded, dated: list[tuple[bytes, bytes]]) -> bytes:
        """Everything before the caller's own headers."""
        if self._encoded is not encoded or self._dated is not dated:
            self.begin = b"HTTP/1.1 200 OK\r\n" + header_bytes(dated) + encoded.head + self._fixed
            self._encoded, self._dated = encoded, dated
        return self.begin


@dataclass(slots=True, frozen=True, eq=False)
class CachedRequest:
    """What was concluded from a request's bytes."""

    subject: str
    limit: int
    generation: int
    entry: CacheEntry
    shared: SharedResponse
    name: bytes


class FastPathCache:
    """Remembers requests by their bytes. Only those with a valid key get in, so strangers cannot fill it."""

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
        """Return the whole response in parts, or None where the application has to be asked."""
        fast_path = self._requests.get(request)
        if fast_path is None:
            return None
        started_ns = monotonic_ns()
        now_ns = self._now_ns()
        entry = fast_path.entry
        if not (
            started_ns < self._poller.fresh_until_ns
            and fast_path.generation == self._authenticator.generation
            and entry.is_valid(self._poller.revision, now_ns)
        ):
            del self._requests[request]
            return None
        encoded = entry.current()
        if encoded is None:  # it has moved: the application makes it anew, once for everyone
            return None
        verdict = self._take(fast_path.subject, fast_path.limit)
        if (
            verdict is None or not verdict.allowed
        ):  # nothing was counted: the application asks, and words a refusal
            return None
        shared = fast_path.shared
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
            self._log.add(now_ns, shared.stem, fast_path.name, request_id, took_ns)
        return parts

    def learn(self, request: bytes, fast_path: CachedRequest) -> None:
        """Remember a request; the oldest makes room."""
        if len(self._requests) >= _MOST_ENTRIES and request not in self._requests:
            del self._requests[next(iter(self._requests))]
        self._requests[request] = fast_path

    def learn_request(self, request: Request, caller: Caller, entry: CacheEntry, route: str) -> None:
        """Remember a plain request answered with 200, if the protocol offered its bytes."""
        extensions = request.scope.get("extensions")
        offer: OfferedBytes | None = extensions.get(EXTENSION) if extensions else None
        if offer is None or not offer.is_complete:
            return
        stem = self._log.stem(request, route, 200, caller.tier)
        shared = self._shared.get(stem)
        if shared is None or shared.content is not entry.content:
            tally = self._edge.metrics.tally(route, 200, caller.tier)
            shared = self._shared[stem] = SharedResponse(entry.content, fixed_bytes(caller), tally, stem)
        fast_path = CachedRequest(
            caller.subject, caller.limit, caller.generation, entry, shared, log_name(caller.name)
        )
        self.learn(offer.request, fast_path)


class OfferedBytes:
    """The bytes of a request, as long as they are known to be one whole request and nothing else."""

    __slots__ = ("is_complete", "request")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.is_complete = False


def whole_request(data: bytes) -> bool:
    """Whether a packet looks like exactly one request without a body."""
    return (
        len(data) <= LONGEST_REQUEST
        and data.startswith(b"GET /api/")
        and data.find(_HEAD_END) == len(data) - len(_HEAD_END)
    )

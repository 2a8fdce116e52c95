"""The fast path: answers a repeated request from its very bytes, before it is parsed.

A client that polls sends the same bytes again and again. The application, having answered such a request,
leaves here all it concluded from it; the protocol then looks each arriving packet up before parsing it.
Nothing is decided here that the application has not decided: whether the key still lives, the answer still
holds and the limit allows is asked each time, and whenever the answer is not a plain yes the request takes
the ordinary way.

Rule kept: byte for byte what the application sends (a test compares them over sockets), and it can be
switched off.
"""

from dataclasses import dataclass
from time import monotonic_ns

from outcry.http.auth import Caller
from outcry.http.cache import Encoded
from outcry.http.edge import Edge, Headers, fixed_headers
from outcry.http.limits import varying_bytes
from outcry.http.metrics import Tally
from outcry.http.requests import Asked

EXTENSION = "outcry.learn"
_MOST_ENTRIES = 4096
LONGEST_REQUEST = 2048
_HEAD_END = b"\r\n\r\n"


@dataclass(slots=True, frozen=True, eq=False)
class Hot:
    """What was concluded from a request's bytes."""

    caller: Caller
    encoded: Encoded
    head: bytes
    tally: Tally
    stem: bytes


class HotAnswers:
    """Remembers requests by their bytes. Only those with a valid key get in, so strangers cannot fill it."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._memo: dict[bytes, Hot] = {}
        self._date_from: list[tuple[bytes, bytes]] = []
        self._start = b""

    def __len__(self) -> int:
        return len(self._memo)

    def serve(self, request: bytes, default_headers: list[tuple[bytes, bytes]]) -> list[bytes] | None:
        """Return the whole response in parts, or None where the application has to be asked."""
        hot = self._memo.get(request)
        if hot is None:
            return None
        edge = self._edge
        started_ns = monotonic_ns()
        now_ns = edge.clock.now_ns()
        pulse = edge.pulse
        if not (
            hot.encoded.holds(pulse.revision, now_ns)
            and hot.caller.generation == edge.door.generation
            and pulse.fresh
        ):
            del self._memo[request]
            return None
        verdict = edge.limiter.take(hot.caller.subject, hot.caller.limit, now_ns)
        if not verdict.allowed:  # nothing was counted: the application will ask again and word the refusal
            return None
        if default_headers is not self._date_from:
            self._start = b"HTTP/1.1 200 OK\r\n" + written(default_headers)
            self._date_from = default_headers
        request_id = edge.ids.make().encode("ascii")
        parts = [self._start, hot.head, varying_bytes(verdict, request_id), hot.encoded.body]
        took_ns = monotonic_ns() - started_ns
        hot.tally.add(took_ns)
        if edge.access_log.enabled:
            edge.access_log.add(now_ns, hot.stem, request_id, took_ns)
        return parts

    def learn(self, request: bytes, hot: Hot) -> None:
        """Remember a request; the oldest makes room."""
        if len(self._memo) >= _MOST_ENTRIES and request not in self._memo:
            del self._memo[next(iter(self._memo))]
        self._memo[request] = hot

    def conclude(self, asked: Asked, caller: Caller, encoded: Encoded, headers: Headers, route: str) -> None:
        """Remember a plain request answered with 200, if the protocol offered its bytes."""
        extensions = asked.scope.get("extensions")
        offer: Offer | None = extensions.get(EXTENSION) if extensions else None
        if offer is None or not offer.standing:
            return
        stem = self._edge.access_log.stem(asked, route, 200, caller.tier, caller.name)
        tally = self._edge.metrics.tally(route, 200, caller.tier)
        hot = Hot(caller, encoded, written([*headers, *fixed_headers(caller)]), tally, stem)
        self.learn(offer.request, hot)


class Offer:
    """The bytes of a request, as long as they are known to be one whole request and nothing else."""

    __slots__ = ("request", "standing")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.standing = False


def whole_request(data: bytes) -> bool:
    """Whether a packet looks like exactly one request without a body."""
    return (
        len(data) <= LONGEST_REQUEST
        and data.startswith(b"GET /api/")
        and data.find(_HEAD_END) == len(data) - len(_HEAD_END)
    )


def written(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Write headers out as they go over the wire."""
    return b"".join([b"%s: %s\r\n" % header for header in headers])

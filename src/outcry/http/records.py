"""What the fast path stores in its caches: callers by header lines, and responses by request line.

These classes are not compiled, because `responder.c` reads their slots in memory.
"""

import re
from collections.abc import Callable

from outcry.access.tiers import ApiTier
from outcry.http.auth import Caller
from outcry.http.cache import CacheEntry, Encoded, EncodedLiveAnswer
from outcry.http.errors import Problem
from outcry.http.metrics import Tally
from outcry.http.requests import Request

LONGEST_REQUEST = 2048
#: A header line with one entity tag of ours. The next line must not continue it.
CONDITION = re.compile(rb'\r\n[Ii][Ff]-[Nn]one-[Mm]atch: ("[0-9a-f]{32}")(?=\r\n[^ \t])')
#: Later than every answer is valid.
NEVER_NS = 2**62
_UNUSED = Tally()
#: A prepared error for an exceeded rate limit: its encoded headers, all pieces of the body but the last, and the last
#: piece without the digits of `retry_after_ms`.
Refusal = tuple[bytes, tuple[bytes, ...], bytes]


class Audience:
    """Callers with the same access to data and the same tier, who prefer errors in the same language and media type.

    They receive the same responses, except for rate limits and request ids. `mark`: identifies the audience.
    `refusals`: prepared errors for an exceeded rate limit, by the seconds and the number of digits that they show.
    """

    __slots__ = ("fixed", "language", "limit", "mark", "media", "refusals", "tier")

    def __init__(
        self, tier: ApiTier, limit: int, language: str, media: str, fixed: bytes, mark: bytes,
        refusals: dict[int, Refusal],
    ) -> None:  # fmt: skip
        self.tier: ApiTier = tier
        self.limit = limit
        self.language, self.media = language, media
        self.fixed, self.mark = fixed, mark
        self.refusals = refusals


class Sender:
    """The caller that a request's header lines identify, and the audience (callers who get the same responses).

    `name`: the caller's `log_name`. `stamp`: the freshness stamp (`Freshness`) at which the caller was last found to be
    valid.
    """

    __slots__ = ("audience", "generation", "name", "stamp", "subject")

    def __init__(self, caller: Caller, audience: Audience, name: bytes) -> None:
        self.subject, self.generation = caller.subject, caller.generation
        self.audience = audience
        self.name = name
        self.stamp: object = None


class Outcome:
    """A cached response with one status to one request line, without the parts that differ each time.

    `head`: encoded headers. `pieces`: the body, split where the request id is inserted. `beginning`: the status line
    and the server's default headers; `dated`: the headers from which it was made. `stem`: see `AccessLog.stem`. The
    last three and `tally` are set before the first use.
    """

    __slots__ = ("beginning", "dated", "head", "pieces", "status", "stem", "tally")

    def __init__(self, status: int, head: bytes = b"", pieces: tuple[bytes, ...] = ()) -> None:
        self.status, self.head, self.pieces = status, head, pieces
        self.dated: object = None
        self.beginning = self.stem = b""
        self.tally: Tally = _UNUSED


class Question:
    """A cached request line with its response, for one audience (callers who get the same responses).

    `content`: the cached response, or None if only the route is known. `current`: returns the current state of a
    response about a live session; None for other responses. `encoded`, `etag`: the body and entity tag in the prepared
    responses `full` (the whole response) and `unchanged` (status 304). `stamp`: the freshness stamp (`Freshness`) at
    which the response was last found to be valid.
    """

    __slots__ = (
        "content",
        "current",
        "encoded",
        "etag",
        "full",
        "path",
        "query",
        "refused",
        "revision",
        "route",
        "stamp",
        "unchanged",
        "until_ns",
    )

    def __init__(self, request: Request, route: str, entry: CacheEntry | None) -> None:
        self.path, self.query, self.route = request.path, request.query, route
        content = entry.content if entry else None
        self.content: Encoded | EncodedLiveAnswer | Problem | None = content
        self.revision = entry.revision if entry else -1
        self.until_ns = NEVER_NS if entry is None or entry.fresh_until_ns is None else entry.fresh_until_ns
        self.current: Callable[[], Encoded | None] | None = None
        if isinstance(content, EncodedLiveAnswer):
            self.current = content.current
        self.encoded: Encoded | None = None
        self.etag: bytes | None = None
        self.full: Outcome | None = None
        self.unchanged: Outcome | None = None
        self.refused: Outcome | None = None
        self.stamp: object = None

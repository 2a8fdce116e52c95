"""A parsed request: the headers that the service uses, read once, and its request id.

A request id that the client sends is used only if it is short, plain and does not look like a key, because it is put
into headers and logs.
"""

import re
import secrets
from collections.abc import Iterable
from typing import Any, Final

from outcry.base.redaction import holds_key
from outcry.http.recently_used import RecentlyUsed

_SANE_ID: Final = re.compile(rb"[0-9A-Za-z._:-]{1,64}")
#: Headers that change how a request or its connection is handled.
_PARTICULAR = frozenset({b"connection", b"content-length", b"expect", b"transfer-encoding", b"upgrade"})
_KNOWN: Final = frozenset(
    {b"x-api-key", b"accept", b"accept-language", b"if-none-match", b"x-request-id", *_PARTICULAR}
)


#: Paths that need no decoding.
_PLAIN_PATH: Final = re.compile(rb"[A-Za-z/]+")
#: Memory for plain targets, and of one; longer targets are not cached.
_TARGETS_BYTES: Final = 2**20
_TARGET_BYTES: Final = 600
_LONGEST_TARGET: Final = 128

#: Length of the ids that we generate, and the number of blocks with the same prefix.
ID_BYTES: Final = 21
_BLOCKS: Final = 2**20
_LAST_DIGITS: Final = tuple(b"%03x" % number for number in range(4096))


class RequestIds:
    """Generates request ids: a random prefix of this process and a counter. All are `ID_BYTES` long."""

    def __init__(self) -> None:
        self._stem = self._front = b""
        self._blocks = 0
        self._last = len(_LAST_DIGITS) - 1

    def reserve(self) -> bytes:
        """Reserve 4,096 ids, which differ only in their last three digits; return what they begin with."""
        block = self._blocks % _BLOCKS
        if not block:
            self._stem = secrets.token_hex(6).encode("ascii")
        self._blocks += 1
        return b"%s-%05x" % (self._stem, block)

    def make_bytes(self) -> bytes:
        """Return a new request id as bytes."""
        last = self._last = (self._last + 1) % len(_LAST_DIGITS)
        if not last:
            self._front = self.reserve()
        return self._front + _LAST_DIGITS[last]


class Request:
    """A parsed HTTP request.

    `key_values`: all values of `x-api-key`. `plain`: whether no header changes how the connection is handled.
    `names_itself`: whether the client sent a request id. `id_bytes`: the request id as it is sent. `place`: the path
    without the prefix under which the endpoints are mounted. `scope`: the ASGI scope; empty if the request was answered
    without one.
    """

    __slots__ = (
        "accept",
        "accept_language",
        "client",
        "id_bytes",
        "if_none_match",
        "key_values",
        "method",
        "names_itself",
        "path",
        "place",
        "plain",
        "query",
        "scope",
    )

    def __init__(
        self, method: str, path: str, query: bytes, headers: Iterable[tuple[bytes, bytes]], client: str,
        ids: RequestIds, scope: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.scope = scope or {}
        self.method = method
        self.path = self.place = path
        self.query = query
        self.client = client
        self.key_values: list[bytes] = []
        self.accept = self.accept_language = ""
        self.if_none_match: str | None = None
        self.names_itself = False
        self.plain = True
        self.id_bytes = self._read(headers) or ids.make_bytes()

    @staticmethod
    def of_scope(scope: dict[str, Any], ids: RequestIds) -> "Request":
        """Build a request from an ASGI scope."""
        client = scope.get("client")
        return Request(
            scope["method"], scope["path"], scope["query_string"], scope["headers"], client[0] if client else "",
            ids, scope,
        )  # fmt: skip

    @property
    def request_id(self) -> str:
        """The request id as text, for the log."""
        return self.id_bytes.decode("ascii")

    def _read(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """Read the headers that the service uses.

        Return the client's request id if there is exactly one valid one, else None.
        """
        ids: list[bytes] = []
        for name, value in headers:
            if name not in _KNOWN:
                continue
            if name == b"x-api-key":
                self.key_values.append(value)
            elif name == b"accept":
                self.accept = _joined(self.accept, value)
            elif name == b"accept-language":
                self.accept_language = _joined(self.accept_language, value)
            elif name == b"if-none-match":
                self.if_none_match = _joined(self.if_none_match or "", value)
            elif name == b"x-request-id":
                self.names_itself = True
                ids.append(value)
            else:
                self.plain = False
        if len(ids) == 1 and _SANE_ID.fullmatch(ids[0]) and b"outcry_" not in ids[0].lower():
            return ids[0]
        return None


def _joined(before: str, value: bytes) -> str:
    """Append a repeated list header to its earlier value (RFC 9110 §5.3)."""
    text = value.decode("latin-1")
    return f"{before}, {text}" if before else text


class PlainTargets:
    """Splits request targets into path and query string, if they need no decoding and contain no key.

    The results for recently used targets are cached. A target with a key is never cached.
    """

    def __init__(self) -> None:
        self._known = RecentlyUsed[bytes, tuple[str, bytes]](_TARGETS_BYTES, lambda _target: _TARGET_BYTES)

    def divide(self, target: bytes) -> tuple[str, bytes] | None:
        """Return the path and the query string of a target. None if it needs decoding or contains a key."""
        known = self._known.get(target)
        if known is None:
            path, _, query = target.partition(b"?")
            if _PLAIN_PATH.fullmatch(path) is None or b"#" in query or holds_key(query):
                return None
            known = path.decode("ascii"), query
            if len(target) <= _LONGEST_TARGET:
                self._known.put(target, known)
        return known

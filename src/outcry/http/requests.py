"""A parsed request: the headers that matter, read once, and its request id.

A client's own request id is used only if it is short, plain and does not look like a key, because it goes into headers
and logs.
"""

import re
import secrets
from collections.abc import Iterable
from typing import Any

_SANE_ID = re.compile(rb"[0-9A-Za-z._:-]{1,64}")
#: Headers that change how a request or its connection is handled.
_PARTICULAR = frozenset({b"connection", b"content-length", b"expect", b"transfer-encoding", b"upgrade"})
_KNOWN = frozenset(
    {b"x-api-key", b"accept", b"accept-language", b"if-none-match", b"x-request-id", *_PARTICULAR}
)


_LAST_DIGITS = tuple(b"%03x" % number for number in range(4096))


class RequestIds:
    """Generates request ids: a random prefix of this process and a counter."""

    def __init__(self) -> None:
        self._stem = secrets.token_hex(6).encode("ascii")
        self._count = 0
        self._front = b"%s-00000" % self._stem

    def make(self) -> str:
        """Return a new request id."""
        return self.make_bytes().decode("ascii")

    def make_bytes(self) -> bytes:
        """Return a new request id as bytes."""
        count = self._count = self._count + 1
        last = count & 4095
        if not last:
            self._front = b"%s-%05x" % (self._stem, count >> 12)
        return self._front + _LAST_DIGITS[last]


class Request:
    """A parsed HTTP request.

    `key_values`: all values of `x-api-key`. `plain`: no header changes how the connection is handled. `names_itself`:
    whether the client sent a request id. `place`: the path as the endpoints define it, without the prefix under which
    they are mounted.
    """

    __slots__ = (
        "accept",
        "accept_language",
        "client",
        "if_none_match",
        "key_values",
        "method",
        "names_itself",
        "path",
        "place",
        "plain",
        "query",
        "request_id",
        "scope",
    )

    def __init__(self, scope: dict[str, Any], ids: RequestIds) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.place = self.path
        self.query: bytes = scope["query_string"]
        self.key_values: list[bytes] = []
        self.accept = self.accept_language = ""
        self.if_none_match: str | None = None
        self.names_itself = False
        self.plain = self.method == "GET" and scope["http_version"] == "1.1"
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        given_id = self._read(scope["headers"])
        self.request_id = given_id or ids.make()

    def _read(self, headers: Iterable[tuple[bytes, bytes]]) -> str | None:
        """Read the headers that matter; return the client's request id if there is exactly one valid one."""
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
            return ids[0].decode("ascii")
        return None


def _joined(before: str, value: bytes) -> str:
    """Append a repeated list header to its earlier value (RFC 9110 §5.3)."""
    text = value.decode("latin-1")
    return f"{before}, {text}" if before else text

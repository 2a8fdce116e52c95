"""HTTP errors: stable codes with their status, and the JSON body of all errors.

Codes and statuses are part of the interface and never change. The message follows the client's language and may change.
"""

import secrets
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Match, Route

from outcry.access.keys import KeyRefusal
from outcry.access.model import Role
from outcry.access.tiers import ANONYMOUS
from outcry.base.errors import ServiceError
from outcry.base.negotiation import LONGEST, most_wanted
from outcry.http.limits import Headers, header_bytes
from outcry.http.messages import Catalogue

STATUS: dict[str, int] = {
    "missing_symbol": 400,
    "invalid_parameter": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_symbol": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "no_licensed_source": 409,
    "invalid_request": 422,
    "rate_limited": 429,
    "internal_error": 500,
    "upstream_unavailable": 502,
    "starting": 503,
}

FIX = {"account": "/account", "brokerGuide": "/broker-guide"}
JSON_TYPE = "application/json"
PROBLEM_TYPE = "application/problem+json"
CHALLENGE = (b"www-authenticate", b'ApiKey realm="outcry", header="x-api-key"')
_RESERVED = frozenset({"code", "message", "status", "request_id"})


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, before its message is rendered.

    `details`: JSON values sent in the body. `words`: further values for the message only.
    """

    code: str
    message_id: str
    details: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: tuple[tuple[bytes, bytes], ...] = ()
    words: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def status(self) -> int:
        """The HTTP status of the error's code."""
        return STATUS[self.code]


INTERNAL = Problem("internal_error", "internal_error")
NOT_FOUND = Problem("not_found", "not_found")
STARTING = Problem("starting", "starting", headers=((b"retry-after", b"1"),))
UNAVAILABLE = Problem("upstream_unavailable", "upstream_unavailable")


def unauthorized(reason: KeyRefusal) -> Problem:
    """Build the error for a request without a valid key."""
    return Problem("unauthorized", f"unauthorized.{reason.value}", {"reason": reason.value}, (CHALLENGE,))


def wrong_key(needed: Role) -> Problem:
    """Build the error for a valid key with the wrong role."""
    return Problem("forbidden", f"forbidden.needs_{needed}")


def rate_limited(retry_after_ms: int, limit: int, tier: str) -> Problem:
    """Build the error for a request that exceeds the rate limit. `Retry-After` is in whole seconds, at least one."""
    seconds = max(1, -(-retry_after_ms // 1000))
    message_id = "rate_limited.anonymous" if tier == ANONYMOUS else "rate_limited"
    headers = ((b"retry-after", b"%d" % seconds),)
    words = {"limit": limit, "seconds": seconds}
    return Problem("rate_limited", message_id, {"retry_after_ms": retry_after_ms}, headers, words)


def too_many_streams(retry_after_ms: int, limit: int) -> Problem:
    """Build the error for a key that has its maximum number of open streams."""
    headers = ((b"retry-after", b"%d" % -(-retry_after_ms // 1000)),)
    words = {"limit": limit}
    return Problem("rate_limited", "rate_limited.streams", {"retry_after_ms": retry_after_ms}, headers, words)


def method_not_allowed(allowed: Iterable[str], message_id: str = "method_not_allowed") -> Problem:
    """Build the error for a method that the path does not accept."""
    return Problem("method_not_allowed", message_id, {}, ((b"allow", allow(allowed).encode("ascii")),))


def allow(methods: Iterable[str]) -> str:
    """Return the value of the `Allow` header: methods in alphabetical order."""
    return ", ".join(sorted(set(methods)))


def allowed_at(routes: Iterable[BaseRoute], scope: MutableMapping[str, Any]) -> set[str]:
    """Return the HTTP methods that any route of this path accepts."""
    found = [route for route in routes if isinstance(route, Route) and route.matches(scope)[0] != Match.NONE]
    return {method for route in found for method in route.methods or ()}


def problem_of(error: ServiceError) -> Problem:
    """Return the HTTP error for an error of the service. A code without one becomes `internal_error`."""
    if error.code not in STATUS:
        return INTERNAL
    wait_ms = error.details.get("retry_after_ms")
    headers = () if wait_ms is None else ((b"retry-after", b"%d" % -(-wait_ms // 1000)),)
    return Problem(error.code, error.message_id, error.details, headers)


class RenderedProblem:
    """An error response in one language and media type.

    Requests with the same error share it. The request id and the length of the body are added for each request.
    """

    __slots__ = ("_after", "_before", "_problem_headers", "_typed", "pieces")

    def __init__(self, problem: Problem, language: str, media: str, encoded: bytes) -> None:
        #: The body, divided where the request id comes.
        self.pieces = tuple(encoded.split(_REQUEST_ID.encode("ascii")))
        self._typed = (b"content-type", media.encode("ascii"))
        self._problem_headers: Headers = [
            (b"content-language", language.encode("ascii")),
            (b"cache-control", b"no-store"),
            *problem.headers,
        ]
        #: Encoded headers around the value of `content-length`.
        self._before = header_bytes([self._typed]) + b"content-length: "
        self._after = b"\r\n" + header_bytes(self._problem_headers)

    def body(self, request_id: bytes) -> bytes:
        """Return the body with the id of a request."""
        return request_id.join(self.pieces)

    def head(self, body: bytes) -> bytes:
        """Return the result of `headers`, encoded."""
        return b"%s%d%s" % (self._before, len(body), self._after)

    def headers(self, body: bytes) -> Headers:
        """Return the headers of a response with this body."""
        return [self._typed, (b"content-length", b"%d" % len(body)), *self._problem_headers]


#: Stands for the request id while a body is encoded. Nobody can guess it, so no other part of a body contains it.
_REQUEST_ID = secrets.token_hex(16)


def media_type(accept: str) -> str:
    """Return the media type in which the client prefers errors."""
    return _media_type(accept[:LONGEST])


@lru_cache(256)  # a limited number, because an attacker may send many different headers
def _media_type(accept: str) -> str:
    return most_wanted(accept, (JSON_TYPE, PROBLEM_TYPE))


def render(problem: Problem, catalogue: Catalogue, language: str, media: str) -> RenderedProblem:
    """Render an error in a language and media type."""
    message = catalogue.text(language, problem.message_id, problem.code, {**problem.details, **problem.words})
    body: dict[str, Any] = {
        "code": problem.code,
        "message": message,
        "status": problem.status,
        "request_id": _REQUEST_ID,
    }
    body |= {name: value for name, value in problem.details.items() if name not in _RESERVED}
    if problem.code == "no_licensed_source":
        body["fix"] = FIX
    if problem.code == "invalid_parameter" and "parameter" in problem.details:
        body["errors"] = [{"parameter": problem.details["parameter"], "message": message}]
    if media == PROBLEM_TYPE:
        body = _as_problem(problem, catalogue, language, body)
    return RenderedProblem(problem, language, media, msgspec.json.encode(body))


def _as_problem(
    problem: Problem, catalogue: Catalogue, language: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Return an error body in the form of RFC 9457: the members that it defines, then our own."""
    return {
        "type": f"urn:outcry:error:{problem.code}",
        "title": catalogue.text(language, f"title.{problem.code}", problem.code, {}),
        "detail": body["message"],
        "instance": f"urn:outcry:request:{body['request_id']}",
        **body,
    }

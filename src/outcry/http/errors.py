"""HTTP errors: stable codes with their status, and the JSON body of all errors.

Codes and statuses are part of the interface and never change. The message follows the client's language and may change.
"""

from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.routing import BaseRoute, Match, Route

from outcry.access.keys import KeyRefusal
from outcry.access.model import Role
from outcry.access.tiers import ANONYMOUS
from outcry.base.errors import ServiceError
from outcry.base.negotiation import most_wanted
from outcry.http.messages import Catalogue

Headers = list[tuple[bytes, bytes]]

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

    `details`: JSON values sent in the body. `words`: values that only appear in the message.
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
    """Build the error for a request over the rate limit. `Retry-After` is in whole seconds, at least one."""
    seconds = max(1, -(-retry_after_ms // 1000))
    message_id = "rate_limited.anonymous" if tier == ANONYMOUS else "rate_limited"
    headers = ((b"retry-after", b"%d" % seconds),)
    words = {"limit": limit, "seconds": seconds}
    return Problem("rate_limited", message_id, {"retry_after_ms": retry_after_ms}, headers, words)


def too_many_streams(retry_after_ms: int, limit: int) -> Problem:
    """Build the error for a key with its maximum number of open streams."""
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
    """Translate a service error; an unmapped code becomes `internal_error`."""
    return Problem(error.code, error.message_id, error.details) if error.code in STATUS else INTERNAL


def render(
    problem: Problem, catalogue: Catalogue, request_id: str, accept: str, accept_language: str
) -> tuple[Headers, bytes]:
    """Return the headers and body of an error in the reader's language."""
    language = catalogue.choose(accept_language)
    message = catalogue.text(language, problem.message_id, problem.code, {**problem.details, **problem.words})
    body: dict[str, Any] = {
        "code": problem.code,
        "message": message,
        "status": problem.status,
        "request_id": request_id,
    }
    body |= {name: value for name, value in problem.details.items() if name not in _RESERVED}
    if problem.code == "no_licensed_source":
        body["fix"] = FIX
    if problem.code == "invalid_parameter" and "parameter" in problem.details:
        body["errors"] = [{"parameter": problem.details["parameter"], "message": message}]
    media_type = most_wanted(accept, (JSON_TYPE, PROBLEM_TYPE))
    if media_type == PROBLEM_TYPE:
        body = _as_problem(problem, catalogue, language, body)
    encoded = msgspec.json.encode(body)
    headers = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", b"%d" % len(encoded)),
        (b"content-language", language.encode("ascii")),
        (b"cache-control", b"no-store"),
        *problem.headers,
    ]
    return headers, encoded


def _as_problem(
    problem: Problem, catalogue: Catalogue, language: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Return an error body in the form of RFC 9457: its members first, then our own."""
    return {
        "type": f"urn:outcry:error:{problem.code}",
        "title": catalogue.text(language, f"title.{problem.code}", problem.code, {}),
        "detail": body["message"],
        "instance": f"urn:outcry:request:{body['request_id']}",
        **body,
    }

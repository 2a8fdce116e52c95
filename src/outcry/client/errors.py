"""Errors of the client: one class per error code, and those of a service that does not answer."""

import json
from typing import Any


class ApiError(Exception):
    """The service returned an error.

    `code` is stable, `message` is for people, `body` has the fields of the code. `retry_after_s`: seconds after which
    the service wants the request again; None if it does not say.
    """

    def __init__(
        self, code: str, status: int, message: str, request_id: str, body: dict[str, Any],
        retry_after_s: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(f"{message} ({code})")
        self.code = code
        self.status = status
        self.message = message
        self.request_id = request_id
        self.body = body
        self.retry_after_s = retry_after_s


class MissingSymbol(ApiError):
    """The request needs a symbol."""


class InvalidParameter(ApiError):
    """A parameter is invalid. `body["errors"]` lists each one with what is wrong."""


class Unauthorized(ApiError):
    """The key is missing, unknown, revoked or expired. `body["reason"]` says which."""


class Forbidden(ApiError):
    """The key may not do this: it can only send trades, or only read."""


class UnknownSymbol(ApiError):
    """The service does not know the symbol. `body["suggestions"]` lists similar ones."""


class NotFound(ApiError):
    """There is no such session or URL."""


class MethodNotAllowed(ApiError):
    """The URL does not accept the method."""


class NoLicensedSource(ApiError):
    """The key has no data of the symbol yet. `body["reasons"]` says why, `body["fix"]` links to pages that help."""


class InvalidRequest(ApiError):
    """A push is malformed or does not continue the one before. `body["reason"]` says how."""


class RateLimited(ApiError):
    """The key's limit is used up, or it has too many streams open. `retry_after_s` says how long to wait."""


class InternalError(ApiError):
    """The service failed. Report `request_id` to its operator."""


class UpstreamUnavailable(ApiError):
    """The service's database does not answer at the moment."""


class Starting(ApiError):
    """The service is starting."""


#: Each class by its code. `ApiError` stands for codes of newer versions.
ERRORS: dict[str, type[ApiError]] = {
    "missing_symbol": MissingSymbol,
    "invalid_parameter": InvalidParameter,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "unknown_symbol": UnknownSymbol,
    "not_found": NotFound,
    "method_not_allowed": MethodNotAllowed,
    "no_licensed_source": NoLicensedSource,
    "invalid_request": InvalidRequest,
    "rate_limited": RateLimited,
    "internal_error": InternalError,
    "upstream_unavailable": UpstreamUnavailable,
    "starting": Starting,
}


class Unreachable(Exception):
    """The service did not respond, or the answer did not come from Outcry."""


class NotOutcry(Unreachable):
    """The server is not Outcry or has another version, so a retry cannot help."""


def error_from(status: int, body: bytes, retry_after: str | None = None) -> ApiError | Unreachable:
    """Parse an error response. A response without an error code came from a proxy or another service.

    retry_after: the header `Retry-After`, in seconds.
    """
    try:
        fields = json.loads(body)
        code, message, request_id = fields["code"], fields["message"], fields["request_id"]
        wait_ms = fields.get("retry_after_ms")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Unreachable(f"HTTP {status} from something other than Outcry")
    if isinstance(wait_ms, int | float):
        wait_s: float | None = max(wait_ms, 0) / 1000
    else:
        wait_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
    return ERRORS.get(code, ApiError)(code, status, message, request_id, fields, wait_s)

"""Errors to report to the caller of a request. Each has a stable code and does not depend on HTTP.

`message_id` names the text in the message catalogue. `details` fill that text and are sent in the error body.
"""

from typing import Any, ClassVar


class ServiceError(Exception):
    """Base class of errors that a caller may see. `code` is part of the API and never changes.

    `details` are plain JSON values.
    """

    code: ClassVar[str]

    def __init__(self, message_id: str, **details: Any) -> None:
        super().__init__(message_id)
        self.message_id = message_id
        self.details = details


class MissingSymbol(ServiceError):
    """No symbol was given."""

    code = "missing_symbol"


class InvalidParameter(ServiceError):
    """A parameter has an invalid value; details: `parameter`."""

    code = "invalid_parameter"


class InvalidRequest(ServiceError):
    """A push of feed events is invalid; details: `reason` (a stable code) and, for some reasons, `event` and `next`."""

    code = "invalid_request"


class Occupied(ServiceError):
    """Another request for the same resource is in progress; details: `retry_after_ms`."""

    code = "rate_limited"


class UnknownSymbol(ServiceError):
    """No product or contract has this symbol; details: `symbol`, `suggestions`."""

    code = "unknown_symbol"


class NotFound(ServiceError):
    """The requested resource does not exist."""

    code = "not_found"


class NoLicensedSource(ServiceError):
    """No completed trading session of the product is available to this key yet.

    Details: `symbol`, `reasons` and, during an embargo, `embargo_until`.
    """

    code = "no_licensed_source"


class StoreUnavailable(ServiceError):
    """The data store did not respond in time."""

    code = "upstream_unavailable"

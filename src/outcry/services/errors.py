"""What a use case may refuse, each with a stable code and no word of HTTP.

`message_id` names the text in the message catalogue; `details` fill it and travel in the error body.
"""

from typing import Any, ClassVar


class ServiceError(Exception):
    """A refusal. `code` is part of the interface and never changes; `details` are plain JSON values."""

    code: ClassVar[str]

    def __init__(self, message_id: str, **details: Any) -> None:
        super().__init__(message_id)
        self.message_id = message_id
        self.details = details


class MissingSymbol(ServiceError):
    """No symbol was given."""

    code = "missing_symbol"


class InvalidParameter(ServiceError):
    """A parameter is not of its form; details: `parameter`."""

    code = "invalid_parameter"


class InvalidRequest(ServiceError):
    """What was sent cannot be taken; details: `reason`, a stable code, and where it helps `event` and `next`."""

    code = "invalid_request"


class Occupied(ServiceError):
    """Another request is about the same thing just now; details: `retry_after_ms`."""

    code = "rate_limited"


class UnknownSymbol(ServiceError):
    """No product or contract goes by that name; details: `symbol`, `suggestions`."""

    code = "unknown_symbol"


class NotFound(ServiceError):
    """The thing asked for does not exist."""

    code = "not_found"


class NoLicensedSource(ServiceError):
    """No completed session is licensed to this key yet; details: `symbol`, `reasons`, and
    `embargo_until` where there will be one."""

    code = "no_licensed_source"


class StoreUnavailable(ServiceError):
    """The store did not answer, or not in time."""

    code = "upstream_unavailable"

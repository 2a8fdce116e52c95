"""Errors of the client."""

import json
from typing import Any


class ApiError(Exception):
    """The service returned an error. `code` is stable, `message` is for people, `body` has the fields of the code."""

    def __init__(self, code: str, status: int, message: str, request_id: str, body: dict[str, Any]) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.status = status
        self.message = message
        self.request_id = request_id
        self.body = body


class Unreachable(Exception):
    """The service did not respond, or the answer did not come from Outcry."""


class NotOutcry(Unreachable):
    """The server is not Outcry or has another version, so a retry cannot help."""


def error_from(status: int, body: bytes) -> ApiError | Unreachable:
    """Parse an error response. A response without an error code came from a proxy or another service."""
    try:
        fields = json.loads(body)
        return ApiError(fields["code"], status, fields["message"], fields["request_id"], fields)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unreachable(f"HTTP {status} from something other than Outcry")

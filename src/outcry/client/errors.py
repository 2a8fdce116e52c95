"""What may go wrong when a service is asked."""

import json
from typing import Any


class ApiError(Exception):
    """The service refused. Branch on `code`; `message` is for people. `body` holds what the code adds."""

    def __init__(self, code: str, status: int, message: str, request_id: str, body: dict[str, Any]) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.status = status
        self.message = message
        self.request_id = request_id
        self.body = body


class Unreachable(Exception):
    """There was no answer, or none a service of this kind would give."""


class NotOurs(Unreachable):
    """Something answers, but not as this service does: asking again is of no use."""


def refusal(status: int, body: bytes) -> ApiError | Unreachable:
    """Read an error body; one without a code came from something else on the way."""
    try:
        said = json.loads(body)
        return ApiError(said["code"], status, said["message"], said["request_id"], said)
    except (ValueError, KeyError, TypeError, RecursionError):
        return Unreachable(f"the answer has status {status} and is not from this service")

"""Send pushes to a service over HTTP, and handle its answers.

An event counts as accepted only after the service has confirmed it. The sender validates each answer.
"""

import ssl
from dataclasses import dataclass
from typing import Protocol

import msgspec

from outcry.client.errors import ApiError, Unreachable, error_from
from outcry.client.transport import Response, Transport
from outcry.trades.push_format import MEDIA_TYPE, WAIT_S, Push, write_push

#: Longest wait for an answer: the service's own wait, and a margin.
TIMEOUT_S = WAIT_S + 15
LONGEST_PAUSE_S = 5.0
#: Refusals that a retry resolves.
_PASSING_REASONS = frozenset({"occupied", "disk_reserve"})
_PASSING = frozenset((429, 500, 502, 503, 504))
_MAX_ANSWER_BYTES = 64 * 1024


class PushQueue(Protocol):
    """Interface of a queue: events of one contract since its feed started, and how many the service has accepted."""

    def push(self) -> Push:
        """Return the next events to push: about as many as fit in a request, and at least one if there are any."""
        ...

    def attempted(self, push: Push) -> None:
        """Note that a push was sent, so the service may have received all of it."""
        ...

    def accepted(self, push: Push, until: int) -> bool:
        """Note that the service accepted all events with numbers below `until`; return whether that is progress.

        Raises `Unreachable` if the number is impossible.
        """
        ...

    def rewind(self, push: Push) -> bool:
        """Go back to the oldest retained event, to send all events from there again.

        Return False if this has been done already, and the service has accepted nothing since.
        """
        ...


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Result of a push without progress: the reason, and the pause (s) that the service asked for, 0 for none."""

    problem: ApiError | Unreachable
    pause_s: float = 0.0


def record_result(
    queue: PushQueue, push: Push, answer: int | ApiError | Unreachable, whose: str
) -> RetryLater | None:
    """Update a queue after a push, by the answer of the service; return None if there was progress.

    answer: number of the first event not accepted, or the error. whose: name of the service, for error messages. Raises
    `ApiError` for a refusal that a retry does not resolve.
    """
    match answer:
        case Unreachable():
            queue.attempted(push)
            return RetryLater(answer)
        case ApiError():
            if answer.status >= 500:
                queue.attempted(push)
            reason = answer.body.get("reason")
            if answer.code == "invalid_request" and reason == "hole" and queue.rewind(push):
                return None
            if answer.status not in _PASSING and reason not in _PASSING_REASONS:
                raise answer
            return RetryLater(answer, _pause_s(answer))
        case _:
            queue.attempted(push)
            if queue.accepted(push, answer) or not push.events:
                return None
            # A short pause: the service has already waited before it answered.
            return RetryLater(Unreachable(f"{whose} takes nothing"), 0.001)


class _Answer(msgspec.Struct):
    next: int


class Sender:
    """Sends pushes to a service, one after the other.

    url: base URL of the service. key: an API key for pushing. trust: trusted CAs for TLS, the system's by default.
    Raises `ValueError` for an invalid URL or key. Attributes: `problem`, why the last attempt made no progress;
    `worked`, whether the service ever accepted a push.
    """

    def __init__(
        self, url: str, key: str, *, timeout_s: float = TIMEOUT_S, trust: ssl.SSLContext | None = None
    ) -> None:
        headers = {"x-api-key": key, "content-type": MEDIA_TYPE, "accept": "application/json"}
        self._transport = Transport(url, headers, timeout_s=timeout_s, tls=trust, max_bytes=_MAX_ANSWER_BYTES)
        self.problem: ApiError | Unreachable = Unreachable("nothing was tried")
        self.worked = False

    def attempt(self, feed: str, queue: PushQueue) -> float | None:
        """Send the next push of a queue once; return None if there was progress.

        Otherwise return the pause (s) that the service asked for, or 0. Raises `ApiError` for a refusal that a
        retry does not resolve.
        """
        push = queue.push()
        answer: int | ApiError | Unreachable
        try:
            answer = self.post(feed, push)
        except (ApiError, Unreachable) as problem:
            answer = problem
        later = record_result(queue, push, answer, self._transport.base)
        if later is None:
            return None
        self.problem = later.problem
        return later.pause_s

    def post(self, feed: str, push: Push) -> int:
        """Send a push; return the number of the first event not accepted.

        Raises `ApiError` and `Unreachable`.
        """
        response = self.ask(feed, write_push(push))
        if response.status != 200:
            raise error_from(*response)
        try:
            taken = msgspec.json.decode(response.body, type=_Answer).next
        except (msgspec.DecodeError, RecursionError) as problem:
            raise Unreachable(
                f"{self._transport.base} gave no answer of this service: {problem}"
            ) from problem
        self.worked = True
        return taken

    def ask(self, feed: str, body: bytes) -> Response:
        """Send a request body once; return the response of any status. Raises `Unreachable`."""
        return self._transport.exchange("POST", "/api/ingest", {"feed": feed}, body)

    def abort(self) -> None:
        """Abort a push that is in progress on another thread, which ends without an answer, and close."""
        self._transport.abort()

    def close(self) -> None:
        """Close the connection. A later push opens one of its own."""
        self._transport.close()


def _pause_s(problem: ApiError) -> float:
    """Return the pause (s) that the service asks for, at most `LONGEST_PAUSE_S`; 0 if missing or invalid."""
    asked = problem.body.get("retry_after_ms", 0)
    if not isinstance(asked, int | float) or not asked >= 0:
        return 0.0
    return min(asked / 1000, LONGEST_PAUSE_S)

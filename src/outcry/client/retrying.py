"""When a request is sent again, and how long the client waits first."""

from time import monotonic

from outcry.base.backoff import Backoff
from outcry.client.errors import ApiError, NotOutcry, Unreachable

#: HTTP statuses that pass: a limit, a database or a service that is not available at the moment.
TEMPORARY = frozenset({429, 502, 503})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 10.0


class RetryPolicy:
    """Decides which failed calls of one client are sent again. most_s: how long the retries of one call may take.

    known: whether the service has answered a call. If it has not, its URL is probably wrong, so an unreachable service
    is not retried.
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self.known = False

    def begin(self) -> "Retries":
        """Return the retries of a call that begins now."""
        return Retries(self, monotonic() + self._most_s)


class Retries:
    """The retries of one call. until_s: the monotonic time until which the request may be sent again."""

    def __init__(self, policy: RetryPolicy, until_s: float) -> None:
        self._policy, self._until_s = policy, until_s
        self._backoff = Backoff(first_s=_FIRST_PAUSE_S, longest_s=_LONGEST_PAUSE_S)

    def succeeded(self) -> None:
        """Note that the service has answered."""
        self._policy.known = True

    def pause_s(self, error: ApiError | Unreachable) -> float | None:
        """Return how long to wait before the request is sent again; None if a retry cannot help or takes too long.

        The delay that the service asks for has precedence.
        """
        if isinstance(error, ApiError):
            self._policy.known = True
            if error.status not in TEMPORARY:
                return None
            pause_s = error.retry_after_s
        elif isinstance(error, NotOutcry) or not self._policy.known:
            return None
        else:
            pause_s = None
        pause_s = self._backoff.next_s() if pause_s is None else pause_s
        return pause_s if monotonic() + pause_s <= self._until_s else None

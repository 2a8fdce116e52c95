"""Counts the requests of a process: the part of `SlidingWindowLimiter` that runs for every request.

`counting.c` does the same several times as fast. A build that compiles modules uses the C version in place of this
module (decision 0063); tests check that both give equal results.
"""

from collections.abc import Callable

from outcry.access.limiter import WINDOW_NS, Verdict
from outcry.access.sliding_window import PASSED, SlidingWindowLog, Subjects, passed, refused


class RequestLog(SlidingWindowLog):
    """The times of the allowed requests of one subject (API key or client address)."""

    __slots__ = ()

    def take(self, now_ns: int, limit: int, /) -> int:
        """Add a request if it passes. Return how many more may pass now; negative if this one does not pass."""
        if self.head < len(self) and self[self.head] <= now_ns - WINDOW_NS:
            self.expire(now_ns)
        left = limit - (len(self) - self.head) - 1
        if left >= 0:
            self.append(now_ns)
        return left


class Counting:
    """Counts the requests of all subjects (API keys and client addresses). `now_ns`: a monotonic clock."""

    __slots__ = ("_logs", "_now_ns", "_turn_ns", "_young")

    def __init__(self, now_ns: Callable[[], int], logs: Subjects[RequestLog], /) -> None:
        self._now_ns, self._logs = now_ns, logs
        self._young = logs.young
        self._turn_ns = 0

    def take(self, subject: str, limit: int, /) -> Verdict:
        """Count one request of a subject; see `Limiter.take`."""
        now_ns = self._now_ns()
        if now_ns >= self._turn_ns:
            self._logs.turn(now_ns)
            self._young, self._turn_ns = self._logs.young, now_ns + WINDOW_NS
        log = self._young.get(subject)
        if log is None:
            log = self._logs.of(subject)
        left = log.take(now_ns, limit)
        if left < 0:
            return refused(log, limit, now_ns)
        return PASSED[left] if left < len(PASSED) else passed(left)

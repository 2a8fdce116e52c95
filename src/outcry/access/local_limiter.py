"""Request limiter of a single process: an exact sliding window per subject, in memory.

In no half-open window of 60 seconds do more than `limit` requests pass. Refused requests are not recorded.
"""

from collections.abc import Callable, Mapping
from time import monotonic_ns

from outcry.access.limiter import WINDOW_NS, Verdict
from outcry.access.sliding_window import PASSED, SlidingWindowLog, Subjects, passed, refused, until_ms

_PREPARED = len(PASSED)


class SlidingWindowLimiter:
    """Implements `PromptLimiter` for one event loop or thread.

    `now_ns`: a monotonic clock. `max_subjects`: see `Subjects`.
    """

    def __init__(self, now_ns: Callable[[], int] = monotonic_ns, *, max_subjects: int = 50_000) -> None:
        self._now_ns = now_ns
        self._logs = Subjects(lambda _subject: SlidingWindowLog(), max_subjects)
        self._young = self._logs.young
        self._turn_ns = 0

    @property
    def subjects(self) -> int:
        """Number of keys and client addresses in memory."""
        return len(self._logs)

    def take(self, subject: str, limit: int) -> Verdict:
        """Count one request of a subject: at most `limit` pass in any 60 seconds that end now."""
        now_ns = self._now_ns()
        if now_ns >= self._turn_ns:
            self._logs.turn(now_ns)
            self._young, self._turn_ns = self._logs.young, now_ns + WINDOW_NS
        log = self._young.get(subject)
        if log is None:
            log = self._logs.of(subject)
        head, size = log.head, len(log)
        if head < size and log[head] <= now_ns - WINDOW_NS:
            log.expire(now_ns)
            head, size = log.head, len(log)
        left = limit - (size - head) - 1
        if left >= 0:
            log.append(now_ns)
            return PASSED[left] if left < _PREPARED else passed(left)
        return refused(log, limit, now_ns)

    async def ask(self, subject: str, limit: int) -> Verdict:
        """Count one request. A single process decides at once, like `take`."""
        return self.take(subject, limit)

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return how long ago (ns) each subject with this prefix last had a request allowed, within the window."""
        now_ns = self._now_ns()
        ages_ns = {name: now_ns - log[-1] for name, log in self._logs if log and name.startswith(prefix)}
        return {name: age_ns for name, age_ns in ages_ns.items() if age_ns < WINDOW_NS}

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the verdict of a request that `take` would refuse now, or None. Nothing is counted."""
        log, now_ns = self._logs.find(subject), self._now_ns()
        if log is None or log.live(now_ns) < limit:
            return None
        return refused(log, limit, now_ns)

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a subject's limit is left, without counting a request."""
        log, now_ns = self._logs.find(subject), self._now_ns()
        live = 0 if log is None else log.live(now_ns)
        if log is None or not live:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        if live >= limit:
            return refused(log, limit, now_ns)
        reset_ms = until_ms(log[-1] + WINDOW_NS, now_ns)
        return Verdict(allowed=True, remaining=limit - live, reset_ms=reset_ms, retry_after_ms=0)

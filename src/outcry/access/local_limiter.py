"""Request limiter of a single process: an exact sliding window per subject, in memory.

At most `limit` requests pass in any half-open window of 60 seconds. Refused requests are not recorded.
"""

from collections.abc import Callable, Mapping
from time import monotonic_ns

from outcry.access.counting import Counting, RequestLog
from outcry.access.limiter import WINDOW_NS, Verdict
from outcry.access.sliding_window import Subjects, refused, until_ms


class SlidingWindowLimiter:
    """Implements `PromptLimiter` for one event loop or thread.

    `now_ns`: a monotonic clock. `max_subjects`: see `Subjects`.
    """

    def __init__(self, now_ns: Callable[[], int] = monotonic_ns, *, max_subjects: int = 50_000) -> None:
        self._now_ns = now_ns
        self._logs = Subjects[RequestLog](lambda _subject: RequestLog(), max_subjects)
        self.take = Counting(now_ns, self._logs).take

    @property
    def subjects(self) -> int:
        """Number of keys and client addresses in memory."""
        return len(self._logs)

    async def ask(self, subject: str, limit: int) -> Verdict:
        """Count one request. A single process decides at once, like `take`."""
        return self.take(subject, limit)

    def recent(self, prefix: str) -> Mapping[str, int]:
        """Return the time (ns) since the last allowed request, by subject.

        Contains the subjects whose name starts with `prefix` and that had a request allowed in the last 60 seconds.
        """
        now_ns = self._now_ns()
        ages_ns = {name: now_ns - log[-1] for name, log in self._logs if log and name.startswith(prefix)}
        return {name: age_ns for name, age_ns in ages_ns.items() if age_ns < WINDOW_NS}

    def refusal(self, subject: str, limit: int) -> Verdict | None:
        """Return the refusal that `take` would give now; None if the request would pass. Nothing is counted."""
        log, now_ns = self._logs.find(subject), self._now_ns()
        if log is None or log.live(now_ns) < limit:
            return None
        return refused(log, limit, now_ns)

    def peek(self, subject: str, limit: int) -> Verdict:
        """Return how much of a limit is left, without counting a request."""
        log, now_ns = self._logs.find(subject), self._now_ns()
        live = 0 if log is None else log.live(now_ns)
        if log is None or not live:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        if live >= limit:
            return refused(log, limit, now_ns)
        reset_ms = until_ms(log[-1] + WINDOW_NS, now_ns)
        return Verdict(allowed=True, remaining=limit - live, reset_ms=reset_ms, retry_after_ms=0)

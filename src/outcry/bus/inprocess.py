"""The request limiter of a single process: an exact sliding log per subject, in memory.

Rule kept: in no half-open window of 60 seconds are more than `limit` requests let through, and a refused one
leaves no trace. A subject idle for a window is forgotten with the generation it was last seen in, so memory
follows the traffic of the last two minutes.
"""

from collections import deque

from outcry.ports.limiter import WINDOW_NS, Verdict

_NS_PER_MS = 1_000_000
_PREPARED = 600
_ADDRESS = "ip:"
_OTHER_ADDRESSES = "ip:others"


class SlidingLog:
    """Implements `ports.limiter.Limiter`, for one event loop or thread.

    `max_subjects`: once so many are alive, addresses not yet known share one log, so that a flood of them
    cannot fill the memory; keys are always counted each by itself.
    """

    def __init__(self, max_subjects: int = 50_000) -> None:
        self._max_subjects = max_subjects
        self._young: dict[str, deque[int]] = {}
        self._old: dict[str, deque[int]] = {}
        self._passed = tuple(_pass(remaining) for remaining in range(_PREPARED))  # a fifth of a take's time
        self._turned_ns = 0
        self._latest_ns = 0

    @property
    def subjects(self) -> int:
        """How many subjects are held in memory."""
        return len(self._young) + len(self._old)

    def take(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """Ask for one request of `subject`: at most `limit` in any 60 seconds ending now."""
        # A clock set back would make the log run backwards and the window longer: time stands still instead.
        if now_ns < self._latest_ns:
            now_ns = self._latest_ns
        else:
            self._latest_ns = now_ns
        if now_ns - self._turned_ns >= WINDOW_NS:
            self._turn(now_ns)
        log = self._young.get(subject)
        if log is None:
            log = self._admit(subject)
        horizon_ns = now_ns - WINDOW_NS
        while log and log[0] <= horizon_ns:
            log.popleft()
        if len(log) < limit:
            log.append(now_ns)
            return self._passed[limit - len(log)] if limit <= _PREPARED else _pass(limit - len(log))
        return _refusal(log, limit, now_ns)

    def peek(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """What `take` would say of the window now, counting nothing; `remaining` is without the request
        asked about."""
        log = self._young.get(subject) or self._old.get(subject)
        now_ns = max(now_ns, self._latest_ns)
        live = [at_ns for at_ns in log or () if at_ns > now_ns - WINDOW_NS]
        if not live:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        if len(live) >= limit:
            return _refusal(deque(live), limit, now_ns)
        reset_ms = _until_ms(live[-1] + WINDOW_NS, now_ns)
        return Verdict(allowed=True, remaining=limit - len(live), reset_ms=reset_ms, retry_after_ms=0)

    def _admit(self, subject: str) -> deque[int]:
        """Bring a subject into the young generation, with its log if the old one has it."""
        log = self._old.pop(subject, None)
        if log is None:
            if subject.startswith(_ADDRESS) and self.subjects >= self._max_subjects:
                shared = self._old.pop(_OTHER_ADDRESSES, deque[int]())
                return self._young.setdefault(_OTHER_ADDRESSES, shared)
            log = deque[int]()
        self._young[subject] = log
        return log

    def _turn(self, now_ns: int) -> None:
        """Start a generation. What is dropped was not touched for a whole window, so its log is empty by
        now."""
        self._old = self._young if now_ns - self._turned_ns < 2 * WINDOW_NS else {}
        self._young = {}
        self._turned_ns = now_ns


def _pass(remaining: int) -> Verdict:
    """A request just let through leaves the window last: it is empty again a whole window from now."""
    return Verdict(allowed=True, remaining=remaining, reset_ms=WINDOW_NS // _NS_PER_MS, retry_after_ms=0)


def _refusal(log: deque[int], limit: int, now_ns: int) -> Verdict:
    """Say when the next request would pass: when the `limit`-th newest entry leaves the window."""
    if not log:  # a limit of zero
        return Verdict(allowed=False, remaining=0, reset_ms=0, retry_after_ms=WINDOW_NS // _NS_PER_MS)
    blocker_ns = log[-limit] if limit else log[-1]
    return Verdict(
        allowed=False,
        remaining=0,
        reset_ms=_until_ms(log[-1] + WINDOW_NS, now_ns),
        retry_after_ms=_until_ms(blocker_ns + WINDOW_NS, now_ns),
    )


def _until_ms(at_ns: int, now_ns: int) -> int:
    """Whole milliseconds from now until then, rounded up so that it has come when they have passed."""
    return -((now_ns - at_ns) // _NS_PER_MS)

"""The request limiter of a single process: an exact sliding log per subject, in memory.

Rule kept: in no half-open window of 60 seconds are more than `limit` requests let through, and a refused one
leaves no trace. A subject idle for a window is forgotten with the generation it was last seen in, so memory
follows the traffic of the last two minutes.
"""

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, cast

from outcry.ports.limiter import WINDOW_NS, Verdict

_NS_PER_MS = 1_000_000
_PREPARED = 600
_LEAST_DROPPED = 32
_ADDRESS = "ip:"
_OTHER_ADDRESSES = "ip:others"


if TYPE_CHECKING:
    _Stamps = array[int]
else:
    _Stamps = array  # cannot be subscripted before Python 3.12


class _Log(_Stamps):
    """When requests passed, ascending; those before `head` have left the window. With thousands of subjects in
    turn a take mostly waits for memory, and 8 bytes side by side are a fifth of what a queue of integers
    touches."""

    __slots__ = ("head",)
    head: int


def _new_log() -> _Log:
    log = cast("_Log", _Log("q"))
    log.head = 0
    return log


class SlidingLog:
    """Implements `ports.limiter.Limiter`, for one event loop or thread.

    `max_subjects`: once so many are alive, addresses not yet known share one log, so that a flood of them
    cannot fill the memory; keys are always counted each by itself.
    """

    def __init__(self, max_subjects: int = 50_000) -> None:
        self._max_subjects = max_subjects
        self._young: dict[str, _Log] = {}
        self._old: dict[str, _Log] = {}
        self._passed = tuple(_pass(remaining) for remaining in range(_PREPARED))  # a fifth of a take's time
        self._turned_ns = 0
        self._latest_ns = 0
        self._ahead_ns = 0

    @property
    def subjects(self) -> int:
        """How many subjects are held in memory."""
        return len(self._young) + len(self._old)

    def take(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """Ask for one request of `subject`: at most `limit` in any 60 seconds ending now."""
        now_ns += self._ahead_ns
        if now_ns < self._latest_ns:  # the clock was set back: the log's own time goes on from where it was
            self._ahead_ns += self._latest_ns - now_ns
            now_ns = self._latest_ns
        else:
            self._latest_ns = now_ns
        if now_ns - self._turned_ns >= WINDOW_NS:
            self._turn(now_ns)
        log = self._young.get(subject)
        if log is None:
            log = self._admit(subject)
        head, size = log.head, len(log)
        if head < size and log[head] <= now_ns - WINDOW_NS:
            _expire(log, now_ns - WINDOW_NS)
            head, size = log.head, len(log)
        left = limit - (size - head) - 1
        if left >= 0:
            log.append(now_ns)
            return self._passed[left] if left < _PREPARED else _pass(left)
        return _refusal(log, limit, now_ns)

    def recent(self, prefix: str, now_ns: int) -> Mapping[str, int]:
        """See `Limiter`."""
        now_ns = max(now_ns + self._ahead_ns, self._latest_ns)
        logs = chain(self._young.items(), self._old.items())
        ages_ns = {name: now_ns - log[-1] for name, log in logs if log and name.startswith(prefix)}
        return {name: age_ns for name, age_ns in ages_ns.items() if age_ns < WINDOW_NS}

    def peek(self, subject: str, limit: int, now_ns: int) -> Verdict:
        """What `take` would say of the window now, counting nothing; `remaining` is without the request
        asked about."""
        log = self._young.get(subject) or self._old.get(subject)
        now_ns = max(now_ns + self._ahead_ns, self._latest_ns)
        live = 0 if log is None else len(log) - bisect_right(log, now_ns - WINDOW_NS)
        if log is None or not live:
            return Verdict(allowed=limit > 0, remaining=limit, reset_ms=0, retry_after_ms=0)
        if live >= limit:
            return _refusal(log, limit, now_ns)
        reset_ms = _until_ms(log[-1] + WINDOW_NS, now_ns)
        return Verdict(allowed=True, remaining=limit - live, reset_ms=reset_ms, retry_after_ms=0)

    def _admit(self, subject: str) -> _Log:
        """Bring a subject into the young generation, with its log if the old one has it."""
        log = self._old.pop(subject, None)
        if log is None:
            if subject.startswith(_ADDRESS) and self.subjects >= self._max_subjects:
                shared = self._old.pop(_OTHER_ADDRESSES, None) or _new_log()
                return self._young.setdefault(_OTHER_ADDRESSES, shared)
            log = _new_log()
        self._young[subject] = log
        return log

    def _turn(self, now_ns: int) -> None:
        """Start a generation. What is dropped was not touched for a whole window, so its log is empty by
        now."""
        self._old = self._young if now_ns - self._turned_ns < 2 * WINDOW_NS else {}
        self._young = {}
        self._turned_ns = now_ns


def _expire(log: _Log, horizon_ns: int) -> None:
    """Pass over what has left the window, and drop it once it is the greater part."""
    head = bisect_right(log, horizon_ns, log.head)
    if head == len(log) or (head > _LEAST_DROPPED and 2 * head > len(log)):
        del log[:head]
        head = 0
    log.head = head


def _pass(remaining: int) -> Verdict:
    """A request just let through leaves the window last: it is empty again a whole window from now."""
    return Verdict(allowed=True, remaining=remaining, reset_ms=WINDOW_NS // _NS_PER_MS, retry_after_ms=0)


def _refusal(log: _Log, limit: int, now_ns: int) -> Verdict:
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

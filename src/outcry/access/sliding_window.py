"""Data structures of the sliding window: the timestamps of one subject, and the table of all subjects.

A window is 60 seconds. Subjects (API keys and client addresses) are grouped by their last use into generations of one
window each. Subjects that were idle for a whole window are dropped, so memory is proportional to the traffic of the
last two minutes.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

from outcry.access.limiter import WINDOW_NS, Verdict

_NS_PER_MS = 1_000_000
_PREPARED = 600
_LEAST_DROPPED = 32
_ADDRESS = "ip:"
_OTHER_ADDRESSES = "ip:others"
S = TypeVar("S")


if TYPE_CHECKING:
    _Stamps = array[int]
else:
    _Stamps = array  # cannot be subscripted before Python 3.12


class SlidingWindowLog(_Stamps):
    """Timestamps (ns, ascending) of one subject's allowed requests. Those before index `head` have left the window.

    A flat array of 8-byte integers needs a fifth of the memory accesses of a queue. With thousands of subjects, memory
    accesses take most of the time.
    """

    __slots__ = ("head",)
    head: int

    def __new__(cls) -> Self:
        """Create an empty log."""
        made = cast("Self", super().__new__(cls, "q"))
        made.head = 0
        return made

    def expire(self, now_ns: int) -> None:
        """Skip entries that have left the window ending now; delete the skipped entries once they are the majority."""
        head = bisect_right(self, now_ns - WINDOW_NS, self.head)
        if head == len(self) or (head > _LEAST_DROPPED and 2 * head > len(self)):
            del self[:head]
            head = 0
        self.head = head

    def note(self, at_ns: Sequence[int]) -> None:
        """Insert ascending timestamps in order."""
        if at_ns and self and self[-1] > at_ns[0]:
            place = bisect_right(self, at_ns[0], self.head)
            at_ns = sorted((*self[place:], *at_ns))
            del self[place:]
        self.extend(at_ns)

    def encoded(self) -> bytes:
        """Encode the timestamps in the window, to send them to other processes."""
        return self[self.head :].tobytes()

    def live(self, now_ns: int) -> int:
        """Return the number of entries in the window ending now."""
        return len(self) - bisect_right(self, now_ns - WINDOW_NS, self.head)


def decode_entries(encoded: bytes, later_ns: int) -> Sequence[int]:
    """Decode the timestamps of another process. `later_ns`: what to add to convert them to this machine's clock."""
    stamps = _Stamps("q")
    stamps.frombytes(encoded)
    return [at_ns + later_ns for at_ns in stamps]


class Subjects(Generic[S]):
    """Table of the limiter's subjects, that is, of keys and client addresses.

    `most`: from this number of subjects on, all new client addresses share one entry, so that a flood of addresses
    cannot fill the memory. Each key always has its own entry.
    """

    __slots__ = ("_make", "_most", "_turned_ns", "old", "young")

    def __init__(self, make: Callable[[str], S], most: int) -> None:
        self._make, self._most = make, most
        self.young: dict[str, S] = {}
        self.old: dict[str, S] = {}
        self._turned_ns = 0

    def __len__(self) -> int:
        return len(self.young) + len(self.old)

    def __iter__(self) -> Iterator[tuple[str, S]]:
        return chain(self.young.items(), self.old.items())

    def find(self, subject: str) -> S | None:
        """Return the entry of a subject (API key or client address); None if there is none."""
        found = self.young.get(subject)
        return self.old.get(subject) if found is None else found

    def of(self, subject: str) -> S:
        """Return a subject's entry, created if needed, and mark it as used in the current window (generation)."""
        found = self.young.get(subject)
        if found is not None:
            return found
        found = self.old.pop(subject, None)
        if found is None:
            if subject.startswith(_ADDRESS) and subject != _OTHER_ADDRESSES and len(self) >= self._most:
                return self.of(_OTHER_ADDRESSES)
            found = self._make(subject)
        self.young[subject] = found
        return found

    def turn(self, now_ns: int) -> bool:
        """Start a new generation of entries once the current one is a window old; return whether one was started.

        Entries of the generation before the previous one are dropped: they were not used for a whole window, so their
        logs are empty.
        """
        since_ns = now_ns - self._turned_ns
        if since_ns < WINDOW_NS:
            return False
        self.old = self.young if since_ns < 2 * WINDOW_NS else {}
        self.young = {}
        self._turned_ns = now_ns
        return True


def _passing(remaining: int) -> Verdict:
    """Build the verdict for an allowed request, given how many remain.

    This request leaves the window last, so the window is empty one whole window from now.
    """
    return Verdict(allowed=True, remaining=remaining, reset_ms=WINDOW_NS // _NS_PER_MS, retry_after_ms=0)


#: Verdicts of requests that pass, by requests left. Building them in advance saves a fifth of the time of a take.
PASSED = tuple(_passing(remaining) for remaining in range(_PREPARED))


def passed(remaining: int) -> Verdict:
    """Return the verdict for an allowed request, given how many remain."""
    return PASSED[remaining] if remaining < _PREPARED else _passing(remaining)


def refused(passes: SlidingWindowLog, limit: int, now_ns: int) -> Verdict:
    """Return the verdict of a refused request: the next one passes when the `limit`-th newest entry expires."""
    if not passes:  # a limit of zero
        return Verdict(allowed=False, remaining=0, reset_ms=0, retry_after_ms=WINDOW_NS // _NS_PER_MS)
    blocker_ns = passes[-limit] if limit else passes[-1]
    return Verdict(
        allowed=False,
        remaining=0,
        reset_ms=until_ms(passes[-1] + WINDOW_NS, now_ns),
        retry_after_ms=until_ms(blocker_ns + WINDOW_NS, now_ns),
    )


def until_ms(at_ns: int, now_ns: int) -> int:
    """Return the milliseconds until a time, rounded up so that a caller that waits never wakes too early."""
    return -((now_ns - at_ns) // _NS_PER_MS)

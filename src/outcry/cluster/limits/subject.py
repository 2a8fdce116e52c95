"""What a replica knows of one subject: what passed here, what it may let pass unasked, and who waits for a verdict.

Rule kept: what is held is spent, handed back or dropped, and once a message said that it is, nothing of it passes.
"""

import asyncio
from bisect import bisect_right

from outcry.access.limiter import WINDOW_NS, Verdict
from outcry.access.sliding_window import SlidingWindowLog, passed, until_ms
from outcry.cluster.limits.messages import LEASE_NS, LimitDecision, PassHistory, SubjectReport
from outcry.live.partitions import partition_of

Waiter = asyncio.Future[Verdict | None]
_SOON_NS = 1_000_000_000


class SubjectState:
    """One subject here.

    left, until_ns: how many may pass unasked, and until when; low: at how many more are asked for.
    remaining: of the window, as far as known.
    known: passes that an owner knows of; untold: those it does not yet, of which `told` is the number of the first.
    elsewhere, heard_ns: what others had let pass, and when that was said.
    refused_until_ns: by the owner's word nothing passes before; reset_ns: when the window is empty.
    share, divided_ns: without an owner, how many of the window may pass here still, and when that was divided.
    number: our newest message about it; waiting: requests that ask; flying: a message is under way.
    """

    __slots__ = (
        "divided_ns", "elsewhere", "flying", "heard_ns", "known", "left", "limit", "low", "number", "partition",
        "refused_until_ns", "remaining", "reset_ns", "share", "subject", "told", "until_ns", "untold", "waiting",
    )  # fmt: skip

    def __init__(self, subject: str) -> None:
        self.subject, self.partition = subject, partition_of(subject)
        self.known, self.untold = SlidingWindowLog(), SlidingWindowLog()
        self.waiting = list[Waiter]()
        self.flying = False
        self.left = self.limit = self.low = self.number = self.remaining = self.told = 0
        self.share, self.divided_ns = 0, -WINDOW_NS
        self.elsewhere = self.heard_ns = self.refused_until_ns = self.reset_ns = self.until_ns = 0

    def advance(self, now_ns: int) -> None:
        """Drop what left the window."""
        self.known.expire(now_ns)
        if self.untold:
            over = bisect_right(self.untold, now_ns - WINDOW_NS)
            del self.untold[:over]
            self.told += over

    def own(self, now_ns: int) -> list[int]:
        """When requests passed here, of the window ending now."""
        self.advance(now_ns)
        return sorted((*self.known[self.known.head :], *self.untold))

    def others(self, now_ns: int) -> int:
        """How many passed elsewhere, as last heard."""
        return self.elsewhere if now_ns - self.heard_ns < WINDOW_NS else 0

    def drop(self, number: int) -> None:
        """Hold nothing any more, whatever is under way: message `number` says so."""
        self.left, self.number = 0, number

    def line(self, now_ns: int) -> SubjectReport:
        """What to say of it now. What was held and not used is handed back."""
        self.advance(now_ns)
        lend = bool(self.waiting or self.untold)
        if now_ns >= self.until_ns or not lend:
            self.left = 0
        untold = self.untold.told()
        return SubjectReport(self.subject, self.limit, len(self.waiting), self.told, untold, self.left, lend)

    def past(self, now_ns: int, *, whole: bool) -> PassHistory:
        """What passed here, for an owner that gave no verdict on it; all of it, where the `whole` is wanted."""
        self.advance(now_ns)
        return PassHistory(self.subject, self.known.told() if whole else b"", self.told, self.untold.told())

    def hear(
        self, line: SubjectReport, ruling: LimitDecision, number: int, sent_ns: int, now_ns: int
    ) -> list[Verdict]:
        """Take in what an owner answered to message `number`; return the verdicts for those who asked with it."""
        newly = line.first + len(line.untold) // self.untold.itemsize - self.told
        if newly > 0:
            self.known.note(self.untold[:newly])
            del self.untold[:newly]
            self.told += newly
        self.known.note([now_ns] * ruling.passed)
        self.advance(now_ns)
        self.heard_ns = now_ns
        self.elsewhere = max(0, line.limit - ruling.left - self.known.live(now_ns))
        self.reset_ns = sent_ns + ruling.reset_ns
        self.refused_until_ns = sent_ns + ruling.retry_ns if ruling.passed < line.asks else 0
        if self.number == number:
            self.left += ruling.lent
            self.low = (self.left + 2) // 3
            self.until_ns = sent_ns + LEASE_NS
        self.remaining = max(self.left, ruling.left - len(self.untold))
        left = max(0, ruling.left - len(self.untold))
        verdicts = [passed(left + ruling.passed - 1 - place) for place in range(ruling.passed)]
        if ruling.passed < line.asks:
            verdicts += [self.refusal(now_ns)] * (line.asks - ruling.passed)
        return verdicts

    def refusal(self, now_ns: int) -> Verdict:
        """The refusal the owner worded."""
        reset_ms, retry_ms = until_ms(self.reset_ns, now_ns), until_ms(self.refused_until_ns, now_ns)
        return Verdict(allowed=False, remaining=0, reset_ms=max(0, reset_ms), retry_after_ms=max(1, retry_ms))

    def claimed(self, now_ns: int) -> int:
        """How many of the window passed here, or may without asking."""
        held = self.left if now_ns < self.until_ns else 0
        return len(self.own(now_ns)) + held + self.share

    def divide(self, others: int, replicas: int, now_ns: int) -> None:
        """Take a share of what is left, once: `others` passed or may elsewhere."""
        if now_ns - self.divided_ns >= WINDOW_NS:
            rest = self.limit - self.claimed(now_ns) - others
            self.share, self.divided_ns = max(0, rest // replicas), now_ns

    def undivided(self) -> None:
        """There is an owner again."""
        self.share, self.divided_ns = 0, -WINDOW_NS

    def alone(self, limit: int, share: int, now_ns: int) -> Verdict:
        """A verdict without an owner. What was left was divided: then the share of that. Else of the window our `share`
        may pass, and no more than the limit by what is known of others."""
        own = self.own(now_ns)
        divided = now_ns - self.divided_ns < WINDOW_NS
        if divided:
            left = self.share
            self.share = max(0, left - 1)
        else:
            left = min(share, limit - self.others(now_ns)) - len(own)
        if left > 0:
            self.untold.append(now_ns)
            return passed(left - 1)
        wait_ns = own[-share] + WINDOW_NS - now_ns if len(own) >= share and not divided else _SOON_NS
        reset_ns = own[-1] + WINDOW_NS if own else now_ns
        return Verdict(
            allowed=False,
            remaining=0,
            reset_ms=until_ms(reset_ns, now_ns),
            retry_after_ms=until_ms(wait_ns, 0),
        )

    def standing(self, limit: int, now_ns: int) -> Verdict:
        """How the window stands as far as known, counting nothing."""
        if now_ns < self.refused_until_ns and limit == self.limit:
            return self.refusal(now_ns)
        own, others = self.own(now_ns), self.others(now_ns)
        last_ns = max(own[-1] + WINDOW_NS if own else 0, self.reset_ns if others else 0)
        left = limit - len(own) - others
        wait_ms = 0
        if left <= 0:
            wait_ms = until_ms(
                own[-limit] + WINDOW_NS if 0 < limit <= len(own) else now_ns + _SOON_NS, now_ns
            )
        return Verdict(left > 0, max(0, left), max(0, until_ms(last_ns, now_ns)), wait_ms)

    def settle(self, verdict: Verdict | None) -> None:
        """Answer all who wait."""
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            if not waiter.done():  # its client may be gone
                waiter.set_result(verdict)


class PendingLine:
    """What a message that is under way says of one subject, and who waits for the answer."""

    __slots__ = ("_number", "_sent_ns", "kept", "line", "waiting")

    def __init__(self, kept: SubjectState, number: int, sent_ns: int) -> None:
        self.kept, self.line = kept, kept.line(sent_ns)
        self.waiting, kept.waiting = kept.waiting, []
        self._number, self._sent_ns = number, sent_ns
        kept.number, kept.flying = number, True

    def land(self, ruling: LimitDecision, now_ns: int) -> None:
        """Take in the answer."""
        kept, asked = self.kept, self.waiting
        kept.flying = False
        verdicts = kept.hear(self.line, ruling, self._number, self._sent_ns, now_ns)
        for waiter, verdict in zip(asked, verdicts, strict=True):
            if not waiter.done():  # its client may be gone
                waiter.set_result(verdict)

"""The state of one subject (what a limit applies to, such as an API key) at a replica.

It consists of the recent requests, the lease (requests that this replica may allow by itself), and the requests that
wait for a verdict. Once a message has reported a lease as returned, the lease allows no more requests.
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
    """The counts, lease and waiting requests of one subject (API key or client address) at this replica.

    left: leased requests that are left. until_ns: when the lease ends. low: the replica renews the lease when `left`
    falls to this number. remaining: requests left in the window, as far as known.

    known: times of passes (allowed requests) that the owner has counted. unreported: times of passes not reported yet;
    `reported` is the number of the first of them.

    passed_elsewhere: number of passes at other replicas, as the owner stated at `reported_at_ns`. refused_until_ns: the
    owner refuses every request before this time. reset_ns: when the window is empty.

    share: requests that this replica may still allow while there is no owner, computed at `divided_ns`. releases: how
    often a share was released; a division that began before the last release is no longer valid.

    number: number of this replica's newest message about the subject. waiting: requests without a verdict. in_flight:
    whether a message is unanswered.
    """

    __slots__ = (
        "divided_ns",
        "in_flight",
        "known",
        "left",
        "limit",
        "low",
        "number",
        "partition",
        "passed_elsewhere",
        "refused_until_ns",
        "releases",
        "remaining",
        "reported",
        "reported_at_ns",
        "reset_ns",
        "share",
        "subject",
        "unreported",
        "until_ns",
        "waiting",
    )  # fmt: skip

    def __init__(self, subject: str) -> None:
        self.subject, self.partition = subject, partition_of(subject)
        self.known, self.unreported = SlidingWindowLog(), SlidingWindowLog()
        self.waiting = list[Waiter]()
        self.in_flight = False
        self.left = self.limit = self.low = self.number = self.remaining = self.reported = self.releases = 0
        self.share, self.divided_ns = 0, -WINDOW_NS
        self.passed_elsewhere = self.reported_at_ns = self.refused_until_ns = self.reset_ns = (
            self.until_ns
        ) = 0

    def advance(self, now_ns: int) -> None:
        """Drop passes older than the window."""
        self.known.expire(now_ns)
        if self.unreported:
            over = bisect_right(self.unreported, now_ns - WINDOW_NS)
            del self.unreported[:over]
            self.reported += over

    def own(self, now_ns: int) -> list[int]:
        """Return the times (ns) at which requests were allowed here within the window, sorted."""
        self.advance(now_ns)
        return sorted((*self.known[self.known.head :], *self.unreported))

    def others(self, now_ns: int) -> int:
        """Return the number of requests allowed at other replicas, as the owner last stated; 0 if that is too old."""
        return self.passed_elsewhere if now_ns - self.reported_at_ns < WINDOW_NS else 0

    def drop(self, number: int) -> None:
        """Give up the lease. Message `number` reports this, so answers to earlier messages cannot renew the lease."""
        self.left, self.number = 0, number

    def line(self, now_ns: int) -> SubjectReport:
        """Return the report on this API key for its owner. It gives back a lease that has ended or was not used."""
        self.advance(now_ns)
        wants_lease = bool(self.waiting or self.unreported)
        if now_ns >= self.until_ns or not wants_lease:
            self.left = 0
        unreported = self.unreported.encoded()
        return SubjectReport(
            self.subject, self.limit, len(self.waiting), self.reported, unreported, self.left, wants_lease
        )

    def history(self, now_ns: int, *, whole: bool) -> PassHistory:
        """Return the requests allowed here that no owner has counted.

        whole: include those that the previous owner counted.
        """
        self.advance(now_ns)
        return PassHistory(
            self.subject, self.known.encoded() if whole else b"", self.reported, self.unreported.encoded()
        )

    def apply(
        self, line: SubjectReport, decision: LimitDecision, number: int, sent_ns: int, now_ns: int
    ) -> list[Verdict]:
        """Apply the owner's answer to message `number`; return a verdict for each request that it asked about."""
        newly = line.first + len(line.unreported) // self.unreported.itemsize - self.reported
        if newly > 0:
            self.known.note(self.unreported[:newly])
            del self.unreported[:newly]
            self.reported += newly
        self.known.note([now_ns] * decision.passed)
        self.advance(now_ns)
        self.reported_at_ns = now_ns
        self.passed_elsewhere = max(0, line.limit - decision.left - self.known.live(now_ns))
        self.reset_ns = sent_ns + decision.reset_ns
        self.refused_until_ns = sent_ns + decision.retry_ns if decision.passed < line.asks else 0
        if self.number == number:
            self.left += decision.lease_added
            self.low = (self.left + 2) // 3
            self.until_ns = sent_ns + LEASE_NS
        self.remaining = max(self.left, decision.left - len(self.unreported))
        left = max(0, decision.left - len(self.unreported))
        verdicts = [passed(left + decision.passed - 1 - place) for place in range(decision.passed)]
        if decision.passed < line.asks:
            verdicts += [self.refusal(now_ns)] * (line.asks - decision.passed)
        return verdicts

    def refusal(self, now_ns: int) -> Verdict:
        """Return a refusal that repeats the owner's last one."""
        reset_ms, retry_ms = until_ms(self.reset_ns, now_ns), until_ms(self.refused_until_ns, now_ns)
        return Verdict(allowed=False, remaining=0, reset_ms=max(0, reset_ms), retry_after_ms=max(1, retry_ms))

    def claimed(self, now_ns: int) -> int:
        """Return how many requests this replica claims: those it allowed in the window, and its lease or share."""
        leased = self.left if now_ns < self.until_ns else 0
        return len(self.own(now_ns)) + leased + self.share

    def divided(self, now_ns: int) -> bool:
        """Return whether this replica has reserved a share of the limit within the window (60 seconds)."""
        return now_ns - self.divided_ns < WINDOW_NS

    def divide(self, others: int, replicas: int, now_ns: int) -> None:
        """Reserve an equal share of the remaining requests, once per window (60 seconds).

        `others`: requests that other replicas claim.
        """
        if not self.divided(now_ns):
            rest = self.limit - self.claimed(now_ns) - others
            self.share, self.divided_ns = max(0, rest // replicas), now_ns

    def undivided(self) -> None:
        """Release the reserved share of the limit, because an owner counts the requests again."""
        self.share, self.divided_ns = 0, -WINDOW_NS
        self.releases += 1

    def alone(self, limit: int, share: int, now_ns: int) -> Verdict:
        """Decide on a request without the owner of its limit, which does not respond; count the request if it passes.

        If `divide` has reserved a share, at most that many requests pass. Otherwise at most `share` requests pass, or
        fewer if other replicas are known to have used more of the limit.
        """
        own = self.own(now_ns)
        divided = self.divided(now_ns)
        if divided:
            left = self.share
            self.share = max(0, left - 1)
        else:
            left = min(share, limit - self.others(now_ns)) - len(own)
        if left > 0:
            self.unreported.append(now_ns)
            return passed(left - 1)
        wait_ns = own[-share] + WINDOW_NS - now_ns if len(own) >= share and not divided else _SOON_NS
        return self._refused(own, wait_ns, now_ns)

    def standing(self, limit: int, now_ns: int) -> Verdict:
        """Return the verdict that a request would get now, as far as known here. Nothing is counted."""
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

    def undecided(self, now_ns: int) -> Verdict:
        """Return the refusal of a request that neither an owner nor a division of the limit has decided in time."""
        return self._refused(self.own(now_ns), _SOON_NS, now_ns)

    @staticmethod
    def _refused(own: list[int], wait_ns: int, now_ns: int) -> Verdict:
        reset_ns = own[-1] + WINDOW_NS if own else now_ns
        return Verdict(
            allowed=False,
            remaining=0,
            reset_ms=until_ms(reset_ns, now_ns),
            retry_after_ms=until_ms(wait_ns, 0),
        )

    def settle(self, verdict: Verdict | None) -> None:
        """Give every waiting request this verdict."""
        waiting, self.waiting = self.waiting, []
        for waiter in waiting:
            if not waiter.done():  # its client may have disconnected
                waiter.set_result(verdict)


class PendingLine:
    """The report on one API key in an unanswered message, and the requests that wait for the owner's answer."""

    __slots__ = ("_number", "_sent_ns", "line", "state", "waiting")

    def __init__(self, state: SubjectState, number: int, sent_ns: int) -> None:
        self.state, self.line = state, state.line(sent_ns)
        self.waiting, state.waiting = state.waiting, []
        self._number, self._sent_ns = number, sent_ns
        state.number, state.in_flight = number, True

    def land(self, decision: LimitDecision, now_ns: int) -> None:
        """Apply the owner's answer to the counts of the API key, and pass the verdicts on to the waiting requests."""
        state, asked = self.state, self.waiting
        state.in_flight = False
        verdicts = state.apply(self.line, decision, self._number, self._sent_ns, now_ns)
        for waiter, verdict in zip(asked, verdicts, strict=True):
            if not waiter.done():  # its client may have disconnected
                waiter.set_result(verdict)

"""How a subscription's lane fares: open, closed to all but one probe, warned about, and at last switched off.

Rules kept: what arrives makes good all that was; a lane that keeps failing is tried by one message at a time, further
and further apart; nobody is switched off without two warnings, unless the other side itself says that it is gone.
"""

from dataclasses import replace

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.ports.outbox import Lane

#: From so many failures in a row on, a lane is closed between attempts.
BREAKS_AT = 3
_FIRST_CLOSED_NS, _LONGEST_CLOSED_NS = 30 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE
#: The owner is told when nothing has arrived for so long, and again.
WARNED_AFTER_NS = (NANOS_PER_DAY, 3 * NANOS_PER_DAY)
OFF_AFTER_NS = 5 * NANOS_PER_DAY
#: Failures have to lie so far apart at least: one bad hour, however long ago, switches nobody off.
APART_NS = 12 * NANOS_PER_HOUR
#: Mails in a row that a mailbox refuses for good.
MOST_BOUNCES = 3


def began(lane: Lane, now_ns: int) -> Lane:
    """An attempt begins."""
    return replace(lane, sent_ns=now_ns)


def arrived(lane: Lane, now_ns: int, wait_ns: int | None = None) -> Lane:
    """Something arrived; `wait_ns`: the other side asks to be left alone so long all the same."""
    return Lane(sent_ns=lane.sent_ns, arrived_ns=now_ns, closed_until_ns=now_ns + wait_ns if wait_ns else 0)


def slowed(lane: Lane, until_ns: int) -> Lane:
    """The other side asks for fewer messages."""
    return replace(lane, closed_until_ns=max(lane.closed_until_ns, until_ns))


def failed(lane: Lane, now_ns: int) -> Lane:
    """An attempt failed."""
    failures = lane.failures + 1
    closed_ns = 0
    if failures >= BREAKS_AT:
        closed_ns = min(_FIRST_CLOSED_NS << min(failures - BREAKS_AT, 8), _LONGEST_CLOSED_NS)
    return replace(
        lane,
        failures=failures,
        failing_since_ns=now_ns if lane.failing_since_ns is None else lane.failing_since_ns,
        failed_ns=now_ns,
        closed_until_ns=max(lane.closed_until_ns, now_ns + closed_ns if closed_ns else 0),
    )


def bounced(lane: Lane, now_ns: int) -> Lane:
    """A mailbox refused a mail for good."""
    return replace(failed(lane, now_ns), bounces=lane.bounces + 1)


def reason_off(before: Lane, after: Lane) -> str:
    """Why its subscription is to be switched off after an attempt that failed; empty: it is not. `before`: the lane as
    it was until then, for its last failure but this one."""
    if after.bounces >= MOST_BOUNCES:
        return "bounced"
    since_ns, now_ns = after.failing_since_ns, after.failed_ns
    if since_ns is None or now_ns is None or before.failed_ns is None or after.warned < len(WARNED_AFTER_NS):
        return ""
    apart = now_ns - since_ns >= APART_NS
    return "failing" if apart and now_ns - since_ns >= OFF_AFTER_NS else ""


def warning_due(lane: Lane) -> int:
    """Of how many warnings the owner is to be told by now; each is told once."""
    if lane.failing_since_ns is None or lane.failed_ns is None:
        return 0
    failing_ns = lane.failed_ns - lane.failing_since_ns
    return sum(failing_ns >= after_ns for after_ns in WARNED_AFTER_NS)

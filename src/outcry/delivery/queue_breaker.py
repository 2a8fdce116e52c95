"""How a subscription's lane fares: open, closed to all but one probe, warned about, and at last switched off.

Rules kept: what arrives makes good all that was, and so does an endpoint that answers and takes other messages; a lane
that keeps failing is tried by one message at a time, further and further apart; nobody is switched off without two
warnings, half a day apart and half a day before it, unless the other side itself says that it is gone.
"""

from dataclasses import replace

from outcry.delivery.outbox_model import Lane
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

#: From so many failures in a row on, a lane is closed between attempts.
BREAKS_AT = 3
_FIRST_CLOSED_NS, _LONGEST_CLOSED_NS = 30 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE
#: The owner is told when nothing has arrived for so long, and again.
WARNED_AFTER_NS = (NANOS_PER_DAY, 3 * NANOS_PER_DAY)
OFF_AFTER_NS = 5 * NANOS_PER_DAY
#: So long after a warning nothing more is said or done: two bad hours, however far apart, switch nobody off.
APART_NS = 12 * NANOS_PER_HOUR
#: Mails in a row that a mailbox refuses for good.
MOST_BOUNCES = 3


def began(lane: Lane, now_ns: int, took_ms: int = 0) -> Lane:
    """An attempt began, and took so long."""
    return replace(lane, sent_ns=now_ns, took_ms=took_ms)


def arrived(lane: Lane, now_ns: int, wait_ns: int | None = None) -> Lane:
    """Something arrived; `wait_ns`: the other side asks to be left alone so long all the same."""
    closed_until_ns = now_ns + wait_ns if wait_ns else 0
    return Lane(lane.sent_ns, arrived_ns=now_ns, closed_until_ns=closed_until_ns, took_ms=lane.took_ms)


def answered(lane: Lane) -> Lane:
    """The endpoint is there, though it does not take this one message."""
    return replace(lane, failures=0, failing_since_ns=None, failed_ns=None, warned=0, warned_ns=None)


def slowed(lane: Lane, until_ns: int) -> Lane:
    """The other side asks to be left alone until then."""
    return replace(lane, closed_until_ns=max(lane.closed_until_ns, until_ns))


def nothing_arrived(lane: Lane, now_ns: int) -> Lane:
    """An attempt came to nothing, be it by no fault of the endpoint."""
    since_ns = now_ns if lane.failing_since_ns is None else lane.failing_since_ns
    return replace(lane, failing_since_ns=since_ns, failed_ns=now_ns)


def failed(lane: Lane, now_ns: int) -> Lane:
    """An attempt failed."""
    failures = lane.failures + 1
    closed_ns = 0
    if failures >= BREAKS_AT:
        closed_ns = min(_FIRST_CLOSED_NS << min(failures - BREAKS_AT, 8), _LONGEST_CLOSED_NS)
    return replace(
        nothing_arrived(lane, now_ns),
        failures=failures,
        closed_until_ns=max(lane.closed_until_ns, now_ns + closed_ns if closed_ns else 0),
    )


def bounced(lane: Lane, now_ns: int) -> Lane:
    """A mailbox refused a mail for good."""
    return replace(failed(lane, now_ns), bounces=lane.bounces + 1)


def reason_off(lane: Lane) -> str:
    """Why its subscription is to be switched off after an attempt that came to nothing; empty: it is not."""
    if lane.bounces >= MOST_BOUNCES:
        return "bounced"
    warned = lane.warned >= len(WARNED_AFTER_NS)
    return "failing" if warned and _has_lasted(lane, OFF_AFTER_NS) else ""


def warned(lane: Lane, now_ns: int) -> Lane:
    """After an attempt that came to nothing: its owner is told, one warning at a time, of what has lasted so long."""
    if lane.warned < len(WARNED_AFTER_NS) and _has_lasted(lane, WARNED_AFTER_NS[lane.warned]):
        return replace(lane, warned=lane.warned + 1, warned_ns=now_ns)
    return lane


def _has_lasted(lane: Lane, length_ns: int) -> bool:
    """Whether nothing has arrived for so long, and the last warning lies far enough back."""
    if lane.failing_since_ns is None or lane.failed_ns is None:
        return False
    told = lane.warned_ns is None or lane.failed_ns - lane.warned_ns >= APART_NS
    return told and lane.failed_ns - lane.failing_since_ns >= length_ns

"""How a subscription's queue fares: open, closed to all but one probe, warned about, and at last switched off.

Rules kept: what arrives makes good all that was, and so does an endpoint that answers and takes other messages; a queue
that keeps failing is tried by one message at a time, further and further apart; nobody is switched off without two
warnings, half a day apart and half a day before it, unless the other side itself says that it is gone.
"""

from dataclasses import replace

from outcry.delivery.outbox_model import Queue
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

#: From so many failures in a row on, a queue is closed between attempts.
BREAKS_AT = 3
_FIRST_CLOSED_NS, _LONGEST_CLOSED_NS = 30 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE
#: The owner is told when nothing has arrived for so long, and again.
WARNED_AFTER_NS = (NANOS_PER_DAY, 3 * NANOS_PER_DAY)
OFF_AFTER_NS = 5 * NANOS_PER_DAY
#: So long after a warning nothing more is said or done: two bad hours, however far apart, switch nobody off.
APART_NS = 12 * NANOS_PER_HOUR
#: Mails in a row that a mailbox refuses for good.
MOST_BOUNCES = 3


def began(queue: Queue, now_ns: int, took_ms: int = 0) -> Queue:
    """An attempt began, and took so long."""
    return replace(queue, sent_ns=now_ns, took_ms=took_ms)


def arrived(queue: Queue, now_ns: int, wait_ns: int | None = None) -> Queue:
    """Something arrived; `wait_ns`: the other side asks to be left alone so long all the same."""
    closed_until_ns = now_ns + wait_ns if wait_ns else 0
    return Queue(queue.sent_ns, arrived_ns=now_ns, closed_until_ns=closed_until_ns, took_ms=queue.took_ms)


def answered(queue: Queue) -> Queue:
    """The endpoint is there, though it does not take this one message."""
    return replace(queue, failures=0, failing_since_ns=None, failed_ns=None, warned=0, warned_ns=None)


def slowed(queue: Queue, until_ns: int) -> Queue:
    """The other side asks to be left alone until then."""
    return replace(queue, closed_until_ns=max(queue.closed_until_ns, until_ns))


def nothing_arrived(queue: Queue, now_ns: int) -> Queue:
    """An attempt came to nothing, be it by no fault of the endpoint."""
    since_ns = now_ns if queue.failing_since_ns is None else queue.failing_since_ns
    return replace(queue, failing_since_ns=since_ns, failed_ns=now_ns)


def failed(queue: Queue, now_ns: int) -> Queue:
    """An attempt failed."""
    failures = queue.failures + 1
    closed_ns = 0
    if failures >= BREAKS_AT:
        closed_ns = min(_FIRST_CLOSED_NS << min(failures - BREAKS_AT, 8), _LONGEST_CLOSED_NS)
    return replace(
        nothing_arrived(queue, now_ns),
        failures=failures,
        closed_until_ns=max(queue.closed_until_ns, now_ns + closed_ns if closed_ns else 0),
    )


def bounced(queue: Queue, now_ns: int) -> Queue:
    """A mailbox refused a mail for good."""
    return replace(failed(queue, now_ns), bounces=queue.bounces + 1)


def reason_off(queue: Queue) -> str:
    """Why its subscription is to be switched off after an attempt that came to nothing; empty: it is not."""
    if queue.bounces >= MOST_BOUNCES:
        return "bounced"
    warned = queue.warned >= len(WARNED_AFTER_NS)
    return "failing" if warned and _has_lasted(queue, OFF_AFTER_NS) else ""


def warned(queue: Queue, now_ns: int) -> Queue:
    """After an attempt that came to nothing: its owner is told, one warning at a time, of what has lasted so long."""
    if queue.warned < len(WARNED_AFTER_NS) and _has_lasted(queue, WARNED_AFTER_NS[queue.warned]):
        return replace(queue, warned=queue.warned + 1, warned_ns=now_ns)
    return queue


def _has_lasted(queue: Queue, length_ns: int) -> bool:
    """Whether nothing has arrived for so long, and the last warning lies far enough back."""
    if queue.failing_since_ns is None or queue.failed_ns is None:
        return False
    told = queue.warned_ns is None or queue.failed_ns - queue.warned_ns >= APART_NS
    return told and queue.failed_ns - queue.failing_since_ns >= length_ns

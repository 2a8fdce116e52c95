"""Circuit breaker of a subscription's queue: pauses failing queues, warns owners, and disables subscriptions.

A closed queue sends nothing until its `closed_until_ns`. A successful delivery resets the counts of failures and
warnings, and so does an endpoint that responds but refuses one message. A failing queue sends one message as a probe,
at increasing intervals. A subscription is disabled only after two warnings, each followed by at least half a day. It is
disabled at once if the receiver reports that it is gone.
"""

from dataclasses import replace

from outcry.delivery.outbox_model import Queue
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

#: Consecutive failures after which a queue is closed between attempts.
BREAKS_AT = 3
_FIRST_CLOSED_NS, _LONGEST_CLOSED_NS = 30 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE
#: The owner is warned when nothing was delivered for this long.
WARNED_AFTER_NS = (NANOS_PER_DAY, 3 * NANOS_PER_DAY)
OFF_AFTER_NS = 5 * NANOS_PER_DAY
#: Minimum time after a warning, so that two separate hours of failures do not disable a subscription.
APART_NS = 12 * NANOS_PER_HOUR
#: Consecutive emails rejected by a mailbox.
MOST_BOUNCES = 3


def began(queue: Queue, now_ns: int, took_ms: int = 0) -> Queue:
    """Record the start and duration of a delivery attempt."""
    return replace(queue, sent_ns=now_ns, took_ms=took_ms)


def arrived(queue: Queue, now_ns: int, wait_ns: int | None = None) -> Queue:
    """Record a successful delivery. `wait_ns`: a pause that the receiver asked for."""
    closed_until_ns = now_ns + wait_ns if wait_ns else 0
    return Queue(queue.sent_ns, arrived_ns=now_ns, closed_until_ns=closed_until_ns, took_ms=queue.took_ms)


def answered(queue: Queue) -> Queue:
    """Record that the endpoint responds but refuses this one message; this resets the queue's count of failures."""
    return replace(queue, failures=0, failing_since_ns=None, failed_ns=None, warned=0, warned_ns=None)


def slowed(queue: Queue, until_ns: int) -> Queue:
    """Send nothing from this queue until the time the receiver asked for."""
    return replace(queue, closed_until_ns=max(queue.closed_until_ns, until_ns))


def nothing_arrived(queue: Queue, now_ns: int) -> Queue:
    """Record that an attempt delivered nothing, because of a failure or a rate limit."""
    since_ns = now_ns if queue.failing_since_ns is None else queue.failing_since_ns
    return replace(queue, failing_since_ns=since_ns, failed_ns=now_ns)


def failed(queue: Queue, now_ns: int) -> Queue:
    """Record a failed delivery attempt; after several in a row, close the queue for a time."""
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
    """Record an email that the mailbox rejected permanently."""
    return replace(failed(queue, now_ns), bounces=queue.bounces + 1)


def reason_off(queue: Queue) -> str:
    """Return the code of why the subscription must be disabled after an undelivered attempt.

    Return an empty text if the subscription stays enabled.
    """
    if queue.bounces >= MOST_BOUNCES:
        return "bounced"
    warned = queue.warned >= len(WARNED_AFTER_NS)
    return "failing" if warned and _has_lasted(queue, OFF_AFTER_NS) else ""


def warned(queue: Queue, now_ns: int) -> Queue:
    """Count a warning to the owner if one is due after an undelivered attempt."""
    if queue.warned < len(WARNED_AFTER_NS) and _has_lasted(queue, WARNED_AFTER_NS[queue.warned]):
        return replace(queue, warned=queue.warned + 1, warned_ns=now_ns)
    return queue


def _has_lasted(queue: Queue, length_ns: int) -> bool:
    """Return whether nothing was delivered for `length_ns` and the owner's last warning was long enough ago."""
    if queue.failing_since_ns is None or queue.failed_ns is None:
        return False
    may_warn = queue.warned_ns is None or queue.failed_ns - queue.warned_ns >= APART_NS
    return may_warn and queue.failed_ns - queue.failing_since_ns >= length_ns

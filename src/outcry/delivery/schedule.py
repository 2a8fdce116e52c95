"""Retry schedules by kind of target.

Endpoints of programs are retried for three days, as the Standard Webhooks specification advises. Chats are retried for
less than three hours, because old alerts are useless there; the next chat message reports the missed ones.
"""

from collections.abc import Callable, Mapping, Sequence

from outcry.delivery.model import Target
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

#: Delays after the first attempt, the second, and so on: ten attempts in 75 hours and 35 minutes.
_PROGRAMS = (
    5 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE, 30 * NANOS_PER_MINUTE,
    *(hours * NANOS_PER_HOUR for hours in (2, 5, 10, 14, 20, 24)),
)  # fmt: skip
_CHATS = (
    5 * NANOS_PER_SECOND, 30 * NANOS_PER_SECOND, 2 * NANOS_PER_MINUTE, 10 * NANOS_PER_MINUTE,
    30 * NANOS_PER_MINUTE, 2 * NANOS_PER_HOUR,
)  # fmt: skip
#: Mail servers are usually unavailable for minutes or overnight. RFC 5321 §4.5.4.1 requires at least half an hour.
_MAIL = (
    NANOS_PER_MINUTE, 5 * NANOS_PER_MINUTE, 30 * NANOS_PER_MINUTE,
    *(hours * NANOS_PER_HOUR for hours in (1, 2, 5, 10)),
)  # fmt: skip
PAUSES_NS: Mapping[Target, Sequence[int]] = {
    Target.HTTPS: _PROGRAMS, Target.SLACK: _CHATS, Target.DISCORD: _CHATS, Target.EMAIL: _MAIL,
}  # fmt: skip
#: Delays vary by this share, so that many failed messages do not return at the same time.
SPREAD = 0.2
#: Shortest and longest pause that a receiver may ask for.
SHORTEST_WAIT_NS, LONGEST_WAIT_NS = NANOS_PER_SECOND, 24 * NANOS_PER_HOUR
#: Pause if a rate limit names no time.
USUAL_WAIT_NS = 30 * NANOS_PER_SECOND

#: A number from 0 up to 1.
Chance = Callable[[], float]


def pause_ns(target: Target, tries: int, chance: Chance) -> int | None:
    """Return the delay before the next retry, after `tries` failed attempts (from 1); None if there are no more."""
    pauses = PAUSES_NS[target]
    if tries > len(pauses):
        return None
    return round(pauses[tries - 1] * (1 + SPREAD * (2 * chance() - 1)))


def patience_ns(target: Target) -> int:
    """Return how long a message may wait before it expires (ns).

    This is the length of the longest retry schedule of its target.
    """
    return round(sum(PAUSES_NS[target]) * (1 + SPREAD))


def asked_ns(wait_ns: int | None) -> int:
    """Return how long (ns) to pause when a receiver limits the rate. `wait_ns`: the pause it asked for, if any."""
    return USUAL_WAIT_NS if wait_ns is None else min(max(wait_ns, SHORTEST_WAIT_NS), LONGEST_WAIT_NS)

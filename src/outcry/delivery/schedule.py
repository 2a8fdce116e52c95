"""When an attempt that failed is made again, by target.

Rules kept: an endpoint of a program is tried for three days, as the Standard Webhooks specification advises; a chat for
under three hours, for nobody wants yesterday's alerts there: what it missed is told in one line instead.
"""

from collections.abc import Callable, Mapping, Sequence

from outcry.delivery.model import Target
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE, NANOS_PER_SECOND

#: Pauses after the first attempt, the second, and so on: ten attempts in 75 hours and 35 minutes.
_PROGRAMS = (
    5 * NANOS_PER_SECOND, 5 * NANOS_PER_MINUTE, 30 * NANOS_PER_MINUTE,
    *(hours * NANOS_PER_HOUR for hours in (2, 5, 10, 14, 20, 24)),
)  # fmt: skip
_CHATS = (
    5 * NANOS_PER_SECOND, 30 * NANOS_PER_SECOND, 2 * NANOS_PER_MINUTE, 10 * NANOS_PER_MINUTE,
    30 * NANOS_PER_MINUTE, 2 * NANOS_PER_HOUR,
)  # fmt: skip
#: A mail server that is away is back within minutes or by morning (RFC 5321 §4.5.4.1 asks for at least half an hour).
_MAIL = (
    NANOS_PER_MINUTE, 5 * NANOS_PER_MINUTE, 30 * NANOS_PER_MINUTE,
    *(hours * NANOS_PER_HOUR for hours in (1, 2, 5, 10)),
)  # fmt: skip
PAUSES_NS: Mapping[Target, Sequence[int]] = {
    Target.HTTPS: _PROGRAMS, Target.SLACK: _CHATS, Target.DISCORD: _CHATS, Target.EMAIL: _MAIL,
}  # fmt: skip
#: Pauses are up to this much shorter or longer, so that many who failed together do not come back together.
SPREAD = 0.2
#: As long as the other side may ask to be left alone; and no shorter than a moment.
SHORTEST_WAIT_NS, LONGEST_WAIT_NS = NANOS_PER_SECOND, 24 * NANOS_PER_HOUR
#: What it is left alone for where it asks for fewer messages and does not say for how long.
USUAL_WAIT_NS = 30 * NANOS_PER_SECOND

#: A number from 0 up to 1.
Chance = Callable[[], float]


def pause_ns(target: Target, tries: int, chance: Chance) -> int | None:
    """How long to wait after so many attempts that failed, from 1; None: no more are made."""
    pauses = PAUSES_NS[target]
    if tries > len(pauses):
        return None
    return round(pauses[tries - 1] * (1 + SPREAD * (2 * chance() - 1)))


def patience_ns(target: Target) -> int:
    """How long a message is of use: for as long as the longest schedule would try it."""
    return round(sum(PAUSES_NS[target]) * (1 + SPREAD))


def asked_ns(wait_ns: int | None) -> int:
    """How long to leave alone who asks for fewer messages."""
    return USUAL_WAIT_NS if wait_ns is None else min(max(wait_ns, SHORTEST_WAIT_NS), LONGEST_WAIT_NS)

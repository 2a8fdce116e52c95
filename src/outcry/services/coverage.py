"""How much of a session its recordings span: what tells a whole session from a piece of one.

Rule kept: a file is taken to hold everything between its first and last row, thin as the trade may be; spans of
several files join where they meet within the grace of five minutes (decisions: a session is completed five minutes
after its close).
"""

from collections.abc import Iterable

from outcry.core.calendar import Session
from outcry.core.units import NANOS_PER_MINUTE

GRACE_NS = 5 * NANOS_PER_MINUTE

#: First and last instant (ns UTC) between which a file says all there was.
Span = tuple[int, int]


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans in order, those that overlap or meet within the grace made one."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + GRACE_NS:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def covers(spans: Iterable[Span], session: Session) -> bool:
    """Whether every stretch of the session's trading lies within one span, to the grace at either end."""
    whole = joined(spans)
    return all(
        any(first <= opened + GRACE_NS and last >= closed - GRACE_NS for first, last in whole)
        for opened, closed in session.segments
    )

"""Which part of a session its recordings span: where a live feed was away.

Rule kept: a file spans the time from its first to its last row, a feed the time it was connected; spans that meet
within the grace of five minutes join (decisions: a session is completed five minutes after its close).
"""

from collections.abc import Iterable

from outcry.market.calendar import Session
from outcry.market.units import NANOS_PER_MINUTE

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


def uncovered(spans: Iterable[Span], session: Session) -> list[Span]:
    """Return the stretches of a session's trading (half-open, ns UTC, in order), longer than the grace, that no span
    covers."""
    whole = joined(spans)
    found: list[Span] = []
    for opened, closed in session.segments:
        at = opened
        for first, last in [
            *(span for span in whole if span[1] > opened and span[0] < closed),
            (closed, closed),
        ]:
            if first > at + GRACE_NS:
                found.append((at, first))
            at = max(at, last)
    return found

"""The parts of a session that its recordings cover, and the rest.

A file covers the time from its first to its last row; a feed covers the time it was connected. Spans at most five
minutes apart are merged, because a session completes five minutes after its close.
"""

from collections.abc import Iterable

from outcry.market.calendar import Session
from outcry.market.units import NANOS_PER_MINUTE

GRACE_NS = 5 * NANOS_PER_MINUTE

#: Start and end (ns UTC) of a time for which a recording is complete.
Span = tuple[int, int]


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort time spans, and merge those that overlap or are at most `GRACE_NS` apart."""
    found: list[Span] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + GRACE_NS:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def uncovered(spans: Iterable[Span], session: Session) -> list[Span]:
    """Return the trading time of a session that no recording covers.

    These are half-open windows (ns UTC, in order) longer than `GRACE_NS`.
    """
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

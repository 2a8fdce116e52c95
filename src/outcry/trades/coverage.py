"""Which parts of a session its recordings cover, and which they do not.

A file covers the time from its first to its last row. A feed covers the time for which it was connected. Spans at most
five minutes apart are merged, because a session completes five minutes after its close.
"""

from collections.abc import Iterable

from outcry.market.calendar import Session
from outcry.market.units import NANOS_PER_MINUTE
from outcry.market.windows import merged

GRACE_NS = 5 * NANOS_PER_MINUTE
#: More gaps than this are merged into one.
_MAX_GAPS = 256

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

    spans: the times that recordings cover. The result is half-open windows (ns UTC, in order) longer than `GRACE_NS`.
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


def merged_gaps(gaps: Iterable[Span]) -> list[Span]:
    """Merge gaps that touch each other.

    If more gaps remain than the maximum, merge all of them into one. The time between them then counts as missing too.
    """
    found = list(merged(gaps))
    return found if len(found) <= _MAX_GAPS else [(found[0][0], max(last for _, last in found))]


def without_gaps(span: Span, gaps: Iterable[Span]) -> list[Span]:
    """Return the parts of a time span that lie outside all gaps.

    A part before a short gap ends earlier than the gap begins, so that `joined` does not merge it with the part after
    it.
    """
    spans = [span]
    for gap_from_ns, gap_to_ns in gaps:
        spans = [
            part
            for start_ns, end_ns in spans
            for part in (
                (start_ns, min(end_ns, gap_from_ns, gap_to_ns - GRACE_NS - 1)),
                (max(start_ns, gap_to_ns), end_ns),
            )
            if part[0] < part[1]
        ]
    return spans

"""Select the parts of sessions that a profile counts: trade dates, and spans that begin or end at an instant.

A date stands for the whole sessions of that trade date. An instant (ns UTC) cuts the session that is open then.
Brackets and letters stay those of the session, whatever part of it is selected.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.units import NANOS_PER_DAY
from outcry.market.windows import EPOCH, LONGEST_CLOSURE_DAYS, Segment, clipped, merged

#: A trade date, or an instant in ns UTC.
Edge = date | int

#: A trade date ends at most three days after its midnight, and its overnight session begins at most this long before.
_AFTER, _BEFORE = timedelta(days=3), timedelta(days=2 * LONGEST_CLOSURE_DAYS)
_EARLIEST_NS, _LATEST_NS = -(2**63), 2**63 - 1


class SpansOverlap(ValueError):
    """Two spans of a selection share trading time, which would count twice. between: that time (ns UTC, half-open)."""

    def __init__(self, between: Segment) -> None:
        super().__init__(f"two spans share the time from {between[0]} to {between[1]} ns")
        self.between = between


class OutsideSelection(ValueError):
    """An instant (ns UTC) at which a selection cannot be split: it is not between its start and its end."""

    def __init__(self, at_ns: int) -> None:
        super().__init__(f"{at_ns} ns is not inside the selection")
        self.at_ns = at_ns


@dataclass(frozen=True, slots=True)
class Span:
    """From `first` to `last`. A trade date is included at either end; of instants, `last` is not included."""

    first: Edge
    last: Edge

    @property
    def is_reversed(self) -> bool:
        """Return whether the span ends before it starts. That of a date and an instant depends on the sessions."""
        first, last = self.first, self.last
        if isinstance(first, int) and isinstance(last, int):
            return first >= last
        return isinstance(first, date) and isinstance(last, date) and first > last

    @property
    def dates(self) -> tuple[date, date]:
        """Return the first and last date whose sessions can have a part in the span."""
        first, last = self.first, self.last
        return (
            first if isinstance(first, date) else date_at(first) - _AFTER,
            last if isinstance(last, date) else date_at(last) + _BEFORE,
        )

    def windows(self, session: Session) -> tuple[Segment, ...]:
        """Return the parts of a session inside the span: half-open windows (ns UTC), ascending, none adjacent."""
        first, last, start_ns, end_ns = self.first, self.last, _EARLIEST_NS, _LATEST_NS
        if isinstance(first, int):
            start_ns = first
        elif session.trade_date < first:
            return ()
        if isinstance(last, int):
            end_ns = last
        elif session.trade_date > last:
            return ()
        return clipped(session.segments, start_ns, end_ns)


@dataclass(frozen=True, slots=True)
class SessionPart:
    """A part of a session: half-open windows (ns UTC), ascending, none adjacent, at least one."""

    session: Session
    windows: tuple[Segment, ...]

    @property
    def whole(self) -> bool:
        """Return whether the part is the whole session."""
        return self.windows == merged(self.session.segments)

    @property
    def end_ns(self) -> int:
        """Return the end of the last window (ns UTC), not included."""
        return self.windows[-1][1]

    def cut(self, start_ns: int, end_ns: int) -> "SessionPart | None":
        """Return what is inside `[start_ns, end_ns)`; None if that is nothing."""
        windows = clipped(self.windows, start_ns, end_ns)
        return SessionPart(self.session, windows) if windows else None


def session_parts(
    calendar: Calendar, root: str, kinds: Collection[SessionKind], spans: Sequence[Span]
) -> list[SessionPart]:
    """Return the parts of a product's sessions inside any of the spans, in order of time. Spans may be in any order.

    kinds: the kinds of sessions to count. Raises `SpansOverlap`.
    """
    found: dict[Session, list[Segment]] = {}
    for span in spans:
        for session in calendar.sessions(root, *span.dates):
            if session.kind in kinds and (windows := span.windows(session)):
                found.setdefault(session, []).extend(windows)
    for windows in found.values():
        windows.sort()
        for before, after in pairwise(windows):
            if after[0] < before[1]:
                raise SpansOverlap((after[0], min(before[1], after[1])))
    ordered = sorted(found, key=lambda session: session.open_ns)
    return [SessionPart(session, merged(found[session])) for session in ordered]


def split_at(
    parts: Sequence[SessionPart], instants: Iterable[int]
) -> list[tuple[Segment, list[SessionPart]]]:
    """Split a selection at instants (ns UTC): return each piece's start and end with its parts of sessions.

    The pieces cover the selection exactly, and none twice. A piece has no parts if nothing trades in it. Raises
    `OutsideSelection` for an instant that is not inside the selection. parts: in order of time, at least one.
    """
    start_ns, end_ns = parts[0].windows[0][0], parts[-1].end_ns
    edges = [start_ns, *sorted(set(instants)), end_ns]
    for at_ns in edges[1:-1]:
        if not start_ns < at_ns < end_ns:
            raise OutsideSelection(at_ns)
    return [
        ((first, last), [piece for part in parts if (piece := part.cut(first, last)) is not None])
        for first, last in pairwise(edges)
    ]


def date_at(at_ns: int) -> date:
    """Return the UTC date of a time (ns UTC)."""
    return (EPOCH + timedelta(days=at_ns // NANOS_PER_DAY)).date()

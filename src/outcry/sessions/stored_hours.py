"""Finds stored sessions that were computed with other hours than the tables now have."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.windows import Segment


@dataclass(frozen=True, slots=True)
class StoredHours:
    """The hours with which a stored session was computed: `open_ns` to `close_ns`, and its trading windows (ns UTC).

    segments: half-open, in order; empty if an earlier version stored the session.
    """

    root: str
    trade_date: date
    kind: SessionKind
    open_ns: int
    close_ns: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class OutdatedSessions:
    """The stored sessions of a product whose hours differ from the tables: how many, first and last trade date.

    known: False if no table has the product any more, so that no answer uses the sessions.
    """

    root: str
    count: int
    first: date
    last: date
    known: bool = True


def outdated_sessions(
    stored: Iterable[StoredHours], roots: Collection[str], calendar: Calendar
) -> list[OutdatedSessions]:
    """Return the products with outdated sessions, in order of root. roots: those of all products of the tables.

    Every trading window is compared, so that a change of breaks is found too. Of a session that an earlier version
    stored, only open and close are compared.
    """
    days: dict[str, list[date]] = {}
    for one in stored:
        if one.root not in roots or _is_outdated(one, calendar):
            days.setdefault(one.root, []).append(one.trade_date)
    return [
        OutdatedSessions(root, len(found), min(found), max(found), known=root in roots)
        for root, found in sorted(days.items())
    ]


def _is_outdated(stored: StoredHours, calendar: Calendar) -> bool:
    now = calendar.session(stored.root, stored.trade_date, stored.kind)
    if now is None:
        return True
    if stored.segments:
        return now.segments != stored.segments
    return (now.open_ns, now.close_ns) != (stored.open_ns, stored.close_ns)

"""`outcry session` and `outcry sessions`: what the calendar says, as tab-separated lines for a pipe.

Rule kept: standard output carries nothing but the lines; what went wrong goes to standard error, with exit
status 2 for a question that cannot be read and 1 for an instant at which no session is open.
"""

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo

from outcry.core.calendar import Session
from outcry.core.instruments import UnknownName
from outcry.core.units import NANOS_PER_SECOND
from outcry.settings import read_settings
from outcry.store.reference import Reference, load_reference

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNREADABLE, CLOSED = 2, 1


def session_at(symbol: str, at: str, *, data: str | None = None) -> int:
    """Say which session an instant is in.

    Prints one line, separated by tabs: trade date, `rth` or `eth`, open and close in the product's own zone,
    open and close in UTC, and `short` where the close was brought forward, else `full`. The close is not part
    of the session. While none is open, prints nothing, says on standard error which comes next, or when trading
    resumes after a daily break, and exits with 1. Exits with 2 for a day before the session tables begin.

        outcry session ES 2025-11-28T10:00:00-05:00
        outcry session /GCZ6 2026-11-02T14:30:00Z | cut -f 1

    Parameters
    ----------
    symbol
        A product or contract in any spelling: ES, ESZ6, MES, /ES, CON.F.US.EP.Z26, ES1!
    at
        An instant in ISO 8601 with its offset or Z: 2026-01-02T15:04:05Z
    data
        The data folder, whose overrides.csv counts; otherwise OUTCRY_DATA.
    """
    reference = _reference(data)
    try:
        at_ns, day = _read_instant(at)
        root = _root(reference, symbol, day)
    except ValueError as problem:
        return _refuse(str(problem))
    calendar = reference.calendar
    if day < calendar.hours.begin(root):
        return _refuse(
            f"{day} is before {calendar.hours.begin(root)}, when the session tables of {root} begin"
        )
    _warn_of_unknown_years(reference, (day,))
    zone = calendar.hours.zone(root)
    if found := calendar.session_at(root, at_ns):
        print(_line(found, zone))
        return 0
    then = ""
    if coming := calendar.next_window(root, at_ns):
        session, opens_ns = coming
        how = f"trading resumes at {_local(opens_ns, zone)}:" if session.open_ns <= at_ns else "the next is"
        then = f"; {how} {_line(session, zone)}"
    print(f"no session of {root} is open at {at}{then}".replace("\t", " "), file=sys.stderr)
    return CLOSED


def sessions_between(symbol: str, first: date, last: date, *, data: str | None = None) -> int:
    """List the sessions there were, or will be, between two trade dates, both included.

    Prints a line for each session in order of opening, as `outcry session` does. A day without regular hours
    has none: its trading is part of the overnight (`eth`) session of the next day that has them.

        outcry sessions ES 2025-11-24 2025-12-01
        outcry sessions ZC 2026-01-01 2026-12-31 | awk '$2 == "rth" && $7 == "short"'

    Parameters
    ----------
    symbol
        A product or contract in any spelling: ES, ESZ6, MES, /ES, CON.F.US.EP.Z26, ES1!
    first
        The first trade date, YYYY-MM-DD
    last
        The last trade date, YYYY-MM-DD
    data
        The data folder, whose overrides.csv counts; otherwise OUTCRY_DATA.
    """
    reference = _reference(data)
    if last < first:
        return _refuse(f"{last} is before {first}")
    try:
        root = _root(reference, symbol, first)
    except ValueError as problem:
        return _refuse(str(problem))
    begin = reference.calendar.hours.begin(root)
    if last < begin:
        return _refuse(f"{last} is before {begin}, when the session tables of {root} begin")
    _warn_of_unknown_years(reference, (first, last))
    zone = reference.calendar.hours.zone(root)
    for session in reference.calendar.sessions(root, first, last):
        print(_line(session, zone))
    return 0


def _reference(data: str | None) -> Reference:
    """The tables as the service uses them: with the operator's overrides and choice of regular hours."""
    settings = read_settings(data=data)
    return load_reference(settings.folder, variants=settings.session_variants)


def _read_instant(text: str) -> tuple[int, date]:
    """Nanoseconds UTC and the date there; raise `ValueError` that says what to write instead."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"{text!r} is not an instant; write it like 2026-01-02T15:04:05Z") from None
    if at.tzinfo is None:
        raise ValueError(
            f"{text!r} does not say where its clock hangs; add Z for UTC or an offset, "
            "like 2026-01-02T10:04:05-05:00"
        )
    since = at - EPOCH
    seconds = since.days * 86_400 + since.seconds
    return seconds * NANOS_PER_SECOND + since.microseconds * 1000, (EPOCH + since).date()


def _root(reference: Reference, symbol: str, near: date) -> str:
    try:
        return reference.universe.resolve(symbol, near, history=True).product.root
    except UnknownName as problem:
        raise ValueError(str(problem)) from problem


def _refuse(problem: str) -> int:
    print(problem, file=sys.stderr)
    return UNREADABLE


def _warn_of_unknown_years(reference: Reference, days: Iterable[date]) -> None:
    known = reference.calendar.known_years
    if any(day.year not in known for day in days):
        span = f"{known[0]} to {known[-1]}"
        print(f"warning: holidays are known from {span} only; other years are given without", file=sys.stderr)


def _local(at_ns: int, zone: tzinfo) -> str:
    return (EPOCH + timedelta(seconds=at_ns // NANOS_PER_SECOND)).astimezone(zone).isoformat()


def _line(session: Session, zone: tzinfo) -> str:
    opens, closes = (
        EPOCH + timedelta(seconds=at // NANOS_PER_SECOND) for at in (session.open_ns, session.close_ns)
    )
    local = (moment.astimezone(zone).isoformat() for moment in (opens, closes))
    utc = (moment.isoformat().replace("+00:00", "Z") for moment in (opens, closes))
    return "\t".join(
        (session.trade_date.isoformat(), session.kind, *local, *utc, "short" if session.short else "full")
    )

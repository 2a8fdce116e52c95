"""`outcry session` and `outcry sessions`: market sessions of the calendar.

Errors go to standard error. The exit status is 2 for invalid arguments and 1 if no session is open at the given time.
"""

import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo

from outcry.app.settings import read_settings
from outcry.cli.columns import SESSIONS
from outcry.cli.tables import Output, print_rows
from outcry.market.calendar import Session
from outcry.market.instruments import UnknownName
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.reference_tables import Reference, load_reference

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNREADABLE, CLOSED = 2, 1


def session_at(symbol: str, at: str, *, output: Output = None, data: str | None = None) -> int:
    """Print the session that is open at a given time.

    Prints trade date, `rth` or `eth`, open and close in the product's time zone, open and close in UTC, and `short` for
    an early close or `full`. The session ends just before its close. If no session is open, the
    next one is printed on standard error and the exit status is 1. It is 2 for a day before the session tables begin.

        outcry session ES 2025-11-28T10:00:00-05:00
        outcry session /GCZ6 2026-11-02T14:30:00Z | cut -f 1

    Parameters
    ----------
    symbol
        Product or contract, in any symbol format: ES, ESZ6, MES, /ES, CON.F.US.EP.Z26, ES1!
    at
        Time in ISO 8601 with a UTC offset or Z, such as 2026-01-02T15:04:05Z.
    data
        Data folder, for its instruments and overrides. Default: OUTCRY_DATA.
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
            f"No session data for {day}: the session tables of {root} begin on {calendar.hours.begin(root)}. Use a "
            "later date."
        )
    _warn_of_unknown_years(reference, root, (day,))
    zone = calendar.hours.zone(root)
    if found := calendar.session_at(root, at_ns):
        print_rows(SESSIONS, [_row(found, zone)], output)
        return 0
    then = ""
    if coming := calendar.next_window(root, at_ns):
        session, opens_ns = coming
        how = f"Trading resumes at {_local(opens_ns, zone)}" if session.open_ns <= at_ns else "Next session"
        then = f" {how}: {' '.join(_row(session, zone))}"
    print(f"No session of {root} is open at {at}.{then}", file=sys.stderr)
    return CLOSED


def sessions_between(
    symbol: str, first: date, last: date, *, output: Output = None, data: str | None = None
) -> int:
    """List the sessions from one trade date to another, past or future. Both dates are included.

    Prints one row per session in order of opening, with the columns of `outcry session`. A day without regular hours
    has no session of its own. Its trading belongs to the overnight (`eth`) session of the next day with regular hours.

        outcry sessions ES 2025-11-24 2025-12-01
        outcry sessions ZC 2026-01-01 2026-12-31 | awk '$2 == "rth" && $7 == "short"'

    Parameters
    ----------
    symbol
        Product or contract, in any symbol format: ES, ESZ6, MES, /ES, CON.F.US.EP.Z26, ES1!
    first
        First trade date, YYYY-MM-DD.
    last
        Last trade date, YYYY-MM-DD.
    data
        Data folder, for its instruments and overrides. Default: OUTCRY_DATA.
    """
    reference = _reference(data)
    if last < first:
        return _refuse(f"The last date {last} is before the first date {first}. Swap them.")
    try:
        root = _root(reference, symbol, first)
    except ValueError as problem:
        return _refuse(str(problem))
    begin = reference.calendar.hours.begin(root)
    if last < begin:
        return _refuse(
            f"No session data up to {last}: the session tables of {root} begin on {begin}. Use a later date."
        )
    _warn_of_unknown_years(reference, root, (first, last))
    zone = reference.calendar.hours.zone(root)
    print_rows(
        SESSIONS, (_row(each, zone) for each in reference.calendar.sessions(root, first, last)), output
    )
    return 0


def _reference(data: str | None) -> Reference:
    """Load the tables of products and sessions, with the operator's overrides and session variants."""
    settings = read_settings(data=data)
    return load_reference(settings.folder, variants=settings.session_variants)


def _read_instant(text: str) -> tuple[int, date]:
    """Return a time in ns UTC and its UTC date. Raises `ValueError`."""
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"Invalid time {text!r}: use a form such as 2026-01-02T15:04:05Z.") from None
    if at.tzinfo is None:
        raise ValueError(
            f"{text!r} has no time zone. Add one, for example 2026-01-02T10:04:05-05:00, or Z for UTC."
        )
    since = at - EPOCH
    seconds = since.days * 86_400 + since.seconds
    return seconds * NANOS_PER_SECOND + since.microseconds * 1000, (EPOCH + since).date()


def _root(reference: Reference, symbol: str, near: date) -> str:
    try:
        return reference.universe.resolve(symbol, near, history=True).product.root
    except UnknownName as problem:
        remedy = (
            ""
            if "did you mean" in str(problem)
            else ". Use a product such as ES, or a contract such as ESZ6."
        )
        raise ValueError(f"{problem}{remedy}") from problem


def _refuse(problem: str) -> int:
    print(f"outcry: {problem}", file=sys.stderr)
    return UNREADABLE


def _warn_of_unknown_years(reference: Reference, root: str, days: Iterable[date]) -> None:
    known = reference.calendar.hours.known_years(root)
    if known and any(day.year not in known for day in days):
        print(
            f"warning: The holiday tables of {root} cover {known[0]} to {known[-1]} only. Sessions of other years "
            "ignore holidays.",
            file=sys.stderr,
        )


def _local(at_ns: int, zone: tzinfo) -> str:
    return (EPOCH + timedelta(seconds=at_ns // NANOS_PER_SECOND)).astimezone(zone).isoformat()


def _row(session: Session, zone: tzinfo) -> tuple[str, ...]:
    opens, closes = (
        EPOCH + timedelta(seconds=at // NANOS_PER_SECOND) for at in (session.open_ns, session.close_ns)
    )
    local = (moment.astimezone(zone).isoformat() for moment in (opens, closes))
    utc = (moment.isoformat().replace("+00:00", "Z") for moment in (opens, closes))
    return session.trade_date.isoformat(), session.kind, *local, *utc, "short" if session.short else "full"

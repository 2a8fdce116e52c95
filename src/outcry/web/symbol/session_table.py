"""The chart's sessions as a table, and the names of the levels at each price of a profile.

The table shows the same sessions as the chart; a missing session is a row without data.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outcry.web.language import Words
from outcry.web.symbol.outlook import Outlook
from outcry.web.symbol.phrases import DAY_TYPES, named
from outcry.wire.answers import SessionLevels
from outcry.wire.chart import ChartSession


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One session in the table.

    `levels`: None if regular hours have not begun, or if the session is `missing`. `overnight`: high and low of the
    overnight session. `href`: link to the session's profile.
    """

    date: str
    href: str
    levels: SessionLevels | None
    missing: bool = False
    day_type: str = ""
    poor_high: str = ""
    poor_low: str = ""
    overnight: tuple[float | None, float | None] = (None, None)


def listed_sessions(outlook: Outlook, words: Words, href: Callable[[str], str]) -> list[SessionRow]:
    """Return every session of the chart, including missing ones, newest first."""
    drawn = [_row(session, words, href) for session in outlook.chart.sessions]
    gaps = [SessionRow(day, "", None, missing=True) for day in outlook.chart.missing]
    return sorted([*drawn, *gaps], key=lambda row: row.date, reverse=True)


def _row(session: ChartSession, words: Words, href: Callable[[str], str]) -> SessionRow:
    states = {"open": words("poor"), "repaired": words("poor, repaired")}
    overnight = session.overnight
    return SessionRow(
        date=session.date,
        href=href(session.date),
        levels=session.levels,
        day_type=named(DAY_TYPES, session.levels.day_type if session.levels else None, words),
        poor_high=states.get(session.poor_high or "", ""),
        poor_low=states.get(session.poor_low or "", ""),
        overnight=(overnight.high, overnight.low) if overnight else (None, None),
    )


def marks(levels: SessionLevels, drawn: ChartSession | None, words: Words) -> dict[float, list[str]]:
    """Return the names of the levels at each price of a profile. drawn: the same session in the chart's data."""
    high, low = words("Poor high"), words("Poor low")
    if drawn is not None and drawn.poor_high == "repaired":
        high = words("Poor high, repaired")
    if drawn is not None and drawn.poor_low == "repaired":
        low = words("Poor low, repaired")
    named_prices: Sequence[tuple[float, str]] = [
        (levels.poc, "POC"),
        (levels.vah, "VAH"),
        (levels.val, "VAL"),
        (levels.vpoc, "VPOC"),
        (levels.open_price, words("Opening price")),
        (levels.close_price, words("Closing price") if levels.final else words("Last")),
        *([(levels.ib_high, "IBH"), (levels.ib_low, "IBL")] if levels.ib_complete else []),
        *([(levels.high, high)] if levels.poor_high else []),
        *([(levels.low, low)] if levels.poor_low else []),
    ]
    found: dict[float, list[str]] = {}
    for price, name in named_prices:
        found.setdefault(price, []).append(name)
    return found

"""Dates and times in the reader's language and time zone.

Each time also has an exact form for programs.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_date, format_datetime

from outcry.market.units import NANOS_PER_SECOND
from outcry.web.page_context import PageRequest


@dataclass(frozen=True, slots=True)
class LocalTime:
    """A time: `exact` in ISO 8601 UTC, `day` and `text` (date and time) for the reader."""

    exact: str
    day: str
    text: str


def local_time(request: PageRequest, at_ns: int | None) -> LocalTime | None:
    """Return a time (ns UTC) for the reader; None for None."""
    if at_ns is None:
        return None
    at = datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)
    there, locale = at.astimezone(ZoneInfo(request.preferences.time_zone)), request.words.language
    return LocalTime(
        exact=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        day=format_date(there.date(), "medium", locale=locale),
        text=format_datetime(there, "medium", locale=locale),
    )


def day_text(request: PageRequest, day: date | None) -> str:
    """Format a trade date. It is a date of the exchange, so the reader's time zone does not change it."""
    return format_date(day, "medium", locale=request.words.language) if day else ""

"""When something was or will be, as a reader says it: in the reader's language and time zone.

Rule kept: an instant that is shown carries its exact time for programs beside the words for people.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_date, format_datetime

from outcry.core.units import NANOS_PER_SECOND
from outcry.web.desk import Visit


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant: `exact` in ISO 8601 UTC, `day` and `text` (day and time) for the reader."""

    exact: str
    day: str
    text: str


def moment(visit: Visit, at_ns: int | None) -> Moment | None:
    """An instant (ns UTC) as the reader says it; None of none."""
    if at_ns is None:
        return None
    at = datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC)
    there, locale = at.astimezone(ZoneInfo(visit.preferences.time_zone)), visit.words.language
    return Moment(
        exact=f"{at:%Y-%m-%dT%H:%M:%SZ}",
        day=format_date(there.date(), "medium", locale=locale),
        text=format_datetime(there, "medium", locale=locale),
    )


def day_text(visit: Visit, day: date | None) -> str:
    """A trade date as the reader writes it; it belongs to the exchange and no time zone changes it."""
    return format_date(day, "medium", locale=visit.words.language) if day else ""

"""Rows of trading hours: weekly hours with the dates between which they apply, and days with exceptions.

`sessions.csv` writes windows like this: `<18:00-16:15 16:30-17:00`. The first window begins at 18:00 of the previous
calendar day and ends at 16:15. The second lasts from 16:30 to 17:00 of the trade date itself.

`^17:00-17:00` begins on the previous trade date, however many days earlier that is (trading round the clock). An end
may have the mark of its start: `^17:15-^03:00` is the night after the previous trade date. If start and end are marked
alike and the end is not later, the window ends on the following day: `22:00-06:00` passes midnight. `24:00` is the end
of a day. Times are in the product's time zone. A window's end is not included.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from enum import StrEnum
from itertools import pairwise

DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MINUTES = 24 * 60
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_WINDOW = re.compile(rf"([<^]?){_TIME}-([<^]?)(?:{_TIME}|(24:00))")
_CLOCK = re.compile(_TIME)


class OnDay(StrEnum):
    """The day of a window's start or end, relative to its trade date."""

    SAME_DAY = ""
    EVE = "<"
    LAST_TRADE_DATE = "^"


class DayKind(StrEnum):
    """Type of a day listed in the tables of holidays and overrides.

    CLOSED: no trading, no trade date. JOINED: its trading belongs to the next trade date, and it has no regular hours
    (a US holiday's half-day). NO_RTH: a separate trade date without regular hours. OPEN: regular hours take place if
    the early close leaves more than an hour of them.
    """

    CLOSED = "closed"
    JOINED = "joined"
    NO_RTH = "no_rth"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Window:
    """A trading window: part of a trading day, in the product's time zone.

    start, end: minutes from midnight of the days `starts_on` and `ends_on`; an end above 1,440 is on the following day.
    """

    starts_on: OnDay
    start: int
    ends_on: OnDay
    end: int

    @property
    def reaches_back(self) -> bool:
        """Return whether the window lasts from the previous trade date to this one, including all days between."""
        return self.starts_on is OnDay.LAST_TRADE_DATE and self.ends_on is OnDay.SAME_DAY

    @property
    def start_minute(self) -> int:
        """Return the start in minutes from midnight of the trade date, if the previous trade date is the day before."""
        return self.start - (0 if self.starts_on is OnDay.SAME_DAY else DAY_MINUTES)

    @property
    def end_minute(self) -> int:
        """Return the end in minutes from midnight of the trade date, if the previous trade date is the day before."""
        return self.end - (0 if self.ends_on is OnDay.SAME_DAY else DAY_MINUTES)


@dataclass(frozen=True, slots=True)
class HoursRow:
    """A row of `sessions.csv`: the hours of some roots on some weekdays between two dates.

    Both dates are included; None means no limit. globex: all trading hours; None in a row that defines a variant,
    because a variant changes the regular hours only. variant: name of an alternative set of regular hours; empty for
    the default. days: weekdays, 0 (Monday) to 6. rth: span of the regular hours; breaks in it are those of `globex`.
    table: file of the row.
    """

    roots: tuple[str, ...]
    variant: str
    days: tuple[int, ...]
    valid_from: date
    valid_to: date | None
    globex: tuple[Window, ...] | None
    rth: Window
    source: str
    checked_on: date
    note: str
    table: str = ""

    def holds(self, day: date) -> bool:
        """Return whether this row of trading hours applies to a date."""
        in_dates = self.valid_from <= day and (self.valid_to is None or day <= self.valid_to)
        return in_dates and day.weekday() in self.days


@dataclass(frozen=True, slots=True)
class DayRow:
    """A row of `holidays.csv` or `overrides.csv`: one date with other hours, for groups (`index`) or roots (`ES`).

    opens, closes: start or end of trading on that date, in the product's time zone. rth_opens, rth_closes: start or end
    of the regular hours, if the other values do not determine it. planned: whether the row is from a table of holidays,
    which lists the holidays of whole years. Overrides list single days. table: file of the row.
    """

    day: date
    name: str
    names: tuple[str, ...]
    kind: DayKind
    opens: time | None
    closes: time | None
    rth_opens: time | None
    rth_closes: time | None
    source: str
    checked_on: date
    note: str
    planned: bool = True
    table: str = ""


def read_clock(text: str) -> time:
    """Parse `HH:MM`. Raises `ValueError` for anything else."""
    found = _CLOCK.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a time HH:MM")
    return time(int(found[1]), int(found[2]))


def read_windows(text: str) -> tuple[Window, ...]:
    """Parse trading windows in the notation that this module describes, in order of time. Raises `ValueError`."""
    windows = tuple(_read_window(word) for word in text.split())
    if not windows:
        raise ValueError("no window is given")
    if any(after.start_minute < before.end_minute for before, after in pairwise(windows)):
        raise ValueError("the windows overlap or are out of order")
    return windows


def _read_window(text: str) -> Window:
    found = _WINDOW.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a window like <18:00-17:00")
    begin_mark, begin_hour, begin_minute, end_mark, end_hour, end_minute, midnight = found.groups()
    starts_on, ends_on = OnDay(begin_mark), OnDay(end_mark)
    if end_mark and starts_on is not ends_on:
        raise ValueError(f"{text!r}: the end may have only the mark of the start, or none")
    start = int(begin_hour) * 60 + int(begin_minute)
    end = DAY_MINUTES if midnight else int(end_hour) * 60 + int(end_minute)
    if starts_on is ends_on and end <= start:
        end += DAY_MINUTES
    return Window(starts_on, start, ends_on, end)


def read_days(text: str) -> tuple[int, ...]:
    """Parse weekdays, `Mon-Fri`, `Sun-Thu` or `Sat`, as 0 (Monday) to 6. Raises `ValueError`."""
    first, _, last = text.partition("-")
    if first not in DAY_NAMES or (last or first) not in DAY_NAMES:
        raise ValueError(f"{text!r} is not a weekday or a span like Mon-Fri")
    start, end = DAY_NAMES.index(first), DAY_NAMES.index(last or first)
    return tuple((start + more) % len(DAY_NAMES) for more in range((end - start) % len(DAY_NAMES) + 1))


def windows_text(windows: Iterable[Window]) -> str:
    """Return windows in the notation that `read_windows` parses."""
    return " ".join(
        f"{window.starts_on}{_clock(window.start)}-{window.ends_on}{_clock(window.end)}" for window in windows
    )


def days_text(days: Sequence[int]) -> str:
    """Return consecutive weekdays (0 is Monday) in the notation of the tables, such as `Mon-Fri` or `Sat`."""
    first, last = DAY_NAMES[days[0]], DAY_NAMES[days[-1]]
    return first if first == last else f"{first}-{last}"


def _clock(minute: int) -> str:
    """Return a time of day; minutes above 1,440 are on the following day."""
    hours, minutes = divmod(minute if minute <= DAY_MINUTES else minute - DAY_MINUTES, 60)
    return f"{hours:02}:{minutes:02}"

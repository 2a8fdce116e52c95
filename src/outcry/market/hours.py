"""Rows of trading hours: weekly hours with the dates between which they apply, and days with exceptions.

`data/sessions.csv`, `data/holidays.csv` and `data/overrides.csv` write windows like this: `<18:00-16:15 16:30-17:00`.
The first window begins at 18:00 of the previous calendar day and ends at 16:15. The second lasts from 16:30 to 17:00 of
the trade date itself.

`^17:00-17:00` begins on the previous trade date, however many days earlier that is (trading round the clock). Times are
in the product's time zone. A window's end is not included.
"""

import re
from dataclasses import dataclass
from datetime import date, time
from enum import StrEnum
from itertools import pairwise

DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri")
_TIME = r"([01][0-9]|2[0-3]):([0-5][0-9])"
_WINDOW = re.compile(rf"([<^]?){_TIME}-{_TIME}")
_CLOCK = re.compile(_TIME)


class Begins(StrEnum):
    """The day on which a trading window begins, relative to its trade date."""

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
    """A trading window: part of a trading day, in the product's time zone."""

    begins: Begins
    start: time
    end: time


@dataclass(frozen=True, slots=True)
class HoursRow:
    """A row of `sessions.csv`: the hours of some roots on some weekdays between two dates.

    Both dates are included; None means no limit. globex: all trading hours; None in a row that defines a variant,
    because a variant changes the regular hours only. variant: name of an alternative set of regular hours; empty for
    the default.
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

    def holds(self, day: date) -> bool:
        """Return whether this row of trading hours applies to a date."""
        in_dates = self.valid_from <= day and (self.valid_to is None or day <= self.valid_to)
        return in_dates and day.weekday() in self.days


@dataclass(frozen=True, slots=True)
class DayRow:
    """A row of `holidays.csv` or `overrides.csv`: one date with other hours, for groups (`index`) or roots (`ES`).

    opens, closes: start or end of trading on that date, in the product's time zone. rth_opens, rth_closes: start or end
    of the regular hours, if the other values do not determine it.
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
    for index, window in enumerate(windows):
        if index and window.begins is not Begins.SAME_DAY:
            raise ValueError("only the first window may begin on another day")
        if window.begins is Begins.SAME_DAY and window.end <= window.start:
            raise ValueError("a window of one day ends after it starts")
    if any(after.start < before.end for before, after in pairwise(windows)):
        raise ValueError("the windows overlap or are out of order")
    return windows


def _read_window(text: str) -> Window:
    found = _WINDOW.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a window like <18:00-17:00")
    mark, *clock = found.groups()
    start_hour, start_minute, end_hour, end_minute = map(int, clock)
    return Window(Begins(mark), time(start_hour, start_minute), time(end_hour, end_minute))


def read_days(text: str) -> tuple[int, ...]:
    """Parse weekdays, `Mon-Fri` or `Fri`, as 0 (Monday) to 4. Raises `ValueError`."""
    first, _, last = text.partition("-")
    if first not in DAY_NAMES or (last or first) not in DAY_NAMES:
        raise ValueError(f"{text!r} is not a weekday or a span like Mon-Fri")
    start, end = DAY_NAMES.index(first), DAY_NAMES.index(last or first)
    if end < start:
        raise ValueError(f"{text!r} runs backwards")
    return tuple(range(start, end + 1))

"""Writes figures for one reader: figures the exchange's way, days and times the reader's.

Rules kept: a figure of the market looks the same in every language; an instant of the market is said in the
exchange's time first, in the reader's beside it.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

from babel.dates import format_skeleton

from outcry.core.instruments import MONTH_CODES
from outcry.core.units import NANOS_PER_SECOND
from outcry.http.dates import date_text
from outcry.services.chart_answer import Notation
from outcry.web.figures import MINUS, lots_text, percent_text, price_text, signed
from outcry.web.language import Words


@dataclass(frozen=True, slots=True)
class Clock:
    """Days and times in the words of a language. zone: IANA name of the exchange's time, `mine`: of the reader's.
    `year`: the one that goes without saying."""

    words: Words
    zone: str
    mine: str
    year: int

    def day(self, day: str) -> str:
        """A trade date (`YYYY-MM-DD`), with its weekday, and its year where it is another one."""
        try:
            found = date.fromisoformat(day)
        except ValueError:
            return day
        return date_text(found, self.words.language, year=self.year)

    def time(self, at_ns: int, *, seconds: bool = True, zone: str = "") -> str:
        """An instant (ns UTC) as the exchange's clock shows it, by 24 hours, and the zone's name: `14:03:07 EST`."""
        there = _there(at_ns, zone or self.zone)
        return f"{there:%H:%M:%S} {there:%Z}" if seconds else f"{there:%H:%M} {there:%Z}"

    def date(self, at_ns: int) -> str:
        """The day of an instant (`YYYY-MM-DD`) where the exchange is."""
        return str(_there(at_ns, self.zone).date())

    def mine_too(self, at_ns: int) -> str:
        """The same as the reader's clock shows it, with the day."""
        there = _there(at_ns, self.mine)
        day = date_text(there.date(), self.words.language, year=self.year)
        return f"{day} {self.time(at_ns, zone=self.mine)}"

    def mine_on(self, at_ns: int, day: str) -> str:
        """The same; the day only where it is not that trade date."""
        there = _there(at_ns, self.mine)
        return self.time(at_ns, zone=self.mine) if str(there.date()) == day else self.mine_too(at_ns)

    def weekday(self, at_ns: int) -> str:
        """The day of the week of an instant, where the exchange is."""
        return format_skeleton("E", _there(at_ns, self.zone), locale=self.words.language)


@dataclass(frozen=True, slots=True)
class Pen:
    """Figures of one product for one reader."""

    notation: Notation
    clock: Clock

    def price(self, value: float | None) -> str:
        """A price; a dash where there is none."""
        return price_text(value, self.notation)

    def distance(self, value: float) -> str:
        """How far two prices are apart."""
        return price_text(abs(value), self.notation, grouped=False)

    def difference(self, value: float) -> str:
        """The same with its direction: `+6.00`, `−0'045`."""
        return signed(price_text(value, self.notation, grouped=False))

    def percent(self, value: float) -> str:
        """A change in percent, two decimals."""
        return f"{percent_text(value)}%"

    def times(self, value: float) -> str:
        """A multiple, two decimals."""
        return f"{value:,.2f}"

    def lots(self, lots: int) -> str:
        """A number of lots."""
        return lots_text(lots)

    def signed(self, value: int) -> str:
        """A whole number with its sign."""
        return signed(str(value).replace("-", MINUS))

    def day(self, day: str) -> str:
        """See `Clock`."""
        return self.clock.day(day)

    def date(self, day: str) -> str:
        """A trade date without its weekday, as short as a mark of a chart has to be."""
        clock = self.clock
        return date_text(date.fromisoformat(day), clock.words.language, year=clock.year, weekday=False)

    def month(self, contract: str) -> str:
        """The delivery month of a contract key: `Dec 2026`."""
        return month_text(contract, self.clock.words.language)


def month_text(contract: str, language: str) -> str:
    """The delivery month of a contract key in a language; the key where it says none."""
    month = MONTH_CODES.find(contract[-5:-4]) + 1
    year = contract[-4:]
    if not month or not year.isdecimal():
        return contract
    return format_skeleton("yMMM", date(int(year), month, 1), locale=language)


def left(ns: int) -> str:
    """A stretch of time that runs down: `11:42`, `1:05:09`."""
    minutes, seconds = divmod(max(ns, 0) // NANOS_PER_SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def iso(at_ns: int) -> str:
    """An instant for programs: ISO 8601 UTC."""
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _there(at_ns: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC).astimezone(ZoneInfo(zone))

"""Formats numbers, dates and times for one reader.

Market numbers look the same in every language. Market times show the exchange's time first, then the reader's.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from babel.dates import format_skeleton

from outcry.base.http_dates import date_text
from outcry.market.instruments import MONTH_CODES
from outcry.market.units import NANOS_PER_SECOND
from outcry.web.language import Words
from outcry.web.number_format import MINUS, lots_text, percent_text, price_text, signed
from outcry.wire.chart import Notation


@dataclass(frozen=True, slots=True)
class Clock:
    """Formats dates and times in a language.

    `zone`: IANA name of the exchange's time zone; `mine`: the reader's. `year`: the current year, which dates omit.
    """

    words: Words
    zone: str
    mine: str
    year: int

    def day(self, day: str) -> str:
        """Format a trade date (`YYYY-MM-DD`) with its weekday. The current year is omitted."""
        try:
            found = date.fromisoformat(day)
        except ValueError:
            return day
        return date_text(found, self.words.language, year=self.year)

    def time(self, at_ns: int, *, seconds: bool = True, zone: str = "") -> str:
        """Format a time (ns UTC) in the exchange's time zone, 24-hour: `14:03:07 EST`."""
        there = _there(at_ns, zone or self.zone)
        return f"{there:%H:%M:%S} {there:%Z}" if seconds else f"{there:%H:%M} {there:%Z}"

    def date(self, at_ns: int) -> str:
        """Return the date (`YYYY-MM-DD`) of a time (ns UTC) in the exchange's time zone."""
        return str(_there(at_ns, self.zone).date())

    def mine_too(self, at_ns: int) -> str:
        """Format a time (ns UTC) in the reader's time zone, with the date."""
        there = _there(at_ns, self.mine)
        day = date_text(there.date(), self.words.language, year=self.year)
        return f"{day} {self.time(at_ns, zone=self.mine)}"

    def mine_on(self, at_ns: int, day: str) -> str:
        """Format a time (ns UTC) in the reader's time zone.

        The date is added only if it differs from the trade date `day`.
        """
        there = _there(at_ns, self.mine)
        return self.time(at_ns, zone=self.mine) if str(there.date()) == day else self.mine_too(at_ns)

    def weekday(self, at_ns: int) -> str:
        """Return the weekday of a time (ns UTC) in the exchange's time zone."""
        return format_skeleton("E", _there(at_ns, self.zone), locale=self.words.language)


@dataclass(frozen=True, slots=True)
class Formatter:
    """Formats the numbers of one product for one reader."""

    notation: Notation
    clock: Clock

    def price(self, value: float | None) -> str:
        """Format a price; a dash if there is none."""
        return price_text(value, self.notation)

    def distance(self, value: float) -> str:
        """Format the distance between two prices."""
        return price_text(abs(value), self.notation, grouped=False)

    def difference(self, value: float) -> str:
        """Format the signed difference of two prices: `+6.00`, `−0'045`."""
        return signed(price_text(value, self.notation, grouped=False))

    def percent(self, value: float) -> str:
        """Format a change in percent with two decimals."""
        return f"{percent_text(value)}%"

    def times(self, value: float) -> str:
        """Format a multiple, such as a share of the average range, with two decimals."""
        return f"{value:,.2f}"

    def lots(self, lots: float) -> str:
        """Format a number of lots, or of fractions of one."""
        return lots_text(lots)

    def signed_lots(self, lots: float) -> str:
        """Format a number of lots with its sign, such as a volume delta."""
        return signed((MINUS if lots < 0 else "") + lots_text(abs(lots)))

    def signed(self, value: int) -> str:
        """Format an integer with its sign."""
        return signed(str(value).replace("-", MINUS))

    def day(self, day: str) -> str:
        """Format a trade date with its weekday."""
        return self.clock.day(day)

    def date(self, day: str) -> str:
        """Format a trade date without its weekday, for a chart label."""
        clock = self.clock
        return date_text(date.fromisoformat(day), clock.words.language, year=clock.year, weekday=False)

    def month(self, contract: str) -> str:
        """Format the delivery month of a contract: `Dec 2026` for the contract key `ESZ2026`; empty if undated."""
        return month_text(contract, self.clock.words.language)


@lru_cache(1024)
def month_text(contract: str, language: str) -> str:
    """Return the delivery month in a contract key such as `ESZ2026`; empty text for the key of an undated contract."""
    code, year = contract[-5:-4], contract[-4:]
    if not code or code not in MONTH_CODES or not year.isdecimal():
        return ""
    return format_skeleton("yMMM", date(int(year), MONTH_CODES.index(code) + 1, 1), locale=language)


def left(ns: int) -> str:
    """Format a countdown: `11:42`, `1:05:09`."""
    minutes, seconds = divmod(max(ns, 0) // NANOS_PER_SECOND, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def iso(at_ns: int) -> str:
    """Format a timestamp for programs: ISO 8601 UTC."""
    return f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _there(at_ns: int, zone: str) -> datetime:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC).astimezone(ZoneInfo(zone))

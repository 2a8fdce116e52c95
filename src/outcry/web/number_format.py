"""Formats prices, distances, volumes and ages for a page.

Market numbers use the exchange's format in every language: 1,234.50, 112'205 for bonds in 32nds, 0.3 s, 43,399 lots.
Dates and times follow the language. `static/js/prices.js` formats the same numbers in the same way, so that they do not
change when the script starts to update the page.
"""

from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from babel.dates import format_skeleton

from outcry.market.units import NANOS_PER_MS, NANOS_PER_SECOND, PRICE_SCALE
from outcry.wire.chart import Notation

MINUS = "\u2212"
_POINT_32ND_E9 = 31_250_000


def price_e9(price: float) -> int:
    """Convert a price from an API response to units of 10⁻⁹.

    The result is exact, because the response contains the nearest double.
    """
    return round(price * PRICE_SCALE)


def price_text(price: float | None, notation: Notation, *, grouped: bool = True) -> str:
    """Format a price as its exchange does; a dash if there is none.

    Bonds show points, 32nds, and the first decimal digit of a 32nd's fraction: 110'162 is 110 and 16¼ 32nds.
    """
    if price is None:
        return "–"
    value = price_e9(price)
    sign, group = MINUS if value < 0 else "", "," if grouped else ""
    if notation.kind == "decimal":
        return f"{sign}{abs(value) / PRICE_SCALE:{group}.{notation.decimals}f}"
    points, rest = divmod(abs(value), PRICE_SCALE)
    thirty_seconds, part = divmod(rest, _POINT_32ND_E9)
    tenths = str(part * 10 // _POINT_32ND_E9) if notation.parts > 1 else ""
    return f"{sign}{points:{group}}'{thirty_seconds:02}{tenths}"


def lots_text(lots: float) -> str:
    """Format a number of lots: 43,399; of a product traded in fractions: 1,234.567."""
    text = f"{Decimal(repr(lots)):,f}"  # the decimal that the answer has, not the double nearest to it
    return text.rstrip("0").rstrip(".") if "." in text else text


def ticks_between(level: float, reference: float, tick_size: float) -> int:
    """Return the distance of a level from a price in ticks, negative for a level below the price."""
    return round((price_e9(level) - price_e9(reference)) / price_e9(tick_size))


def signed(text: str) -> str:
    """Add a plus or minus sign to a number as text; zero gets none: +40, −6, 0."""
    if not text.strip("0.,'"):
        return text
    return text if text.startswith(MINUS) else f"+{text}"


def ticks_text(ticks: int) -> str:
    """Format a number of ticks with a plus or minus sign."""
    return signed(str(ticks).replace("-", MINUS))


def points_text(level: float, reference: float, notation: Notation) -> str:
    """Format the distance of a level in points, with a plus or minus sign, as the exchange writes prices."""
    return signed(price_text((price_e9(level) - price_e9(reference)) / PRICE_SCALE, notation, grouped=False))


def share_text(level: float, reference: float, average_range: float) -> str:
    """Format the distance of a level as a signed percentage of the average daily range, without decimals."""
    percent = (level - reference) / average_range * 100
    # halves away from zero, as Math.round of the size does in a browser
    return signed(f"{MINUS if percent <= -0.5 else ''}{int(abs(percent) + 0.5)}")


def percent_text(percent: float) -> str:
    """Format a change in percent with two decimals and its sign."""
    # halves away from zero, as in a browser
    size = f"{int(abs(percent) * 100 + 0.5) / 100:,.2f}"
    return signed(MINUS + size if percent < 0 and size.strip("0.,") else size)


def age_text(age_ns: int) -> str:
    """Format an age: 0.3 s, 45 s, 4 min, 2 h, 3 d. The script `page.js` keeps it current."""
    tenths = max(0, _nearest(age_ns, NANOS_PER_SECOND // 10))
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10} s"
    if _nearest(tenths, 10) < 100:
        return f"{_nearest(tenths, 10)} s"
    if tenths < 54_000:
        return f"{_nearest(tenths, 600)} min"
    return f"{_nearest(tenths, 36_000)} h" if tenths < 1_296_000 else f"{_nearest(tenths, 864_000)} d"


def _nearest(size: int, step: int) -> int:
    """Return `size` divided by `step`, rounded to an integer. Halves are rounded up, as by JavaScript's Math.round."""
    return (2 * size + step) // (2 * step)


def instant_ns(text: str) -> int:
    """Parse a timestamp from an API response (ISO 8601, milliseconds) to ns UTC."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) * NANOS_PER_MS


def hour_text(at_ns: int, zone: str) -> str:
    """Format the time of day in a time zone, as an exchange writes it: 18:00 EST."""
    return f"{datetime.fromtimestamp(at_ns / NANOS_PER_SECOND, ZoneInfo(zone)):%H:%M %Z}"


def opening_text(at_ns: int, now_ns: int, zone: str, language: str) -> str:
    """Format a future opening time, with the weekday if it is not today: 18:00 EST, Sun 18:00 EST."""
    there, today = (
        datetime.fromtimestamp(ns / NANOS_PER_SECOND, ZoneInfo(zone)).date() for ns in (at_ns, now_ns)
    )
    hour = hour_text(at_ns, zone)
    return hour if there == today else f"{format_skeleton('E', there, locale=language)} {hour}"

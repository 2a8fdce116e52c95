"""Prices, distances, lots and ages as a page writes them.

Rules kept: every figure of the market is written the exchange's way in every language: 1,234.50, bonds in 32nds,
112'205, 0.3 s, 43,399 lots; days and times follow the language. The same figure is written by `static/js/prices.js`,
so that a number does not change its form when it comes to life.
"""

from datetime import datetime
from zoneinfo import ZoneInfo

from babel.dates import format_skeleton

from outcry.core.units import NANOS_PER_MS, NANOS_PER_SECOND, PRICE_SCALE
from outcry.services.chart_answer import Notation

MINUS = "\u2212"
_POINT_32ND_E9 = 31_250_000


def price_e9(price: float) -> int:
    """A price of an answer in 10⁻⁹, exact: answers hold the double nearest to it."""
    return round(price * PRICE_SCALE)


def price_text(price: float | None, notation: Notation, *, grouped: bool = True) -> str:
    """A price as its exchange writes it; a dash where there is none.

    Bonds: points, 32nds, and of parts of a 32nd the first digit of their decimals: 110'162 is 110 and 16¼ 32nds.
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


def lots_text(lots: int) -> str:
    """A number of lots: 43,399."""
    return f"{lots:,}"


def ticks_between(level: float, reference: float, tick_size: float) -> int:
    """How many ticks a level is above (below: negative) a price."""
    return round((price_e9(level) - price_e9(reference)) / price_e9(tick_size))


def signed(text: str) -> str:
    """A figure with its sign, nothing before a zero: +40, −6, 0."""
    if not text.strip("0.,'"):
        return text
    return text if text.startswith(MINUS) else f"+{text}"


def ticks_text(ticks: int) -> str:
    """A number of ticks, with its sign."""
    return signed(str(ticks).replace("-", MINUS))


def points_text(level: float, reference: float, notation: Notation) -> str:
    """A distance in points, in the notation of the price, with its sign."""
    return signed(price_text((price_e9(level) - price_e9(reference)) / PRICE_SCALE, notation, grouped=False))


def share_text(level: float, reference: float, average_range: float) -> str:
    """A distance in percent of the average daily range, whole, with its sign."""
    percent = (level - reference) / average_range * 100
    # halves away from zero, as Math.round of the size does in a browser
    return signed(f"{MINUS if percent <= -0.5 else ''}{int(abs(percent) + 0.5)}")


def percent_text(percent: float) -> str:
    """A change in percent, two decimals, with its sign."""
    # halves away from zero, as in a browser
    size = f"{int(abs(percent) * 100 + 0.5) / 100:,.2f}"
    return signed(MINUS + size if percent < 0 and size.strip("0.,") else size)


def age_text(age_ns: int) -> str:
    """How long ago something was: 0.3 s, 45 s, 4 min, 2 h, 3 d. `page.js` goes on with it."""
    tenths = max(0, _nearest(age_ns, NANOS_PER_SECOND // 10))
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10} s"
    if _nearest(tenths, 10) < 100:
        return f"{_nearest(tenths, 10)} s"
    if tenths < 54_000:
        return f"{_nearest(tenths, 600)} min"
    return f"{_nearest(tenths, 36_000)} h" if tenths < 1_296_000 else f"{_nearest(tenths, 864_000)} d"


def _nearest(size: int, step: int) -> int:
    """How many steps a size is, halves upwards, as Math.round of a browser has it."""
    return (2 * size + step) // (2 * step)


def instant_ns(text: str) -> int:
    """An instant of an answer (ISO 8601, milliseconds) in ns UTC."""
    return round(datetime.fromisoformat(text).timestamp() * 1000) * NANOS_PER_MS


def hour_text(at_ns: int, zone: str) -> str:
    """An instant in a zone as an exchange writes it: 18:00 EST."""
    return f"{datetime.fromtimestamp(at_ns / NANOS_PER_SECOND, ZoneInfo(zone)):%H:%M %Z}"


def opening_text(at_ns: int, now_ns: int, zone: str, language: str) -> str:
    """An hour to come, with its day of the week where that is not today's there: 18:00 EST, Sun 18:00 EST."""
    there, today = (
        datetime.fromtimestamp(ns / NANOS_PER_SECOND, ZoneInfo(zone)).date() for ns in (at_ns, now_ns)
    )
    hour = hour_text(at_ns, zone)
    return hour if there == today else f"{format_skeleton('E', there, locale=language)} {hour}"

"""Prices and times as integers, and the conversion between price units.

Prices are ticks (`price_ticks`) in memory and `price_e9` (units of 10⁻⁹) in recordings and messages. Times are
nanoseconds UTC (`at_ns`). A price that is not a whole number of ticks is never rounded: converting it raises
`OffTickPrice`, and the importer counts it.
"""

import re
from functools import lru_cache

PRICE_SCALE = 1_000_000_000
UNDEFINED_PRICE_E9 = 2**63 - 1
NANOS_PER_MS = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
NANOS_PER_MINUTE = 60 * NANOS_PER_SECOND
NANOS_PER_HOUR = 60 * NANOS_PER_MINUTE
NANOS_PER_DAY = 24 * NANOS_PER_HOUR
_PRICE_DECIMALS = 9


class OffTickPrice(ValueError):
    """A price is not a whole number of ticks."""

    def __init__(self, price_e9: int, tick_e9: int) -> None:
        super().__init__(f"price {price_text(price_e9)} is not a multiple of the tick {price_text(tick_e9)}")
        self.price_e9 = price_e9
        self.tick_e9 = tick_e9


def ticks_from_e9(price_e9: int, tick_e9: int) -> int:
    """Return a price in ticks. Raises `OffTickPrice` for a price between two ticks."""
    ticks, rest = divmod(price_e9, tick_e9)
    if rest:
        raise OffTickPrice(price_e9, tick_e9)
    return ticks


def e9_from_text(text: str) -> int:
    """Parse a decimal number exactly, in units of 10⁻⁹. Raises `ValueError` for more than nine decimals."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    if not (whole or fraction) or not (whole + fraction).isascii() or not (whole + fraction or "0").isdigit():
        raise ValueError(f"{text!r} is not a decimal number")
    if len(fraction) > 9:
        raise ValueError(f"{text!r} has more than nine decimals")
    return sign * (int(whole or "0") * PRICE_SCALE + int(fraction.ljust(9, "0")))


#: A price with at most nine decimals, as a regular expression.
PRICE_PATTERN = r"-?[0-9]{1,9}(\.[0-9]{1,9})?"
_PRICE = re.compile(PRICE_PATTERN, re.ASCII)


def price_of_text(text: str) -> int | None:
    """Return a price in 10⁻⁹, exactly as it is written; None if the text is not a price of `PRICE_PATTERN`."""
    if not _PRICE.fullmatch(text):
        return None
    whole, _, decimals = text.partition(".")
    return int(whole + decimals.ljust(_PRICE_DECIMALS, "0"))


def price_text(price_e9: int) -> str:
    """Format a price with only as many decimals as it needs: 1655.75, -0.0000005."""
    whole, fraction = divmod(abs(price_e9), PRICE_SCALE)
    text = f"{whole}.{fraction:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if price_e9 < 0 else text


def size_text(steps: int, step_e9: int) -> str:
    """Format a size, given in whole steps of `step_e9` (units of 10⁻⁹), with thousands separators: 43,399, 1,234.5."""
    whole, _, fraction = price_text(steps * step_e9).partition(".")
    return f"{int(whole):,}.{fraction}" if fraction else f"{int(whole):,}"


@lru_cache(8192)  # an answer has dozens of prices, and most are those of the answer before
def fixed_text(price_ticks: int, tick_e9: int) -> str:
    """Format a price with as many decimals as its tick, the same for all prices of a market: 1655.50, 111.000000."""
    decimals = len(price_text(tick_e9).partition(".")[2])
    whole, _, fraction = price_text(price_ticks * tick_e9).partition(".")
    return f"{whole}.{fraction.ljust(decimals, '0')}" if decimals else whole

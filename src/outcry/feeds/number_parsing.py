"""Prices and lots as vendors write them, made into whole numbers.

Rule kept: how large a number is, is looked at before it is made whole: one of ten characters may have a million
digits, and to write these out would hold up everybody. A price is the nearest 10⁻⁹, for doubles have more digits than
prices do.
"""

from decimal import Decimal, InvalidOperation

from outcry.market.units import UNDEFINED_PRICE_E9

#: Digits before and after the point that a number may have and still be one.
_MOST_WHOLE, _MOST_DECIMALS = 12, 64
_MOST_LOTS = 2**31

VendorNumber = Decimal | float | int | str


def parse_price_e9(told: VendorNumber) -> int:
    """A price in 10⁻⁹. Raises `ValueError` for one that cannot be."""
    found = int(_number(told).scaleb(9).to_integral_value())
    if abs(found) >= UNDEFINED_PRICE_E9:
        raise ValueError("no price")
    return found


def parse_lots(told: VendorNumber) -> int:
    """A number of lots, negative where the vendor says so. Raises `ValueError` for one that cannot be."""
    number = _number(told)
    found = int(number)
    if found != number or abs(found) >= _MOST_LOTS:
        raise ValueError("not a number of lots")
    return found


def _number(told: VendorNumber) -> Decimal:
    """A number of bearable length; a float is the shortest decimal that is it, which is the one that was sent."""
    try:
        number = told if isinstance(told, Decimal) else Decimal(str(told))
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not number.is_finite() or number.adjusted() >= _MOST_WHOLE:
        raise ValueError("a number out of range")
    if int(number.as_tuple().exponent) < -_MOST_DECIMALS:
        raise ValueError("a number with too many digits")
    return number

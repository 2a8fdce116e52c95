"""Converts vendors' prices and lots to integers.

The magnitude is checked before the conversion: ten characters such as `1e99999999` would expand to millions of digits
and block the event loop. Prices are rounded to 10⁻⁹, because a double can have more digits than the price.
"""

from decimal import Decimal, InvalidOperation

from outcry.market.units import UNDEFINED_PRICE_E9

#: Limits on the digits before and after the decimal point.
_MOST_WHOLE, _MOST_DECIMALS = 12, 64
_MOST_LOTS = 2**31
#: Limit on a size in steps, which also covers the volume of a bar.
_MOST_STEPS = 2**63

VendorNumber = Decimal | float | int | str


def parse_price_e9(value: VendorNumber) -> int:
    """Return a price in units of 10⁻⁹. Raises `ValueError` for an invalid one."""
    result = int(_number(value).scaleb(9).to_integral_value())
    if abs(result) >= UNDEFINED_PRICE_E9:
        raise ValueError("no price")
    return result


def parse_lots(value: VendorNumber) -> int:
    """Return a number of lots, which may be negative. Raises `ValueError` for an invalid one."""
    number = _number(value)
    result = int(number)
    if result != number or abs(result) >= _MOST_LOTS:
        raise ValueError("not a number of lots")
    return result


def parse_steps(value: VendorNumber, step_e9: int) -> int:
    """Return a size in whole steps of `step_e9` (10⁻⁹ of a lot). Raises `ValueError` if it is not a multiple."""
    steps, rest = divmod(_number(value).scaleb(9), step_e9)
    if rest or abs(steps) >= _MOST_STEPS:
        raise ValueError("not a multiple of the size step")
    return int(steps)


def _number(value: VendorNumber) -> Decimal:
    """Parse a number of limited length as a decimal.

    A float becomes its shortest decimal, because the vendor sent that decimal.
    """
    try:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not number.is_finite() or number.adjusted() >= _MOST_WHOLE:
        raise ValueError("a number out of range")
    if int(number.as_tuple().exponent) < -_MOST_DECIMALS:
        raise ValueError("a number with too many digits")
    return number

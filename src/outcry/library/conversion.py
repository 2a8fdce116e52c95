"""Convert the user's prices to ticks and sizes to lots, and check bars.

Nothing is silently dropped, filled in or rounded. An invalid value raises `InvalidInput` with its row (counted from 0,
in the user's order) and the remedy.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.library.dataframes import Places
from outcry.library.errors import InvalidInput
from outcry.library.price_ticks import FLOAT_ERROR_E9, ticks_of_floats
from outcry.library.times import Column, Ints, is_missing
from outcry.market.units import (
    NANOS_PER_DAY,
    NANOS_PER_MINUTE,
    PRICE_SCALE,
    UNDEFINED_PRICE_E9,
    OffTickPrice,
    e9_from_text,
    price_text,
)

#: With fewer bars than this, a common distance may be a coincidence.
_FEW_BARS = 4

_INT64_MAX_PRICE = 9_000_000_000.0


def prices_e9(column: Column, tick_e9: int, places: Places, *, fixed: bool = False) -> Ints:
    """Return prices in 10⁻⁹, exactly for text and Decimals. fixed: the column has integers in this unit already.

    A float32 or float16 price is the tick whose nearest float of that type it equals, if there is one.
    """
    if fixed:
        if column.max() == UNDEFINED_PRICE_E9:
            row = int(column.argmax())
            raise _no_price("undefined", int(places[row]))
        return column.astype(np.int64, copy=False)
    if column.dtype.kind in "OUT":
        return np.array(
            [_exact(value, int(row)) for value, row in zip(column, places, strict=True)], dtype=np.int64
        )
    values = column.astype(np.float64, copy=False)
    if not (values.min() > -_INT64_MAX_PRICE and values.max() < _INT64_MAX_PRICE):  # a NaN compares as false
        bad = ~(np.abs(values) < _INT64_MAX_PRICE)
        raise _no_price(values[bad.argmax()], int(places[bad.argmax()]))
    scaled = values * PRICE_SCALE
    prices = np.rint(scaled, out=scaled).astype(np.int64)
    if column.dtype.kind == "f" and column.dtype.itemsize < values.itemsize:
        return _widened(column, values, prices, tick_e9, places)
    return prices


def _no_price(value: Any, row: int) -> InvalidInput:
    return InvalidInput(f"{value} is not a price", "Drop or correct it.", row=row)


def _exact(value: Any, row: int) -> int:
    try:
        return e9_from_text(format(Decimal(str(value)), "f"))
    except (ValueError, ArithmeticError) as problem:
        raise _no_price(repr(value), row) from problem


def _widened(column: Column, values: NDArray[np.float64], prices: Ints, tick_e9: int, places: Places) -> Ints:
    """Convert float32 and float16 prices, whose rounding error may be far larger than 10⁻⁹, to prices in 10⁻⁹."""
    vague = np.abs(np.spacing(column)).astype(np.float64) * PRICE_SCALE >= tick_e9
    if vague.any():
        row = int(vague.argmax())
        raise InvalidInput(
            f"{column.dtype} is too imprecise for ticks at {values[row]}", "Give float64 prices.", row=int(places[row])
        )  # fmt: skip
    nearest = np.rint(prices / tick_e9).astype(np.int64) * tick_e9
    same = (nearest / PRICE_SCALE).astype(column.dtype) == column
    return np.where(same, nearest, prices)


def ticks_of(column: Column, tick_e9: int, places: Places, *, fixed: bool = False) -> Ints:
    """Return prices in ticks. Raises `InvalidInput` for a price between two ticks."""
    if column.dtype == np.float64:
        found = np.empty(len(column), np.int64)
        if ticks_of_floats(np.ascontiguousarray(column), tick_e9, found):
            return found
    prices = prices_e9(column, tick_e9, places, fixed=fixed)
    ticks = (prices + tick_e9 // 2) // tick_e9
    missed = ticks * tick_e9 - prices
    if missed.min() < -FLOAT_ERROR_E9 or missed.max() > FLOAT_ERROR_E9:
        worst = int((np.abs(missed) > FLOAT_ERROR_E9).argmax())
        problem = OffTickPrice(int(prices[worst]), tick_e9)
        raise InvalidInput(
            str(problem), "Check tick_size or the symbol.", row=int(places[worst])
        ) from problem
    return ticks


def sizes_of(column: Column, name: str, places: Places, step_e9: int = PRICE_SCALE) -> Ints:
    """Return sizes in lots, or in whole steps of `step_e9`.

    Raises `InvalidInput` for a negative size and one between two steps. name: the column's name.
    """
    if step_e9 != PRICE_SCALE:
        return _steps_of(column, name, places, step_e9)
    if column.dtype.kind in "OUT":
        sizes = np.array([_number(value) for value in column], dtype=np.float64)
    else:
        sizes = column if column.dtype.kind in "iu" else column.astype(np.float64)
    if sizes.dtype.kind in "iu" and sizes.min() >= 0:
        return sizes.astype(np.int64, copy=False)
    bad = ~(np.isfinite(sizes) & (sizes >= 0) & (sizes == np.rint(sizes)))
    if bad.any():
        row = int(bad.argmax())
        raise InvalidInput(
            f"{name} is {column[row : row + 1].tolist()[0]}", "Give a whole number of contracts, 0 or more.",
            row=int(places[row]),
        )  # fmt: skip
    return sizes.astype(np.int64, copy=False)


def _steps_of(column: Column, name: str, places: Places, step_e9: int) -> Ints:
    step = price_text(step_e9)
    sizes = np.empty(len(column), np.int64)
    for row, value in enumerate(column.tolist()):
        try:
            # the shortest text that gives the float is the decimal that was meant: 0.001
            steps, rest = divmod(e9_from_text(format(Decimal(str(value)), "f")), step_e9)
        except (ValueError, ArithmeticError):
            steps, rest = -1, 0
        if rest or not 0 <= steps < 2**53:
            raise InvalidInput(
                f"{name} is {value}",
                f"Give multiples of the size step {step}, 0 or more.",
                row=int(places[row]),
            )
        sizes[row] = steps
    return sizes


def _number(value: Any) -> float:
    """Return a number; NaN for a value that is none."""
    try:
        return np.nan if is_missing(value) else float(value)
    except (TypeError, ValueError):
        return np.nan


def check_bars(opened: Ints, high: Ints, low: Ints, close: Ints, places: Places) -> None:
    """Raise `InvalidInput` for a bar whose open or close is outside its range."""
    bad = (high < low) | (opened > high) | (opened < low) | (close > high) | (close < low)
    if bad.any():
        raise InvalidInput(
            "The bar's open or close is outside its range from low to high", "Drop or correct it.",
            row=int(places[bad.argmax()]),
        )  # fmt: skip


def check_repeats(at_ns: Ints, places: Places) -> None:
    """Raise `InvalidInput` for two bars with the same time, because their volume would count twice."""
    order = np.argsort(at_ns, kind="stable")
    again = np.flatnonzero(np.diff(at_ns[order]) == 0)
    if len(again):
        first, second = (int(places[order[at]]) for at in (again[0], again[0] + 1))
        raise InvalidInput(
            f"The bar has the same ts as row {first}",
            "Drop one of them, or its volume counts twice.", row=second,
        )  # fmt: skip


def bar_length_ns(at_ns: Ints) -> int:
    """Return the greatest common divisor of the distances between the times of bars (ns); 0 for a single bar."""
    steps = np.unique(np.diff(np.sort(at_ns)))
    return int(np.gcd.reduce(steps[steps > 0])) if (steps > 0).any() else 0


def check_lengths(at_ns: Ints, segments: Sequence[tuple[int, int]], bracket_minutes: int) -> None:
    """Raise `InvalidInput` for bars that overlap two brackets.

    The bar length is the greatest common divisor of the distances between their times.
    """
    length = bar_length_ns(at_ns)
    if length <= NANOS_PER_MINUTE:
        return
    if len(at_ns) < _FEW_BARS and NANOS_PER_DAY % length:
        return
    minutes = f"{length / NANOS_PER_MINUTE:g}"
    if (bracket_minutes * NANOS_PER_MINUTE) % length:
        raise InvalidInput(
            f"{minutes}-minute bars do not fit into {bracket_minutes}-minute brackets", "Give 1-minute bars."
        )
    for start, end in segments:
        within = at_ns[(at_ns >= start) & (at_ns < end)]
        if len(within) and (int(within[0]) - start) % length:
            raise InvalidInput(
                f"{minutes}-minute bars overlap two brackets, because brackets start at the session's open",
                "Give 1-minute bars.",
            )

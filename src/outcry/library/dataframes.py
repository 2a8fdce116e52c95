"""Read the user's dataframe: columns as arrays, times as ns UTC, prices as ticks.

Nothing is silently dropped, filled in or rounded. Invalid data raises a `ValueError` with the row (counted from 0, in
the user's order) and the remedy.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import (
    NANOS_PER_DAY,
    NANOS_PER_MINUTE,
    NANOS_PER_SECOND,
    PRICE_SCALE,
    OffTickPrice,
    e9_from_text,
)

TRADES, BARS = ("ts", "price", "size"), ("ts", "open", "high", "low", "close", "volume")
_EXPECTED = f"a mapping or dataframe (pandas, Polars, PyArrow) with {', '.join(TRADES)} or {', '.join(BARS)}"

#: With fewer bars than this, a common distance may be a coincidence.
_FEW_BARS = 4

_INT64_MAX_PRICE = 9_000_000_000.0
#: Units of 10⁻⁹ by which the nearest double of a price of up to nine decimals may miss it.
FLOAT_ERROR_E9 = 2

#: Numpy's integer value of a missing datetime.
_NAT = np.iinfo(np.int64).min

Column = NDArray[Any]
Ints = NDArray[np.int64]
#: The rows of the caller's data that an array was taken from.
Places = NDArray[np.intp] | range


class Part(NamedTuple):
    """Consecutive rows of the caller's data that are inside the window: their times, other columns and places."""

    at_ns: Ints
    columns: dict[str, Column]
    places: Places


def parts_inside(
    columns: dict[str, Column], at_ns: Ints, segments: Sequence[tuple[int, int]], rows: int
) -> Iterator[Part]:
    """Yield the parts of the data inside the window, in steps of `rows` rows of the caller's data.

    Steps without rows inside are skipped. Columns are views if all rows of a part are inside one segment.
    """
    others = {name: column for name, column in columns.items() if name != "ts"}
    for start in range(0, len(at_ns), rows):
        part = slice(start, start + rows)
        times = at_ns[part]
        low_ns, high_ns = times.min(), times.max()
        if any(first_ns <= low_ns and high_ns < end_ns for first_ns, end_ns in segments):
            places = range(start, start + len(times))
            yield Part(times, {name: column[part] for name, column in others.items()}, places)
            continue
        inside = np.zeros(len(times), bool)
        for first_ns, end_ns in segments:
            inside |= (times >= first_ns) & (times < end_ns)
        if inside.any():
            chosen = {name: column[part][inside] for name, column in others.items()}
            yield Part(times[inside], chosen, np.flatnonzero(inside) + start)


def columns_of(data: Any) -> dict[str, Column]:
    """Return the columns of trades or of bars as arrays of equal length.

    Raises ValueError for data that is not a table, has no rows or lacks a column.
    """
    if not isinstance(data, Mapping) and not (hasattr(data, "__len__") and hasattr(data, "columns")):
        what = "None" if data is None else f"of type {type(data).__name__}"
        raise ValueError(f"data is {what}. Give {_EXPECTED}.")
    table: Any = data
    names = list(table.keys() if isinstance(data, Mapping) else getattr(table, "column_names", table.columns))
    if not names:
        raise ValueError(f"data is empty. Give {_EXPECTED}.")
    wanted = TRADES if "price" in names else BARS
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(
            f"data has no column {missing[0]!r}. Trades need {', '.join(TRADES)}; bars need {', '.join(BARS)}."
        )
    columns = {name: _array(table[name]) for name in wanted}
    odd = [name for name, column in columns.items() if column.ndim != 1]
    if odd:
        raise ValueError(
            f"data has several columns {odd[0]!r}, or several values per row in it. Keep one of each."
        )
    if len({len(column) for column in columns.values()}) != 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise ValueError(
            f"The columns of data have different lengths ({lengths}). Give one value per row in each."
        )
    if not len(columns["ts"]):
        raise ValueError(f"data is empty. Give {_EXPECTED}.")
    return columns


def _array(column: Any) -> Column:
    zone = getattr(getattr(column, "dt", None), "tz", None)
    if zone is not None:  # pandas would convert a column with a time zone to objects
        return np.asarray(column, dtype="datetime64[ns]")
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def times_of(column: Column) -> Ints:
    """Return times as ns UTC. Datetimes and ISO text without a time zone are UTC."""
    if np.issubdtype(column.dtype, np.integer):
        return column.astype(np.int64, copy=False)
    if np.issubdtype(column.dtype, np.datetime64):
        at_ns = column.astype("datetime64[ns]", copy=False).view(np.int64)
        if len(at_ns) and at_ns.min() == _NAT:
            _refuse_missing(np.isnat(column))
        return at_ns
    if column.dtype.kind in "OU":
        return np.array([_stamp(value, row) for row, value in enumerate(column)], dtype=np.int64)
    if column.dtype.kind == "f":  # an integer column with a missing value becomes a float column
        _refuse_missing(np.isnan(column))
    raise TypeError(f"ts has type {column.dtype}. Give datetimes or int64 ns UTC.")


def _refuse_missing(missing: NDArray[np.bool_]) -> None:
    if missing.any():
        raise ValueError(_missing_time(int(missing.argmax())))


def _missing_time(row: int) -> str:
    return f"Row {row}: ts is missing (NaT or null). Drop the row or give it a time."


def _stamp(value: Any, row: int) -> int:
    if is_missing(value):
        raise ValueError(_missing_time(row))
    if isinstance(value, np.datetime64):
        return int(value.astype("datetime64[ns]").astype(np.int64))
    if isinstance(value, int | np.integer):
        return int(value)
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(
            f"Row {row}: ts {str(value)!r} is not an ISO 8601 time. Use a form such as 2013-10-08T13:30:00Z."
        ) from None
    if not isinstance(at, datetime):
        raise TypeError(f"Row {row}: ts is {value!r}. Give datetimes or int64 ns UTC.")
    return since_epoch(at if at.tzinfo else at.replace(tzinfo=UTC))


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN and NaT are not equal to themselves
    except TypeError:  # pandas' NA cannot be converted to bool
        return True


def since_epoch(at: datetime) -> int:
    """Return an aware datetime as ns UTC, including the nanoseconds of a pandas Timestamp."""
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    whole = (since.days * 86_400 + since.seconds) * NANOS_PER_SECOND + since.microseconds * 1_000
    return whole + getattr(at, "nanosecond", 0)


def prices_e9(column: Column, tick_e9: int, places: Places) -> Ints:
    """Return prices in 10⁻⁹, exactly for text and Decimals.

    A float32 or float16 price is the tick whose nearest float of that type it equals, if there is one.
    """
    if column.dtype.kind in "OU":
        return np.array(
            [_exact(value, int(row)) for value, row in zip(column, places, strict=True)], dtype=np.int64
        )
    values = column.astype(np.float64, copy=False)
    if not (values.min() > -_INT64_MAX_PRICE and values.max() < _INT64_MAX_PRICE):  # a NaN compares as false
        bad = ~(np.abs(values) < _INT64_MAX_PRICE)
        raise ValueError(
            f"Row {int(places[bad.argmax()])}: {values[bad.argmax()]} is not a price. Drop or correct it."
        )
    scaled = values * PRICE_SCALE
    prices = np.rint(scaled, out=scaled).astype(np.int64)
    if column.dtype.kind == "f" and column.dtype.itemsize < values.itemsize:
        return _widened(column, values, prices, tick_e9, places)
    return prices


def _exact(value: Any, row: int) -> int:
    try:
        return e9_from_text(format(Decimal(str(value)), "f"))
    except (ValueError, ArithmeticError) as problem:
        raise ValueError(f"Row {row}: {value!r} is not a price. Drop or correct it.") from problem


def _widened(column: Column, values: NDArray[np.float64], prices: Ints, tick_e9: int, places: Places) -> Ints:
    """Convert float32 and float16 prices, whose rounding error may be far larger than 10⁻⁹, to prices in 10⁻⁹."""
    vague = np.abs(np.spacing(column)).astype(np.float64) * PRICE_SCALE >= tick_e9
    if vague.any():
        row = int(vague.argmax())
        raise ValueError(
            f"Row {int(places[row])}: {column.dtype} is too imprecise for ticks at {values[row]}. Give float64 prices."
        )
    nearest = np.rint(prices / tick_e9).astype(np.int64) * tick_e9
    same = (nearest / PRICE_SCALE).astype(column.dtype) == column
    return np.where(same, nearest, prices)


def ticks_of(column: Column, tick_e9: int, places: Places) -> Ints:
    """Return prices in ticks. Raises ValueError for a price between two ticks."""
    prices = prices_e9(column, tick_e9, places)
    ticks = (prices + tick_e9 // 2) // tick_e9
    missed = ticks * tick_e9 - prices
    if missed.min() < -FLOAT_ERROR_E9 or missed.max() > FLOAT_ERROR_E9:
        worst = int((np.abs(missed) > FLOAT_ERROR_E9).argmax())
        problem = OffTickPrice(int(prices[worst]), tick_e9)
        raise ValueError(f"Row {int(places[worst])}: {problem}. Check tick_size or the symbol.") from problem
    return ticks


def sizes_of(column: Column, name: str, places: Places) -> Ints:
    """Return sizes in lots. Raises ValueError for a negative or fractional size."""
    if column.dtype.kind == "O":
        sizes = np.array([np.nan if is_missing(value) else value for value in column], dtype=np.float64)
    else:
        sizes = column if column.dtype.kind in "iu" else column.astype(np.float64)
    bad = (
        sizes < 0
        if sizes.dtype.kind in "iu"
        else ~(np.isfinite(sizes) & (sizes >= 0) & (sizes == np.rint(sizes)))
    )
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"Row {int(places[row])}: {name} is {column[row : row + 1].tolist()[0]}. Give a whole number of contracts, "
            "0 or more."
        )
    return sizes.astype(np.int64, copy=False)


def check_bars(opened: Ints, high: Ints, low: Ints, close: Ints, places: Places) -> None:
    """Raise ValueError for a bar whose open or close is outside its range."""
    bad = (high < low) | (opened > high) | (opened < low) | (close > high) | (close < low)
    if bad.any():
        raise ValueError(
            f"Row {int(places[bad.argmax()])}: The bar's open or close is outside its range from low to high. Drop or "
            "correct it."
        )


def check_repeats(at_ns: Ints, places: Places) -> None:
    """Raise ValueError for two bars with the same time, because their volume would count twice."""
    order = np.argsort(at_ns, kind="stable")
    again = np.flatnonzero(np.diff(at_ns[order]) == 0)
    if len(again):
        first, second = (int(places[order[at]]) for at in (again[0], again[0] + 1))
        raise ValueError(
            f"Row {second}: The bar has the same ts as row {first}. Drop one of them, or its volume counts twice."
        )


def check_lengths(at_ns: Ints, segments: Sequence[tuple[int, int]], bracket_minutes: int) -> None:
    """Raise ValueError for bars that overlap two brackets.

    The bar length is the greatest common divisor of the distances between their times.
    """
    steps = np.unique(np.diff(np.sort(at_ns)))
    length = int(np.gcd.reduce(steps[steps > 0])) if (steps > 0).any() else 0
    if length <= NANOS_PER_MINUTE:
        return
    if len(at_ns) < _FEW_BARS and NANOS_PER_DAY % length:
        return
    minutes = f"{length / NANOS_PER_MINUTE:g}"
    if (bracket_minutes * NANOS_PER_MINUTE) % length:
        raise ValueError(
            f"{minutes}-minute bars do not fit into {bracket_minutes}-minute brackets. Give 1-minute bars."
        )
    for start, end in segments:
        within = at_ns[(at_ns >= start) & (at_ns < end)]
        if len(within) and (int(within[0]) - start) % length:
            raise ValueError(
                f"{minutes}-minute bars overlap two brackets, because brackets start at the session's open. Give "
                "1-minute bars."
            )

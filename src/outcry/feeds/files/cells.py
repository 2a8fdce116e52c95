"""Text cells as whole numbers: prices as 10⁻⁹, counts as lots, exactly or not at all.

Rule kept: no cell passes through a float, none is rounded and none wraps around; the first cell that is no
number is found and named.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from outcry.core.units import PRICE_SCALE

DECIMAL = pa.decimal128(38, 9)
_SHOWN = 40


class BadCell(ValueError):
    """A cell that cannot be read: its row within the block, and what is wrong with it."""

    def __init__(self, row: int, problem: str, remedy: str = "") -> None:
        super().__init__(f"row {row}: {problem}")
        self.row, self.problem, self.remedy = row, problem, remedy


def convert(cells: pa.Array, change: Callable[[pa.Array], pa.Array], what: str) -> pa.Array:
    """Apply a conversion cell by cell; raise `BadCell` for the first that does not take it."""
    try:
        return change(cells)
    except pa.ArrowInvalid:
        try:
            return change(pc.utf8_trim_whitespace(cells))
        except pa.ArrowInvalid as fault:
            row = _first_bad(pc.utf8_trim_whitespace(cells), change)
            text = str(cells[row].as_py())
            raise BadCell(row, f"{_shown(text)} is no {what}", _advice(text)) from fault


def _first_bad(cells: pa.Array, change: Callable[[pa.Array], pa.Array]) -> int:
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            change(cells.slice(low, middle - low))
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low


def _shown(text: str) -> str:
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "") if text else "an empty cell"


def _advice(text: str) -> str:
    return "write numbers with a decimal point and no thousands separators" if "," in text else ""


def price_e9(cells: pa.Array, what: str = "price") -> NDArray[np.int64]:
    """Decimal numbers as units of 10⁻⁹; at most nine decimals."""
    return decimal_e9(convert(cells, lambda a: pc.cast(a, DECIMAL), what), what)


def decimal_e9(numbers: pa.Array, what: str) -> NDArray[np.int64]:
    """The units of 10⁻⁹ in an array of decimals; raise `BadCell` where 64 bits do not hold them."""
    if numbers.null_count:
        raise BadCell(int(np.flatnonzero(numbers.is_null().to_numpy(zero_copy_only=False))[0]), f"no {what}")
    buffer = numbers.buffers()[1]
    words = np.frombuffer(buffer, dtype="<i8", count=2 * len(numbers), offset=16 * numbers.offset).reshape(-1, 2)
    wide = np.flatnonzero(words[:, 1] != words[:, 0] >> 63)
    if len(wide):
        raise BadCell(int(wide[0]), f"{_shown(str(numbers[int(wide[0])].as_py()))} is too large for a {what}")
    return words[:, 0].copy()


def whole(cells: pa.Array, what: str) -> NDArray[np.int64]:
    """Whole numbers, `205` or `205.0`."""
    try:
        return pc.cast(cells, pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        scaled = price_e9(cells, what)
    parts = np.flatnonzero(scaled % PRICE_SCALE)
    if len(parts):
        raise BadCell(int(parts[0]), f"{_shown(cells[int(parts[0])].as_py())} is no whole {what}")
    return scaled // PRICE_SCALE


def lots(cells: pa.Array, what: str, most: int) -> NDArray[np.int64]:
    """Counts of lots from 0 to `most`."""
    numbers = whole(cells, what)
    outside = np.flatnonzero((numbers < 0) | (numbers > most))
    if len(outside):
        raise BadCell(int(outside[0]), f"{numbers[outside[0]]} is no possible {what}")
    return numbers

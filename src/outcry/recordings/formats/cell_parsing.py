"""Parse the columns of a table exactly: prices to units of 10⁻⁹, counts to integers.

Text never passes through a float, and no value is rounded or overflows. The first invalid cell raises `InvalidCell`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import PRICE_SCALE, price_text, size_text
from outcry.recordings.formats.arrow import Array, ArrowInvalid, pa, pc

DECIMAL = pa.decimal128(38, 9)
#: Limit of a price in units of 10⁻⁹, as a 64-bit integer.
LARGEST = float(1 << 63)
_SHOWN = 40


class InvalidCell(ValueError):
    """A cell that cannot be parsed: its row within the block of rows, the problem and a remedy."""

    def __init__(self, row: int, problem: str, remedy: str = "") -> None:
        super().__init__(f"row {row}: {problem}")
        self.row, self.problem, self.remedy = row, problem, remedy


def convert(cells: Array, change: Callable[[Array], Array], what: str) -> Array:
    """Convert a column with `change`; raise `InvalidCell` for the first cell that fails.

    what: the column, for the error.
    """
    try:
        return change(cells)
    except ArrowInvalid:
        try:
            return change(pc.utf8_trim_whitespace(cells))
        except ArrowInvalid as fault:
            row = _first_bad(pc.utf8_trim_whitespace(cells), change)
            text = str(cells[row].as_py())
            raise InvalidCell(row, f"{_shown(text)} is not a valid {what}", _advice(text)) from fault


def _first_bad(cells: Array, change: Callable[[Array], Array]) -> int:
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            change(cells.slice(low, middle - low))
            low = middle
        except ArrowInvalid:
            high = middle
    return low


def _shown(text: str) -> str:
    return repr(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "") if text else "an empty cell"


def _advice(text: str) -> str:
    if "," not in text:
        return ""
    return "write numbers with a decimal point and no thousands separators; for a decimal comma, add --decimal comma"


def price_e9(cells: Array, what: str = "price") -> NDArray[np.int64]:
    """Parse a column of decimal numbers, with at most nine decimals each, to units of 10⁻⁹."""
    refuse_nulls(cells, what)
    if pa.types.is_float64(cells.type):
        return _float_e9(cells.to_numpy(), what)
    if pa.types.is_floating(cells.type):
        cells = pc.cast(cells, pa.string())  # the shortest text that yields this float: 1.07125
    if not _is_text(cells):
        return decimal_e9(_typed(cells, what), what)
    return decimal_e9(convert(cells, lambda a: pc.cast(a, DECIMAL), what), what)


def with_points(cells: Array, what: str) -> Array:
    """Return a column of text with decimal commas as one with decimal points; a column of numbers stays as it is.

    Raises `InvalidCell` for a cell with a point, which may be a decimal point or separate thousands.
    """
    if not _is_text(cells):
        return cells
    pointed = np.flatnonzero(pc.match_substring(cells, ".").to_numpy(zero_copy_only=False))
    if len(pointed):
        row = int(pointed[0])
        raise InvalidCell(row, f"{_shown(str(cells[row].as_py()))} has a point, but --decimal is comma",
                          "omit --decimal comma, or export numbers without thousands separators")  # fmt: skip
    return pc.replace_substring(cells, ",", ".")


def prices(cells: Array, what: str, scale: int, *, fixed: bool) -> NDArray[np.int64]:
    """Parse a column of prices to units of 10⁻⁹.

    If `fixed`, the cells are such units already. Otherwise they are decimal numbers, which are multiplied by `scale`.
    """
    return whole(cells, what) if fixed else price_e9(cells, what) * scale


def decimal_e9(numbers: Array, what: str) -> NDArray[np.int64]:
    """Convert a column of decimals to int64 units of 10⁻⁹; raise `InvalidCell` for one that does not fit."""
    buffer = numbers.buffers()[1]
    words = np.frombuffer(buffer, dtype="<i8", count=2 * len(numbers), offset=16 * numbers.offset).reshape(
        -1, 2
    )
    wide = np.flatnonzero(words[:, 1] != words[:, 0] >> 63)
    if len(wide):
        raise InvalidCell(
            int(wide[0]), f"{_shown(str(numbers[int(wide[0])].as_py()))} is too large for a {what}"
        )
    return words[:, 0].copy()


def refuse_nulls(cells: Array, what: str) -> None:
    """Raise `InvalidCell` for an empty cell of a typed column."""
    if cells.null_count:
        raise InvalidCell(
            int(np.flatnonzero(cells.is_null().to_numpy(zero_copy_only=False))[0]), f"the {what} is missing"
        )


def _is_text(cells: Array) -> bool:
    return pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)


def _typed(cells: Array, what: str) -> Array:
    """Cast a column of type integer or decimal to decimals with nine places."""
    try:
        return pc.cast(cells, DECIMAL)
    except ArrowInvalid as fault:
        raise InvalidCell(0, f"the {what} column is not numeric, or has more than nine decimals") from fault


def _float_e9(numbers: NDArray[np.float64], what: str) -> NDArray[np.int64]:
    """Convert floats to the nearest decimal numbers of nine places, in units of 10⁻⁹.

    Raises `InvalidCell` if converting a result back does not give the same float.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = np.rint(numbers * PRICE_SCALE)
        wrong = np.flatnonzero(~(np.abs(scaled) < LARGEST) | (scaled / PRICE_SCALE != numbers))
    if len(wrong):
        raise InvalidCell(
            int(wrong[0]), f"{numbers[wrong[0]]!r} is not a valid {what} with at most nine decimals"
        )
    return scaled.astype(np.int64)


def whole(cells: Array, what: str) -> NDArray[np.int64]:
    """Parse a column of integers such as `205` or `205.0`."""
    refuse_nulls(cells, what)
    try:
        return pc.cast(cells, pa.int64()).to_numpy()
    except ArrowInvalid:
        scaled = price_e9(cells, what)
    parts = np.flatnonzero(scaled % PRICE_SCALE)
    if len(parts):
        raise InvalidCell(int(parts[0]), f"{_shown(str(cells[int(parts[0])].as_py()))} is not a whole {what}")
    return scaled // PRICE_SCALE


def lots(cells: Array, what: str, most: int) -> NDArray[np.int64]:
    """Parse a column of trade sizes in lots, each from 0 to `most`."""
    numbers = whole(cells, what)
    outside = np.flatnonzero((numbers < 0) | (numbers > most))
    if len(outside):
        raise InvalidCell(int(outside[0]), f"{numbers[outside[0]]} is out of range for a {what}")
    return numbers


def steps(cells: Array, what: str, step_e9: int, most: int) -> NDArray[np.int64]:
    """Parse a column of decimal sizes to whole steps of `step_e9` (units of 10⁻⁹), each from 0 to `most` steps."""
    numbers, rests = np.divmod(price_e9(cells, what), step_e9)
    step = price_text(step_e9)

    def refuse(row: int, problem: str) -> InvalidCell:
        return InvalidCell(row, f"{_shown(str(cells[row].as_py()))} {problem}",
                           "check the contract, and size_step in its table of products")  # fmt: skip

    if rests.any():
        raise refuse(int(np.flatnonzero(rests)[0]), f"is not a {what} in steps of {step}")
    outside = np.flatnonzero((numbers < 0) | (numbers > most))
    if len(outside):
        raise refuse(int(outside[0]), f"is out of range for a {what}: 0 to {size_text(most, step_e9)}")
    return numbers

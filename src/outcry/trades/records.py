"""Row formats of trades and bars, and `Batch`, a group of rows.

A batch has one contract and one quality. Prices are in units of 10⁻⁹, times in ns UTC.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

#: One trade: exchange time (ns UTC), price (10⁻⁹), size (lots), aggressor (b"B", b"A", b"N"), exchange sequence.
TRADE = np.dtype(
    [
        ("ts_event", "<i8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("side", "S1"),
        ("flags", "u1"),
        ("sequence", "<u4"),
    ]
)
_TRADE_FIELDS = list(TRADE.names or ())
#: One bar, stamped at its START (ns UTC); prices 10⁻⁹; volume in lots.
BAR = np.dtype(
    [
        ("ts_event", "<i8"),
        ("open", "<i8"),
        ("high", "<i8"),
        ("low", "<i8"),
        ("close", "<i8"),
        ("volume", "<u8"),
    ]
)

Rows = NDArray[np.void]


def trade_layout(record: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype with which records of a larger layout can be viewed as `TRADE` rows, without copying.

    The view has `TRADE`'s fields, each at its offset in the record.
    """
    fields: Any = record.fields
    offsets = [fields[name][1] for name in _TRADE_FIELDS]
    formats = [TRADE[name] for name in _TRADE_FIELDS]
    return np.dtype(
        {"names": _TRADE_FIELDS, "formats": formats, "offsets": offsets, "itemsize": record.itemsize}
    )


class Quality(StrEnum):
    """Resolution of a recording, finest first."""

    TICKS = "ticks"
    BARS_1S = "bars_1s"
    BARS_1M = "bars_1m"

    @property
    def rank(self) -> int:
        """Rank of the quality for comparisons; 0 is the best."""
        return list(Quality).index(self)

    @property
    def length_ns(self) -> int:
        """Time that a row covers: 0 for a trade, the length for a bar, which is stamped at its start."""
        return _LENGTH_NS[self]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the rows of this quality."""
        return TRADE if self is Quality.TICKS else BAR


_LENGTH_NS = {Quality.TICKS: 0, Quality.BARS_1S: NANOS_PER_SECOND, Quality.BARS_1M: NANOS_PER_MINUTE}


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one contract, in file order.

    rows: an array with the fields of `quality.dtype`; it may be a view with gaps between the fields. place: where the
    rows start in the file, for error messages.
    """

    contract: Contract
    quality: Quality
    rows: Rows
    place: str

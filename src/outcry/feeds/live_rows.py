"""Converts recorded rows to rows of a live feed."""

import numpy as np
from numpy.typing import NDArray

from outcry.trades.feed import LIVE_TRADE, RowFlag
from outcry.trades.records import Rows

#: Code of a gap between files.
NOT_RECORDED = "not_recorded"


def as_live(rows: Rows, received_ns: NDArray[np.int64] | int, flags: RowFlag) -> Rows:
    """Return trades of dtype `TRADE` as `LIVE_TRADE`, without trade ids.

    received_ns: ns UTC, one for all rows or one per row. flags: replaces the recording's own flags.
    """
    live = np.zeros(len(rows), LIVE_TRADE)
    for name in ("ts_event", "price", "size", "side", "sequence"):
        live[name] = rows[name]
    live["ts_recv"], live["flags"] = received_ns, int(flags)
    return live

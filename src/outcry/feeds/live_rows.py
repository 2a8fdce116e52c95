"""Rows of a recording as rows of a live feed."""

import numpy as np
from numpy.typing import NDArray

from outcry.trades.feed import LIVE_TRADE, RowFlag
from outcry.trades.records import Rows

#: Why there is a gap in what files bring.
NOT_RECORDED = "not_recorded"


def as_live(rows: Rows, received_ns: NDArray[np.int64] | int, flags: RowFlag) -> Rows:
    """Trades of dtype `TRADE` as `LIVE_TRADE`, without numbers of the feed's own.

    received_ns: ns UTC, one for all or one each. What a recording keeps in `flags` is its source's and does not go on.
    """
    live = np.zeros(len(rows), LIVE_TRADE)
    for name in ("ts_event", "price", "size", "side", "sequence"):
        live[name] = rows[name]
    live["ts_recv"], live["flags"] = received_ns, int(flags)
    return live

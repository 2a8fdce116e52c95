"""Trade records of DBN as rows of a live feed.

Rule kept: prices and times are taken as they are, whole numbers of nanoseconds and of 10⁻⁹; what is no trade (another
action, no price, no size) is left out, and nothing else is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import Rows

#: A record of the schema `trades`, as every version of DBN is brought up to (48 bytes).
RECORD = np.dtype(
    [
        ("length", "u1"),
        ("rtype", "u1"),
        ("publisher_id", "<u2"),
        ("instrument_id", "<u4"),
        ("ts_event", "<u8"),
        ("price", "<i8"),
        ("size", "<u4"),
        ("action", "S1"),
        ("side", "S1"),
        ("flags", "u1"),
        ("depth", "u1"),
        ("ts_recv", "<u8"),
        ("ts_in_delta", "<i4"),
        ("sequence", "<u4"),
    ]
)
#: A price that is none.
NO_PRICE = 2**63 - 1
#: In a record's flags: the vendor's own time of receipt is off.
BAD_TS_RECV = 8

Records = NDArray[Any]


def live_rows(records: Records, received_ns: int, flags: int) -> Rows:
    """Records of one instrument as `LIVE_TRADE`, in their order; `received_ns`: when they came to us (ns UTC)."""
    good = records[(records["action"] == b"T") & (records["price"] != NO_PRICE) & (records["size"] > 0)]
    rows = np.zeros(len(good), LIVE_TRADE)
    for name in ("ts_event", "price", "size", "sequence"):
        rows[name] = good[name]
    side = good["side"]
    rows["side"] = np.where((side == b"A") | (side == b"B"), side, b"N")
    rows["ts_recv"], rows["flags"] = received_ns, flags
    return rows


def received_until_ns(records: Records) -> int:
    """The newest time at which the vendor itself received one of these (ns UTC); 0 where none tells."""
    sound = records["ts_recv"][(records["flags"] & BAD_TS_RECV) == 0]
    return int(sound.max()) if len(sound) else 0

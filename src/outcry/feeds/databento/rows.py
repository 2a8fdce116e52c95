"""Converts DBN trade records to rows of a live feed.

Prices (10⁻⁹) and times (ns) are integers already and are copied. Records with another action, without a price or
without a size are no trades and are omitted.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.feeds.live_rows import rows_of
from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import Rows

#: A record of schema `trades` in the newest DBN version, to which older ones are upgraded (48 bytes).
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
#: DBN's value for no price.
NO_PRICE = 2**63 - 1
#: Bit of a record's flags: the vendor's receive time is wrong.
BAD_TS_RECV = 8

#: Up to this many records are converted one by one, because numpy's calls cost more than a few records.
FEW = 10
_SIDES = frozenset({b"A", b"B"})

Records = NDArray[Any]


def live_rows(records: Records, received_ns: int, flags: int) -> Rows:
    """Convert trade records of one instrument to `LIVE_TRADE` rows. received_ns: our receive time (ns UTC)."""
    if len(records) > FEW:
        return _many_rows(records, received_ns, flags)
    return rows_of(
        (at_ns, received_ns, price, size, side if side in _SIDES else b"N", flags, sequence, 0)
        for _, _, _, _, at_ns, price, size, action, side, _, _, _, _, sequence in records.tolist()
        if action == b"T" and price != NO_PRICE and size
    )


def _many_rows(records: Records, received_ns: int, flags: int) -> Rows:
    good = records[(records["action"] == b"T") & (records["price"] != NO_PRICE) & (records["size"] > 0)]
    rows = np.zeros(len(good), LIVE_TRADE)
    for name in ("ts_event", "price", "size", "sequence"):
        rows[name] = good[name]
    side = good["side"]
    rows["side"] = np.where((side == b"A") | (side == b"B"), side, b"N")
    rows["ts_recv"], rows["flags"] = received_ns, flags
    return rows


def received_until_ns(records: Records) -> int:
    """Return the newest time (ns UTC) at which the vendor received one of these records; 0 if none is valid."""
    if len(records) > FEW:
        sound = records["ts_recv"][(records["flags"] & BAD_TS_RECV) == 0]
        return int(sound.max()) if len(sound) else 0
    times = zip(records["ts_recv"].tolist(), records["flags"].tolist(), strict=True)
    return max((at_ns for at_ns, flags in times if not flags & BAD_TS_RECV), default=0)

"""Converts rows of trades to plain lists for a live session, row by row for a few rows and through numpy for many.

For a few rows plain Python is several times faster than numpy, because numpy's calls dominate. Most feeds send single
trades.
"""

from typing import NamedTuple

import numpy as np

from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import RowFlag
from outcry.trades.records import Rows

#: A trade received later than this after its time fires no alerts (rules §6).
STALE_NS = 5 * NANOS_PER_SECOND
#: Up to this many rows are converted one by one.
FEW = 24

_BACKFILL = int(RowFlag.BACKFILL)


class Columns(NamedTuple):
    """Trades as lists: times (ns UTC), prices (ticks) and sizes (lots), in order of arrival.

    old: for each trade whether it is too old to fire alerts; None if none is. delay_ns: the least delay from event to
    receipt of trades that are not history; None if all are.
    """

    at_ns: list[int]
    ticks: list[int]
    sizes: list[int]
    old: list[bool] | None
    delay_ns: int | None


def columns_of(rows: Rows, tick_e9: int, lag_ns: int = 0) -> Columns:
    """Convert rows whose prices are all on the tick to lists. lag_ns: the delay that the feed always has."""
    stale_ns = STALE_NS + lag_ns
    if len(rows) > FEW:
        live = rows["flags"] & _BACKFILL == 0
        delays = (rows["ts_recv"] - rows["ts_event"])[live]
        old = live & (rows["ts_recv"] - rows["ts_event"] > stale_ns)
        return Columns(
            rows["ts_event"].tolist(), (rows["price"] // tick_e9).tolist(), rows["size"].tolist(),
            old.tolist() if old.any() else None, int(delays.min()) if len(delays) else None,
        )  # fmt: skip
    at_ns: list[int] = []
    ticks: list[int] = []
    sizes: list[int] = []
    delays_ns: list[int] = []
    any_old = False
    for at, received, price, size, _side, flags, _sequence, _id in rows.tolist():
        at_ns.append(at)
        ticks.append(price // tick_e9)
        sizes.append(size)
        if not flags & _BACKFILL:
            delays_ns.append(received - at)
            any_old = any_old or received - at > stale_ns
    old_rows = _old(rows, stale_ns) if any_old else None
    return Columns(at_ns, ticks, sizes, old_rows, min(delays_ns, default=None))


def _old(rows: Rows, stale_ns: int) -> list[bool]:
    late = rows["ts_recv"] - rows["ts_event"] > stale_ns
    return (late & (rows["flags"] & _BACKFILL == 0)).tolist()


def whole(rows: Rows, tick_e9: int, first_ns: int, end_ns: int, ahead_ns: int) -> bool:
    """Return whether rows are valid and in order, so that they can be applied without the checks of `Intake.trades`.

    That is: in order within `[first_ns, end_ns)`, on the tick, of possible sizes, and dated at most `ahead_ns` after
    their receipt.
    """
    if len(rows) > FEW:
        at_ns = rows["ts_event"]
        return bool(
            at_ns[0] >= first_ns and at_ns[-1] < end_ns and (at_ns[1:] >= at_ns[:-1]).all()
            and not (rows["price"] % tick_e9).any() and rows["size"].max() < np.uint32(2**31)
            and (at_ns - rows["ts_recv"]).max() <= ahead_ns
        )  # fmt: skip
    latest_ns = first_ns
    for at, received, price, size, _side, _flags, _sequence, _id in rows.tolist():
        if at < latest_ns or price % tick_e9 or at - received > ahead_ns or size >= 2**31:
            return False
        latest_ns = at
    return latest_ns < end_ns

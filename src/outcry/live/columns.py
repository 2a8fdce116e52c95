"""Converts rows of trades to plain lists for a live session, row by row for a few rows and through numpy for many.

For a few rows plain Python is several times faster than numpy, because numpy's calls dominate. Most feeds send single
trades.
"""

from collections.abc import Sequence
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
#: A row of `LIVE_TRADE`: event and receipt (ns UTC), price (10⁻⁹), size, side, flags, sequence, the feed's number.
_Values = tuple[int, int, int, int, bytes, int, int, int]


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
    if len(rows) > FEW:
        return _many(rows, tick_e9, STALE_NS + lag_ns)
    return _few(rows.tolist(), tick_e9, STALE_NS + lag_ns)


def valid_columns(
    rows: Rows, tick_e9: int, lag_ns: int, first_ns: int, end_ns: int, ahead_ns: int
) -> Columns | None:
    """Convert rows to lists like `columns_of` if they are valid and in order, else return None.

    They need none of the checks of `Intake.trades` then: they are in order within `[first_ns, end_ns)`, on the tick, of
    possible sizes, and dated at most `ahead_ns` after their receipt.
    """
    if len(rows) > FEW:
        if _are_many_valid(rows, tick_e9, first_ns, end_ns, ahead_ns):
            return _many(rows, tick_e9, STALE_NS + lag_ns)
        return None
    values: list[_Values] = rows.tolist()
    latest_ns = first_ns
    for at, received, price, size, _side, _flags, _sequence, _id in values:
        if at < latest_ns or price % tick_e9 or at - received > ahead_ns or size >= 2**31:
            return None
        latest_ns = at
    return _few(values, tick_e9, STALE_NS + lag_ns) if latest_ns < end_ns else None


def _few(values: Sequence[_Values], tick_e9: int, stale_ns: int) -> Columns:
    at_ns: list[int] = []
    ticks: list[int] = []
    sizes: list[int] = []
    old: list[bool] = []
    delay_ns: int | None = None
    for at, received, price, size, _side, flags, _sequence, _id in values:
        at_ns.append(at)
        ticks.append(price // tick_e9)
        sizes.append(size)
        is_live = not flags & _BACKFILL
        old.append(is_live and received - at > stale_ns)
        if is_live and (delay_ns is None or received - at < delay_ns):
            delay_ns = received - at
    return Columns(at_ns, ticks, sizes, old if True in old else None, delay_ns)


def _many(rows: Rows, tick_e9: int, stale_ns: int) -> Columns:
    delays, live = rows["ts_recv"] - rows["ts_event"], rows["flags"] & _BACKFILL == 0
    old, delays = live & (delays > stale_ns), delays[live]
    return Columns(
        rows["ts_event"].tolist(), (rows["price"] // tick_e9).tolist(), rows["size"].tolist(),
        old.tolist() if old.any() else None, int(delays.min()) if len(delays) else None,
    )  # fmt: skip


def _are_many_valid(rows: Rows, tick_e9: int, first_ns: int, end_ns: int, ahead_ns: int) -> bool:
    at_ns = rows["ts_event"]
    return bool(
        at_ns[0] >= first_ns and at_ns[-1] < end_ns and (at_ns[1:] >= at_ns[:-1]).all()
        and not (rows["price"] % tick_e9).any() and rows["size"].max() < np.uint32(2**31)
        and (at_ns - rows["ts_recv"]).max() <= ahead_ns
    )  # fmt: skip

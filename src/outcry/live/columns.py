"""Converts rows of trades to plain lists for a live session: one by one if they are few, else with numpy.

For a few rows plain Python is several times faster, because the fixed cost of numpy's calls dominates. Most feeds send
single trades.
"""

from struct import Struct

import numpy as np
from numpy.typing import NDArray

from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import RowFlag
from outcry.trades.records import Rows

#: A trade received later than this after its time fires no alerts (rules §6).
STALE_NS = 5 * NANOS_PER_SECOND
#: Up to this many rows are converted one by one.
FEW = 24
#: Larger sizes are errors of the feed.
_MOST_LOTS = 2**31 - 1
_NEVER_NS = 2**62 - 1

Longs = NDArray[np.int64]
#: Without the checks of numpy's functions, which take longer than the work on some hundred values.
_any, _all = np.logical_or.reduce, np.logical_and.reduce
_least, _most = np.minimum.reduce, np.maximum.reduce

_BACKFILL = int(RowFlag.BACKFILL)
#: A row of `LIVE_TRADE`: event and receipt (ns UTC), price (10⁻⁹), size, side, flags, sequence, the feed's number.
_ROW = Struct("<qqqIsBIQ")


class Columns:
    """Trades as `LIVE_TRADE` bytes, and as lists: times (ns UTC), prices (ticks), sizes (lots), in order of arrival.

    old: for each trade whether it is too old to fire alerts; None if no trade is. delay_ns: the smallest delay from
    event to receipt among trades that are not history; None if all are history.
    """

    __slots__ = ("at_ns", "data", "delay_ns", "old", "sizes", "ticks")

    def __init__(
        self, data: bytes, at_ns: list[int], ticks: list[int], sizes: list[int], old: list[bool] | None,
        delay_ns: int | None,
    ) -> None:  # fmt: skip
        self.data, self.at_ns, self.ticks, self.sizes = data, at_ns, ticks, sizes
        self.old, self.delay_ns = old, delay_ns


def columns_of(rows: Rows, tick_e9: int, lag_ns: int = 0) -> Columns:
    """Convert rows, whose prices must all be on a tick, to lists. lag_ns: the delay that the feed always has."""
    stale_ns = STALE_NS + lag_ns
    if len(rows) <= FEW:
        few = _few(rows.tobytes(), tick_e9, stale_ns, -_NEVER_NS, _NEVER_NS, _NEVER_NS)
        if few is not None:
            return few
    return _Many(rows, tick_e9).columns(stale_ns)


def valid_columns(
    rows: Rows, tick_e9: int, lag_ns: int, first_ns: int, end_ns: int, ahead_ns: int
) -> Columns | None:
    """Convert rows to lists as `columns_of` does if they are valid and in order, else return None.

    Valid rows need none of the checks of `Intake.trades`. They are in order of time within `[first_ns, end_ns)`, on the
    tick, of possible sizes, and dated at most `ahead_ns` after their receipt.
    """
    stale_ns = STALE_NS + lag_ns
    if len(rows) <= FEW:
        return _few(rows.tobytes(), tick_e9, stale_ns, first_ns, end_ns, ahead_ns)
    many = _Many(rows, tick_e9)
    return many.columns(stale_ns) if many.are_valid(first_ns, end_ns, ahead_ns) else None


def _few(
    data: bytes, tick_e9: int, stale_ns: int, first_ns: int, end_ns: int, ahead_ns: int
) -> Columns | None:
    """Convert rows one by one; return None if one of them is invalid or out of order."""
    at_ns: list[int] = []
    ticks: list[int] = []
    sizes: list[int] = []
    old: list[bool] = []
    is_any_old = False
    delay_ns: int | None = None
    latest_ns = first_ns
    values: tuple[int, int, int, int, bytes, int, int, int]
    for values in _ROW.iter_unpack(data):
        at, received, price, size, _side, flags, _sequence, _id = values
        late_ns = received - at
        if at < latest_ns or price % tick_e9 or -late_ns > ahead_ns or size > _MOST_LOTS:
            return None
        latest_ns = at
        at_ns.append(at)
        ticks.append(price // tick_e9)
        sizes.append(size)
        is_old = False
        if not flags & _BACKFILL:
            is_old = late_ns > stale_ns
            if delay_ns is None or late_ns < delay_ns:
                delay_ns = late_ns
        old.append(is_old)
        is_any_old = is_any_old or is_old
    if latest_ns >= end_ns:
        return None
    return Columns(data, at_ns, ticks, sizes, old if is_any_old else None, delay_ns)


class _Many:
    """Many rows, each field as a separate aligned array.

    Numpy computes with such arrays three times as fast as with the packed fields of the rows.
    """

    def __init__(self, rows: Rows, tick_e9: int) -> None:
        self._rows, self._tick_e9 = rows, tick_e9
        self._at_ns: Longs = rows["ts_event"].copy()
        self._price: Longs = rows["price"].copy()
        self._size: NDArray[np.uint32] = rows["size"].copy()
        self._delay_ns: Longs = rows["ts_recv"] - self._at_ns
        self._ticks: Longs = self._price // tick_e9

    def are_valid(self, first_ns: int, end_ns: int, ahead_ns: int) -> bool:
        """Return whether the rows are valid and in order, as `valid_columns` defines it."""
        at_ns = self._at_ns
        return bool(
            at_ns[0] >= first_ns and at_ns[-1] < end_ns and not _any(at_ns[1:] < at_ns[:-1])
            and not _any(self._ticks * self._tick_e9 != self._price) and _most(self._size) <= _MOST_LOTS
            and _least(self._delay_ns) >= -ahead_ns
        )  # fmt: skip

    def columns(self, stale_ns: int) -> Columns:
        """Return the rows as lists. stale_ns: a trade with at least this delay is too old to fire alerts."""
        live, delays_ns = self._rows["flags"] & _BACKFILL == 0, self._delay_ns
        old = live & (delays_ns > stale_ns) if _most(delays_ns) > stale_ns else None
        if not _all(live):
            delays_ns = delays_ns[live]
        return Columns(
            self._rows.tobytes(), self._at_ns.tolist(), self._ticks.tolist(), self._size.tolist(),
            old.tolist() if old is not None and _any(old) else None,
            int(_least(delays_ns)) if len(delays_ns) else None,
        )  # fmt: skip

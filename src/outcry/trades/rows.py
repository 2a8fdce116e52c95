"""Operations on rows of trades and bars as arrays, on their way into the fold.

Rule kept: an off-tick price is set aside and counted, never rounded; rows are folded in order of time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.kernels import BulkFold
from outcry.trades.records import BAR, Quality, Rows

Column = NDArray[Any]


def in_order(rows: Rows, latest_ns: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Rows in order of time, and for each whether it came after a later one; `latest_ns`: the latest before them."""
    times = rows["ts_event"]
    if not len(rows) or (times[0] >= latest_ns and not (times[1:] < times[:-1]).any()):
        return rows, np.zeros(len(rows), bool)
    late = times < np.maximum(np.maximum.accumulate(times), latest_ns)
    order = np.argsort(times, kind="stable")
    return rows[order], late[order]


def on_tick(rows: Rows, tick_e9: int, quality: Quality) -> tuple[Rows, list[Column], int]:
    """The rows whose every price is a whole number of ticks, those prices in ticks, and how many rows are not."""
    names = ["price"] if quality is Quality.TICKS else ["open", "high", "low", "close"]
    ticks = [rows[name] // tick_e9 for name in names]
    off = np.zeros(len(rows), bool)
    for name, column in zip(names, ticks, strict=True):
        off |= column * tick_e9 != rows[name]
    if not off.any():
        return rows, ticks, 0
    return rows[~off], [column[~off] for column in ticks], int(off.sum())


def volume_of(rows: Rows, quality: Quality) -> int:
    """Lots traded in the rows, however many: a sum beyond 64 bits does not begin again at 0."""
    lots = rows["size" if quality is Quality.TICKS else "volume"]
    if not len(lots):
        return 0
    if int(lots.max()) * len(lots) >= 2**64:
        return sum(lots.tolist())
    return int(lots.sum(dtype=np.uint64))


def bars_of(rows: Rows, quality: Quality) -> Rows:
    """Trades as the bars that tell of them, stamped at their start; only those in which anything traded."""
    rows = rows[np.argsort(rows["ts_event"], kind="stable")]
    starts = rows["ts_event"] // quality.length_ns * quality.length_ns
    firsts = np.flatnonzero(np.diff(starts, prepend=-1))
    bars = np.zeros(len(firsts), BAR)
    if not len(firsts):
        return bars
    price = rows["price"]
    bars["ts_event"] = starts[firsts]
    bars["open"], bars["close"] = price[firsts], price[np.append(firsts[1:], len(rows)) - 1]
    bars["high"], bars["low"] = np.maximum.reduceat(price, firsts), np.minimum.reduceat(price, firsts)
    bars["volume"] = np.add.reduceat(rows["size"].astype(np.uint64), firsts)
    return bars


def fold_rows(fold: BulkFold, rows: Rows, ticks: list[Column], quality: Quality) -> None:
    """Fold rows whose prices are given in ticks: one column of a trade, open, high, low and close of a bar."""
    if quality is Quality.TICKS:
        fold.trades(rows["ts_event"], ticks[0], rows["size"])
    else:
        opened, high, low, close = ticks
        fold.bars(rows["ts_event"], opened, high, low, close, rows["volume"].astype(np.int64))

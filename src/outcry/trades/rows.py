"""Array operations on rows of trades and bars before they are added to a session.

Rows with an off-tick price are separated and counted; a price is never rounded. Rows are added in order of time.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.bar_columns import BarColumns, TradeColumns
from outcry.market.kernels import BulkFold
from outcry.market.session_rows import RowBatch
from outcry.trades.records import BAR, Quality, Rows

Column = NDArray[Any]


def in_order(rows: Rows, latest_ns: int) -> tuple[Rows, NDArray[np.bool_]]:
    """Sort rows by time; also return a mask of the rows that arrived late.

    A row is late if an earlier row of the array has a later time, or if it is before `latest_ns`, the latest time so
    far.
    """
    times = rows["ts_event"]
    if not len(rows) or (times[0] >= latest_ns and not (times[1:] < times[:-1]).any()):
        return rows, np.zeros(len(rows), bool)
    late = times < np.maximum(np.maximum.accumulate(times), latest_ns)
    order = np.argsort(times, kind="stable")
    return rows[order], late[order]


def on_tick(rows: Rows, tick_e9: int, quality: Quality) -> tuple[Rows, list[Column], int]:
    """Return the rows whose prices are all on a tick, these prices in ticks, and how many rows were left out."""
    names = ["price"] if quality is Quality.TICKS else ["open", "high", "low", "close"]
    prices = [np.ascontiguousarray(rows[name]) for name in names]  # numpy divides rows with gaps one by one
    ticks = [price // tick_e9 for price in prices]
    off = np.zeros(len(rows), bool)
    for price, column in zip(prices, ticks, strict=True):
        off |= column * tick_e9 != price
    if not off.any():
        return rows, ticks, 0
    return rows[~off], [column[~off] for column in ticks], int(off.sum())


def volume_of(rows: Rows, quality: Quality) -> int:
    """Return the volume of rows in lots. Sums beyond 64 bits do not overflow."""
    lots = rows["size" if quality is Quality.TICKS else "volume"]
    if quality is not Quality.TICKS and len(lots) and int(lots.max()) * len(lots) >= 2**64:
        return sum(lots.tolist())  # sizes of trades have 32 bits, so that no sum of theirs is too large
    return int(lots.sum(dtype=np.uint64))


def bars_of(rows: Rows, quality: Quality) -> Rows:
    """Return bars computed from trades, stamped at their start. Periods without trades have no bar.

    quality: length of the bars.
    """
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
    """Add rows to the fold of a session, which accumulates the session's volume at each price.

    ticks: the rows' prices in ticks: one column for trades; open, high, low and close for bars.
    """
    if quality is Quality.TICKS:
        fold.trades(rows["ts_event"], ticks[0], rows["size"])
    else:
        opened, high, low, close = ticks
        fold.bars(rows["ts_event"], opened, high, low, close, rows["volume"].astype(np.int64))


def batch_of(rows: Rows, tick_e9: int, quality: Quality) -> RowBatch:
    """Return the rows whose prices are on a tick, as arrays. tick_e9: the tick of the product in units of 10⁻⁹."""
    rows, ticks, _ = on_tick(rows, tick_e9, quality)
    at_ns = np.ascontiguousarray(rows["ts_event"])
    if quality is Quality.TICKS:
        return RowBatch(TradeColumns(at_ns, ticks[0], rows["size"]), rows["side"], 0)
    opened, high, low, close = ticks
    columns = BarColumns(at_ns, opened, high, low, close, rows["volume"].astype(np.int64))
    return RowBatch(columns, None, quality.length_ns)

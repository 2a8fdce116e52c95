"""Applies cancellations, corrections and replacements to the rows of a log.

The log itself keeps every row as it was received.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from outcry.live.entries import Amended, BarRows, LogEntry, Replacement, TradeRows
from outcry.trades.records import Rows


def amended_rows(entries: Iterable[LogEntry]) -> Iterator[TradeRows | BarRows]:
    """Yield the rows of log entries after applying all amendments and replacements among these entries.

    Cancelled trades are left out. Bars replace trades of the same time that were received earlier. Trades of a
    `Replacement` replace bars.
    """
    kept: list[TradeRows | BarRows] = []
    replaced: list[Replacement] = []
    amended: dict[int, Amended] = {}
    for entry in entries:
        match entry:
            case TradeRows() | BarRows():
                kept.append(entry)
            case Replacement():
                replaced.append(entry)
            case Amended():
                amended[entry.id] = entry
            case _:
                pass
    kept = _without_barred_trades(kept)
    if replaced:
        kept = _in_place(kept, replaced)
    for entry in kept:
        found = _amend(entry, amended) if amended and isinstance(entry, TradeRows) else entry
        if found.data:
            yield found


def _without_barred_trades(kept: list[TradeRows | BarRows]) -> list[TradeRows | BarRows]:
    """Leave out trades of times for which bars were received later, because those bars include the trades."""
    first = next((at for at, entry in enumerate(kept) if isinstance(entry, TradeRows)), len(kept))
    bars = [(at, entry) for at, entry in enumerate(kept) if at > first and isinstance(entry, BarRows)]
    if not bars:
        return kept
    starts = np.concatenate([entry.rows["ts_event"] for _, entry in bars])
    ends = np.concatenate([entry.rows["ts_event"] + entry.bar_ns for _, entry in bars])
    came = np.concatenate([np.full(len(entry.rows), at) for at, entry in bars])
    order = np.argsort(starts, kind="stable")
    starts, ends, came = starts[order], ends[order], came[order]
    found: list[TradeRows | BarRows] = []
    for at, entry in enumerate(kept):
        if isinstance(entry, BarRows):
            found.append(entry)
            continue
        times = entry.rows["ts_event"]
        bar = np.maximum(np.searchsorted(starts, times, side="right") - 1, 0)
        replaced_by_bar = (starts[bar] <= times) & (times < ends[bar]) & (came[bar] > at)
        found.append(
            TradeRows(entry.day, entry.rows[~replaced_by_bar].tobytes()) if replaced_by_bar.any() else entry
        )
    return found


def _in_place(
    kept: Sequence[TradeRows | BarRows], replaced: Sequence[Replacement]
) -> list[TradeRows | BarRows]:
    """Replace bars by the trades of their replacements. If a time was replaced twice, the newer trades count."""
    found: list[TradeRows | BarRows] = [
        entry for entry in kept if isinstance(entry, TradeRows) and entry.data
    ]
    for entry in kept:
        if isinstance(entry, BarRows):
            rows = _outside(entry.rows, replaced)
            if len(rows):
                found.append(msgspec.structs.replace(entry, data=rows.tobytes()))
    for at, entry in enumerate(replaced):
        rows = _outside(entry.rows, replaced[at + 1 :])
        if len(rows):
            found.append(TradeRows(entry.day, rows.tobytes()))
    return sorted(found, key=lambda entry: int(entry.rows["ts_event"][0]))


def _outside(rows: Rows, replaced: Sequence[Replacement]) -> Rows:
    times = rows["ts_event"]
    keep = np.ones(len(rows), bool)
    for one in replaced:
        keep &= (times < one.from_ns) | (times >= one.to_ns)
    return rows[keep]


def _amend(entry: TradeRows, amended: dict[int, Amended]) -> TradeRows:
    rows = entry.rows
    found = np.isin(rows["id"], np.fromiter(amended, np.uint64, len(amended)))
    if not found.any():
        return entry
    rows = rows.copy()
    keep = np.ones(len(rows), bool)
    for at in np.flatnonzero(found):
        change = amended[int(rows["id"][at])]
        if change.kind == "cancel":
            keep[at] = False
        else:
            rows["price"][at], rows["size"][at] = change.price, change.size
    return TradeRows(entry.day, rows[keep].tobytes())

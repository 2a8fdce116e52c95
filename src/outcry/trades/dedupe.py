"""Merges the rows of a file with stored rows, without losing a row or counting it twice.

Trades are compared as multisets. Two equal trades in one file are two trades, as real files contain them. The same two
in a second file are the same two trades. Of two bars with one timestamp, the one with more volume is kept, because a
bar that was exported while it was forming has less.
"""

import numpy as np
from numpy.typing import NDArray

from outcry.trades.records import Quality, Rows

Times = NDArray[np.int64]

_IDENTITY = ["ts_event", "price", "size", "side", "sequence"]


def join(stored_rows: Rows, new: Rows, quality: Quality) -> tuple[Rows, Times]:
    """Merge stored and new rows in order of time; also return the times of new rows that are duplicates.

    Both inputs may be unsorted. The merged rows contain each duplicate once.
    """
    if quality is Quality.TICKS:
        known = _known(stored_rows, new)
        both = np.concatenate([stored_rows, new[~known]])
        return both[np.argsort(both["ts_event"], kind="stable")], new["ts_event"][known]
    both = np.concatenate([stored_rows, new])
    both = both[np.lexsort((both["volume"], both["ts_event"]))]
    repeats = np.append(both["ts_event"][1:] == both["ts_event"][:-1], [False] * bool(len(both)))
    return both[~repeats], both["ts_event"][repeats]


def _known(stored_rows: Rows, new: Rows) -> NDArray[np.bool_]:
    """Return a mask of the rows in `new` that are duplicates of rows in `stored_rows`.

    If `stored_rows` has n equal rows, the first n such rows in `new` are duplicates.
    """
    if not len(stored_rows):
        return np.zeros(len(new), bool)
    identity = np.dtype([(name, new.dtype[name]) for name in _IDENTITY])
    both = np.empty(len(stored_rows) + len(new), identity)
    for name in _IDENTITY:
        both[name] = np.concatenate([stored_rows[name], new[name]])
    _, kinds = np.unique(both, return_inverse=True)
    stored = np.bincount(kinds[: len(stored_rows)], minlength=int(kinds.max()) + 1)
    mine = kinds[len(stored_rows) :]
    order = np.argsort(mine, kind="stable")
    occurrence = np.empty(len(new), np.int64)
    occurrence[order] = np.arange(len(new)) - np.searchsorted(mine[order], mine[order])
    return occurrence < stored[mine]

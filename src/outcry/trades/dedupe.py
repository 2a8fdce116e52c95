"""Joins what the tape has with what a file brings, so that nothing is lost and nothing counted twice.

Trades: by multiset, only against what is on tape. Two equal trades in one file are two trades (real files hold
them); the same two in a second file are the same trades. Bars: one a stamp, the fuller one where two differ, for a
bar exported while it was still forming has less volume.
"""

import numpy as np
from numpy.typing import NDArray

from outcry.trades.records import Quality, Rows

Times = NDArray[np.int64]

_IDENTITY = ["ts_event", "price", "size", "side", "sequence"]


def join(kept: Rows, new: Rows, quality: Quality) -> tuple[Rows, Times]:
    """Return both in order of time, and the times of those rows of `new` that were there already. Either may be
    unsorted."""
    if quality is Quality.TICKS:
        known = _known(kept, new)
        both = np.concatenate([kept, new[~known]])
        return both[np.argsort(both["ts_event"], kind="stable")], new["ts_event"][known]
    both = np.concatenate([kept, new])
    both = both[np.lexsort((both["volume"], both["ts_event"]))]
    repeats = np.append(both["ts_event"][1:] == both["ts_event"][:-1], [False] * bool(len(both)))
    return both[~repeats], both["ts_event"][repeats]


def _known(kept: Rows, new: Rows) -> NDArray[np.bool_]:
    """Which rows of `new` the tape holds: of equal rows, the first as many as are in `kept`."""
    if not len(kept):
        return np.zeros(len(new), bool)
    identity = np.dtype([(name, new.dtype[name]) for name in _IDENTITY])
    both = np.empty(len(kept) + len(new), identity)
    for name in _IDENTITY:
        both[name] = np.concatenate([kept[name], new[name]])
    _, kinds = np.unique(both, return_inverse=True)
    held = np.bincount(kinds[: len(kept)], minlength=int(kinds.max()) + 1)
    mine = kinds[len(kept) :]
    order = np.argsort(mine, kind="stable")
    occurrence = np.empty(len(new), np.int64)
    occurrence[order] = np.arange(len(new)) - np.searchsorted(mine[order], mine[order])
    return occurrence < held[mine]

"""Warm the cache of completed sessions after a restart, so that first requests do not decode everything at once.

The newest products come first. A large store does not delay the start: products left when the time is over are
computed on request.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from outcry.access.licences import OPERATOR
from outcry.answers.query import Query
from outcry.sessions.store import SqlStore

#: Maximum products to prepare; as many as the cache holds.
MAX_PRODUCTS = 200


@dataclass(frozen=True, slots=True)
class Warmed:
    """Result of preparing answers: how many of all products were prepared."""

    done: int
    of: int


def warm(
    query: Query, store: SqlStore, now_ns: int, in_time: Callable[[], bool],
    progress: Callable[[int, int], object],
) -> Warmed:  # fmt: skip
    """Prepare each owner's products while `in_time()` is true: the operator's first, and the newest data first.

    `progress(done, of)` is called before each product and at the end. Raises `StoreBusy`.
    """
    newest: dict[tuple[int, str], date] = {}
    for row in store.datasets():
        known = newest.get((row.owner, row.root), date.min)
        newest[row.owner, row.root] = max(known, row.last)
    order = sorted(newest, key=lambda pair: (pair[0] != OPERATOR, -newest[pair].toordinal(), pair))
    order = order[:MAX_PRODUCTS]
    for done, (owner, root) in enumerate(order):
        progress(done, len(newest))
        if not in_time():
            return Warmed(done, len(newest))
        query.warm(owner, root, now_ns)
    progress(len(order), len(newest))
    return Warmed(len(order), len(newest))

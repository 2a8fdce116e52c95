"""Work out what first answers rest on before anybody asks: after a restart everything would be decoded at once.

Rules kept: what is newest comes first, and a large store does not hold up the start: what is left when the time is over
is worked out when it is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

from outcry.access.licences import OPERATOR
from outcry.answers.query import Query
from outcry.sessions.store_model import SessionStore

#: Products of one owner that are prepared at most: as many as stay in memory.
MOST = 200


@dataclass(frozen=True, slots=True)
class Warmed:
    """How many products of how many were prepared."""

    done: int
    of: int


def warm(
    query: Query, store: SessionStore, now_ns: int, in_time: Callable[[], bool],
    progress: Callable[[int, int], object],
) -> Warmed:  # fmt: skip
    """Prepare the answers of every owner's products while `in_time()`, the newest first and the operator's before
    those of users. `progress(done, of)` is called before each and at the end. Raises `StoreBusy`."""
    newest: dict[tuple[int, str], date] = {}
    for row in store.datasets():
        held = newest.get((row.owner, row.root), date.min)
        newest[row.owner, row.root] = max(held, row.last)
    order = sorted(newest, key=lambda pair: (pair[0] != OPERATOR, -newest[pair].toordinal(), pair))
    order = order[:MOST]
    for done, (owner, root) in enumerate(order):
        progress(done, len(newest))
        if not in_time():
            return Warmed(done, len(newest))
        query.warm(owner, root, now_ns)
    progress(len(order), len(newest))
    return Warmed(len(order), len(newest))

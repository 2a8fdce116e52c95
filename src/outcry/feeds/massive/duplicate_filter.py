"""What history has told lately: by it, what comes a second time is recognised, in later pages and live.

Rule kept: recognised by multiset, and only as far back as both can have it. Two equal trades are two trades.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Trades
from outcry.trades.records import Rows

#: History is looked through again from this far before the newest trade it had.
TAIL_NS = 10 * NANOS_PER_SECOND

Identity = tuple[int, int, int]


class DuplicateFilter:
    """One stream's. Numbers are no part of what a trade is: the socket and history need not count alike."""

    def __init__(self, since_ns: int) -> None:
        self._counts: Counter[Identity] = Counter()
        self._since_ns = since_ns
        #: The newest trade told, ns UTC; 0 where there was none.
        self.newest_ns = 0

    @property
    def tail_ns(self) -> int:
        """From where history is to be looked through again."""
        return max(self._since_ns, self.newest_ns - TAIL_NS)

    def counts(self) -> Counter[Identity]:
        """What has been told so far, to be used up by `fresh`."""
        return self._counts.copy()

    def note(self, rows: Rows, live: Sequence[Trades]) -> None:
        """These have been told. `live`: trades that wait, which history may still come to."""
        if not len(rows):
            return
        self.newest_ns = max(self.newest_ns, int(rows["ts_event"].max()))
        first_ns = min((int(event.rows["ts_event"].min()) for event in live), default=self.newest_ns)
        kept_ns = min(first_ns, self.newest_ns) - TAIL_NS
        self._counts.update(_identities(rows[rows["ts_event"] >= kept_ns]))

    def fresh(self, rows: Rows, counts: "Counter[Identity] | None" = None) -> Rows:
        """The rows without those told before: as many equal ones are left out as there were."""
        counts = self._counts if counts is None else counts
        if not len(rows) or not counts or int(rows["ts_event"].min()) > self.newest_ns:
            return rows  # as nearly always
        keep = np.ones(len(rows), bool)
        old = np.flatnonzero(rows["ts_event"] <= self.newest_ns)
        for at, identity in zip(old.tolist(), _identities(rows[old]), strict=True):
            if counts[identity] > 0:
                counts[identity] -= 1
                keep[at] = False
        return rows if keep.all() else rows[keep]

    def short_of(self, live: Sequence[Trades]) -> int | None:
        """The time of the first live trade, if history has not come as far; None where nothing can be between."""
        if not live:
            return None
        first = next(_identities(live[0].rows[:1]))
        return first[0] if first[0] > self.newest_ns else None


def _identities(rows: Rows) -> Iterator[Identity]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size"))
    return zip(*columns, strict=True)  # pyright: ignore[reportReturnType] - the columns have these types

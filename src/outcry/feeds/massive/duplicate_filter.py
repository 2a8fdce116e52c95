"""Drops trades that a stream receives twice: recent trades of history that arrive again, in later pages or live.

Trades are compared as a multiset, so two identical trades stay two. Only the time span that both sources can contain is
compared.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Trades
from outcry.trades.records import Rows

#: History is requested again from this long before its newest trade.
TAIL_NS = 10 * NANOS_PER_SECOND

Identity = tuple[int, int, int]


class DuplicateFilter:
    """Filter of one stream that drops trades received twice.

    Trade ids are ignored, because socket and history may number trades differently.
    """

    def __init__(self, since_ns: int) -> None:
        self._counts: Counter[Identity] = Counter()
        self._since_ns = since_ns
        #: Time of the newest trade passed on (ns UTC); 0 if there was none.
        self.newest_ns = 0

    @property
    def tail_ns(self) -> int:
        """Return the time from which history is requested next (ns UTC)."""
        return max(self._since_ns, self.newest_ns - TAIL_NS)

    def counts(self) -> Counter[Identity]:
        """Return a copy of the counts of trades passed on.

        Several calls of `new_rows` can share the copy; each call reduces its counts.
        """
        return self._counts.copy()

    def record(self, rows: Rows, live: Sequence[Trades]) -> None:
        """Count rows that were passed on. live: waiting live trades, which history may also contain."""
        if not len(rows):
            return
        self.newest_ns = max(self.newest_ns, int(rows["ts_event"].max()))
        first_ns = min((int(event.rows["ts_event"].min()) for event in live), default=self.newest_ns)
        kept_ns = min(first_ns, self.newest_ns) - TAIL_NS
        self._counts.update(_identities(rows[rows["ts_event"] >= kept_ns]))

    def new_rows(self, rows: Rows, counts: "Counter[Identity] | None" = None) -> Rows:
        """Return the rows that were not passed on before.

        Rows are compared by multiset: each counted trade removes one equal row.
        """
        counts = self._counts if counts is None else counts
        if not len(rows) or not counts or min(rows["ts_event"].tolist()) > self.newest_ns:
            return rows  # the usual case
        keep = np.ones(len(rows), bool)
        old = np.flatnonzero(rows["ts_event"] <= self.newest_ns)
        for at, identity in zip(old.tolist(), _identities(rows[old]), strict=True):
            if counts[identity] > 0:
                counts[identity] -= 1
                keep[at] = False
        return rows if keep.all() else rows[keep]

    def gap_end_ns(self, live: Sequence[Trades]) -> int | None:
        """Return the time (ns UTC) of the first live trade if history may end before it; None if no gap is possible."""
        if not live:
            return None
        first = next(_identities(live[0].rows[:1]))
        return first[0] if first[0] > self.newest_ns else None


def _identities(rows: Rows) -> Iterator[Identity]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size"))
    return zip(*columns, strict=True)  # pyright: ignore[reportReturnType] - the columns have these types

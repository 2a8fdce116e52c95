"""Removes rows that a feed repeats after a reconnect.

The overlap is the time before the newest stored row, which a reopened feed may deliver again. Its rows are compared
with the stored ones as multisets: two equal trades are two trades. If bars already cover a time, its trades are dropped
(docs/contribute/feeds.md).
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from outcry.trades.feed import OVERLAP_NS
from outcry.trades.records import Rows

Identity = tuple[int, int, int, bytes, int]


class Overlap:
    """Filter for the rows of one contract: drops the rows that a feed repeats after a reconnect.

    barred_ns: end of the time that stored bars already cover. Trades before it are dropped.
    """

    def __init__(self) -> None:
        self._known: Counter[Identity] = Counter()
        self._until_ns = self._bars_until_ns = 0
        self.barred_ns = 0

    @property
    def waits(self) -> bool:
        """Whether the feed may still repeat rows, so that received rows must be compared with stored ones."""
        return bool(self._known)

    def resume(self, recent: Rows, latest_ns: int, last_bar_ns: int, barred_ns: int) -> None:
        """Start to filter after a reconnect.

        Rows up to `latest_ns` may repeat rows in `recent`. Bars up to `last_bar_ns` are stored already; they include
        all trades before `barred_ns`.
        """
        self._known = Counter(_identities(recent))
        self._until_ns, self._bars_until_ns, self.barred_ns = latest_ns, last_bar_ns, barred_ns

    def caught_up(self, at_ns: int) -> None:
        """Stop filtering if the feed's history is complete up to the newest stored row or later."""
        if at_ns >= self._until_ns:
            self._known = Counter()

    def trades(self, rows: Rows) -> Rows:
        """Return the trades that do not repeat stored rows, dtype `LIVE_TRADE`."""
        rows = rows[rows["ts_event"] >= self.barred_ns]  # bars of the same time already count them
        if self._known and len(rows):
            first_ns = int(rows["ts_event"].min())
            if first_ns <= self._until_ns:
                return self._unknown(rows)
            if first_ns > self._until_ns + OVERLAP_NS:  # no feed repeats rows beyond its overlap
                self._known = Counter()
        return rows

    def bars(self, rows: Rows, bar_ns: int) -> Rows:
        """Return the bars that do not repeat stored bars, dtype `records.BAR`. bar_ns: length of a bar."""
        fresh = rows[rows["ts_event"] > self._bars_until_ns]
        if len(fresh):
            self.barred_ns = max(self.barred_ns, int(fresh["ts_event"].max()) + bar_ns)
        return fresh

    def _unknown(self, rows: Rows) -> Rows:
        """Return the rows that are not stored yet: if n equal rows are stored, n such rows are removed."""
        keep = np.ones(len(rows), bool)
        for at in np.flatnonzero(rows["ts_event"] <= self._until_ns):
            identity = next(_identities(rows[at : at + 1]))
            if self._known[identity] > 0:
                self._known[identity] -= 1
                keep[at] = False
        return rows[keep]


def _identities(rows: Rows) -> Iterator[Identity]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size", "side", "sequence"))
    return zip(*columns, strict=True)  # pyright: ignore[reportReturnType] - the columns have these types

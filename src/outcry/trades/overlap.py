"""What a feed that began again may repeat, told from what is new.

Rules kept (docs/feeds.md): a feed delivers at least once, so what lies in the overlap is recognised, there only, and by
multiset: two equal trades are two trades. What bars have told already is not told again by trades.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from outcry.trades.feed import OVERLAP_NS
from outcry.trades.records import Rows

Identity = tuple[int, int, int, bytes, int]


class Overlap:
    """One contract's. `barred_ns`: before this instant bars have told what was traded."""

    def __init__(self) -> None:
        self._known: Counter[Identity] = Counter()
        self._until_ns = self._bars_until_ns = 0
        self.barred_ns = 0

    @property
    def waits(self) -> bool:
        """Whether anything may still be repeated."""
        return bool(self._known)

    def resume(self, recent: Rows, latest_ns: int, last_bar_ns: int, barred_ns: int) -> None:
        """The feed begins again: what it sends up to `latest_ns` may be in `recent`, rows that are known. Bars up to
        `last_bar_ns` are known, and with them what was traded before `barred_ns`."""
        self._known = Counter(_identities(recent))
        self._until_ns, self._bars_until_ns, self.barred_ns = latest_ns, last_bar_ns, barred_ns

    def caught_up(self, at_ns: int) -> None:
        """History is complete up to an instant; if it is not before what is known, the overlap is behind."""
        if at_ns >= self._until_ns:
            self._known = Counter()

    def trades(self, rows: Rows) -> Rows:
        """What is new of `LIVE_TRADE` rows."""
        rows = rows[
            rows["ts_event"] >= self.barred_ns
        ]  # added to bars of the same time they would count twice
        if self._known and len(rows):
            first_ns = int(rows["ts_event"].min())
            if first_ns <= self._until_ns:
                return self._unknown(rows)
            if first_ns > self._until_ns + OVERLAP_NS:  # nobody repeats what is that old
                self._known = Counter()
        return rows

    def bars(self, rows: Rows, bar_ns: int) -> Rows:
        """What is new of `records.BAR` rows of `bar_ns` each."""
        fresh = rows[rows["ts_event"] > self._bars_until_ns]
        if len(fresh):
            self.barred_ns = max(self.barred_ns, int(fresh["ts_event"].max()) + bar_ns)
        return fresh

    def _unknown(self, rows: Rows) -> Rows:
        """Leave out what is known: of equal rows, as many as are."""
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

"""A feed's own count of lots against ours: the one way to see trades that were lost without a word.

Rule kept (docs/feeds.md): counts are compared by how they grow; a count that runs ahead of its trades is none that was
lost, so ours has two seconds of event time to reach it.
"""

from outcry.trades.feed import OVERLAP_NS, VolumeCounter

#: From and until (ns UTC) trades are missing.
Hole = tuple[int, int]


class VolumeGapCheck:
    """One stream's. `ours` is always the lots taken in so far, from any beginning."""

    def __init__(self) -> None:
        self._ahead = 0  # theirs less ours, where both agreed
        self._agreed_ns: int | None = None
        self._newest = 0
        self._unmet: VolumeCounter | None = None

    def check(self, count: VolumeCounter, ours: int) -> Hole | None:
        """A count came; return where trades are missing, if it shows that they are."""
        if self._agreed_ns is None or count.volume_lots < self._newest:  # the first, or a new trade date
            self._agree(count, ours)
            return None
        self._newest = count.volume_lots
        if self._unmet is not None and ours + self._ahead >= self._unmet.volume_lots:
            self._agreed_ns, self._unmet = self._unmet.at_ns, None
        if ours + self._ahead >= count.volume_lots:
            self._agreed_ns = count.at_ns
            return None
        if self._unmet is None:
            self._unmet = count
        if count.at_ns - self._unmet.at_ns <= OVERLAP_NS:
            return None
        hole = (self._agreed_ns, self._unmet.at_ns)
        self._agree(count, ours)
        return hole

    def _agree(self, count: VolumeCounter, ours: int) -> None:
        self._ahead, self._agreed_ns = count.volume_lots - ours, count.at_ns
        self._newest, self._unmet = count.volume_lots, None

"""Detects lost trades by comparing a feed's own volume counter with the volume received.

The check compares how much both have grown, not their absolute values. The counter may be ahead of the trades it
counts, so the volume received has two seconds of event time to reach it (docs/contribute/feeds.md).
"""

from outcry.trades.feed import OVERLAP_NS, VolumeCounter

#: Start and end (ns UTC) of a time with missing trades.
Hole = tuple[int, int]


class VolumeGapCheck:
    """Compares one stream's volume counter with the volume received."""

    def __init__(self) -> None:
        self._ahead = 0  # counter minus received volume when both last agreed
        self._agreed_ns: int | None = None
        self._newest = 0
        self._unmet: VolumeCounter | None = None

    def check(self, count: VolumeCounter, ours: int) -> Hole | None:
        """Return the time span with missing trades, if a new counter value proves that some are missing; else None.

        ours: lots received since any fixed start.
        """
        # This is the first count, or the trade date is new.
        if self._agreed_ns is None or count.volume_lots < self._newest:
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

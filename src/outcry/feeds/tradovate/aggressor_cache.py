"""Who took the initiative in a contract's newest ticks, as it was told first.

Bid and ask beside a tick are optional, and may be missing where the vendor sends it once more. Rule kept: a tick that
comes again is the same in everything, for by that it is recognised.
"""

from outcry.trades.records import Rows

#: Ticks remembered: far more than two seconds bring, which is what may come again.
_RETAINED = 5000


class AggressorCache:
    """One contract's, for as long as there is a connection, whatever becomes of its streams."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def apply(self, rows: Rows) -> None:
        """Set the aggressors of ticks that have come before to what they were then; remember the others."""
        newest = rows[-_RETAINED:]
        for at, (number, side) in enumerate(zip(newest["id"].tolist(), newest["side"].tolist(), strict=True)):
            before = self._known.setdefault(number, side)
            if before != side:
                newest["side"][at] = before
        if len(self._known) > 2 * _RETAINED:
            self._known = dict(list(self._known.items())[-_RETAINED:])

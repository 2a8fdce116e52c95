"""Cache of the aggressor side of recent ticks.

A tick's side is derived from its bid and ask, which may be missing when the vendor sends the tick again. The repeated
tick gets the side that it had first, because it is recognised as repeated only if all its values are the same.
"""

from outcry.trades.records import Rows

#: Number of ticks stored: far more than arrive in two seconds, the span that may be repeated.
_RETAINED = 5000


class AggressorCache:
    """Cache of the aggressor sides of one contract's recent ticks; it outlives the contract's streams."""

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}

    def apply(self, rows: Rows) -> None:
        """Set the sides of repeated ticks to their first values, and store the sides of new ticks."""
        newest = rows[-_RETAINED:]
        for at, (number, side) in enumerate(zip(newest["id"].tolist(), newest["side"].tolist(), strict=True)):
            before = self._known.setdefault(number, side)
            if before != side:
                newest["side"][at] = before
        if len(self._known) > 2 * _RETAINED:
            self._known = dict(list(self._known.items())[-_RETAINED:])

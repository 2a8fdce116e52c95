"""Which price stands for a row of several ticks, in half ticks, because the middle of two ticks lies between them."""

from dataclasses import dataclass
from typing import Literal

#: Prices that stand for a row of several ticks. `ticks` (our rule): the POC is the middle tick, the lower one of two,
#: and the value area ends at the outer ticks. `bottom`: the lowest tick. `middle`: the middle of the row. `edges`: the
#: POC is the middle, VAL the lower edge, and VAH the upper edge, where the next row begins.
RowLabel = Literal["ticks", "bottom", "middle", "edges"]


@dataclass(frozen=True, slots=True)
class RowScale:
    """Prices of rows in half ticks. Rows are counted from the price `anchor_ticks`.

    ceiling: a row is the single price at its lower end, to which closes are rounded up.
    """

    row_ticks: int
    label: RowLabel
    ceiling: bool
    anchor_ticks: int = 0

    def poc(self, row: int) -> int:
        """Return the price of a row that is a POC."""
        return self._start(row) + self._offsets[1]

    def val(self, row: int) -> int:
        """Return the price of the lowest row of a value area."""
        return self._start(row) + self._offsets[0]

    def vah(self, row: int) -> int:
        """Return the price of the highest row of a value area."""
        return self._start(row) + self._offsets[2]

    def rows_of_val(self, low: int, high: int) -> tuple[int, int]:
        """Return the first and last row whose price as VAL is between two prices, ends included."""
        return self._rows(low - self._offsets[0], high - self._offsets[0])

    def rows_of_vah(self, low: int, high: int) -> tuple[int, int]:
        """Return the first and last row whose price as VAH is between two prices, ends included."""
        return self._rows(low - self._offsets[2], high - self._offsets[2])

    def _start(self, row: int) -> int:
        return 2 * (self.row_ticks * row + self.anchor_ticks)

    def _rows(self, low: int, high: int) -> tuple[int, int]:
        low, high = low - 2 * self.anchor_ticks, high - 2 * self.anchor_ticks
        return -(-low // (2 * self.row_ticks)), high // (2 * self.row_ticks)

    @property
    def _offsets(self) -> tuple[int, int, int]:
        """Return the half ticks by which VAL, POC and VAH lie above the lowest tick of their row."""
        height = self.row_ticks
        if self.ceiling or self.label == "bottom":
            return 0, 0, 0
        if self.label == "ticks":
            return 0, 2 * ((height - 1) // 2), 2 * (height - 1)
        return (0, height, 2 * height) if self.label == "edges" else (height - 1, height - 1, height - 1)

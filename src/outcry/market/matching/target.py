"""The levels that the search should reproduce, and their distance from computed ones.

Computed levels are in half ticks, because the middle of a row of two ticks lies between them.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Numbers(NamedTuple):
    """Levels of a setting in half ticks."""

    poc: int
    val: int
    vah: int
    vpoc: int

    def moved(self, half_ticks: int) -> "Numbers":
        """Return the levels after a move of all prices."""
        return Numbers(*(level + half_ticks for level in self))


@dataclass(frozen=True, slots=True)
class Target:
    """Levels as another platform shows them, in 10⁻⁹. tick_e9: the product's tick in 10⁻⁹. vpoc: None if not given.

    Platforms round prices and show the middle of a row. So a level within half a tick of a computed one equals it.
    """

    poc_e9: int
    val_e9: int
    vah_e9: int
    vpoc_e9: int | None
    tick_e9: int

    def from_poc(self, half_ticks: int) -> int:
        """Return the distance of a computed POC in ticks."""
        return self._distance(self.poc_e9, half_ticks)

    def from_area(self, val: int, vah: int) -> int:
        """Return the sum of the distances of a computed VAL and VAH (half ticks) in ticks."""
        return self._distance(self.val_e9, val) + self._distance(self.vah_e9, vah)

    def from_vpoc(self, half_ticks: int) -> int:
        """Return the distance of a computed volume POC in ticks; 0 if none is given."""
        return 0 if self.vpoc_e9 is None else self._distance(self.vpoc_e9, half_ticks)

    def distance(self, numbers: Numbers) -> int:
        """Return the sum of all distances in ticks."""
        return (
            self.from_poc(numbers.poc)
            + self.from_area(numbers.val, numbers.vah)
            + self.from_vpoc(numbers.vpoc)
        )

    def shift(self, half_ticks: int) -> int:
        """Return the whole ticks by which the given POC is above a computed one, to the nearest."""
        return (2 * self.poc_e9 - half_ticks * self.tick_e9 + self.tick_e9) // (2 * self.tick_e9)

    def moved(self, ticks: int) -> "Target":
        """Return the target after a move of all its prices."""
        by_e9 = ticks * self.tick_e9
        vpoc_e9 = None if self.vpoc_e9 is None else self.vpoc_e9 + by_e9
        return Target(self.poc_e9 + by_e9, self.val_e9 + by_e9, self.vah_e9 + by_e9, vpoc_e9, self.tick_e9)

    def within(self, ticks: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the lowest and highest VAL, and the same of the VAH (half ticks), at most this far away."""
        return self._reach(self.val_e9, ticks), self._reach(self.vah_e9, ticks)

    def _reach(self, given_e9: int, ticks: int) -> tuple[int, int]:
        apart = (1 + 2 * ticks) * self.tick_e9
        return -((apart - 2 * given_e9) // self.tick_e9), (2 * given_e9 + apart) // self.tick_e9

    def _distance(self, given_e9: int, half_ticks: int) -> int:
        apart = abs(2 * given_e9 - half_ticks * self.tick_e9)  # in half units of 10⁻⁹
        return max(0, -((self.tick_e9 - apart) // (2 * self.tick_e9)))

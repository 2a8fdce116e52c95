"""The nearest settings of a search, grouped by their levels."""

from dataclasses import dataclass, field

from outcry.market.matching.setting import Setting, cost
from outcry.market.matching.target import Numbers, Target

#: A shift of all prices fits almost any POC, so a setting with one must be nearer by more than this many ticks.
SHIFT_TICKS = 4
#: Settings listed, and how many of them may have the same levels.
MAX_MATCHES, MAX_ALIKE = 12, 4
_NO_BOUND = 2**62


@dataclass(frozen=True, slots=True)
class Match:
    """A setting with its levels, and their distance in ticks: the sum over the given levels.

    alike: number of settings that were found with the same levels, this one included.
    """

    setting: Setting
    numbers: Numbers
    distance: int
    alike: int = 1

    @property
    def rank(self) -> int:
        """Return the distance by which settings are sorted."""
        return self.distance + (SHIFT_TICKS if self.setting.shift_ticks else 0)

    @staticmethod
    def of(setting: Setting, numbers: Numbers, target: Target) -> "Match":
        """Return a setting with its distance from a target."""
        return Match(setting, numbers, target.distance(numbers))


@dataclass(slots=True)
class _Group:
    """Settings with the same levels, with or without a shift, and the cost of each (`setting.cost`)."""

    distance: int
    rank: int
    costs: dict[Setting, int] = field(default_factory=dict[Setting, int])


class Nearest:
    """Keeps the settings with the nearest levels.

    bound: the rank (ticks) beyond which no further setting is needed.
    """

    def __init__(self, ours: Setting, *, trades: bool) -> None:
        self._ours, self._trades = ours, trades
        self._groups: dict[tuple[Numbers, bool], _Group] = {}
        self.bound = _NO_BOUND

    def add(self, match: Match) -> None:
        """Add a setting, unless it is beyond the bound."""
        key = match.numbers, bool(match.setting.shift_ticks)
        group = self._groups.get(key)
        if group is None:
            if match.rank > self.bound:
                return
            group = self._groups[key] = _Group(match.distance, match.rank)
            self._tighten()
        if match.setting not in group.costs:
            group.costs[match.setting] = cost(match.setting, self._ours, trades=self._trades)

    def _tighten(self) -> None:
        """Lower the bound to the distance of the last levels that are still listed."""
        if len(self._groups) < MAX_MATCHES:
            return
        distances = sorted(group.rank for group in self._groups.values())
        if distances[MAX_MATCHES - 1] < self.bound:
            self.bound = distances[MAX_MATCHES - 1]
            self._groups = {key: group for key, group in self._groups.items() if group.rank <= self.bound}

    def matches(self) -> list[Match]:
        """Return the settings, nearest first; among equals the one that differs least from ours first."""
        found: list[tuple[int, int, Match]] = []
        for (numbers, _), group in self._groups.items():
            cheapest = sorted(group.costs.items(), key=lambda item: item[1])[:MAX_ALIKE]
            found += [
                (group.rank, price, Match(setting, numbers, group.distance, len(group.costs)))
                for setting, price in cheapest
            ]
        return [match for _, _, match in sorted(found, key=lambda each: each[:2])[:MAX_MATCHES]]

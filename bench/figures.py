"""The one form of a result: a figure with its comparator, its goal and the verdict, as printed and as stored."""

from collections.abc import Sequence
from statistics import median
from typing import Self

import msgspec


class Goal(msgspec.Struct, frozen=True):
    """The bound that a figure has to reach."""

    bound: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Return whether a value reaches the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {shown(self.bound)}"


def at_least(bound: float) -> Goal:
    """Return a goal that larger values reach."""
    return Goal(bound, at_least=True)


def at_most(bound: float) -> Goal:
    """Return a goal that smaller values reach."""
    return Goal(bound, at_least=False)


class Rounds(msgspec.Struct, frozen=True):
    """Costs of one alternative in the rounds of a run, such as seconds per request. Less is better."""

    costs: tuple[float, ...]

    @classmethod
    def of(cls, costs: Sequence[float]) -> Self:
        """Return the rounds with these costs."""
        return cls(tuple(costs))

    @property
    def best(self) -> float:
        """Return the cost of the cheapest round."""
        return min(self.costs)

    @property
    def median(self) -> float:
        """Return the median cost."""
        return median(self.costs)

    def rate(self, count: float = 1.0) -> str:
        """Return how many items the median round did per second or other unit of cost, as text.

        count: the items that one cost stands for.
        """
        return shown(count / self.median)


class Figure(msgspec.Struct, frozen=True):
    """One line of results.

    value: the median of the rounds. best: the figure of the best rounds. comparator: what the value is a ratio to.
    note: the absolute figures behind a ratio, and other details.
    """

    name: str
    value: float
    unit: str
    note: str = ""
    comparator: str = ""
    goal: Goal | None = None
    best: float | None = None

    @classmethod
    def ratio(
        cls, name: str, above: Rounds, below: Rounds, comparator: str, goal: Goal | None = None, note: str = ""
    ) -> Self:  # fmt: skip
        """Return the median of the ratios of each round, and the ratio of the best rounds.

        A share of a comparator's speed is its cost above ours; a multiple of its cost is ours above its.
        """
        ratios = [one / other for one, other in zip(above.costs, below.costs, strict=True)]
        best = above.best / below.best
        return cls(name, median(ratios), "×", _with_count(note, len(ratios)), comparator, goal, best)

    @classmethod
    def of_rounds(
        cls, name: str, costs: Rounds, unit: str, comparator: str = "", goal: Goal | None = None, note: str = ""
    ) -> Self:  # fmt: skip
        """Return the median and the best of costs that are compared with nothing."""
        note = _with_count(note, len(costs.costs))
        return cls(name, costs.median, unit, note, comparator, goal, costs.best)

    @property
    def verdict(self) -> str:
        """Return `met` or `MISSED`; empty without a goal."""
        if self.goal is None:
            return ""
        return "met" if self.goal.is_met(self.value) else "MISSED"

    @property
    def amount(self) -> str:
        """Return the value with its unit, and the best if there are several rounds."""
        text = f"{shown(self.value)} {self.unit}"
        return text if self.best is None else f"{text} (best {shown(self.best)})"

    def __str__(self) -> str:
        compared = f" of {self.comparator}" if self.comparator else ""
        judged = f" goal {self.goal}: {self.verdict}." if self.goal else ""
        detail = f" {self.note}" if self.note else ""
        return f"{self.name:<60} {self.amount:<24}{compared};{judged}{detail}".rstrip(";")


def shown(value: float) -> str:
    """Return a number with three digits, or whole from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _with_count(note: str, rounds: int) -> str:
    count = f"{rounds} round{'s' * (rounds > 1)}"
    return f"{note}; {count}" if note else count

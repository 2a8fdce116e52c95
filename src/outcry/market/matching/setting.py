"""A setting of the search: what a profile counts, when, in which rows, by which method. Sources: rules §1, §2.

The search compares a setting with our default. Every part that differs has a name (`Part`) and a cost, which is higher
for an unusual difference. Among settings with the same numbers the cheapest comes first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import DALTON, PRESETS, Method
from outcry.market.row_label import RowLabel

Part = Literal[
    "contract", "shift", "hours", "basis", "placement", "bars", "row", "row_count", "label", "percent", "step", "pair",
    "side_tie", "stop", "poc_tie", "rows",
]  # fmt: skip
Value = str | int

#: Beginnings of the names of hours: a product's other set of regular hours (`rth:cash`), the regular hours read in
#: another time zone (`rth@UTC`), and a calendar day (`day@UTC`).
VARIANT, ZONE, DAY = "rth:", "rth@", "day@"
#: Row heights in ticks.
ROW_TICKS = (1, 2, 4, 5, 8, 10, 16, 20)
#: Numbers of rows into which a platform may divide the range of a profile, most usual first.
ROW_COUNTS = (24, 50, 100, 20, 30, 40, 200)
#: Shares of the value area in percent, most usual first.
PERCENTS = (70, 68, *sorted(set(range(50, 96)) - {68, 70}, key=lambda percent: (abs(percent - 70), percent)))
_ROUND_PERCENTS = frozenset(range(50, 96, 5))
#: Length of bars that stands for the trades themselves.
EXACT = 0

_METHOD_COSTS: Mapping[Part, int] = {
    "step": 1, "pair": 2, "side_tie": 1, "stop": 1, "poc_tie": 1, "rows": 1, "placement": 2,
}  # fmt: skip
_HOURS_COSTS: Mapping[str, int] = {"rth": 0, "full": 1, "trade_date": 1, "overnight": 2}
_BEGINNING_COSTS = ((VARIANT, 1), (DAY, 2), (ZONE, 3))
_PART_COSTS: Mapping[Part, int] = {"contract": 3, "shift": 3, "row_count": 2}


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is counted at each row.

    basis: TPOs or volume. placement: at every row of a bar's range, or only at the row of its close, rounded up.
    bar_minutes: length of a bracket (TPOs) or of the bars from which volume comes; `EXACT` for the trades themselves.
    """

    basis: Literal["tpo", "volume"]
    placement: Literal["range", "close_up"]
    bar_minutes: int

    def is_usual(self, *, trades: bool) -> bool:
        """Return whether the bars have the usual length: 30 minutes for TPOs, else the finest that is recorded."""
        if (self.basis, self.placement) == ("tpo", "range"):
            return self.bar_minutes == BRACKET_MINUTES
        return self.bar_minutes == (EXACT if trades and self.placement == "range" else 1)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the search. Sampling and method have the same basis and placement.

    row_count: the number of rows that the range of the profile is divided into, from the low upwards; `row_ticks` then
    follows from it. 0 for rows of a fixed height, counted from price 0. shift_ticks: what the platform adds to all
    prices, as in a back-adjusted continuous contract.
    """

    contract: str
    hours: str
    sampling: Sampling
    row_ticks: int
    label: RowLabel
    method: Method
    row_count: int = 0
    shift_ticks: int = 0

    @property
    def preset(self) -> str | None:
        """Return the name of the preset that computes as the method does, if there is one."""
        return preset_of(self.method)


def default_setting(contract: str) -> Setting:
    """Return our own setting."""
    return Setting(contract, "rth", Sampling("tpo", "range", BRACKET_MINUTES), 1, "ticks", DALTON)


def differences(setting: Setting, ours: Setting, *, trades: bool) -> Sequence[tuple[Part, Value, Value]]:
    """Return the parts in which a setting differs from ours, each with its value and ours, most important first.

    trades: whether trades are recorded, so that exact volume is the usual one.
    """
    return [
        (part, value, other)
        for (part, value), (_, other) in zip(_parts(setting), _parts(ours), strict=True)
        if value != other and (part != "bars" or not setting.sampling.is_usual(trades=trades))
    ]


def cost(setting: Setting, ours: Setting, *, trades: bool) -> int:
    """Return how unusual a setting is beside ours: 0 for ours. A preset's method costs no more than one difference."""
    total = method_cost = 0
    for part, value, _ in differences(setting, ours, trades=trades):
        if part in _METHOD_COSTS:
            method_cost += _METHOD_COSTS[part]
        elif part == "percent":
            method_cost += _percent_cost(value)
        elif part == "hours":
            total += hours_cost(setting.hours)
        else:
            total += _PART_COSTS.get(part, 1)
    return total + (min(method_cost, 1) if setting.preset else method_cost)


def hours_cost(hours: str) -> int:
    """Return how unusual the hours are, 0 for the regular hours."""
    known = _HOURS_COSTS.get(hours)
    return next(c for begin, c in _BEGINNING_COSTS if hours.startswith(begin)) if known is None else known


def _percent_cost(percent: Value) -> int:
    """Return how unusual a share of the value area is beside 70 %: users choose round ones."""
    return 1 if percent == PERCENTS[1] else 2 if percent in _ROUND_PERCENTS else 3


def preset_of(method: Method) -> str | None:
    """Return the name of the preset that computes as a method does, if there is one."""
    return _PRESET_NAMES.get(replace(method, name=""))


def _parts(setting: Setting) -> Iterator[tuple[Part, Value]]:
    method = setting.method
    yield "contract", setting.contract
    yield "shift", setting.shift_ticks
    yield "hours", setting.hours
    yield "basis", method.basis
    yield "placement", method.placement
    yield "bars", setting.sampling.bar_minutes
    yield "row", 1 if setting.row_count else setting.row_ticks
    yield "row_count", setting.row_count
    yield "label", setting.label
    yield "poc_tie", method.poc_tie
    yield "percent", method.percent
    yield "step", method.step
    yield "pair", method.pair
    yield "side_tie", method.side_tie
    yield "stop", method.stop
    yield "rows", method.rows


#: The first preset of those that compute alike has precedence.
_PRESET_NAMES = {replace(method, name=""): name for name, method in reversed(PRESETS.items())}

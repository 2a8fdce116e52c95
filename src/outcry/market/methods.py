"""Methods to compute the point of control and value area: our default and those of other platforms, as data.

Users often report that a profile differs from another platform's. Therefore each API response names its method, and
callers of the library can choose one. Rules §1 cites the source of each method.
"""

from dataclasses import dataclass
from typing import Literal

PocTie = Literal["mypivots", "lowest", "centre_high", "centre_low", "middle_row", "half_length"]

_POC_TIES: dict[PocTie, str] = {
    "mypivots": "nearest the range centre, then the side with more {counts}, then lower",
    "lowest": "lowest",
    "centre_high": "nearest the range centre, then higher",
    "centre_low": "nearest the range centre, then lower",
    "middle_row": "nearest the middle row, then lower",
    "half_length": "nearest half the number of rows, then lower",
}


@dataclass(frozen=True, slots=True)
class Method:
    """A way to compute a profile's POC and value area.

    basis: what is counted at each row (price): TPOs or volume. percent: share of the total that the value area must
    contain. step: rows compared at a time as the value area grows. pair: whether a winning pair of rows is added whole,
    or row by row up to the target. side_tie: which side wins if both are equal. stop: when the area stops growing: `ge`
    on reaching the target, `gt` on exceeding it, `floor` on reaching the target rounded down.

    rows: whether rows that did not trade count as zero (`all`) or do not exist (`printed`). placement: where a bar
    counts, at every row of its range, or only at the row of its close, rounded up (`close_up`).
    """

    name: str
    basis: Literal["tpo", "volume"] = "tpo"
    percent: int = 70
    step: Literal[1, 2] = 2
    pair: Literal["full", "trim"] = "full"
    side_tie: Literal["up", "down", "both"] = "up"
    stop: Literal["ge", "gt", "floor"] = "ge"
    poc_tie: PocTie = "mypivots"
    rows: Literal["all", "printed"] = "all"
    placement: Literal["range", "close_up"] = "range"

    def needed(self, total: int) -> int:
        """Return the count (TPOs or volume) that the value area must contain, given the count of the whole profile."""
        if self.stop == "floor":
            return total * self.percent // 100
        if self.stop == "gt":
            return total * self.percent // 100 + 1
        return -(-total * self.percent // 100)

    def describe(self) -> str:
        """Return the value-area rule as text."""
        rows = (
            "one row" if self.step == 1 else f"two rows, {'full' if self.pair == 'full' else 'trimmed'} pairs"
        )
        sign = {"ge": "at least", "gt": "more than", "floor": "at least (rounded down)"}[self.stop]
        counted = f"{self.basis}s at closes" if self.placement == "close_up" else f"{self.basis}s"
        return f"{sign} {self.percent} % of {counted}, {rows} at a time, side tie {self.side_tie}"

    def describe_poc_tie(self) -> str:
        """Return the rule for rows that tie for the POC as text."""
        return _POC_TIES[self.poc_tie].format(counts="TPOs" if self.basis == "tpo" else "volume")


_METHODS = (
    Method("dalton"),
    Method("cbot_1row", step=1),
    Method("dva68", percent=68, stop="gt"),
    Method("lean", basis="volume", step=1, stop="gt", poc_tie="middle_row", rows="printed", placement="close_up"),
    Method("lean_time", step=1, stop="gt", poc_tie="middle_row", rows="printed", placement="close_up"),
    Method(
        "py_market_profile",
        basis="volume", step=1, stop="gt", poc_tie="half_length", rows="printed", placement="close_up",
    ),
    Method("chart_patterns", step=1, side_tie="down", poc_tie="lowest"),
    Method("quantick", basis="volume", pair="trim", side_tie="down", poc_tie="lowest"),
    Method("earnforex", step=1, stop="floor", poc_tie="centre_high"),
    Method("linnsoft_a", poc_tie="centre_low"),
    Method("tradingview", basis="volume"),  # its help states no rules for ties: those of the default
)  # fmt: skip

#: The presets by name; `dalton` is the default everywhere.
PRESETS = {method.name: method for method in _METHODS}
DALTON = PRESETS["dalton"]

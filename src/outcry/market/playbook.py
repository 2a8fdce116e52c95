"""The playbook: a session's table of levels, and the conditions that its scenarios consist of (rules §7).

Levels within two ticks share one line at the price of the strongest. A condition is a comparison in whole ticks that
can be checked against trades. Nothing here is advice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from outcry.market.opening import Opening, Prior
from outcry.market.profile import SessionProfile
from outcry.market.units import fixed_text

#: Levels at most this far apart share one line of the table (rules §7).
MERGE_TICKS = 2

Side = Literal["above", "below", "at"]
Observable = Literal["open", "trade", "bracket_close"]
Op = Literal[">", ">=", "<", "<=", "in"]


class Status(StrEnum):
    """Status of a playbook scenario."""

    PENDING = "pending"
    ACTIVE = "active"
    DONE = "done"
    VOID = "void"


class ScenarioId(StrEnum):
    """The names of all scenarios, in display order."""

    ACCEPT_ABOVE = "accept_above"
    ACCEPT_BELOW = "accept_below"
    VALUE_RETURN_FROM_ABOVE = "value_return_from_above"
    VALUE_RETURN_FROM_BELOW = "value_return_from_below"
    IB_FAILURE_UP = "ib_failure_up"
    IB_FAILURE_DOWN = "ib_failure_down"
    GAP_UP_HELD = "gap_up_held"
    GAP_DOWN_HELD = "gap_down_held"
    POOR_HIGH_REPAIR = "poor_high_repair"
    POOR_LOW_REPAIR = "poor_low_repair"


#: The outcome that the conditions of each scenario would be consistent with.
OUTCOMES: Mapping[ScenarioId, str] = {
    ScenarioId.ACCEPT_ABOVE: "would be consistent with the auction going on to the prior high",
    ScenarioId.ACCEPT_BELOW: "would be consistent with the auction going on to the prior low",
    ScenarioId.VALUE_RETURN_FROM_ABOVE: "would be consistent with a rotation through value to its lower edge",
    ScenarioId.VALUE_RETURN_FROM_BELOW: "would be consistent with a rotation through value to its upper edge",
    ScenarioId.IB_FAILURE_UP: (
        "would be consistent with a rotation to the middle of the initial balance, then to its low"
    ),
    ScenarioId.IB_FAILURE_DOWN: (
        "would be consistent with a rotation to the middle of the initial balance, then to its high"
    ),
    ScenarioId.GAP_UP_HELD: "would be consistent with the auction extending above its initial balance",
    ScenarioId.GAP_DOWN_HELD: "would be consistent with the auction extending below its initial balance",
    ScenarioId.POOR_HIGH_REPAIR: (
        "would be consistent with the unfinished auction at the high being repaired by trade beyond it"
    ),
    ScenarioId.POOR_LOW_REPAIR: (
        "would be consistent with the unfinished auction at the low being repaired by trade beyond it"
    ),
}


class ReferenceKind(StrEnum):
    """Kinds of levels that a scenario can have as target, by their names in API responses."""

    PRIOR_HIGH = "Prior high"
    PRIOR_LOW = "Prior low"
    VAH = "VAH"
    VAL = "VAL"
    IBH = "IBH"
    IBL = "IBL"
    IB_MID = "IB mid"
    POOR_HIGH = "Poor high"
    POOR_LOW = "Poor low"


class LevelKind(StrEnum):
    """Kinds of levels in the playbook's table, strongest first.

    The order: levels that alerts watch, edges of ranges, other past prices, developing levels, derived levels.
    """

    PRIOR_VAH = "prior_vah"
    PRIOR_VAL = "prior_val"
    IB_HIGH = "ib_high"
    IB_LOW = "ib_low"
    ON_HIGH = "on_high"
    ON_LOW = "on_low"
    PRIOR_HIGH = "prior_high"
    PRIOR_LOW = "prior_low"
    PRIOR_POC = "prior_poc"
    NAKED_POC = "naked_poc"
    POOR_HIGH = "poor_high"
    POOR_LOW = "poor_low"
    PRIOR_CLOSE = "prior_close"
    PRIOR_MID = "prior_mid"
    DEV_POC = "dev_poc"
    DEV_VAH = "dev_vah"
    DEV_VAL = "dev_val"
    DEV_VPOC = "dev_vpoc"
    IB_X150_UP = "ib_x150_up"
    IB_X150_DOWN = "ib_x150_down"
    IB_X200_UP = "ib_x200_up"
    IB_X200_DOWN = "ib_x200_down"
    SINGLE_PRINT = "single_print"


@dataclass(frozen=True, slots=True)
class LevelLine:
    """One line of the playbook's table of levels."""

    price_ticks: int
    label: str
    kind: LevelKind

    def side(self, last_ticks: int) -> Side:
        """Return where the level is relative to the last price."""
        if self.price_ticks == last_ticks:
            return "at"
        return "above" if self.price_ticks > last_ticks else "below"

    def distance_ticks(self, last_ticks: int) -> int:
        """Return the distance from the last price, 0 or more."""
        return abs(self.price_ticks - last_ticks)


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a traded price with a price in ticks.

    With `op` `in`, the traded price must be from `price_ticks` to `to_ticks`, both included. observable: which price is
    compared: `open`, the session's first price; `trade`, any traded price; `bracket_close`, the last price of a
    completed bracket. times: how many consecutive brackets must meet the condition.
    """

    observable: Observable
    op: Op
    price_ticks: int
    times: int = 1
    to_ticks: int | None = None

    def met(self, low: int, high: int) -> bool:
        """Return whether any price from `low` to `high` (ticks, both included) meets the condition."""
        match self.op:
            case ">":
                return high > self.price_ticks
            case ">=":
                return high >= self.price_ticks
            case "<":
                return low < self.price_ticks
            case "<=":
                return low <= self.price_ticks
            case "in":
                top = self.price_ticks if self.to_ticks is None else self.to_ticks
                return low <= top and high >= self.price_ticks

    def text(self, tick_e9: int) -> str:
        """Return the condition as text, with as many decimals as the tick: `bracket_close in 1640.25..1655.50 x2`."""
        price = fixed_text(self.price_ticks, tick_e9)
        upto = "" if self.to_ticks is None else f"..{fixed_text(self.to_ticks, tick_e9)}"
        times = f" x{self.times}" if self.times > 1 else ""
        return f"{self.observable} {self.op} {price}{upto}{times}"


@dataclass(frozen=True, slots=True)
class Reference:
    """The target level of a scenario.

    made_on: for a poor extreme, the trade date of the session that made it; otherwise None.
    """

    kind: ReferenceKind
    price_ticks: int
    made_on: date | None = None

    @property
    def label(self) -> str:
        """Return the level's name, for a poor extreme with its date: `Poor low 2026-01-02`."""
        return self.kind if self.made_on is None else f"{self.kind} {self.made_on}"

    def text(self, tick_e9: int) -> str:
        """Return the level as text, with as many decimals as the tick: `Prior low 7036.50`."""
        return f"{self.label} {fixed_text(self.price_ticks, tick_e9)}"


@dataclass(frozen=True, slots=True)
class ScenarioState:
    """A scenario and its status. reference: the level that is its target."""

    id: ScenarioId
    if_: Condition
    reference: Reference
    confirm: Condition
    invalidate: Condition
    status: Status

    @property
    def then(self) -> str:
        """Return the outcome with which the scenario's conditions are consistent, as text without prices."""
        return OUTCOMES[self.id]


# -- the table of levels

_Level = tuple[LevelKind, int, str]
_STRENGTH = {kind: rank for rank, kind in enumerate(LevelKind)}


def level_lines(profile: SessionProfile, opening: Opening, *, ib_complete: bool) -> tuple[LevelLine, ...]:
    """Return the table of levels, highest price first.

    ib_complete: whether the first hour is over and has an initial balance. Before that the table has no lines of the
    initial balance, because its range may still grow. A level joins the nearest line within two ticks whose level is of
    a stronger kind, or newer and of the same kind.
    """
    return _merged(opening, (*_developing(profile), *(_of_balance(profile) if ib_complete else ())))


@lru_cache(1024)  # few trades move a developing level
def _merged(opening: Opening, newest: tuple[_Level, ...]) -> tuple[LevelLine, ...]:
    """Return the table's lines, highest price first, from the opening's levels and the session's own (`newest`)."""
    levels = [*(_of_prior(opening.prior, opening) if opening.prior else ()), *_carried(opening), *newest]
    levels.sort(key=lambda level: _STRENGTH[level[0]])  # a stable sort keeps the newest first within a kind
    lines: list[tuple[LevelKind, int, list[str]]] = []
    for kind, price, label in levels:
        near = [line for line in lines if abs(line[1] - price) <= MERGE_TICKS]
        if not near:
            lines.append((kind, price, [label]))
            continue
        labels = min(near, key=lambda line: abs(line[1] - price))[2]  # the stronger of two equally near
        if label not in labels:
            labels.append(label)
    lines.sort(key=lambda line: -line[1])
    return tuple(LevelLine(price, " / ".join(labels), kind) for kind, price, labels in lines)


def _of_prior(prior: Prior, opening: Opening) -> Iterator[_Level]:
    """Return the table's levels that come from the prior session. The midpoint is rounded down to a whole tick."""
    poor_high = any(level.made_on == prior.trade_date for level in opening.carried.poor_highs)
    poor_low = any(level.made_on == prior.trade_date for level in opening.carried.poor_lows)
    yield LevelKind.PRIOR_VAH, prior.vah, "VAH"
    yield LevelKind.PRIOR_VAL, prior.val, "VAL"
    yield LevelKind.PRIOR_POC, prior.poc, "POC"
    yield LevelKind.PRIOR_HIGH, prior.high, "Prior high (poor)" if poor_high else "Prior high"
    yield LevelKind.PRIOR_LOW, prior.low, "Prior low (poor)" if poor_low else "Prior low"
    yield LevelKind.PRIOR_CLOSE, prior.close, "Prior close"
    yield LevelKind.PRIOR_MID, (prior.high + prior.low) // 2, "Prior mid"


def _carried(opening: Opening) -> Iterator[_Level]:
    """Return the table's overnight range, and the naked POCs and poor extremes of sessions before the prior one."""
    if opening.overnight:
        high, low = opening.overnight
        yield LevelKind.ON_HIGH, high, "ONH"
        yield LevelKind.ON_LOW, low, "ONL"
    newest = opening.prior.trade_date if opening.prior else None
    for kind, levels, name in (
        (LevelKind.NAKED_POC, opening.carried.naked_pocs, "nPOC"),
        (LevelKind.POOR_HIGH, opening.carried.poor_highs, "Poor high"),
        (LevelKind.POOR_LOW, opening.carried.poor_lows, "Poor low"),
    ):
        for level in levels:
            if level.made_on != newest:
                yield kind, level.price_ticks, f"{name} {level.made_on}"


def _developing(profile: SessionProfile) -> Iterator[_Level]:
    yield LevelKind.DEV_POC, profile.poc, "dPOC"
    yield LevelKind.DEV_VAH, profile.vah, "dVAH"
    yield LevelKind.DEV_VAL, profile.val, "dVAL"
    yield LevelKind.DEV_VPOC, profile.vpoc, "dVPOC"
    for low, high in profile.single_prints:
        yield LevelKind.SINGLE_PRINT, high, "SP high"
        yield LevelKind.SINGLE_PRINT, low, "SP low"


def _of_balance(profile: SessionProfile) -> Iterator[_Level]:
    """Return the table's initial balance and its extensions. Half ticks are rounded away from the balance."""
    yield LevelKind.IB_HIGH, profile.ib_high, "IBH"
    yield LevelKind.IB_LOW, profile.ib_low, "IBL"
    balance = profile.ib_high - profile.ib_low
    if balance == 0:
        return
    half = (balance + 1) // 2
    yield LevelKind.IB_X150_UP, profile.ib_high + half, "IB 150% up"
    yield LevelKind.IB_X150_DOWN, profile.ib_low - half, "IB 150% down"
    yield LevelKind.IB_X200_UP, profile.ib_high + balance, "IB 200% up"
    yield LevelKind.IB_X200_DOWN, profile.ib_low - balance, "IB 200% down"

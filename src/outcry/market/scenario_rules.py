"""Conditions of the playbook scenarios, derived from the opening, the first price and the initial balance (rules §7).

A scenario exists only if the levels in its conditions exist. Poor extremes are repaired only in regular hours (rules
§5), so an overnight session has no repair scenarios.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from outcry.market.alerts.edge import TOLERANCE_TICKS, arm_ticks
from outcry.market.calendar import SessionKind
from outcry.market.opening import Opening, Prior
from outcry.market.playbook import Condition, Reference, ReferenceKind, ScenarioId


@dataclass(frozen=True, slots=True)
class ScenarioRule:
    """One scenario and its conditions. reference: its target level.

    reach: the condition that completes the scenario. For a gap whose next target needs the initial balance, `reach` is
    None until the initial balance is complete. half: an intermediate target, with the condition that reaches it.
    """

    id: ScenarioId
    if_: Condition
    confirm: Condition
    invalidate: Condition
    reference: Reference
    reach: Condition | None
    half: tuple[Reference, Condition] | None = None


def scenario_rules(
    opening: Opening, open_ticks: int | None, ib: tuple[int, int] | None
) -> tuple[ScenarioRule, ...]:
    """Return the scenarios that exist, in the order of `ScenarioId`. Prices in ticks.

    open_ticks: the session's first price; None before it. ib: high and low of the complete initial balance; None
    during the first hour or without one.
    """
    prior = opening.prior
    found = [
        *(_acceptance(prior) if prior else ()),
        *(_value_return(prior) if prior else ()),
        *(_ib_failure(*ib) if ib and ib[0] > ib[1] else ()),
        *(_gap(prior, ib) if prior else ()),
        *(_repair(opening, open_ticks) if open_ticks is not None and opening.kind is SessionKind.RTH else ()),
    ]
    return tuple(found)


def _acceptance(prior: Prior) -> Iterator[ScenarioRule]:
    """Return the rules of acceptance: two consecutive brackets close outside value.

    A side of value has no scenario if the prior session did not trade beyond it, because there is no target.
    """
    if prior.high > prior.vah:
        yield ScenarioRule(
            ScenarioId.ACCEPT_ABOVE,
            Condition("trade", ">", prior.vah),
            Condition("bracket_close", ">", prior.vah, times=2),
            Condition("bracket_close", "<=", prior.vah),
            Reference(ReferenceKind.PRIOR_HIGH, prior.high),
            Condition("trade", ">=", prior.high),
        )
    if prior.low < prior.val:
        yield ScenarioRule(
            ScenarioId.ACCEPT_BELOW,
            Condition("trade", "<", prior.val),
            Condition("bracket_close", "<", prior.val, times=2),
            Condition("bracket_close", ">=", prior.val),
            Reference(ReferenceKind.PRIOR_LOW, prior.low),
            Condition("trade", "<=", prior.low),
        )


def _value_return(prior: Prior) -> Iterator[ScenarioRule]:
    """Return the rules of the 80 % rule (rules §6): an open outside value, then two consecutive closes inside it.

    A close at the edge of value is inside.
    """
    if prior.vah == prior.val:
        return
    confirm = Condition("bracket_close", "in", prior.val, times=2, to_ticks=prior.vah)
    yield ScenarioRule(
        ScenarioId.VALUE_RETURN_FROM_ABOVE,
        Condition("open", ">", prior.vah),
        confirm,
        Condition("bracket_close", ">", prior.vah),
        Reference(ReferenceKind.VAL, prior.val),
        Condition("trade", "<=", prior.val),
    )
    yield ScenarioRule(
        ScenarioId.VALUE_RETURN_FROM_BELOW,
        Condition("open", "<", prior.val),
        confirm,
        Condition("bracket_close", "<", prior.val),
        Reference(ReferenceKind.VAH, prior.vah),
        Condition("trade", ">=", prior.vah),
    )


def _ib_failure(high: int, low: int) -> Iterator[ScenarioRule]:
    """Return the rules of a failed breakout from the initial balance: a bracket closes back inside it.

    Targets: first the midpoint of the balance (rounded down), then its far edge.
    """
    middle = (high + low) // 2
    confirm = Condition("bracket_close", "in", low, to_ticks=high)
    yield ScenarioRule(
        ScenarioId.IB_FAILURE_UP,
        Condition("trade", ">", high),
        confirm,
        Condition("bracket_close", ">", high),
        Reference(ReferenceKind.IBL, low),
        Condition("trade", "<=", low),
        (Reference(ReferenceKind.IB_MID, middle), Condition("trade", "<=", middle)),
    )
    yield ScenarioRule(
        ScenarioId.IB_FAILURE_DOWN,
        Condition("trade", "<", low),
        confirm,
        Condition("bracket_close", "<", low),
        Reference(ReferenceKind.IBH, high),
        Condition("trade", ">=", high),
        (Reference(ReferenceKind.IB_MID, middle), Condition("trade", ">=", middle)),
    )


def _gap(prior: Prior, ib: tuple[int, int] | None) -> Iterator[ScenarioRule]:
    """Return the rule of an opening gap: an open outside the prior session's range.

    A trade at the edge of that range fills the gap and voids the scenario. The close of the first bracket that traded
    confirms it. Until the initial balance is complete, the target is the edge of the gap.
    """
    yield ScenarioRule(
        ScenarioId.GAP_UP_HELD,
        Condition("open", ">", prior.high),
        Condition("bracket_close", ">", prior.high),
        Condition("trade", "<=", prior.high),
        Reference(ReferenceKind.IBH, ib[0]) if ib else Reference(ReferenceKind.PRIOR_HIGH, prior.high),
        Condition("trade", ">", ib[0]) if ib else None,
    )
    yield ScenarioRule(
        ScenarioId.GAP_DOWN_HELD,
        Condition("open", "<", prior.low),
        Condition("bracket_close", "<", prior.low),
        Condition("trade", ">=", prior.low),
        Reference(ReferenceKind.IBL, ib[1]) if ib else Reference(ReferenceKind.PRIOR_LOW, prior.low),
        Condition("trade", "<", ib[1]) if ib else None,
    )


def _repair(opening: Opening, open_ticks: int) -> Iterator[ScenarioRule]:
    """Return the rules of repair: a trade beyond the nearest poor extreme that is at or beyond the open (rules §5)."""
    away = arm_ticks(opening.prior)
    above = [level for level in opening.carried.poor_highs if level.price_ticks >= open_ticks]
    if above:
        level = min(above, key=lambda level: level.price_ticks)  # the newest of equal prices
        price = level.price_ticks
        yield ScenarioRule(
            ScenarioId.POOR_HIGH_REPAIR,
            Condition("open", "<=", price),
            Condition("trade", ">=", price - TOLERANCE_TICKS),
            Condition("bracket_close", "<=", price - away),
            Reference(ReferenceKind.POOR_HIGH, price, level.made_on),
            Condition("trade", ">", price),
        )
    below = [level for level in opening.carried.poor_lows if level.price_ticks <= open_ticks]
    if below:
        level = max(below, key=lambda level: level.price_ticks)
        price = level.price_ticks
        yield ScenarioRule(
            ScenarioId.POOR_LOW_REPAIR,
            Condition("open", ">=", price),
            Condition("trade", "<=", price + TOLERANCE_TICKS),
            Condition("bracket_close", ">=", price + away),
            Reference(ReferenceKind.POOR_LOW, price, level.made_on),
            Condition("trade", "<", price),
        )

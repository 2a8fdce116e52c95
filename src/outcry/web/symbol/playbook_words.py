"""Words for the playbook's scenarios in the reader's language.

Conditions are parsed from the answer, in the grammar of docs/playbook.md (`bracket_close in 1640.25..1655.50 x2`). A
condition that cannot be parsed is shown unchanged.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outcry.answers.alert_phrases import PriceText
from outcry.web.language import Words
from outcry.web.symbol.phrases import named
from outcry.wire.answers import Scenario

_NUMBER = r"-?\d+(?:\.\d+)?"
_CONDITION = re.compile(
    rf"(open|trade|bracket_close) (>=|<=|>|<|in) ({_NUMBER})(?:\.\.({_NUMBER}))?(?: x(\d+))?"
)
_REFERENCE = re.compile(rf"(.+?)(?: (\d{{4}}-\d\d-\d\d))? ({_NUMBER})")

TITLES: Mapping[str, str] = {
    "accept_above": "Acceptance above value area",
    "accept_below": "Acceptance below value area",
    "value_return_from_above": "Return to value area from above",
    "value_return_from_below": "Return to value area from below",
    "ib_failure_up": "Failed breakout above the IB",
    "ib_failure_down": "Failed breakout below the IB",
    "gap_up_held": "Gap up holds",
    "gap_down_held": "Gap down holds",
    "poor_high_repair": "Poor high repair",
    "poor_low_repair": "Poor low repair",
}

STATUSES: Mapping[str, str] = {
    "pending": "Pending",
    "active": "Active",
    "done": "Reached",
    "void": "Invalidated",
}

#: The outcome of each scenario: the core's phrase, turned into a sentence.
THENS: Mapping[str, str] = {
    said: said[0].upper() + said[1:] + "."
    for said in (
        "would be consistent with the auction going on to the prior high",
        "would be consistent with the auction going on to the prior low",
        "would be consistent with a rotation through value to its lower edge",
        "would be consistent with a rotation through value to its upper edge",
        "would be consistent with a rotation to the middle of the initial balance, then to its low",
        "would be consistent with a rotation to the middle of the initial balance, then to its high",
        "would be consistent with the auction extending above its initial balance",
        "would be consistent with the auction extending below its initial balance",
        "would be consistent with the unfinished auction at the high being repaired by trade beyond it",
        "would be consistent with the unfinished auction at the low being repaired by trade beyond it",
    )
}

REFERENCES: Mapping[str, str] = {
    "Prior high": "Prior high",
    "Prior low": "Prior low",
    "VAH": "Prior VAH",
    "VAL": "Prior VAL",
    "IBH": "IBH",
    "IBL": "IBL",
    "IB mid": "IB midpoint",
    "Poor high": "Poor high",
    "Poor low": "Poor low",
}

#: Texts by observable and operator, with one price, or two for `in`.
CONDITIONS: Mapping[tuple[str, str], str] = {
    ("open", ">"): "Opens above %(price)s",
    ("open", ">="): "Opens at %(price)s or above",
    ("open", "<"): "Opens below %(price)s",
    ("open", "<="): "Opens at %(price)s or below",
    ("open", "in"): "Opens between %(price)s and %(to)s",
    ("trade", ">"): "Trades above %(price)s",
    ("trade", ">="): "Trades at %(price)s or above",
    ("trade", "<"): "Trades below %(price)s",
    ("trade", "<="): "Trades at %(price)s or below",
    ("trade", "in"): "Trades between %(price)s and %(to)s",
    ("bracket_close", ">"): "30-minute close above %(price)s",
    ("bracket_close", ">="): "30-minute close at %(price)s or above",
    ("bracket_close", "<"): "30-minute close below %(price)s",
    ("bracket_close", "<="): "30-minute close at %(price)s or below",
    ("bracket_close", "in"): "30-minute close between %(price)s and %(to)s",
}
#: Singular and plural forms.
CONDITIONS_IN_A_ROW: Mapping[str, tuple[str, str]] = {
    ">": (
        "%(times)s 30-minute close above %(price)s",
        "%(times)s consecutive 30-minute closes above %(price)s",
    ),
    ">=": (
        "%(times)s 30-minute close at %(price)s or above",
        "%(times)s consecutive 30-minute closes at %(price)s or above",
    ),
    "<": (
        "%(times)s 30-minute close below %(price)s",
        "%(times)s consecutive 30-minute closes below %(price)s",
    ),
    "<=": (
        "%(times)s 30-minute close at %(price)s or below",
        "%(times)s consecutive 30-minute closes at %(price)s or below",
    ),
    "in": (
        "%(times)s 30-minute close between %(price)s and %(to)s",
        "%(times)s consecutive 30-minute closes between %(price)s and %(to)s",
    ),
}


@dataclass(frozen=True, slots=True)
class Card:
    """One scenario of the playbook as displayed. `status` is the code and `standing` its label."""

    id: str
    title: str
    status: str
    standing: str
    if_: str
    confirm: str
    then: str
    reference: str
    invalidate: str


def cards(scenarios: list[Scenario], words: Words, price: PriceText, day: Callable[[str], str]) -> list[Card]:
    """Return all scenarios of the playbook in words: active first, then pending, done and void."""
    rank = {"active": 0, "pending": 1, "done": 2, "void": 3}
    found = [
        Card(
            id=scenario.id,
            title=named(TITLES, scenario.id, words),
            status=scenario.status,
            standing=named(STATUSES, scenario.status, words),
            if_=condition(scenario.if_, words, price),
            confirm=condition(scenario.confirm, words, price),
            then=named(THENS, scenario.then, words),
            reference=reference(scenario.reference, words, price, day),
            invalidate=condition(scenario.invalidate, words, price),
        )
        for scenario in scenarios
    ]
    return sorted(found, key=lambda card: rank.get(card.status, 1))


def condition(text: str, words: Words, price: PriceText) -> str:
    """Return a condition of a playbook scenario in words."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        return text
    observable, op, low, high, times = found.groups()
    in_a_row = observable == "bracket_close" and times is not None
    count = int(times or 1)
    said = words.ngettext(*CONDITIONS_IN_A_ROW[op], count) if in_a_row else words(CONDITIONS[observable, op])
    return said % {"price": price(float(low)), "times": count, "to": price(float(high or low))}


def reference(text: str, words: Words, price: PriceText, day: Callable[[str], str]) -> str:
    """Return a scenario's reference level: name, date if it is an earlier session's, and price."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    label, made_on, at = found.groups()
    parts = [named(REFERENCES, label, words), day(made_on) if made_on else "", price(float(at))]
    return " ".join(part for part in parts if part)

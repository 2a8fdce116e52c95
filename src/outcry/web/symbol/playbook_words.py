"""Words for the playbook's scenarios in the reader's language. The English text is the key for its translation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outcry.answers.alert_phrases import PriceText
from outcry.market.playbook import (
    Condition,
    Observable,
    Op,
    Reference,
    ReferenceKind,
    ScenarioId,
    ScenarioState,
    Status,
)
from outcry.web.language import Words
from outcry.wire.answers import number

TITLES: Mapping[ScenarioId, str] = {
    ScenarioId.ACCEPT_ABOVE: "Acceptance above value area",
    ScenarioId.ACCEPT_BELOW: "Acceptance below value area",
    ScenarioId.VALUE_RETURN_FROM_ABOVE: "Return to value area from above",
    ScenarioId.VALUE_RETURN_FROM_BELOW: "Return to value area from below",
    ScenarioId.IB_FAILURE_UP: "Failed breakout above the IB",
    ScenarioId.IB_FAILURE_DOWN: "Failed breakout below the IB",
    ScenarioId.GAP_UP_HELD: "Gap up holds",
    ScenarioId.GAP_DOWN_HELD: "Gap down holds",
    ScenarioId.POOR_HIGH_REPAIR: "Poor high repair",
    ScenarioId.POOR_LOW_REPAIR: "Poor low repair",
}

#: In the order of the cards.
STATUSES: Mapping[Status, str] = {
    Status.ACTIVE: "Active",
    Status.PENDING: "Pending",
    Status.DONE: "Reached",
    Status.VOID: "Invalidated",
}

OUTCOMES: Mapping[ScenarioId, str] = {
    ScenarioId.ACCEPT_ABOVE: "Would be consistent with the auction going on to the prior high.",
    ScenarioId.ACCEPT_BELOW: "Would be consistent with the auction going on to the prior low.",
    ScenarioId.VALUE_RETURN_FROM_ABOVE: "Would be consistent with a rotation through value to its lower edge.",
    ScenarioId.VALUE_RETURN_FROM_BELOW: "Would be consistent with a rotation through value to its upper edge.",
    ScenarioId.IB_FAILURE_UP: (
        "Would be consistent with a rotation to the middle of the initial balance, then to its low."
    ),
    ScenarioId.IB_FAILURE_DOWN: (
        "Would be consistent with a rotation to the middle of the initial balance, then to its high."
    ),
    ScenarioId.GAP_UP_HELD: "Would be consistent with the auction extending above its initial balance.",
    ScenarioId.GAP_DOWN_HELD: "Would be consistent with the auction extending below its initial balance.",
    ScenarioId.POOR_HIGH_REPAIR: (
        "Would be consistent with the unfinished auction at the high being repaired by trade beyond it."
    ),
    ScenarioId.POOR_LOW_REPAIR: (
        "Would be consistent with the unfinished auction at the low being repaired by trade beyond it."
    ),
}

REFERENCES: Mapping[ReferenceKind, str] = {
    ReferenceKind.PRIOR_HIGH: "Prior high",
    ReferenceKind.PRIOR_LOW: "Prior low",
    ReferenceKind.VAH: "Prior VAH",
    ReferenceKind.VAL: "Prior VAL",
    ReferenceKind.IBH: "IBH",
    ReferenceKind.IBL: "IBL",
    ReferenceKind.IB_MID: "IB midpoint",
    ReferenceKind.POOR_HIGH: "Poor high",
    ReferenceKind.POOR_LOW: "Poor low",
}

#: Texts by observable and operator, with one price, or two for `in`.
CONDITIONS: Mapping[tuple[Observable, Op], str] = {
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
CONDITIONS_IN_A_ROW: Mapping[Op, tuple[str, str]] = {
    ">": (
        "One 30-minute close above %(price)s",
        "%(times)s consecutive 30-minute closes above %(price)s",
    ),
    ">=": (
        "One 30-minute close at %(price)s or above",
        "%(times)s consecutive 30-minute closes at %(price)s or above",
    ),
    "<": (
        "One 30-minute close below %(price)s",
        "%(times)s consecutive 30-minute closes below %(price)s",
    ),
    "<=": (
        "One 30-minute close at %(price)s or below",
        "%(times)s consecutive 30-minute closes at %(price)s or below",
    ),
    "in": (
        "One 30-minute close between %(price)s and %(to)s",
        "%(times)s consecutive 30-minute closes between %(price)s and %(to)s",
    ),
}


@dataclass(frozen=True, slots=True)
class Card:
    """One scenario of the playbook as displayed."""

    id: ScenarioId
    title: str
    status: Status
    status_label: str
    if_: str
    confirm: str
    then: str
    reference: str
    invalidate: str


@dataclass(frozen=True, slots=True)
class PlaybookWords:
    """Expresses the playbook's scenarios in words, for one reader and product.

    `tick_e9`: tick size in units of 10⁻⁹.
    """

    words: Words
    tick_e9: int
    price: PriceText
    day: Callable[[str], str]

    def cards(self, scenarios: Sequence[ScenarioState]) -> list[Card]:
        """Return all scenarios of the playbook in words: active first, then pending, done and void."""
        found = [
            Card(
                id=scenario.id,
                title=self.words(TITLES[scenario.id]),
                status=scenario.status,
                status_label=self.words(STATUSES[scenario.status]),
                if_=self.condition(scenario.if_),
                confirm=self.condition(scenario.confirm),
                then=self.words(OUTCOMES[scenario.id]),
                reference=self.reference(scenario.reference),
                invalidate=self.condition(scenario.invalidate),
            )
            for scenario in scenarios
        ]
        order = list(STATUSES)
        return sorted(found, key=lambda card: order.index(card.status))

    def condition(self, condition: Condition) -> str:
        """Return a playbook condition in words."""
        times, to_ticks = condition.times, condition.to_ticks
        if times > 1:
            text = self.words.ngettext(*CONDITIONS_IN_A_ROW[condition.op], times)
        else:
            text = self.words(CONDITIONS[condition.observable, condition.op])
        to = "" if to_ticks is None else self._price(to_ticks)
        return text % {"price": self._price(condition.price_ticks), "times": times, "to": to}

    def reference(self, reference: Reference) -> str:
        """Return a scenario's target level in words: name, price, and the date if an earlier session made it."""
        name, made_on = self.words(REFERENCES[reference.kind]), reference.made_on
        day = "" if made_on is None else f" {self.day(str(made_on))}"
        return f"{name}{day} {self._price(reference.price_ticks)}"

    def _price(self, price_ticks: int) -> str:
        return self.price(number(price_ticks * self.tick_e9))

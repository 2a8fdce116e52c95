"""What the market did, in the reader's language: bias and its votes, kinds of day and of open, alerts.

Rules kept: English is the key of every text; facts come in as the answers have them and are never worked out here;
plain facts, never advice. The playbook has a module of its own, `playbook_words`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outcry.services.alerts import AlertEntry
from outcry.services.answers import BiasVotes
from outcry.web.language import Words

#: Writes a price as its exchange does.
PriceText = Callable[[float], str]

BIASES: Mapping[str, str] = {
    "trend_up": "Trending up",
    "trend_down": "Trending down",
    "lean_up": "Leaning up",
    "lean_down": "Leaning down",
    "balanced": "Balanced",
    "neutral": "Neutral: both sides of the IB broken",
    "undetermined": "Not decided before the first half-hour closes",
}

#: What the newest half-hour spoke for, where that is another bias than the one in force.
DOUBTS: Mapping[str, str] = {
    "up": "The newest half-hour closed for up: a second in a row turns the bias.",
    "down": "The newest half-hour closed for down: a second in a row turns the bias.",
    "balance": "The newest half-hour closed for balance: a second in a row turns the bias.",
}
_SIDES: Mapping[str, str] = {
    "trend_up": "up", "lean_up": "up", "trend_down": "down", "lean_down": "down", "balanced": "balance",
}  # fmt: skip

DAY_TYPES: Mapping[str, str] = {
    "non_trend": "Non-trend",
    "normal": "Normal",
    "normal_variation": "Normal variation",
    "trend_up": "Trend, up",
    "trend_down": "Trend, down",
    "double_distribution": "Double distribution",
    "neutral": "Neutral",
    "neutral_extreme": "Neutral extreme",
}

OPEN_TYPES: Mapping[str, str] = {
    "open_drive": "Open drive",
    "open_test_drive": "Open test drive",
    "open_rejection_reverse": "Open rejection reverse",
    "open_auction_in": "Open auction in range",
    "open_auction_out": "Open auction out of range",
}

#: For each vote what +1, 0 and −1 say, in the order they are counted.
VOTES: Mapping[str, tuple[str, str, str]] = {
    "last": (
        "Last price is above prior value",
        "Last price is inside prior value",
        "Last price is below prior value",
    ),
    "poc": (
        "Developing POC is above prior value",
        "Developing POC is inside prior value",
        "Developing POC is below prior value",
    ),
    "value": (
        "Value is building higher than prior value",
        "Value is neither higher nor lower than prior value",
        "Value is building lower than prior value",
    ),
    "extension": (
        "The range has extended above the IB alone",
        "The range has not extended beyond one side of the IB",
        "The range has extended below the IB alone",
    ),
    "one_timeframing": (
        "One-timeframing up: three half-hours held the low before",
        "Not one-timeframing",
        "One-timeframing down: three half-hours held the high before",
    ),
}

#: What happened, in as few words as a table has room for.
EVENTS: Mapping[str, str] = {
    "ib-break-up": "Initial balance broken upwards",
    "ib-break-down": "Initial balance broken downwards",
    "va-reject-high": "Rejected at VAH",
    "va-reject-low": "Rejected at VAL",
    "va-accept-above": "Accepted above VAH",
    "va-accept-below": "Accepted below VAL",
    "naked-poc": "Naked POC touched",
    "va-test-high": "VAH tested",
    "va-test-low": "VAL tested",
    "poor-high": "Poor high revisited",
    "poor-low": "Poor low revisited",
}
REPAIRED: Mapping[str, str] = {"poor-high": "Poor high repaired", "poor-low": "Poor low repaired"}

#: The same as a sentence. `at`: price of the alert; `level`: what it was measured against.
SENTENCES: Mapping[str, str] = {
    "ib-break-up": "Traded at %(at)s, above the initial balance (IBH %(level)s).",
    "ib-break-down": "Traded at %(at)s, below the initial balance (IBL %(level)s).",
    "va-reject-high": (
        "Traded above prior value (VAH %(level)s) as far as %(reached)s, and a five-minute bar closed back inside "
        "it, at %(at)s."
    ),
    "va-reject-low": (
        "Traded below prior value (VAL %(level)s) as far as %(reached)s, and a five-minute bar closed back inside "
        "it, at %(at)s."
    ),
    "va-accept-above": (
        "Two half-hours in a row closed above prior value (VAH %(level)s), the second at %(at)s."
    ),
    "va-accept-below": (
        "Two half-hours in a row closed below prior value (VAL %(level)s), the second at %(at)s."
    ),
    "naked-poc": "Traded at %(at)s, the POC of %(day)s, untouched since.",
    "va-test-high": "Traded at %(at)s, at the upper edge of prior value (VAH %(level)s).",
    "va-test-low": "Traded at %(at)s, at the lower edge of prior value (VAL %(level)s).",
    "poor-high": "Traded at %(at)s, near the unfinished high of %(day)s.",
    "poor-low": "Traded at %(at)s, near the unfinished low of %(day)s.",
}
SENTENCES_REPAIRED: Mapping[str, str] = {
    "poor-high": "Traded at %(at)s, beyond the unfinished high of %(day)s.",
    "poor-low": "Traded at %(at)s, beyond the unfinished low of %(day)s.",
}
BOTH_SIDES = "Both sides of the initial balance have been broken."

#: Where value stands against that of the session before.
VALUE_PLACES: Mapping[str, str] = {
    "higher": "Higher, apart",
    "lower": "Lower, apart",
    "overlapping_higher": "Overlapping, higher",
    "overlapping_lower": "Overlapping, lower",
    "inside": "Inside prior value",
    "outside": "Around prior value",
    "same": "The same",
}

#: Under which parameter an alert names the level it was measured against.
_LEVEL_PARAMS = {"IBH": "ibHigh", "IBL": "ibLow", "VAH": "vah", "VAL": "val"}


@dataclass(frozen=True, slots=True)
class Reason:
    """One vote behind the bias: `sign` is −1, 0 or 1."""

    sign: int
    text: str


def named(table: Mapping[str, str], code: str | None, words: Words) -> str:
    """The words of a code; the code itself where a newer service says something this page does not know."""
    return words(table.get(code, code)) if code else ""


def doubt(bias: str | None, votes: BiasVotes, words: Words) -> str:
    """What the newest close says against the bias in force; empty where it agrees, or only the degree is another.

    Both sides of the balance broken make `neutral`, whatever the votes: of it nothing is said.
    """
    held = _SIDES.get(bias or "")
    spoken = "up" if votes.total >= 2 else "down" if votes.total <= -2 else "balance"
    return words(DOUBTS[spoken]) if held is not None and held != spoken else ""


def reasons(votes: BiasVotes, words: Words) -> list[Reason]:
    """The five votes in words, those that speak first, in the order they are counted."""
    found = [
        Reason(sign, words(said[1 - sign]))
        for name, said in VOTES.items()
        if (sign := int(getattr(votes, name))) in {-1, 0, 1}
    ]
    return sorted(found, key=lambda reason: reason.sign == 0)


def event(alert: AlertEntry, words: Words) -> str:
    """What happened, shortly."""
    table = REPAIRED if alert.params.get("event") == "repaired" else EVENTS
    return named(table, alert.type, words)


def sentence(alert: AlertEntry, words: Words, price: PriceText, day: Callable[[str], str]) -> str:
    """What happened, as a sentence. day: writes a date given as `YYYY-MM-DD`."""
    repaired = alert.params.get("event") == "repaired"
    said = (SENTENCES_REPAIRED if repaired else SENTENCES).get(alert.type)
    if said is None:
        return alert.message
    level = level_of(alert)
    reached = alert.params.get("probeExtreme")
    text = words(said) % {
        "at": price(alert.price),
        "level": "" if level is None else price(level),
        "reached": price(reached) if isinstance(reached, int | float) else "",
        "day": day(alert.ref),
    }
    text = text.replace("..", ".")  # a day that ends in an abbreviation ends the sentence too
    both = alert.params.get("otherSideBroken") is True
    return f"{text} {words(BOTH_SIDES)}" if both else text


def level_of(alert: AlertEntry) -> float | None:
    """The price of the level an alert was measured against; None where the alert does not name it: of a poor extreme
    it tells only how far beyond it a repair went."""
    if alert.type == "naked-poc":
        return alert.price
    value = alert.params.get(_LEVEL_PARAMS.get(alert.ref, ""))
    if isinstance(value, int | float):
        return float(value)
    beyond, tick = alert.params.get("repairTicks"), alert.params.get("tick")
    if alert.params.get("event") == "repaired" and isinstance(beyond, int) and isinstance(tick, int | float):
        return alert.price - beyond * tick if alert.type == "poor-high" else alert.price + beyond * tick
    return None

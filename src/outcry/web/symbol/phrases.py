"""Words for market structure in the reader's language: bias and its votes, day types and open types.

The English text is the key by which a text is translated. Nothing is computed here, and the texts give no advice. The
words of the playbook are in `playbook_words`, those of alerts in `answers.alert_phrases`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from outcry.web.language import Words
from outcry.wire.answers import BiasVotes

BIASES: Mapping[str, str] = {
    "trend_up": "Trend up",
    "trend_down": "Trend down",
    "lean_up": "Leaning up",
    "lean_down": "Leaning down",
    "balanced": "Balanced",
    "neutral": "Neutral: both sides of the IB broken",
    "undetermined": "Undecided until the first 30-minute close",
}

#: Direction of the last 30-minute close, if it differs from the current bias.
DOUBTS: Mapping[str, str] = {
    "up": "The last 30-minute close was bullish. A second in a row changes the bias.",
    "down": "The last 30-minute close was bearish. A second in a row changes the bias.",
    "balance": "The last 30-minute close was balanced. A second in a row changes the bias.",
}
_SIDES: Mapping[str, str] = {
    "trend_up": "up", "lean_up": "up", "trend_down": "down", "lean_down": "down", "balanced": "balance",
}  # fmt: skip

DAY_TYPES: Mapping[str, str] = {
    "non_trend": "Non-trend",
    "normal": "Normal",
    "normal_variation": "Normal variation",
    "trend_up": "Trend up",
    "trend_down": "Trend down",
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

#: Texts for +1, 0 and −1 of each vote, in counting order.
VOTES: Mapping[str, tuple[str, str, str]] = {
    "last": (
        "Last price is above the prior value area",
        "Last price is inside the prior value area",
        "Last price is below the prior value area",
    ),
    "poc": (
        "Developing POC is above the prior value area",
        "Developing POC is inside the prior value area",
        "Developing POC is below the prior value area",
    ),
    "value": (
        "Value area is developing higher than the prior one",
        "Value area is neither higher nor lower than the prior one",
        "Value area is developing lower than the prior one",
    ),
    "extension": (
        "Range extension only above the IB",
        "No one-sided range extension",
        "Range extension only below the IB",
    ),
    "one_timeframing": (
        "One-timeframing up: no period of the last three traded below the low of the one before",
        "Not one-timeframing",
        "One-timeframing down: no period of the last three traded above the high of the one before",
    ),
}

#: Position of the value area relative to that of the prior session.
VALUE_RELATIONS: Mapping[str, str] = {
    "higher": "Higher, no overlap",
    "lower": "Lower, no overlap",
    "overlapping_higher": "Overlapping, higher",
    "overlapping_lower": "Overlapping, lower",
    "inside": "Inside the prior value area",
    "outside": "Engulfing the prior value area",
    "same": "Unchanged",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the votes that decide the bias. `sign` is −1, 0 or 1."""

    sign: int
    text: str


def named(table: Mapping[str, str], code: str | None, words: Words) -> str:
    """Return the words that a table has for a code, or the code itself if the table lacks it."""
    return words(table.get(code, code)) if code else ""


def doubt(bias: str | None, votes: BiasVotes, words: Words) -> str:
    """Return a note if the last 30-minute close contradicts the current bias.

    Empty if the close agrees with the bias, or differs only in degree. The bias `neutral` has no note, because there
    both sides of the IB are broken, whatever the votes.
    """
    current = _SIDES.get(bias or "")
    newest = "up" if votes.total >= 2 else "down" if votes.total <= -2 else "balance"
    return words(DOUBTS[newest]) if current is not None and current != newest else ""


def reasons(votes: BiasVotes, words: Words) -> list[Reason]:
    """Return the five votes in words: votes other than zero first, otherwise in counting order."""
    found = [
        Reason(sign, words(texts[1 - sign]))
        for name, texts in VOTES.items()
        if (sign := int(getattr(votes, name))) in {-1, 0, 1}
    ]
    return sorted(found, key=lambda reason: reason.sign == 0)

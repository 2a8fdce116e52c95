"""Alerts in words, in the reader's language, for pages and email.

Each text is looked up by its English wording; `locale/<language>/alerts.po` has the translations. The texts give no
advice.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from outcry.wire.alerts import AlertEntry

LOCALE_FOLDER = Path(__file__).parent / "locale"

#: Translates a text.
Words = Callable[[str], str]
#: Formats a price as its exchange does.
PriceText = Callable[[float], str]

#: Label and shape per severity, because colour alone is not accessible; most severe first.
SEVERITIES: Mapping[str, str] = {"critical": "Critical", "warn": "Warning", "info": "Info"}
SHAPES: Mapping[str, str] = {"critical": "■", "warn": "▲", "info": "●"}

#: Short labels for a table.
EVENTS: Mapping[str, str] = {
    "ib-break-up": "Breakout above initial balance",
    "ib-break-down": "Breakout below initial balance",
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

#: Full sentences. `at`: price of the alert; `level`: its level; `day`: the date of the level's session,
#: with its price.
SENTENCES: Mapping[str, str] = {
    "ib-break-up": "Price traded at %(at)s, above the initial balance (IBH %(level)s).",
    "ib-break-down": "Price traded at %(at)s, below the initial balance (IBL %(level)s).",
    "va-reject-high": (
        "Price reached %(reached)s, above the prior value area (VAH %(level)s). A 5-minute bar then closed back "
        "inside at %(at)s."
    ),
    "va-reject-low": (
        "Price reached %(reached)s, below the prior value area (VAL %(level)s). A 5-minute bar then closed back "
        "inside at %(at)s."
    ),
    "va-accept-above": (
        "Two consecutive 30-minute closes above the prior value area (VAH %(level)s), the second at %(at)s."
    ),
    "va-accept-below": (
        "Two consecutive 30-minute closes below the prior value area (VAL %(level)s), the second at %(at)s."
    ),
    "naked-poc": "Price traded at %(at)s, the previously untouched POC of %(day)s.",
    "va-test-high": "Price traded at %(at)s, at the upper edge of the prior value area (VAH %(level)s).",
    "va-test-low": "Price traded at %(at)s, at the lower edge of the prior value area (VAL %(level)s).",
    "poor-high": "Price traded at %(at)s, near the poor high of %(day)s.",
    "poor-low": "Price traded at %(at)s, near the poor low of %(day)s.",
}
SENTENCES_REPAIRED: Mapping[str, str] = {
    "poor-high": "Price traded at %(at)s, above the poor high of %(day)s.",
    "poor-low": "Price traded at %(at)s, below the poor low of %(day)s.",
}
#: Sentences for alerts from bars. `at`: the price the bar reached; it may have closed elsewhere.
BAR_SENTENCES: Mapping[str, str] = {
    "ib-break-up": "A bar reached %(at)s, above the initial balance (IBH %(level)s).",
    "ib-break-down": "A bar reached %(at)s, below the initial balance (IBL %(level)s).",
    "naked-poc": "A bar reached %(at)s, the previously untouched POC of %(day)s.",
    "va-test-high": "A bar reached %(at)s, at the upper edge of the prior value area (VAH %(level)s).",
    "va-test-low": "A bar reached %(at)s, at the lower edge of the prior value area (VAL %(level)s).",
    "poor-high": "A bar reached %(at)s, near the poor high of %(day)s.",
    "poor-low": "A bar reached %(at)s, near the poor low of %(day)s.",
}
BAR_SENTENCES_REPAIRED: Mapping[str, str] = {
    "poor-high": "A bar reached %(at)s, above the poor high of %(day)s.",
    "poor-low": "A bar reached %(at)s, below the poor low of %(day)s.",
}
BOTH_SIDES = "Both sides of the initial balance are broken."

#: The parameter that holds the level in alerts of older versions, which have no `level`.
_LEVEL_PARAMS = {"IBH": "ibHigh", "IBL": "ibLow", "VAH": "vah", "VAL": "val"}


def event(alert: AlertEntry, words: Words) -> str:
    """Return an alert's event as a short label."""
    table = REPAIRED if alert.params.get("event") == "repaired" else EVENTS
    return words(table.get(alert.type, alert.type))


def sentence(alert: AlertEntry, words: Words, price: PriceText, day: Callable[[str], str]) -> str:
    """Return an alert as a sentence. day: formats a `YYYY-MM-DD` date."""
    repaired = alert.params.get("event") == "repaired"
    by_bar = alert.params.get("observed") == "bar"
    if by_bar:
        template = (BAR_SENTENCES_REPAIRED if repaired else BAR_SENTENCES).get(alert.type)
    else:
        template = (SENTENCES_REPAIRED if repaired else SENTENCES).get(alert.type)
    if template is None:
        return alert.message
    level, at = level_of(alert), _number(alert, "reached") if by_bar else None
    probe = _number(alert, "probeExtreme")
    text = words(template) % {
        "at": price(alert.price if at is None else at),
        "level": "" if level is None else price(level),
        "reached": "" if probe is None else price(probe),
        "day": _made(alert, level, price, day) if "%(day)s" in template else "",
    }
    text = text.replace("..", ".")  # a date may end in an abbreviation's full stop
    both = alert.params.get("otherSideBroken") is True
    return f"{text} {words(BOTH_SIDES)}" if both else text


def level_of(alert: AlertEntry) -> float | None:
    """Return the price of the level that an alert was measured against.

    None for poor extremes and naked POCs recorded by versions that did not store it.
    """
    level = _number(alert, "level")
    return _number(alert, _LEVEL_PARAMS.get(alert.ref, "")) if level is None else level


def _number(alert: AlertEntry, name: str) -> float | None:
    value = alert.params.get(name)
    return float(value) if isinstance(value, int | float) else None


def _made(alert: AlertEntry, level: float | None, price: PriceText, day: Callable[[str], str]) -> str:
    """Return the date of an alert's level, and the level's price unless the sentence already names the price."""
    made = day(alert.ref)
    return made if level is None or alert.type == "naked-poc" else f"{made} ({price(level)})"

"""What is told in a chat of the alerts of one message, before it takes the form of any chat.

Rules kept: a severity is a word and a shape, so that it needs no colour; of many alerts the newest are shown and the
others counted; what was missed is told in one line; nothing that comes from data can begin a line, or turn one round.
"""

from collections.abc import Callable
from dataclasses import dataclass

from outcry.deliver.payload import TEST_TYPE, Alert, Body
from outcry.ports.delivery import Severity
from outcry.services.alert_phrases import SHAPES

#: What is shown of alerts in one message.
MOST_SHOWN = 10
NOT_ADVICE = "Educational context, not advice."
_SEVERITIES: tuple[Severity, ...] = ("critical", "warn", "info")
MARKS = {severity: f"{SHAPES[severity]} {severity.upper()}" for severity in _SEVERITIES}


@dataclass(frozen=True, slots=True)
class Told:
    """What is told. `headline`: all of it in a line; `shown`: the newest alerts, oldest of them first; `notes`: what is
    not shown; `url`: of the page that shows everything."""

    headline: str
    shown: tuple[Alert, ...]
    notes: tuple[str, ...]
    url: str


def told(body: Body, missed: int) -> Told:
    """What is told of a body, and of so many alerts that no message told of."""
    shown, url = body.alerts[-MOST_SHOWN:], body.alerts[0].url
    more = len(body.alerts) - len(shown)
    notes: list[str] = []
    if more:
        notes.append(f"and {more} more")
    if missed:
        name = "1 alert" if missed == 1 else f"{missed} alerts"
        notes.append(f"{name} missed while nothing could be delivered here")
    headline = title(body.alerts[0]) if len(body.alerts) == 1 else one_line(body.text)
    return Told(headline, tuple(shown), tuple(notes), url)


def title(alert: Alert) -> str:
    """An alert's severity, symbol and type in a line."""
    name = "test of a webhook" if alert.type == TEST_TYPE else f"{alert.symbol} {alert.type}"
    return f"{MARKS[alert.severity]} · {one_line(name)}"


def one_line(text: str) -> str:
    """A text without anything that is no visible sign: line ends, signs that turn a line round, or have no width."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def plain(said: Told, escape: Callable[[str], str]) -> str:
    """All of it as lines of text. `escape`: makes a line of words harmless for the chat."""
    lines = [said.headline] if len(said.shown) > 1 else []
    lines += [f"{title(alert)}: {alert.message}" for alert in said.shown]
    notes = [f"{note}: {said.url}" for note in said.notes]
    return "\n".join([*map(escape, lines), *notes, NOT_ADVICE])

"""What is told in a chat of the alerts of one message, before it takes the form of any chat.

Rules kept: a severity is a word and a shape, so that it needs no colour; of many alerts the newest are shown and the
others counted; what was missed is told in one line; when an alert fired is told by its reader's clock; nothing that
comes from data can begin a line, or turn one round.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from gettext import NullTranslations

from outcry.answers.alert_phrases import SHAPES, event
from outcry.answers.alerts import entry as entry_of
from outcry.delivery.digest_windows import zone_of
from outcry.delivery.model import Severity
from outcry.delivery.outbox_model import Message
from outcry.delivery.payload import Body
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_SECOND

#: What is shown of alerts in one message.
MOST_SHOWN = 10
NOT_ADVICE = "Educational context, not advice."
_SEVERITIES: tuple[Severity, ...] = ("critical", "warn", "info")
MARKS = {severity: f"{SHAPES[severity]} {severity.upper()}" for severity in _SEVERITIES}
#: Chats are written to in English.
_ENGLISH = NullTranslations()


@dataclass(frozen=True, slots=True)
class Shown:
    """One alert: severity, symbol and what happened in a line, and the same as a sentence, with when it fired."""

    severity: Severity
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ChatContent:
    """What is told. `headline`: all of it in a line; `shown`: the newest alerts, oldest of them first; `notes`: what is
    not shown; `url`: of the page that shows everything."""

    headline: str
    shown: tuple[Shown, ...]
    notes: tuple[str, ...]
    url: str


def told(message: Message, body: Body, now_ns: int) -> ChatContent:
    """What is told of a message whose body this is, and of the alerts that no message told of. `now_ns`: when."""
    alerts, url = body.alerts, body.alerts[0].url
    rows: list[AlertRow | None] = [entry.alert for entry in message.entries] or [None]
    shown = tuple(
        Shown(alert.severity, title(alert.severity, row), alert.message + _when(row, message, now_ns))
        for alert, row in list(zip(alerts, rows, strict=True))[-MOST_SHOWN:]
    )
    more, missed = len(alerts) - len(shown), message.missed
    notes: list[str] = []
    if more:
        notes.append(f"and {more} more")
    if missed:
        text = _ENGLISH.ngettext(
            "%d earlier alert could not be delivered",
            "%d earlier alerts could not be delivered",
            missed,
        )
        notes.append(text % missed)
    headline = shown[0].title if len(alerts) == 1 else one_line(body.text)
    return ChatContent(headline, shown, tuple(notes), url)


def title(severity: Severity, row: AlertRow | None) -> str:
    """An alert's severity, symbol and what happened in a line, with the code of that beside; None: of the test."""
    if row is None:
        return f"{MARKS[severity]} · Webhook test"
    happened = event(entry_of(row, "shared"), str)
    return f"{MARKS[severity]} · {one_line(f'{row.symbol} {happened} ({row.type.value})')}"


def _when(row: AlertRow | None, message: Message, now_ns: int) -> str:
    """When an alert fired, by its reader's clock, with the day unless it is this one; nothing of the test."""
    if row is None:
        return ""
    zone = zone_of(message.reader.time_zone)
    at, now = (
        datetime.fromtimestamp(ns // NANOS_PER_SECOND, UTC).astimezone(zone) for ns in (row.at_ns, now_ns)
    )
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return f" · {day}{at:%H:%M:%S %Z}"


def one_line(text: str) -> str:
    """A text without anything that is no visible sign: line ends, signs that turn a line round, or have no width."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def plain(said: ChatContent, escape: Callable[[str], str]) -> str:
    """All of it as lines of text. `escape`: makes a line of words harmless for the chat."""
    lines = [said.headline] if len(said.shown) > 1 else []
    lines += [f"{alert.title}: {alert.sentence}" for alert in said.shown]
    notes = [f"{note}: {said.url}" for note in said.notes]
    return "\n".join([*map(escape, lines), *notes, NOT_ADVICE])

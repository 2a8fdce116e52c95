"""Content of an alert message for a chat, before it takes the format of Slack or Discord.

Severity is a word and a symbol, so it does not depend on colour. Of many alerts the newest are shown and the others
counted. Missed alerts take one line. Times use the reader's time zone. Text from data cannot begin a line or change the
text direction.
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
from outcry.live.model import AlertRow
from outcry.market.units import NANOS_PER_SECOND
from outcry.wire.webhooks import WebhookBody

#: Maximum number of alerts shown in a message.
MOST_SHOWN = 10
NOT_ADVICE = "Educational context, not advice."
_SEVERITIES: tuple[Severity, ...] = ("critical", "warn", "info")
MARKS = {severity: f"{SHAPES[severity]} {severity.upper()}" for severity in _SEVERITIES}
#: Chat messages are in English.
_ENGLISH = NullTranslations()


@dataclass(frozen=True, slots=True)
class Shown:
    """One alert in a chat message: its severity, its title, and its sentence with the time the alert fired."""

    severity: Severity
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class ChatContent:
    """Content of a chat message.

    `headline`: a one-line summary. `shown`: the newest alerts, in the order they fired. `notes`: lines that count the
    alerts not shown, and missed alerts. `url`: the page with all alerts.
    """

    headline: str
    shown: tuple[Shown, ...]
    notes: tuple[str, ...]
    url: str


def build_content(message: Message, body: WebhookBody, now_ns: int) -> ChatContent:
    """Return the content of a chat message. `body`: the same alerts as JSON. `now_ns`: the current time."""
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
    """Return severity, symbol, event and alert type in one line.

    Without `row`, return the title of the test message.
    """
    if row is None:
        return f"{MARKS[severity]} · Webhook test"
    happened = event(entry_of(row, "shared"), str)
    return f"{MARKS[severity]} · {one_line(f'{row.symbol} {happened} ({row.type.value})')}"


def _when(row: AlertRow | None, message: Message, now_ns: int) -> str:
    """Return when an alert fired, in the reader's time zone, with the date unless it is today; empty for the test."""
    if row is None:
        return ""
    zone = zone_of(message.reader.time_zone)
    at, now = (
        datetime.fromtimestamp(ns // NANOS_PER_SECOND, UTC).astimezone(zone) for ns in (row.at_ns, now_ns)
    )
    day = "" if at.date() == now.date() else f"{at:%Y-%m-%d} "
    return f" · {day}{at:%H:%M:%S %Z}"


def one_line(text: str) -> str:
    """Return a text as one line, without characters that are unprintable, invisible, or change the text direction."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def plain(chat: ChatContent, escape: Callable[[str], str]) -> str:
    """Return the content as lines of plain text. `escape` neutralises the chat's markup in a line."""
    lines = [chat.headline] if len(chat.shown) > 1 else []
    lines += [f"{alert.title}: {alert.sentence}" for alert in chat.shown]
    notes = [f"{note}: {chat.url}" for note in chat.notes]
    return "\n".join([*map(escape, lines), *notes, NOT_ADVICE])

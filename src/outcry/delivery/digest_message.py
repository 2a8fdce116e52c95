"""What a digest says: alerts by symbol, as plain text and as HTML, in its reader's language and time zone.

Rules kept: both forms say the same; severity is told by word and by shape; nothing is fetched when a mail is opened: no
picture, no script, no font; whatever comes from data is text and nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from outcry.answers import alert_phrases
from outcry.answers.alerts import entry as told
from outcry.base.http_dates import date_text
from outcry.base.translations import Vocabulary
from outcry.delivery.digest_windows import zone_of
from outcry.delivery.outbox_model import Entry, Message, Reader
from outcry.market.units import NANOS_PER_SECOND, PRICE_SCALE, price_text

FOLDERS = (Path(__file__).parent / "locale", alert_phrases.LOCALE_FOLDER)
#: Alerts one mail shows; of more the most severe, and among those the newest.
MOST_SHOWN = 50
#: Symbols a subject names.
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One alert: `code` of its severity, its `shape` and word, when it was, what happened shortly and in a sentence."""

    code: str
    shape: str
    severity: str
    at: str
    event: str
    sentence: str


@dataclass(frozen=True, slots=True)
class DigestMessage:
    """A mail before it is one. `request`: the text without what is secret in it, for who tests."""

    subject: str
    text: str
    html: str
    request: str


@dataclass(frozen=True, slots=True)
class Links:
    """Where a mail leads: to all alerts, to the subscription's own page, and to its end, which is secret."""

    alerts: str
    webhook: str
    unsubscribe: str


def render_digest(message: Message, links: Links) -> DigestMessage:
    """What a message says; one without entries is a test."""
    words = vocabulary(message.reader.language)
    shown = _shown(message.entries)
    subject = _subject(message.entries, words)
    values = {
        "words": words,
        "subject": subject,
        "label": message.subscription.label,
        "test": not message.entries,
        "groups": _groups(shown, message.reader, words),
        "more": _counted(words, "and %(num)d more", "and %(num)d more", len(message.entries) - len(shown)),
        "missed": _counted(
            words, "%(num)d earlier alert could not be delivered.", "%(num)d earlier alerts could not be delivered.",
            message.missed,
        ),
        "invented": any(entry.alert.invented for entry in message.entries),
        "zone": zone_of(message.reader.time_zone).key,
        "links": links,
    }  # fmt: skip
    text, html = (_template(name).render(values) for name in ("digest.txt", "digest.html"))
    return DigestMessage(subject, text, html, request=text.replace(links.unsubscribe, "…"))


def _counted(words: Vocabulary, one: str, many: str, count: int) -> str:
    """A number of things in words; nothing of none."""
    return words.ngettext(one, many, count) % {"num": count} if count else ""


def _shown(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Those that are shown, in the order they happened."""
    if len(entries) <= MOST_SHOWN:
        return entries
    rank = {code: place for place, code in enumerate(alert_phrases.SEVERITIES)}
    kept = sorted(enumerate(entries), key=lambda found: (rank[found[1].alert.severity], -found[0]))
    return [entry for _, entry in sorted(kept[:MOST_SHOWN], key=lambda found: found[0])]


def _subject(entries: Sequence[Entry], words: Vocabulary) -> str:
    if not entries:
        return words("Test of your Outcry digest")
    symbols = list(dict.fromkeys(entry.alert.symbol for entry in entries))
    named = ", ".join(symbols[:MOST_NAMED]) + (", …" if len(symbols) > MOST_NAMED else "")
    text = words.ngettext("%(num)d alert: %(symbols)s", "%(num)d alerts: %(symbols)s", len(entries))
    return text % {"num": len(entries), "symbols": named}


def _groups(entries: Sequence[Entry], reader: Reader, words: Vocabulary) -> Mapping[str, list[Row]]:
    """By symbol, in the order each was first heard of."""
    zone, groups = zone_of(reader.time_zone), dict[str, list[Row]]()
    for entry in entries:
        row, alert = entry.alert, told(entry.alert, "shared")
        at = datetime.fromtimestamp(row.at_ns // NANOS_PER_SECOND, UTC).astimezone(zone)
        groups.setdefault(row.symbol, []).append(
            Row(
                code=row.severity,
                shape=alert_phrases.SHAPES[row.severity],
                severity=words(alert_phrases.SEVERITIES[row.severity]),
                at=f"{date_text(at.date(), words.language)} {at:%H:%M:%S} {at:%Z}",
                event=alert_phrases.event(alert, words),
                sentence=alert_phrases.sentence(alert, words, _price, partial(_day, words.language)),
            )
        )
    return groups


def _price(price: float) -> str:
    return price_text(round(price * PRICE_SCALE))


def _day(language: str, text: str) -> str:
    """A trade date; what an alert refers to is not always one."""
    try:
        return date_text(date.fromisoformat(text), language)
    except ValueError:
        return text


@cache
def vocabulary(language: str) -> Vocabulary:
    """The words of a language; English where there are none."""
    known = {path.name for path in FOLDERS[0].iterdir()}
    return Vocabulary(language if language in known else "en", FOLDERS)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("outcry.delivery"), autoescape=select_autoescape(("html",)), undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False, keep_trailing_newline=True,
    )  # fmt: skip


def _template(name: str) -> Template:
    return _environment().get_template(name)

"""Content of a digest (an email with several alerts) as plain text and HTML, in the reader's language and time zone.

Both forms have the same content. Severity is a word and a symbol. Opening the email loads nothing: no images, scripts
or fonts. Text from data is always escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template, select_autoescape

from outcry.answers import alert_phrases
from outcry.answers.alerts import entry as entry_of
from outcry.base.http_dates import date_text
from outcry.base.translations import Vocabulary
from outcry.delivery.digest_windows import zone_of
from outcry.delivery.outbox_model import Entry, Message, Reader
from outcry.market.units import NANOS_PER_SECOND, PRICE_SCALE, price_text

FOLDERS = (Path(__file__).parent / "locale", alert_phrases.LOCALE_FOLDER)
#: Maximum number of alerts shown. Of more, the most severe are shown, and of those the newest.
MOST_SHOWN = 50
#: Maximum number of symbols in a subject.
MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Row:
    """One alert as a digest lists it: code, symbol, severity name, time, the event in a few words, and a sentence."""

    code: str
    shape: str
    severity: str
    at: str
    event: str
    sentence: str


@dataclass(frozen=True, slots=True)
class DigestMessage:
    """Subject and bodies (plain text, HTML) of a digest email.

    `request`: the plain text without the secret unsubscribe link. The page of a webhook shows it after a test.
    """

    subject: str
    text: str
    html: str
    request: str


@dataclass(frozen=True, slots=True)
class Links:
    """Links of an email: all alerts, the webhook's page, and the secret link to unsubscribe."""

    alerts: str
    webhook: str
    unsubscribe: str


def render_digest(message: Message, links: Links) -> DigestMessage:
    """Render the digest of a message; a message without entries is a test."""
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
    """Return a count with its noun in singular (`one`) or plural (`many`); empty for zero."""
    return words.ngettext(one, many, count) % {"num": count} if count else ""


def _shown(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the alerts that the digest lists, in the order they happened."""
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
    """Return the alerts by symbol, in the order symbols first occur."""
    zone, groups = zone_of(reader.time_zone), dict[str, list[Row]]()
    for entry in entries:
        row, alert = entry.alert, entry_of(entry.alert, "shared")
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
    """Format the trade date that an alert refers to; return any other text unchanged."""
    try:
        return date_text(date.fromisoformat(text), language)
    except ValueError:
        return text


@cache
def vocabulary(language: str) -> Vocabulary:
    """Return the texts of a language; English if there are none."""
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

"""The words of error messages, by message id, in each language shipped: `locale/<language>/messages.po`.

Rule kept: catalogues are read once at the start; an id without words falls back to its code's, then to
English.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from babel.messages.pofile import read_po

from outcry.http.negotiation import best_language

LOCALE_FOLDER = Path(__file__).parent / "locale"
ENGLISH = "en"
_LONGEST_VALUE = 80


class Catalogue:
    """All messages of all languages."""

    def __init__(self, texts: Mapping[str, Mapping[str, str]]) -> None:
        self._texts = texts
        self.languages = (ENGLISH, *sorted(set(texts) - {ENGLISH}))
        self._chosen: dict[str, str] = {}

    def choose(self, accept_language: str) -> str:
        """Return the language to answer in."""
        known = self._chosen.get(accept_language)
        if known is None:
            known = best_language(accept_language, self.languages)
            if len(self._chosen) < 256:  # browsers send few different headers; an attacker may send many
                self._chosen[accept_language] = known
        return known

    def text(self, language: str, message_id: str, code: str, details: Mapping[str, Any]) -> str:
        """Word a message, its template filled from `details`."""
        for texts in (self._texts[language], self._texts[ENGLISH]):
            for name in (message_id, code):
                if template := texts.get(name):
                    return template.format_map(_Shown(details))
        return message_id


class _Shown(dict[str, str]):
    """Values as a message shows them: short, lists joined, the unknown left out."""

    def __init__(self, details: Mapping[str, Any]) -> None:
        super().__init__((name, _shown(value)) for name, value in details.items())

    def __missing__(self, key: str) -> str:
        return ""


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, cast("list[object]", value)))
    text = str(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def load_catalogue(folder: Path = LOCALE_FOLDER) -> Catalogue:
    """Read every language's file."""
    texts: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*/messages.po")):
        with path.open("rb") as file:
            catalog = read_po(file, locale=path.parent.name)
        texts[path.parent.name] = {
            str(message.id): str(message.string) for message in catalog if message.id and message.string
        }
    return Catalogue(texts)

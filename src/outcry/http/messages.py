"""Error messages by message id, in every language: `locale/<language>/messages.po`.

A catalogue is read when its language is first used. If an id has no message, the message of its error code is used, and
else the English one.
"""

from collections.abc import Mapping
from functools import lru_cache, partial
from gettext import NullTranslations
from pathlib import Path
from typing import Any, cast

from outcry.base.deferred import Deferred
from outcry.base.negotiation import LONGEST, best_language
from outcry.base.translations import translations

LOCALE_FOLDER = Path(__file__).parent / "locale"
ENGLISH = "en"
_LONGEST_VALUE = 80


class Catalogue:
    """All messages of all languages. Messages have ids, so English needs a catalogue like the others."""

    def __init__(self, texts: Mapping[str, Deferred[NullTranslations]]) -> None:
        self._texts = texts
        self.languages = (ENGLISH, *sorted(set(texts) - {ENGLISH}))
        # a limited number, because an attacker may send many different headers
        self._best = lru_cache(256)(partial(best_language, offered=self.languages))

    def choose(self, accept_language: str) -> str:
        """Return the language in which to respond, by the header `Accept-Language`."""
        return self._best(accept_language[:LONGEST])

    def text(self, language: str, message_id: str, code: str, details: Mapping[str, Any]) -> str:
        """Return the message for an id in a language, with the values of `details` filled in."""
        for texts in (self._texts[language](), self._texts[ENGLISH]()):
            for name in (message_id, code):
                if (template := texts.gettext(name)) != name:
                    return template.format_map(_Shown(details))
        return message_id


class _Shown(dict[str, str]):
    """Values for a message, formatted for it: cut to a short length, lists joined.

    An unknown name gives an empty text.
    """

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
    """Return the catalogue of all languages."""
    languages = sorted(path.name for path in folder.iterdir() if path.is_dir())
    return Catalogue({language: Deferred(partial(translations, folder, language)) for language in languages})

"""The languages of the pages: English as written in the templates, others by their catalogues.

Rules kept: trade terms (POC, VAH, IB) are not translated; an exchange's prices are written the exchange's way in every
language; catalogues are read when a language is first asked for.
"""

import gettext
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from babel.messages.pofile import read_po

from outcry.http.negotiation import best_language

LOCALE_FOLDER = Path(__file__).parent / "locale"
#: In the order offered, each by its own name.
LANGUAGES = {"en": "English", "de": "Deutsch"}


def later(text: str) -> str:
    """A text that is worded where the reader's language is known; marked here, so that catalogues are held to it."""
    return text


class Words(gettext.NullTranslations):
    """The words of one language. `locale/<language>/*.po` are one catalogue in several files, one a group of pages."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self.language = language
        self._plural: Callable[[int], int] = lambda n: int(n != 1)
        self._texts: dict[str, tuple[str, ...]] = {}
        for path in sorted((LOCALE_FOLDER / language).glob("*.po")):
            with path.open("rb") as file:
                catalog = read_po(file, locale=language)
            for message in catalog:
                name = message.id if isinstance(message.id, str) else message.id[0]
                texts = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
                if name and texts and all(texts):
                    self._texts[name] = texts

    def gettext(self, message: str) -> str:
        """A text in this language; as it is where it has none."""
        return self._texts.get(message, (message,))[0]

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """A text that depends on a number."""
        texts = self._texts.get(msgid1) or (msgid1, msgid2)
        return texts[min(self._plural(n), len(texts) - 1)]

    def __call__(self, text: str, **values: Any) -> str:
        """A text with its values in it: `words("%(count)d keys", count=3)`."""
        found = self.gettext(text)
        return found % values if values else found


class Languages:
    """Chooses among them."""

    @staticmethod
    @cache
    def words(language: str) -> Words:
        """The words of a language there is."""
        return Words(language if language in LANGUAGES else "en")

    def choose(self, wished: str, cookie: str, accept_language: str) -> Words:
        """The user's own setting, else this browser's, else what its header asks for, else English."""
        for language in (wished, cookie):
            if language in LANGUAGES:
                return self.words(language)
        return self.words(best_language(accept_language, tuple(LANGUAGES)))

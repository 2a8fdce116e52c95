"""The languages of the pages: English is in the templates, other languages are in catalogues.

Trade terms (POC, VAH, IB) are not translated, and prices have the exchange's format in every language. A catalogue is
read when its language is first used.
"""

from functools import cache
from pathlib import Path

from outcry.answers import alert_phrases
from outcry.base.negotiation import best_language
from outcry.base.translations import Vocabulary

#: Catalogues of the pages, and of the texts they share with email.
FOLDERS = (Path(__file__).parent / "locale", alert_phrases.LOCALE_FOLDER)
#: In the order offered, each by its name in that language.
LANGUAGES = {"en": "English", "de": "Deutsch"}


def later(text: str) -> str:
    """Mark a text for translation, which happens later, where the reader's language is known."""
    return text


class Words(Vocabulary):
    """The translations of the pages in one language."""

    def __init__(self, language: str) -> None:
        super().__init__(language, FOLDERS)


class Languages:
    """Chooses the language of a page, and provides its translations."""

    @staticmethod
    @cache
    def words(language: str) -> Words:
        """Return the translations of a language; English for one without a catalogue."""
        return Words(language if language in LANGUAGES else "en")

    def choose(self, wished: str, cookie: str, accept_language: str) -> Words:
        """Return the user's language, else the one set in this browser, else the best match of its header."""
        for language in (wished, cookie):
            if language in LANGUAGES:
                return self.words(language)
        return self.words(best_language(accept_language, tuple(LANGUAGES)))

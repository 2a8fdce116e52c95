"""The languages of the pages: English as written in the templates, others by their catalogues.

Rules kept: trade terms (POC, VAH, IB) are not translated; an exchange's prices are written the exchange's way in every
language; catalogues are read when a language is first asked for.
"""

from functools import cache
from pathlib import Path

from outcry.http.negotiation import best_language
from outcry.http.words import Vocabulary
from outcry.services import alert_phrases

#: Where the pages' own words are, and those they share with mail.
FOLDERS = (Path(__file__).parent / "locale", alert_phrases.LOCALE_FOLDER)
#: In the order offered, each by its own name.
LANGUAGES = {"en": "English", "de": "Deutsch"}


def later(text: str) -> str:
    """A text that is worded where the reader's language is known; marked here, so that catalogues are held to it."""
    return text


class Words(Vocabulary):
    """The words of the pages in one language."""

    def __init__(self, language: str) -> None:
        super().__init__(language, FOLDERS)


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

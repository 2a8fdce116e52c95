"""The languages of the pages. English texts are in the templates, those of other languages in catalogues.

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
    """Mark a text for translation, and return it unchanged. It is translated when the reader's language is known."""
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
        """Return the translations into a language; English if the language has no catalogue."""
        return Words(language if language in LANGUAGES else "en")

    def choose(self, wished: str, cookie: str, accept_language: str) -> Words:
        """Return the translations to use.

        The language is the user's, else that of the cookie, else the best match for the browser's header.
        """
        for language in (wished, cookie):
            if language in LANGUAGES:
                return self.words(language)
        return self.words(best_language(accept_language, tuple(LANGUAGES)))

"""The words of one language, read from catalogues: for whatever is said to people in their language.

Rule kept: English is the key of every text, and what has no words in a language is said in English.
"""

import gettext
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from babel.messages.pofile import read_po


class Vocabulary(gettext.NullTranslations):
    """The words of one language. The files `<folder>/<language>/*.po` of all folders are one catalogue."""

    def __init__(self, language: str, folders: Sequence[Path]) -> None:
        super().__init__()
        self.language = language
        self._plural: Callable[[int], int] = lambda n: int(n != 1)
        self._texts: dict[str, tuple[str, ...]] = {}
        for path in sorted(path for folder in folders for path in (folder / language).glob("*.po")):
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

"""The words of one language, read from catalogues: for whatever is said to people in their language.

Rules kept: English is the key of every text, and what has no words in a language is said in English. The form that a
number takes follows the catalogue's `Plural-Forms` header, or Babel's rule for the language where a file has none.
"""

import gettext
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

#: Chooses the form of a text for a number.
Plural = Callable[[int], int]
#: Numbers among which each category of each language has an example: the rules repeat after 100.
_EXAMPLES = range(1, 201)


class Vocabulary(gettext.NullTranslations):
    """The words of one language. The files `<folder>/<language>/*.po` of all folders are one catalogue."""

    def __init__(self, language: str, folders: Sequence[Path]) -> None:
        super().__init__()
        self.language = language
        self._texts: dict[str, tuple[str, ...]] = {}
        self._plurals: dict[str, Plural] = {}
        for path in sorted(path for folder in folders for path in (folder / language).glob("*.po")):
            with path.open("rb") as file:
                self._add(read_po(file, locale=language))

    def _add(self, catalog: Catalog) -> None:
        """Take over the texts that are translated in all their forms."""
        plural: Plural = gettext.c2py(catalog.plural_expr)
        for message in catalog:
            name = message.id if isinstance(message.id, str) else message.id[0]
            texts = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
            if not name or not all(texts):
                continue
            if message.pluralizable:
                if len(texts) != catalog.num_plurals:
                    continue
                self._plurals[name] = plural
            self._texts[name] = texts

    def gettext(self, message: str) -> str:
        """A text in this language; as it is where it has none."""
        return self._texts.get(message, (message,))[0]

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """A text that depends on a number; English where it is not translated."""
        plural = self._plurals.get(msgid1)
        return super().ngettext(msgid1, msgid2, n) if plural is None else self._texts[msgid1][plural(n)]

    def plural_forms(self, msgid1: str, msgid2: str) -> dict[str, str]:
        """The forms of a text by CLDR plural category (`one`, `few`, … `other`), for a script to choose among by
        `Intl.PluralRules`."""
        category = Locale.parse(self.language).plural_form
        forms: dict[str, str] = {}
        for n in _EXAMPLES:
            forms.setdefault(category(n), self.ngettext(msgid1, msgid2, n))
        return {"other": self.ngettext(msgid1, msgid2, 2), **forms}

    def __call__(self, text: str, **values: Any) -> str:
        """A text with its values in it: `words("%(count)d keys", count=3)`."""
        found = self.gettext(text)
        return found % values if values else found

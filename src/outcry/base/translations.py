"""Translations of one language, read by `gettext`.

The sources are `<folder>/<language>/*.po`. The files of one folder together are one catalogue. The build compiles them
to `<folder>/<language>/LC_MESSAGES/outcry.mo` in the wheel (`setup.py`). In a checkout, this module compiles the
sources in memory when a language is first used, so no compiled file can be out of date. Decision record 0051.
"""

import gettext
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from babel import Locale

#: Name of the compiled catalogue, `outcry.mo`.
_DOMAIN = "outcry"
#: Every plural category of every language occurs among these: the rules repeat after 100.
_EXAMPLES = range(1, 201)


def translations(folder: Path, language: str) -> gettext.NullTranslations:
    """Return the catalogue of one folder and language.

    If there is none, return an empty catalogue, so texts stay English.
    """
    if any((folder / language).glob("*.po")):
        from outcry.base.catalogues import compiled, sources  # noqa: PLC0415 - the wheel has compiled catalogues

        return gettext.GNUTranslations(BytesIO(compiled(sources(folder, language), language)))
    return gettext.translation(_DOMAIN, folder, [language], fallback=True)


class Vocabulary(gettext.NullTranslations):
    """Translates texts to one language. The catalogues of all folders are searched in their order, then English."""

    def __init__(self, language: str, folders: Sequence[Path]) -> None:
        super().__init__()
        self.language = language
        for folder in folders:
            self.add_fallback(translations(folder, language))

    def gettext(self, message: str) -> str:
        """Translate a text; English where it is not translated."""
        return super().gettext(message) if message else ""  # gettext has the catalogue's header under no text

    def plural_forms(self, msgid1: str, msgid2: str) -> dict[str, str]:
        """Return the forms of a text by CLDR plural category (`one`, `few`, … `other`).

        A script chooses from them by `Intl.PluralRules`.
        """
        category = Locale.parse(self.language).plural_form
        forms: dict[str, str] = {}
        for n in _EXAMPLES:
            forms.setdefault(category(n), self.ngettext(msgid1, msgid2, n))
        return {"other": self.ngettext(msgid1, msgid2, 2), **forms}

    def __call__(self, text: str, **values: Any) -> str:
        """Translate a text and fill in its values: `words("%(count)d keys", count=3)`."""
        found = self.gettext(text)
        return found % values if values else found

"""Translations of one language, read by `gettext`.

The sources are `<folder>/<language>/*.po`: several files a folder, which together are one catalogue. The build compiles
them into the wheel as `<folder>/<language>/LC_MESSAGES/outcry.mo` (`setup.py`). In a checkout, where the sources are,
they are compiled in memory when a language is first used, so an edited file is never out of date. Decision record 0051.
"""

import gettext
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

DOMAIN = "outcry"
#: Every plural category of every language occurs among these: the rules repeat after 100.
_EXAMPLES = range(1, 201)


class InconsistentCatalogues(Exception):
    """The files of one folder and language cannot be one catalogue: their plural rules differ."""


def sources(folder: Path, language: str) -> list[Path]:
    """Return the `.po` files of a language."""
    return sorted((folder / language).glob("*.po"))


def compiled(files: Sequence[Path], language: str) -> bytes:
    """Compile `.po` files into one binary catalogue (`.mo`). Entries that lack a plural form are left out, so that
    they appear in English. Raises `InconsistentCatalogues`."""
    parts = [_read(path, language) for path in files]
    whole, rules = parts[0], {part.plural_forms for part in parts}
    if len(rules) > 1:
        raise InconsistentCatalogues(f"plural rules of {files[0].parent} differ: {', '.join(sorted(rules))}")
    for part in parts[1:]:
        for message in part:
            if message.id:
                whole[message.id] = message
    for incomplete in [message.id for message in whole if message.id and not _is_complete(message)]:
        whole.delete(incomplete)
    binary = BytesIO()
    write_mo(binary, whole)
    return binary.getvalue()


def compile_tree(source_root: Path, target_root: Path) -> Iterator[Path]:
    """Compile the catalogues below `source_root` into the same places below `target_root`; yield the files written."""
    for folder in sorted({path.parent for path in source_root.rglob("locale/*/*.po")}):
        language = folder.name
        target = target_root / folder.relative_to(source_root) / "LC_MESSAGES" / f"{DOMAIN}.mo"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(compiled(sources(folder.parent, language), language))
        yield target


def translations(folder: Path, language: str) -> gettext.NullTranslations:
    """Return the catalogue of one folder and language. If there is none, return an empty one, which yields English."""
    if files := sources(folder, language):
        return gettext.GNUTranslations(BytesIO(compiled(files, language)))
    return gettext.translation(DOMAIN, folder, [language], fallback=True)


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


def _read(path: Path, language: str) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def _is_complete(message: Message) -> bool:
    """Return whether a text is translated in all its plural forms."""
    texts = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
    return bool(texts) and all(texts)

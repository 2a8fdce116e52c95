"""Compile translations (`.po`) into binary catalogues (`.mo`) for the build, and in memory for a checkout."""

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

#: File in which the build stores a compiled catalogue.
COMPILED = "outcry.mo"


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
        target = target_root / folder.relative_to(source_root) / "LC_MESSAGES" / COMPILED
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(compiled(sources(folder.parent, language), language))
        yield target


def _read(path: Path, language: str) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=language, abort_invalid=True)


def _is_complete(message: Message) -> bool:
    """Return whether a text is translated in all its plural forms."""
    texts = (message.string,) if isinstance(message.string, str) else tuple(message.string or ())
    return bool(texts) and all(texts)

"""Find the texts of the pages in templates and Python files."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.extract import extract
from babel.messages.pofile import read_po
from jinja2.ext import babel_extract

import outcry.web
from outcry.web.language import FOLDERS

WEB = Path(outcry.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
MODULES = sorted(WEB.rglob("*.py"))
#: What texts go through in Python: `words("…")`, and `later("…")` for those that are worded elsewhere.
_PYTHON: dict[str, Any] = {
    "words": None,
    "gettext": None,
    "ngettext": (1, 2),
    "plural_forms": (1, 2),
    "_": None,
    "later": None,
}
_TEMPLATE = ("_", "gettext", "ngettext")

#: A text, or the two of a text that depends on a number; and where it stands.
Text = tuple[str | tuple[str, ...], str]


def of_template(path: Path) -> Iterator[Text]:
    found = babel_extract(
        BytesIO(path.read_bytes()), _TEMPLATE, (), {"newstyle_gettext": "true", "silent": "false"}
    )
    for line, _, message, _ in found:
        texts = (
            message if isinstance(message, str) else tuple(part for part in message if isinstance(part, str))
        )
        if texts:
            yield texts, f"{path.relative_to(WEB)}:{line}"


def of_module(path: Path) -> Iterator[Text]:
    for line, message, _, _ in extract("python", BytesIO(path.read_bytes()), _PYTHON):
        yield message, f"{path.relative_to(WEB)}:{line}"


def all_texts() -> list[Text]:
    """Every text there is."""
    return [text for path in TEMPLATES for text in of_template(path)] + [
        text for path in MODULES for text in of_module(path)
    ]


def entries(language: str) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Every entry of a language: its file, what it is of, what it says."""
    for path in sorted(path for folder in FOLDERS for path in (folder / language).glob("*.po")):
        with path.open("rb") as file:
            for message in read_po(file, locale=language):
                if message.id:
                    ids = (message.id,) if isinstance(message.id, str) else tuple(message.id)
                    translations = (
                        (message.string,) if isinstance(message.string, str) else tuple(message.string)
                    )
                    yield path.name, ids, translations


def translated(language: str) -> frozenset[str]:
    """The texts that a language has in all their forms; some read the same in both languages."""
    return frozenset(ids[0] for _, ids, translations in entries(language) if all(translations))

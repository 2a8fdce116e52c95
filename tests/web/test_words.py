"""Every text of the pages is translated, with the same meaning, and fits its place."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.web.browsing import NARROW, Opened
from tests.web.harness import WebHarness
from tests.web.texts import all_texts, entries, translated

from outcry.web.language import LANGUAGES, Languages, Words

OTHERS = [language for language in LANGUAGES if language != "en"]
PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]|%%")
#: What markup a text has: a link's address is part of what it says.
MARKUP = re.compile(r"<[^>]+>")
MAIN_PAGES = (
    "/",
    "/s/ES",
    "/s/ZN?view=table",
    "/s/ES?view=profile",
    "/alerts",
    "/sign-in",
    "/broker-guide",
    "/docs",
    "/errors/unauthorized",
)


def test_there_are_texts_to_look_at() -> None:
    found = {place.partition(":")[0] for _, place in all_texts()}
    assert "templates/base.html" in found
    assert any(place.endswith(".py") for place in found)


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_there_in_every_language(language: str) -> None:
    known = translated(language)
    missing = {
        f"{place}: {text}"
        for texts, place in all_texts()
        if (text := texts if isinstance(texts, str) else texts[0]) not in known
    }
    assert not missing, "\n".join(sorted(missing))


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_keeps_its_placeholders_and_its_markup(language: str) -> None:
    wrong: list[str] = []
    for file, ids, translations in entries(language):
        for text in translations:
            allowed = [sorted(PLACEHOLDER.findall(each)) for each in ids]
            if sorted(PLACEHOLDER.findall(text)) not in allowed:
                wrong.append(f"{file}: {text}: placeholders")
            if sorted(MARKUP.findall(text)) not in [sorted(MARKUP.findall(each)) for each in ids]:
                wrong.append(f"{file}: {text}: markup")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("language", OTHERS)
def test_one_text_has_one_translation(language: str) -> None:
    """The files of a language are one catalogue: of two translations one would be lost."""
    found: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}
    for file, ids, translations in entries(language):
        found.setdefault(ids, {}).setdefault(translations, file)
    several = [f"{ids[0]}: {translations}" for ids, translations in found.items() if len(translations) > 1]
    assert not several, "\n".join(several)


@pytest.mark.parametrize("language", OTHERS)
def test_a_text_asked_for_without_a_number_has_no_plural(language: str) -> None:
    """gettext would answer with the form of one."""
    counted = {ids[0] for _, ids, _ in entries(language) if len(ids) > 1}
    assert [place for texts, place in all_texts() if isinstance(texts, str) and texts in counted] == []


class LengthenedWords(Words):
    """English that takes as much room as the wordiest of languages: two fifths more."""

    def __init__(self) -> None:
        super().__init__("en")

    def gettext(self, message: str) -> str:
        return self._longer(super().gettext(message))

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self._longer(super().ngettext(msgid1, msgid2, n))

    @staticmethod
    def _longer(text: str) -> str:
        length = len(MARKUP.sub("", text))
        more = -(-length * 2 // 5)
        words = " ".join("ěxţŕå"[: min(5, more - at)] for at in range(0, more, 6))
        return f"{text} {words}" if text.strip() else text


@contextmanager
def all_long() -> Iterator[None]:
    words, long = vars(Languages)["words"], LengthenedWords()
    Languages.words = staticmethod(lambda language: long)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Languages.words = words


@pytest.mark.parametrize("path", MAIN_PAGES)
def test_longer_words_have_room(harness: WebHarness, opened: Opened, path: str) -> None:
    with all_long(), opened(width=NARROW) as tab:
        tab.go(path, expect=(200,))
        assert "ěxţŕå" in tab.page.locator("body").inner_text()
        assert tab.overflow(NARROW) == []


@pytest.mark.parametrize("path", MAIN_PAGES)
def test_a_page_can_be_read_from_right_to_left(harness: WebHarness, opened: Opened, path: str) -> None:
    """Nothing hangs over either edge; prices and charts keep their own direction."""
    with opened(width=NARROW) as tab:
        tab.go(path, expect=(200,))
        tab.page.evaluate("document.documentElement.dir = 'rtl'")
        assert tab.overflow(NARROW) == []
        assert tab.page.evaluate("document.documentElement.scrollLeft") == 0
        assert tab.page.locator("h1").is_visible()

"""Texts with a number use the plural rule of their language: Polish has three forms where English has two."""

from pathlib import Path

import pytest
from tests.web.browsing import Opened

from outcry.base.catalogues import InconsistentCatalogues, compile_tree
from outcry.base.translations import Vocabulary

HEADER = """msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"""
RULE = '"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : 2);\\n"\n'
KEYS = """
msgid "%(num)s key"
msgid_plural "%(num)s keys"
msgstr[0] "%(num)s klucz"
msgstr[1] "%(num)s klucze"
msgstr[2] "%(num)s kluczy"
"""
#: As a Polish grammar has them: 1 klucz; 2 to 4, 22, 102 klucze; 0, 5 to 21, 25, 112 kluczy.
CASES = {
    0: "kluczy", 1: "klucz", 2: "klucze", 4: "klucze", 5: "kluczy", 11: "kluczy", 12: "kluczy", 14: "kluczy",
    21: "kluczy", 22: "klucze", 25: "kluczy", 102: "klucze", 112: "kluczy",
}  # fmt: skip


def polish(folder: Path, *texts: str) -> Vocabulary:
    (folder / "pl").mkdir()
    for number, text in enumerate(texts):
        (folder / "pl" / f"{number}.po").write_text(text, encoding="utf-8")
    return Vocabulary("pl", [folder])


@pytest.mark.parametrize("rule", [RULE, ""], ids=["its header", "Babel's rule"])
def test_a_number_takes_the_form_of_the_rule(tmp_path: Path, rule: str) -> None:
    words = polish(tmp_path, HEADER + rule + KEYS)
    assert {n: words.ngettext("%(num)s key", "%(num)s keys", n) for n in CASES} == {
        n: f"%(num)s {word}" for n, word in CASES.items()
    }


OTHER = """
msgid "%(num)s alert"
msgid_plural "%(num)s alerts"
msgstr[0] "many"
msgstr[1] "one"
"""
OTHER_RULE = '"Plural-Forms: nplurals=2; plural=(n==1);\\n"\n'


def test_each_folder_has_the_rule_of_its_own_header(tmp_path: Path) -> None:
    """The second folder writes its two forms the other way round."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    polish(one, HEADER + RULE + KEYS)
    polish(two, HEADER + OTHER_RULE + OTHER)
    words = Vocabulary("pl", [one, two])
    assert words.ngettext("%(num)s key", "%(num)s keys", 3) == "%(num)s klucze"
    assert [words.ngettext("%(num)s alert", "%(num)s alerts", n) for n in (1, 3)] == ["one", "many"]


def test_files_of_one_folder_have_one_rule(tmp_path: Path) -> None:
    """They are compiled into one catalogue, which has one header."""
    with pytest.raises(InconsistentCatalogues, match=r"plural rules of .* differ"):
        polish(tmp_path, HEADER + RULE + KEYS, HEADER + OTHER_RULE + OTHER)


def test_files_of_one_folder_are_one_catalogue(tmp_path: Path) -> None:
    words = polish(tmp_path, HEADER + RULE + KEYS, HEADER + RULE + 'msgid "Key"\nmsgstr "Klucz"\n')
    assert (words("Key"), words.ngettext("%(num)s key", "%(num)s keys", 5)) == ("Klucz", "%(num)s kluczy")


@pytest.mark.parametrize("rule", [RULE, ""], ids=["its header", "Babel's rule"])
def test_a_compiled_catalogue_is_read_where_there_are_no_sources(tmp_path: Path, rule: str) -> None:
    """As it is installed: no `.po`, the compiled file in gettext's own place."""
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "locale").mkdir(parents=True)
    expected = polish(source / "locale", HEADER + rule + KEYS)
    (written,) = compile_tree(source, target)
    assert written == target / "locale" / "pl" / "LC_MESSAGES" / "outcry.mo"
    words = Vocabulary("pl", [target / "locale"])
    for n, word in CASES.items():
        assert words.ngettext("%(num)s key", "%(num)s keys", n) == f"%(num)s {word}"
    assert words.plural_forms("%(num)s key", "%(num)s keys") == expected.plural_forms(
        "%(num)s key", "%(num)s keys"
    )


def test_a_language_without_a_catalogue_is_english(tmp_path: Path) -> None:
    words = Vocabulary("pl", [tmp_path])
    assert [words.ngettext("%(num)s key", "%(num)s keys", n) for n in (1, 2)] == [
        "%(num)s key",
        "%(num)s keys",
    ]
    assert words("Key") == "Key"


def test_no_text_is_no_text(tmp_path: Path) -> None:
    """Not the catalogue's header, which gettext has in its place."""
    assert polish(tmp_path, HEADER + RULE + KEYS)("") == ""


def test_a_text_that_lacks_a_form_is_said_in_english(tmp_path: Path) -> None:
    words = polish(tmp_path, HEADER + RULE + KEYS.replace('msgstr[2] "%(num)s kluczy"\n', ""))
    assert [words.ngettext("%(num)s key", "%(num)s keys", n) for n in (1, 5)] == [
        "%(num)s key",
        "%(num)s keys",
    ]


def test_a_script_is_given_a_form_for_each_category(tmp_path: Path) -> None:
    words = polish(tmp_path, HEADER + RULE + KEYS)
    assert words.plural_forms("%(num)s key", "%(num)s keys") == {
        "one": "%(num)s klucz", "few": "%(num)s klucze", "many": "%(num)s kluczy", "other": "%(num)s klucze",
    }  # fmt: skip
    assert Vocabulary("en", []).plural_forms("%(num)s key", "%(num)s keys") == {
        "one": "%(num)s key", "other": "%(num)s keys",
    }  # fmt: skip


def test_a_script_chooses_the_form_that_the_server_would(tmp_path: Path, opened: Opened) -> None:
    """In the browser, over the same numbers."""
    forms = polish(tmp_path, HEADER + RULE + KEYS).plural_forms("%(num)s key", "%(num)s keys")
    with opened() as tab:
        tab.go("/docs")
        forms = tab.page.evaluate(
            """async ([forms, numbers]) => {
                document.documentElement.lang = "pl";
                const { counted } = await import(document.querySelector('script[src*="/common"]').src + "#pl");
                return numbers.map((n) => counted(forms, n));
            }""",
            [{name: text % {"num": "{count}"} for name, text in forms.items()}, list(CASES)],
        )
    assert forms == [f"{n} {word}" for n, word in CASES.items()]

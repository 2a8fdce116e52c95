"""The wording list finds the terms and the long sentences of each kind of file, at their lines, and skips code."""

import subprocess
from pathlib import Path

import pytest
from tools import words


def found(path: Path, content: str) -> list[tuple[int, str]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return [(each.line, each.found) for each in words.findings(path)]


def test_markdown_is_read_without_code_and_links(tmp_path: Path) -> None:
    page = """# A house

It is told once. `kept` is a name, as is https://example.com/held,
and [this](what-it-is.md) leads on: it was let
  go of.

```sh
echo told
```
"""
    assert found(tmp_path / "page.md", page) == [(1, "house"), (3, "told"), (4, "let go")]


def test_python_is_read_in_docstrings_comments_and_texts(tmp_path: Path) -> None:
    module = '''"""What is kept."""

told = 1  # whoever asks
A = "held"
# one line which
# somebody wrote


def f(name: str) -> str:
    """Say
    nobody."""
    return f"No one told {name} of it"
'''
    expected = [
        (1, "kept"),
        (1, "What is"),
        (3, "whoever"),
        (6, "somebody"),
        (10, "Say"),
        (11, "nobody"),
        (12, "told"),
    ]
    assert sorted(found(tmp_path / "module.py", module)) == sorted(expected)


def test_a_template_is_read_without_markup_and_code(tmp_path: Path) -> None:
    page = '<p class="held">It stands</p>\n{# told #}\n{{ _("Whoever asks for it") }} {% if kept %}x{% endif %}\n'
    assert found(tmp_path / "page.html", page) == [
        (1, "stands"),
        (2, "told"),
        (3, "Whoever"),
        (3, "asks for"),
    ]


def test_a_catalogue_is_read_in_both_languages(tmp_path: Path) -> None:
    entries = 'msgid "It is held"\nmsgstr "Dein Hinweis"\n\nmsgid "held"\nmsgstr "kept"\n'
    assert found(tmp_path / "de" / "a.po", entries) == [(1, "Dein"), (1, "Hinweis"), (1, "held")]
    assert found(tmp_path / "en" / "a.po", entries) == [(4, "kept")]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.js", 'const kept = "told";\n/** One.\n * It is held. */\n'),
        ("a.css", ".kept { color: red }\n\n/* held */\n"),
        ("a.toml", 'kept = "told"\n\n# held\n'),
    ],
)
def test_other_files_are_read_in_comments(tmp_path: Path, name: str, content: str) -> None:
    assert found(tmp_path / name, content) == [(3, "held")]


def test_a_sentence_may_have_thirty_words(tmp_path: Path) -> None:
    thirty, more = " ".join(["one"] * 30), " ".join(["two"] * 31)
    page = f"{thirty}. {thirty}\n\n- {thirty}\n- {more}\n"
    assert found(tmp_path / "a.md", page) == [(4, "sentence of 31 words: two two two two two two …")]


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("right away", False),
        ("the engine is away", True),
        ("the email address", False),
        ("the address", True),
        ("stands for", False),
        ("withheld", False),
        ("There is more, for it is new.", True),
        ("wait for it", False),
    ],
)
def test_a_term_is_found_in_the_sense_that_is_meant(tmp_path: Path, text: str, *, is_found: bool) -> None:
    assert bool(found(tmp_path / "a.md", text)) == is_found


def test_the_list_can_be_restricted_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("docs/a.md", "docs/b.md", "c.md"):
        found(tmp_path / name, "told\n\nheld\n" if name == "docs/b.md" else "told\n")
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    words.main(["docs/a.md"], tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["docs/a.md:1: told → reported, returns, shows", "     1 docs/a.md", "     1 in 1 files"]
    words.main(["--count", "docs"], tmp_path)
    assert capsys.readouterr().out.splitlines() == [
        "     2 docs/b.md",
        "     1 docs/a.md",
        "     3 in 2 files",
    ]
    words.main([], tmp_path)
    assert capsys.readouterr().out.splitlines()[-1] == "     4 in 3 files"

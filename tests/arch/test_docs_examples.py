"""The code examples of the documents run, and their assertions hold."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RUN = ("library.md", "levels.md")


def examples(name: str) -> list[tuple[int, str]]:
    """Return the Python blocks of a page, with the line on which each begins."""
    text = (DOCS / name).read_text()
    return [
        (text.count("\n", 0, found.start()) + 2, found[1])
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


EXAMPLES = [(name, line, code) for name in RUN for line, code in examples(name)]


@pytest.mark.parametrize(
    ("name", "line", "code"), EXAMPLES, ids=[f"{name}:{line}" for name, line, _ in EXAMPLES]
)
def test_example(name: str, line: int, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile("\n" * (line - 1) + code, str(DOCS / name), "exec"), {"__name__": "__example__"})


def test_there_are_examples() -> None:
    assert {name for name, _, _ in EXAMPLES} == set(RUN)
    assert all("assert" in code or "plot" in code for _, _, code in EXAMPLES)

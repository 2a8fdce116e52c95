"""Every install command in code, pages and documentation names this distribution and an extra that it has.

Another project owns the name `outcry` on the package index.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from outcry.base.extras import DISTRIBUTION, MissingExtra, install_command

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
#: Where people read commands. Tests are not among them: they name wrong commands on purpose.
PLACES = ("src", "docs", "deploy", "README.md", "CHANGELOG.md")
SUFFIXES = {".py", ".html", ".po", ".md", ".txt", ".toml", ".yaml", ".yml", ".service", ".js", ".json", ""}
#: `pip install` and its like, and what they install: options are skipped.
COMMAND = re.compile(r"(?:pip|pipx|uv tool|uv pip|uv) (?:install|add)|uvx --from|pipx run --spec", re.ASCII)
#: The name of ours or of the other project, if it is not a path, a command or part of a longer name.
PACKAGE = re.compile(r"""(?<![\w./-])(openoutcry|outcry)(?:\[([\w,{} .…]+)\])?(?=["'\s)=<>`]|$)""")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Yield package and extras of each install command of a text."""
    for found in COMMAND.finditer(text):
        line = text[found.end() : found.end() + 120].split("\n\n", maxsplit=1)[0].partition("</code>")[0]
        for package in PACKAGE.finditer(" ".join(line.split("#")[0].split())[:60]):
            yield package[1], package[2] or ""
            break


def texts() -> Iterator[tuple[Path, str]]:
    for place in PLACES:
        root = ROOT / place
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                yield path, path.read_text()


def test_install_commands_name_this_distribution_and_its_extras() -> None:
    found = [(str(path), *command) for path, text in texts() for command in commands(text)]
    assert len(found) >= 5
    wrong = [
        each for each in found
        if each[1] != DISTRIBUTION or not set(filter(None, re.split(r"[, ]+", each[2]))) <= EXTRAS
    ]  # fmt: skip
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("pip install outcry", ("outcry", "")),
        ("Run `pip install\n'outcry[plot]'` first", ("outcry", "plot")),
        ("uvx --from 'openoutcry[serve]' outcry serve", ("openoutcry", "serve")),
        ("pipx install --quiet 'openoutcry[serve,files]'", ("openoutcry", "serve,files")),
    ],
)
def test_a_command_is_found_in_a_text(text: str, command: tuple[str, str]) -> None:
    assert list(commands(text)) == [command]


def test_the_distribution_has_the_name_that_commands_install() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert install_command() == "pip install openoutcry"
    assert install_command("plot") == "pip install 'openoutcry[plot]'"


def test_every_extra_that_the_code_names_exists() -> None:
    """A broker's extra, and each extra of a `MissingExtra`."""
    named = set[str]()
    for path, text in texts():
        if path.suffix == ".py":
            named |= set(re.findall(r"MissingExtra\(.*?,\s*\"(\w+)\"\)", text.replace("'", '"')))
            named |= set(re.findall(r"\bextra=\"(\w+)\"", text))
            named |= set(re.findall(r"install_command\(\"(\w+)\"\)", text.replace("'", '"')))
    assert {"files", "plot", "serve", "cluster", "databento", "ibkr"} <= named
    assert named <= EXTRAS


def test_a_missing_extra_is_one_line_with_the_command() -> None:
    text = str(MissingExtra("plot()", "plot"))
    assert text == "plot() needs the extra `plot`. Run: pip install 'openoutcry[plot]'"


def test_extras_that_need_the_service_bring_it() -> None:
    needing = EXTRAS - {"serve", "files", "plot"}
    assert all("openoutcry[serve]" in PROJECT["optional-dependencies"][each] for each in needing)

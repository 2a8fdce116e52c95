"""The code blocks of the documentation and the README, with the place of each."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
#: URL of the service and key in the examples.
URL, KEY = "http://localhost:8000", "outcry_…"
_PUNCTUATION = set("();<>|&")


@dataclass(frozen=True)
class Block:
    """A fenced code block. page: path below docs/ without suffix, or `README`. line: of its first line, from 1."""

    page: str
    line: int
    language: str
    code: str

    @property
    def name(self) -> str:
        """Return the block's name for test reports."""
        return f"{self.page}:{self.line}"

    @property
    def asks_a_service(self) -> bool:
        """Return whether the code sends requests to the service of the examples."""
        return URL in self.code


def blocks(language: str | None = None) -> list[Block]:
    """Return the fenced code blocks of all pages, or those of one language."""
    found: list[Block] = []
    for path in [README, *sorted(DOCS.rglob("*.md"))]:
        page = str(path.relative_to(ROOT if path == README else DOCS).with_suffix(""))
        found += [
            Block(page, token.map[0] + 2, token.info.strip(), token.content)
            for token in MarkdownIt().parse(path.read_text())
            if token.type == "fence" and token.map is not None
        ]
    return [block for block in found if language in {None, block.language}]


def commands(code: str) -> Iterator[list[str]]:
    """Yield the simple commands of a shell script: words between `;`, `&&`, `|`, parentheses and line ends.

    Assignments before a command are left out. Words of redirections are yielded as commands of their own.
    """
    for line in re.sub(r"\\\n", " ", code).splitlines():
        try:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.wordchars += "$:@%+,[]{}…'"
            words = list(lexer)
        except ValueError:  # a quote that ends on another line; `bash -n` checks it
            continue
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= _PUNCTUATION:
                if command:
                    yield command
                command = []
            elif command or not re.match(r"\w+=", word):
                command.append(word)


def outcry_arguments(words: list[str]) -> list[str]:
    """Return the arguments of Outcry's command line in a command; empty if the command does not run Outcry.

    Outcry may be run by another program, such as `compose exec`.
    """
    if words[0] not in {"outcry", "compose", "runuser", "exec"} and not words[0].endswith("/bin/outcry"):
        return []
    places = [at for at, word in enumerate(words) if word == "outcry" or word.endswith("/bin/outcry")]
    return words[places[-1] + 1 :] if places else []

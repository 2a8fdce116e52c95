"""List wording to edit: terms of the project's vocabulary table, and sentences of more than 30 words.

    python tools/words.py                        every tracked file
    python tools/words.py docs src/outcry/web    only these files and folders
    python tools/words.py --count docs           only the number of findings in each file

The list helps an editor. It is not a gate: a finding may be right as it stands, and the exit status is always 0.

The tool reads Markdown, templates, gettext catalogues, Python docstrings, comments and texts (string literals of
four words or more), and comments of JavaScript, CSS, TOML, shell and configuration files. It skips code, names in
backticks and URLs. Each finding is one line: `path:line: found → suggestion`.
"""

import argparse
import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1]
LONGEST_SENTENCE = 30

#: English terms to reword, as regular expressions of whole words, and what to write instead.
ENGLISH = {
    # the vocabulary table
    r"told|tells?|says?|said": "reported, returns, shows",
    r"gives? out|gave out|given out": "publishes",
    r"brings?|brought": "receives, sends, supplies",
    r"kept|remembered": "stored, cached, retained",
    r"held|holds": "stored, cached, retained; contains; is valid",
    r"stands?(?! for)|stood|standing": "is, is current, is stored",
    r"takes? up|taken up|took up": "acquires, acquired",
    r"lets? go|let go": "releases, released",
    r"hands? over|handed over": "transfers, transferred",
    r"reigns?": "ownership term (epoch)",
    r"(?<!right )(?<!straight )(?<!throws )(?<!throw )(?<!thrown )away": "unavailable, absent",
    r"silent|silence": "idle, sends no data",
    r"stuck": "stalled",
    r"torn": "inconsistent, truncated",
    r"who(?:m)?ever|whatever|whichever": "name the actor or thing: the caller, any user",
    r"a caller's own|callers' own": "the user's",
    r"whose (?:it|he|they) (?:is|are|was)": "the owner",
    r"what (?:is|was|are|were|has|had|it|they|we|one|comes?|came|goes|lies|follows|others?)": "name the thing",
    r"invented|made[ -]up": "simulated",
    r"mailed|mails?|letter": "emailed, email, message",
    r"holds? for (?:\d+|an?|one|two|five|ten|thirty)": "expires in",
    r"(?<!email )(?<!IP )(?<!client )(?<!public )(?<!private )(?<!network )address(?:es)?":
        "email address (of a person), URL (of a webhook), IP address",
    r"(?:try|tries|tried|trying) (?:it |them )?again": "retry, retrying",
    r"gives? up|given up|gave up|giving up": "failed permanently",
    r"(?:put )?in force": "enabled, active, valid",
    r"in no log": "not logged",
    r"switched (?:off|on)": "disabled, enabled",
    r"spelled|spells?|spellings?|way of spelling": "symbol format, written as",
    r"marks of time|instants?": "timestamps, times",
    r"places where it fails|(?:is )?broken with": "fails when",
    r"pieces?": "batches, rows, entries (name them)",
    r"some of (?:it|them|these|those)|those (?:of|that|which|who|whose|not|in|from|for)|the rest": "name them",
    # names
    r"shelf|shelves": "completed sessions",
    r"desks?": "page context, services",
    r"pens?": "formatter",
    r"errands?": "background task",
    r"summons|summoned": "recall, recalled",
    r"parcels?": "message",
    r"lanes?": "queue",
    r"mirrors?|mirrored": "replica",
    r"the night(?: before)?|nights": "overnight session",
    r"kinds? of (?:day|open)s?": "day type, open type",
    r"taken back|takes? back": "busted trade; withdrawn",
    r"sealed|seals?|sealing": "encrypted, encrypts",
    r"house|world|stage": "name the thing: project, environment, test setup",
    r"voices?": "vote, source",
    # riddles, personification and old words
    r"speaks? (?:up|down|for)|spoke": "votes, supports",
    r"strangers?": "another user, an unknown client",
    r"somebody|nobody|everybody|anybody|someone": "name the actor: a user, no reader",
    r"there is nobody|as \w+ as there (?:is|are)|of which|in which case": "name the subject and use a verb",
    r"(?<=[,;:] )for (?:it|they|there|we|you|no|nobody|nothing|what|one|its|their)": "because",
    r"hears?|heard|hearing of": "receives, received",
    r"news": "changes, updates",
    r"asks? (?:for|of|nothing|to|it)|asked|asking": "request, requested",
    r"(?:by|of) (?:itself|themselves)": "automatically",
    r"of (?:its|their|his|her|our|your) own": "its own …, separate",
    r"signs? of life": "heartbeats",
    r"(?:is|are|was|were|be) known": "name who knows: stored, measured, available",
    r"looks? after|looked after": "operates, manages",
    r"put right|puts? right|mend(?:s|ed|ing)?": "fix, repair",
    r"goes? by|going by": "uses",
    r"anew|alike|afresh|thereby|whence|lest|hence|nought": "use an everyday word: again, equal, so",
    r"deaths?|dead|dies|died|dying": "crash, stopped, failed permanently",
    r"rests? on|rests|rested": "depends on; pauses",
    r"as fits": "Auto",
    r"odds": "probabilities",
    r"judges?|judged": "checks, decides",
    r"struck": "killed, removed",
}  # fmt: skip

#: German terms to reword, matched in German catalogues only.
GERMAN = {
    r"Hinweise?n?|Alarme?n?": "Alert, Alerts",
    r"Unterschrift(?:en)?": "Signatur",
    r"Geheimnis(?:se|ses)?": "Secret",
    r"Schwere": "Priorität",
    r"Betrieb": "Verwaltung",
    r"Vorführung": "Demo",
    r"bringt nichts|bringen nichts": "stellt nicht zu",
    r"Wer ist da|wie es (?:um|mit)": "Identität bestätigen; Status",
    r"Nicht Angekommenes": "Fehlgeschlagene",
    r"Handelt (?:unter|über|bei)": "Kurs unter, über, bei",
    r"erfunden\w*": "simuliert",
    r"versiegelt\w*|gesiegelt\w*": "verschlüsselt",
    r"niemand\w*|jemand\w*|wer auch immer": "Handelnden nennen: ein Benutzer, kein Programm",
    r"steht (?:an|bevor|fest)|hält für": "gilt bis, läuft ab in",
    r"dein\w*|dich|dir": "Sie, Ihr",
}

SUFFIXES = {
    ".md", ".py", ".html", ".txt", ".po", ".js", ".mjs", ".css", ".toml", ".yaml", ".conf", ".env", ".service",
}  # fmt: skip
NAMES = {"Makefile", "NOTICE", "Dockerfile", "Caddyfile", "pin-images", "run"}
SKIPPED = (
    "requirements/",
    "src/outcry/web/static/vendor/",
    "constraints.txt",
    "tools/words.py",
    "tests/arch/test_words_tool.py",
)

_INLINE_CODE = re.compile(r"``[^`]+``|`[^`\n]+`|https?://\S+|\]\([^)\s]+\)|<https?[^>]*>")
_FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
_MARKUP = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.DOTALL)
_JINJA = re.compile(r"\{#.*?#\}|\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_JINJA_TEXT = re.compile(r'"([^"\n]*)"|\'([^\'\n]*)\'')
_BLOCK_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_LINE_COMMENT = re.compile(r"(?:^|(?<=\s))//.*$", re.MULTILINE)
_HASH_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$", re.MULTILINE)
#: A sentence ends at its mark, at a blank line, and before a list item, a heading, a table row or a cell.
_SENTENCE_END = re.compile(
    r"[.!?…][)\"'”“*]*(?=\s|$)|\n[ \t]*\n|\n(?=[ \t]*(?:[-*+|#>]|\d+\.)[ \t])|\|", re.MULTILINE
)
_BLANK = re.compile(r"(\(\?<[!=][^)]*\))| ")
_WORD = re.compile(r"[^\W_]+(?:['’.,:/-][^\W_]+)*")


@dataclass(frozen=True)
class Passage:
    """A stretch of prose and the line of its file at which it begins. Line breaks inside it are those of the file."""

    line: int
    text: str
    language: str = "en"


@dataclass(frozen=True, order=True)
class Finding:
    """A term or a sentence to reword."""

    line: int
    found: str
    suggestion: str


def blanked(pattern: re.Pattern[str], text: str, fill: str = " ") -> str:
    """Replace each match by a filler of the same length, so that offsets and line breaks stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", fill, match[0]), text)


def without_code(text: str) -> str:
    """Replace names in backticks and URLs by a word of the same length that no term matches."""
    return blanked(_INLINE_CODE, text, "x")


def markdown(text: str) -> Iterator[Passage]:
    """Yield the page without its code blocks."""
    yield Passage(1, blanked(_FENCE, text))


def template(text: str) -> Iterator[Passage]:
    """Yield the texts and comments of a Jinja template, and the string literals of four words or more in it."""
    yield Passage(1, blanked(_MARKUP, blanked(_JINJA, text)))
    for block in _JINJA.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        if block[0].startswith("{#"):
            yield Passage(line, block[0])
            continue
        for literal in _JINJA_TEXT.finditer(block[0]):
            content = literal[1] or literal[2] or ""
            yield Passage(line + block[0].count("\n", 0, literal.start()), blanked(_MARKUP, content))


def catalogue(path: Path) -> Iterator[Passage]:
    """Yield ids and translations of a gettext catalogue; ids without a blank are names, not prose."""
    language = path.parent.name
    with path.open("rb") as file:
        messages = list(read_po(file, locale=language))
    for message in messages:
        line = message.lineno or 1
        if "".join(forms(message.id)):
            yield from (Passage(line, each) for each in forms(message.id) if " " in each and language != "en")
            yield from (Passage(line, each, language) for each in forms(message.string))


def forms(text: str | list[str] | tuple[str, ...] | None) -> tuple[str, ...]:
    """Return the singular and the plurals of a text in a catalogue, none if it is not translated."""
    return (text,) if isinstance(text, str) else tuple(text or ())


def python(text: str) -> Iterator[Passage]:
    """Yield docstrings, comments and other string literals that read like prose."""
    tree = ast.parse(text)
    inner = set[ast.AST]()  # parts of an f-string, and docstrings: read once
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if (docstring := ast.get_docstring(node, clean=False)) is not None:
                first = node.body[0]
                inner.update(ast.walk(first))
                yield Passage(first.lineno, docstring)
        elif isinstance(node, ast.JoinedStr) and node not in inner:
            inner.update(node.values)
            parts = [each.value if isinstance(each, ast.Constant) else "…" for each in node.values]
            yield from literal(node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield from literal(node.lineno, node.value)
    yield from comments(text)


def literal(line: int, value: str) -> Iterator[Passage]:
    """Yield a string literal of four words or more that is no SQL and no markup."""
    if len(value.split()) >= 4 and not re.match(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|<)", value):
        yield Passage(line, value)


def comments(text: str) -> Iterator[Passage]:
    """Yield the comments of a Python file; comments on consecutive lines of their own are one passage."""
    begun, lines = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, content = (
            token.start[0],
            re.sub(r"noqa\S*|type: ignore\S*|pyright: \S+|fmt: \w+", "", token.string),
        )
        own_line = not token.line[: token.start[1]].strip()
        if lines and own_line and line == begun + len(lines):
            lines.append(content.lstrip("#:"))
            continue
        if lines:
            yield Passage(begun, "\n".join(lines))
        begun, lines = line, [content.lstrip("#:")]
    if lines:
        yield Passage(begun, "\n".join(lines))


def commented(text: str, *patterns: re.Pattern[str]) -> Iterator[Passage]:
    """Yield comments, found by pattern; comments on consecutive lines are one passage."""
    blocks: list[tuple[int, int, str]] = []  # first line, last line, content
    for match in sorted((m for p in patterns for m in p.finditer(text)), key=re.Match.start):
        first = text.count("\n", 0, match.start()) + 1
        content = re.sub(r"^[ \t]*\*(?!/)", " ", match[0].strip("/*# \t"), flags=re.MULTILINE)
        if blocks and first == blocks[-1][1] + 1:
            begun, _, before = blocks.pop()
            blocks.append((begun, first + content.count("\n"), f"{before}\n{content}"))
        else:
            blocks.append((first, first + content.count("\n"), content))
    yield from (Passage(first, content) for first, _, content in blocks)


def passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a file. Raises `UnicodeDecodeError` and `SyntaxError` if it cannot be read."""
    if path.suffix == ".po":
        yield from catalogue(path)
        return
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md" or path.name == "NOTICE":
        yield from markdown(text)
    elif path.suffix in {".html", ".txt"}:
        yield from template(text)
    elif path.suffix == ".py":
        yield from python(text)
    elif path.suffix in {".js", ".mjs"}:
        yield from commented(text, _BLOCK_COMMENT, _LINE_COMMENT)
    elif path.suffix == ".css":
        yield from commented(text, _BLOCK_COMMENT)
    else:
        yield from commented(text, _HASH_COMMENT)


def compiled(table: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Compile a table of terms. A blank in a term matches several; one in a look-behind does not."""
    return [
        (re.compile(rf"(?<![\w-])(?:{_BLANK.sub(_blanks, term)})(?![\w-])", re.IGNORECASE), suggestion)
        for term, suggestion in table.items()
    ]


def _blanks(match: re.Match[str]) -> str:
    return match[1] or " +"


_TERMS = {"en": compiled(ENGLISH), "de": compiled(GERMAN)}


def terms(passage: Passage) -> Iterator[Finding]:
    """Yield the terms of the vocabulary table in a passage."""
    text = without_code(passage.text)
    flat = text.replace("\n", " ")
    for pattern, suggestion in _TERMS.get(passage.language, []):
        for match in pattern.finditer(flat):
            line = passage.line + text.count("\n", 0, match.start())
            yield Finding(line, " ".join(match[0].split()), suggestion)


def long_sentences(passage: Passage, longest: int = LONGEST_SENTENCE) -> Iterator[Finding]:
    """Yield the sentences of more than `longest` words."""
    text = without_code(passage.text)
    start = 0
    for end in [*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)]:
        words = list(_WORD.finditer(text, start, end))
        if len(words) > longest:
            begin = words[0].start()
            opening = " ".join(passage.text[begin : words[5].end()].split())
            line = passage.line + text.count("\n", 0, begin)
            yield Finding(line, f"sentence of {len(words)} words: {opening} …", "split it")
        start = end


def findings(path: Path, longest: int = LONGEST_SENTENCE) -> list[Finding]:
    """Return what to edit in a file, by line, each finding once."""
    found = {
        each for passage in passages(path) for each in (*terms(passage), *long_sentences(passage, longest))
    }
    return sorted(found)


def files(places: Iterable[str], root: Path = ROOT) -> list[Path]:
    """Return the tracked files with prose among the given files and folders, all if none is given."""
    call = ["git", "-C", str(root), "ls-files", "-z", "--", *places]
    names = subprocess.run(call, capture_output=True, check=True, text=True).stdout.split("\0")  # noqa: S603
    return [
        root / name
        for name in names
        if name and not name.startswith(SKIPPED) and (root / name).is_file()
        if Path(name).suffix in SUFFIXES or Path(name).name in NAMES
    ]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    """Print the findings, and the number of them in each file."""
    parser = argparse.ArgumentParser(description="List wording to edit. Always exits with 0.")
    parser.add_argument(
        "places", nargs="*", help="files and folders, relative to the repository; all if none"
    )
    parser.add_argument("--count", action="store_true", help="print only the number of findings in each file")
    parser.add_argument("--words", type=int, default=LONGEST_SENTENCE, help="words a sentence may have")
    chosen = parser.parse_args(arguments)
    counts = Counter[str]()
    for path in files(chosen.places, root):
        name = str(path.relative_to(root))
        found = findings(path, chosen.words)
        counts[name] = len(found)
        if not chosen.count:
            print(
                *(f"{name}:{each.line}: {each.found} → {each.suggestion}\n" for each in found), sep="", end=""
            )
    for name, count in counts.most_common():
        if count:
            print(f"{count:6} {name}")
    print(f"{counts.total():6} in {len(counts)} files")


if __name__ == "__main__":
    main()

"""The port for files of market data: what an importer needs of a format, whichever it is.

Errors: `FileRefused` for anything wrong with a file, naming the file and the place in it and what to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Protocol

from outcry.market.instruments import Universe
from outcry.trades.records import Batch


def shown(path: Path | str) -> str:
    """A path as it may be printed: control characters in a file's name do not reach a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(path))


class FileRefused(Exception):
    """The file cannot be imported: says which file, where in it, what is wrong and what to do."""

    def __init__(self, path: Path | str, place: str, problem: str, remedy: str = "") -> None:
        where = f"{shown(path)}, {place}" if place else shown(path)
        super().__init__(f"{where}: {problem}" + (f" — {remedy}" if remedy else ""))
        self.path, self.place, self.problem, self.remedy = str(path), place, problem, remedy


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the person said of the files, where the files do not tell.

    contract: a key such as `ESZ3`; format: a name of `feeds.files.FORMATS`; tz: an IANA zone of naive stamps;
    stamp: `open` or `close`, which end of a bar its stamp names; today: for the century of one-digit years.
    """

    contract: str | None = None
    format: str | None = None
    tz: str | None = None
    stamp: str | None = None
    today: date = date(2000, 1, 1)


@dataclass(slots=True)
class ReadCounts:
    """What a reader passed over, and why: the reason (a short noun phrase) against the number of rows."""

    rows: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])

    def skip(self, reason: str, rows: int) -> None:
        """Count `rows` passed over for `reason`."""
        if rows:
            self.skipped[reason] = self.skipped.get(reason, 0) + rows


class Reading(Protocol):
    """One file being read. `source` names whose record of the market it is (`databento`, `lean`, `sierra` …):
    trades of one source are never mixed with another's in one session."""

    path: Path
    format: str
    source: str
    counts: ReadCounts
    bytes_total: int

    @property
    def covered(self) -> tuple[tuple[int, int], ...]:
        """Spans (ns UTC) it holds all trades of; empty: from its first row to its last."""
        ...

    @property
    def replaces(self) -> bool:
        """Whether it knows what was taken back, so that the tape's rows of its days are not joined to its own."""
        ...

    @property
    def bytes_read(self) -> int:
        """Progress in bytes of the file on disk, at most `bytes_total`."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in file order, at most a few 100,000 a batch; raise `FileRefused`."""
        ...


class Library(Protocol):
    """Opens files: tells their format, zone, stamps and contract, or says what it must be told."""

    def expand(self, path: Path) -> list[Path]:
        """The files below a folder that could hold market data, in order of name; the file itself for a file."""
        ...

    def open(self, path: Path, universe: Universe, options: ReadOptions) -> Reading | None:
        """Begin to read; None where the file is recognised as holding no trades (quotes, definitions)."""
        ...

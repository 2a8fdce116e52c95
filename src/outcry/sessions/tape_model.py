"""Interface of the tape: trades and bars as received, one file per contract, trade date, source and quality.

A file is complete before a recording in the store names it. Files that no recording names may be removed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import NamedTuple, Protocol

from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows


class TapeDamaged(Exception):
    """A tape file is missing, unreadable or not the file that was stored. The message names it and what to do."""


class TapeInUse(Exception):
    """Another process is writing to the tape."""


class TapeFile(NamedTuple):
    """A finished file: its path relative to the tape folder, and the SHA-256 of its bytes in hexadecimal.

    digest: empty for a file written before Outcry stored digests; it is then not compared.
    """

    path: str
    digest: str


NO_FILE = TapeFile("", "")


class TapeWriter(Protocol):
    """One file being written."""

    def append(self, rows: Rows) -> None:
        """Add rows of the quality's dtype, in order of time. Raises `OSError` (a full disk)."""
        ...

    def close(self) -> TapeFile:
        """Finish the file; its bytes are on disk when this returns."""
        ...

    def abandon(self) -> None:
        """Remove what was written."""
        ...


class Tape(Protocol):
    """The folder of tape files."""

    def begin(
        self, owner: int, contract: Contract, trade_date: date, source: str, quality: Quality
    ) -> TapeWriter:
        """Start a new file. It replaces no existing file."""
        ...

    def read(self, file: TapeFile, quality: Quality) -> Iterator[Rows]:
        """Yield the rows of a file, chunk by chunk, after comparing its digest. Raises `TapeDamaged`."""
        ...

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes. Raises `TapeDamaged`."""
        ...

    def set_aside(self, path: str) -> None:
        """Rename a damaged file, so that `sweep` keeps it and a person can inspect it."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file that no recording names."""
        ...

    def retire(self, path: str) -> None:
        """Mark a file that the store is about to stop naming; the next `sweep` removes it if no recording names it."""
        ...

    def sweep(self, named: Callable[[Sequence[str]], frozenset[str]]) -> int:
        """Remove files that were begun or retired and that no recording names, such as after a crash; return how many.

        named: returns which of the given paths recordings name. Other files are never touched, because the store may
        be a different one. Call only inside `exclusively()`.
        """
        ...

    def exclusively(self) -> AbstractContextManager[None]:
        """Lock the tape for writing by this process until the block ends. Raises `TapeInUse`."""
        ...

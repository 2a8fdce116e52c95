"""The port for the tape: trades and bars as they came, one file a contract, trade date, source and quality.

A file is written whole, then named by a recording in the store; what no recording names is nobody's and may be swept.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from typing import NamedTuple, Protocol

from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows


class TapeDamaged(Exception):
    """A tape file is missing, cannot be read or is not the file that was stored: names the file and what to do."""


class TapeInUse(Exception):
    """Another process is writing to the tape."""


class TapeFile(NamedTuple):
    """A finished file: its path relative to the tape folder, and the SHA-256 of its bytes in hexadecimal.

    The digest is empty for a file written before Outcry stored digests; nothing is compared then."""

    path: str
    digest: str


NO_FILE = TapeFile("", "")


class TapeWriter(Protocol):
    """One file being written."""

    def append(self, rows: Rows) -> None:
        """Add rows of the quality's dtype, in order of time. Raises `OSError` (a full disk)."""
        ...

    def close(self) -> TapeFile:
        """Finish: the bytes are on disk when this returns."""
        ...

    def abandon(self) -> None:
        """Remove what was written."""
        ...


class Tape(Protocol):
    """The folder of tape files."""

    def begin(
        self, owner: int, contract: Contract, trade_date: date, source: str, quality: Quality
    ) -> TapeWriter:
        """Start a new file; it replaces no other."""
        ...

    def read(self, file: TapeFile, quality: Quality) -> Iterator[Rows]:
        """Yield the rows of a file, chunk by chunk, after comparing its digest. Raises `TapeDamaged`."""
        ...

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes. Raises `TapeDamaged`."""
        ...

    def set_aside(self, path: str) -> None:
        """Rename a damaged file, so that no later sweep removes it and a person can still look at it."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file that no recording names any more."""
        ...

    def retire(self, path: str) -> None:
        """Note that the store is about to name a file no more: the next `sweep` removes it if that came true."""
        ...

    def sweep(self, named: Callable[[Sequence[str]], frozenset[str]]) -> int:
        """Remove those files that were begun or retired and no recording names; return how many. So does a crash leave
        none of them behind. `named`: says which of some files recordings name.

        No other file is touched, whatever the store says: it may be another store. Only inside `exclusively()`."""
        ...

    def exclusively(self) -> AbstractContextManager[None]:
        """Be the only process that writes, until the block ends. Raises `TapeInUse`."""
        ...

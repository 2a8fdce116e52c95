"""Changes to the tape: the lock of imports, and the files that they began or replaced.

An interrupted import leaves files that no recording in the database names. The next import removes them.
"""

import fcntl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: Returns which of these paths, relative to the tape, are named by a recording.
Named = Callable[[Sequence[str]], frozenset[str]]


class TapeInUse(Exception):
    """Another process is writing to the tape."""


class TapeChanges:
    """The lock of a tape folder, and its list of files that no recording may name: new ones and replaced ones."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listed = folder / ".begun"

    @contextmanager
    def exclusively(self, named: Named) -> Generator[None]:
        """Lock the tape for writing by this process until the block ends, and `sweep` it. Raises `TapeInUse`."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                raise TapeInUse(
                    f"another import is writing to {self._folder}: wait for it to end"
                ) from problem
            self.sweep(named)
            yield

    def note(self, relative: str) -> None:
        """List a file for removal by the next `sweep`, unless a recording names the file by then."""
        with self._listed.open("a", encoding="utf-8") as listed:
            listed.write(relative + "\n")

    def sweep(self, named: Named) -> None:
        """Remove the listed files that no recording names. Call only inside `exclusively()`.

        Other files are never touched, because the database may be a different one.
        """
        try:
            listed = self._listed.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        kept = named(listed)
        for name in listed:
            if name not in kept and (self._folder / name).is_file():
                (self._folder / name).unlink(missing_ok=True)
        self._listed.unlink()

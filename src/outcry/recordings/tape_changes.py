"""Changes to the tape: the lock of imports, and the list of files that imports created or replaced.

An interrupted import leaves files that no recording in the database names. The next import removes them.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from outcry.base.file_lock import exclusive_lock
from outcry.base.portable_files import remove
from outcry.recordings.tape_errors import TapeInUse

#: Returns which of these paths, relative to the tape, are named by a recording.
Named = Callable[[Sequence[str]], frozenset[str]]


class TapeChanges:
    """The lock of a tape folder, and its list of created and replaced files.

    `sweep` removes the listed files that no recording in the database names: those of an interrupted import, and those
    that a later import replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listed = folder / ".begun"

    @contextmanager
    def exclusively(self, named: Named) -> Generator[None]:
        """Lock the tape folder for this process until the block ends, and remove leftover files (`sweep`).

        Raises `TapeInUse`.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        in_use = TapeInUse(f"another import is writing to {self._folder}: wait for it to end")
        with exclusive_lock(self._folder / ".lock", in_use):
            self.sweep(named)
            yield

    def note(self, relative: str) -> None:
        """List a file for removal by the next `sweep`, unless a recording names the file by then."""
        with self._listed.open("a", encoding="utf-8", newline="\n") as listed:
            listed.write(relative + "\n")

    def sweep(self, named: Named) -> None:
        """Remove the listed files that no recording names. Call only inside `exclusively()`.

        Files that are not listed are never touched, because the tape folder may be paired with another database.
        """
        try:
            listed = self._listed.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        kept = named(listed)
        for name in listed:
            if name not in kept and (self._folder / name).is_file():
                remove(self._folder / name)
        self._listed.unlink()

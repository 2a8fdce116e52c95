"""Leave out the invalid rows of a table, if the user chose `--bad-rows skip`, and name the first of them.

The table is refused if more than one row in ten is invalid, because then the options or columns are wrong.
"""

from collections.abc import Callable
from pathlib import Path

from outcry.recordings.file_model import INVALID, FileRefused, ReadCounts

REFUSE, SKIP, KEEP = "refuse", "skip", "keep"
CHOICES = (REFUSE, SKIP, KEEP)
#: Number of invalid rows that are named.
MOST_NAMED = 20
#: Invalid rows of one block of a table. More of them are no exception, and would take long to name.
MOST_IN_BLOCK = 1000
_SHARE = 10
_FEW = 10


class BadRows:
    """The rows of one table that are left out because they are invalid.

    `unparsed`: data rows, counted from 0, that do not have the columns of the table, in order.
    """

    def __init__(self, path: Path, counts: ReadCounts) -> None:
        self._path, self._counts = path, counts
        self.unparsed: list[int] = []

    @property
    def count(self) -> int:
        """Number of rows left out so far."""
        return self._counts.skipped.get(INVALID, 0)

    def leave_out(self, place: Callable[[], str], problem: str) -> None:
        """Count a row, and name it if it is among the first. place: returns its place."""
        self._counts.skip(INVALID, 1)
        if len(self._counts.invalid) < MOST_NAMED:
            self._counts.invalid.append(f"{place()}: {problem}")

    def refuse_many(self, parsed: int) -> None:
        """Refuse the table at its end if more than one row in ten was invalid. Raises `FileRefused`.

        parsed: number of rows that have the columns of the table.
        """
        rows = parsed + len(self.unparsed)
        if self.count > max(_FEW, rows // _SHARE):
            raise self.too_many(f"{self.count:,} of {rows:,} rows are invalid")

    def too_many(self, problem: str) -> FileRefused:
        """Return the error of a table with too many invalid rows."""
        first = f"; the first is {self._counts.invalid[0]}" if self._counts.invalid else ""
        return FileRefused(self._path, "", problem + first, "check the columns and the other options")

"""A file that is being read: its counts, its progress, and the translation of decoder errors.

Each call of `batches` reads the file from its start. The file is always closed at the end.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from outcry.recordings.file_model import NOTHING_ASSUMED, Assumptions, FileRefused, ReadCounts
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.decoder_errors import refuse_decoder_errors
from outcry.trades.records import Batch


@dataclass(slots=True)
class ReadProgress:
    """Counts of the rows read and skipped so far, and the current `place` for error messages (`record 12`)."""

    counts: ReadCounts
    place: str = ""


Rows = Callable[[CountedFile, ReadProgress], Generator[Batch]]


@dataclass(slots=True)
class FileReading:
    """A file whose format has been detected. `rows` is the function that yields its batches from the opened file."""

    path: Path
    format: str
    source: str
    bytes_total: int
    rows: Rows = field(repr=False)
    counts: ReadCounts = field(default_factory=ReadCounts)
    covered: tuple[tuple[int, int], ...] = ()
    replaces: bool = False
    assumed: Assumptions = NOTHING_ASSUMED
    _file: CountedFile | None = field(default=None, repr=False)

    @property
    def bytes_read(self) -> int:
        """Return the bytes of the file on disk read so far."""
        return min(self._file.position, self.bytes_total) if self._file else 0

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in file order. Raises `FileRefused`, also if the file contains no rows."""
        self.counts.rows = 0
        self.counts.skipped.clear()
        self.counts.invalid.clear()
        progress = ReadProgress(self.counts)
        with (
            refuse_decoder_errors(self.path, lambda: progress.place),
            closing(CountedFile(self.path)) as file,
        ):
            self._file = file
            # close the batches before the file, because a thread may be reading ahead
            with closing(self.rows(file, progress)) as batches:
                for batch in batches:
                    if len(batch.rows):
                        self.counts.rows += len(batch.rows)
                        yield batch
            if not self.counts.rows and not self.counts.skipped:
                raise FileRefused(self.path, "", "the file has no records")
            file.position = file.size

"""Fixtures that read recording files with the packaged products."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outcry.market.instruments import Universe
from outcry.recordings.file_model import FileRefused, ReadCounts, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.records import Batch


class Read:
    """Batches of a file that was read completely."""

    def __init__(self, source: str, form: str, batches: list[Batch], counts: ReadCounts) -> None:
        self.source, self.format, self.batches, self.counts = source, form, batches, counts

    def rows(self, key: str | None = None) -> np.ndarray:
        """Return all rows, or those of one contract."""
        parts = [b.rows for b in self.batches if key in (None, b.contract.key)]
        return np.concatenate(parts)

    @property
    def keys(self) -> set[str]:
        return {batch.contract.key for batch in self.batches}

    @property
    def qualities(self) -> set[str]:
        return {batch.quality.value for batch in self.batches}


Reader = Callable[..., "Read | None"]


@pytest.fixture(scope="session")
def read(universe: Universe) -> Reader:
    def read_file(path: Path, **options: object) -> Read | None:
        reading = FileLibrary().open(path, universe, ReadOptions(**options))  # type: ignore[arg-type]
        if reading is None:
            return None
        batches = list(reading.batches())
        assert reading.counts.rows == sum(len(batch.rows) for batch in batches)
        assert reading.bytes_read == reading.bytes_total == path.stat().st_size
        return Read(reading.source, reading.format, batches, reading.counts)

    return read_file


@pytest.fixture(scope="session")
def refused(read: Reader) -> Callable[..., FileRefused]:
    """Read a file that must be refused; the error names the file."""

    def refuse(path: Path, **options: object) -> FileRefused:
        with pytest.raises(FileRefused) as caught:
            read(path, **options)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        return caught.value

    return refuse

"""Recordings in memory, as the importer reads them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outcry.recordings.file_model import NOTHING_ASSUMED, Assumptions, ReadCounts
from outcry.trades.records import Batch


@dataclass
class MemoryRecording:
    """A recording in memory. Implements `Reading`."""

    source: str
    stored: list[Batch]
    path: Path = Path("memory")
    format: str = "memory"
    counts: ReadCounts = field(default_factory=ReadCounts)
    bytes_total: int = 0
    bytes_read: int = 0
    covered: tuple[tuple[int, int], ...] = ()
    replaces: bool = False
    assumed: Assumptions = NOTHING_ASSUMED

    def batches(self) -> Iterator[Batch]:
        """Yield the rows as one batch."""
        return iter(self.stored)

"""What a stream has seen, put into the store: through the importer, as if its log were a file.

Rule kept: there is one way into the store. A session seen live is folded again from its recording by the bulk kernel,
joined with what an import brought, and complete only where the feed was there all the time.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np

from outcry.core.instruments import Contract
from outcry.ports.files import ReadCounts
from outcry.ports.live import StreamKey
from outcry.ports.records import TRADE, Batch, Quality, Rows
from outcry.services.coverage import Span
from outcry.services.importing import Importer
from outcry.services.live import entries as log

_BATCH_ROWS = 100_000


@dataclass(slots=True)
class LogReading:
    """A stream's log read as a recording. Implements `ports.files.Reading`."""

    path: Path
    source: str
    contract: Contract
    entries: Callable[[], Iterator[log.Known]]
    covered: tuple[Span, ...]
    #: What was taken back must not come again from an earlier recording of the same trades.
    replaces: bool = False
    format: str = "log"
    counts: ReadCounts = field(default_factory=ReadCounts)
    bytes_total: int = 0
    bytes_read: int = 0

    def batches(self) -> Iterator[Batch]:
        """See `Reading`."""
        for quality, same in groupby(log.settled(self.entries()), key=_quality):
            for rows in _gathered(entry.rows for entry in same):
                self.counts.rows += len(rows)
                yield Batch(
                    self.contract, quality, _plain(rows) if quality is Quality.TICKS else rows, "its log"
                )


class Archive:
    """Stores what has ended. Blocks; raises `StoreBusy`, `TapeInUse`, `TapeDamaged`, `FileRefused` and `OSError`.

    `importer` is made when first needed: with it comes much that a service without feeds does without.
    """

    def __init__(self, importer: Callable[[], Importer]) -> None:
        self._importer = importer

    def store(
        self, key: StreamKey, entries: Sequence[log.Known], covered: Sequence[Span], settled_ns: int
    ) -> None:
        """Store every session and trade date in a stream's log that is over by `settled_ns` (event time).

        Without rows there is nothing to store: they were stored with their trade date.
        """
        if not any(isinstance(entry, log.TradeRows | log.BarRows) for entry in entries):
            return
        amended = any(isinstance(entry, log.Amended) for entry in entries)
        reading = LogReading(
            Path(key.text), key.feed, key.contract, lambda: iter(entries), tuple(covered), amended
        )
        self._importer().record(reading, key.owner, settled_ns)


def _quality(entry: log.TradeRows | log.BarRows) -> Quality:
    return entry.quality if isinstance(entry, log.BarRows) else Quality.TICKS


def _gathered(parts: Iterable[Rows]) -> Iterator[Rows]:
    """Many small parts as few large ones."""
    held: list[Rows] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part)
        if count >= _BATCH_ROWS:
            yield np.concatenate(held)
            held, count = [], 0
    if count:
        yield np.concatenate(held)


def _plain(rows: Rows) -> Rows:
    plain = np.zeros(len(rows), TRADE)
    for name in TRADE.names or ():
        plain[name] = rows[name]
    plain["flags"] = 0
    return plain

"""Stores a stream's completed sessions through the importer, as if the stream's log were an imported file.

So the same code computes live sessions and imported ones, and a live session is merged with imported recordings. A live
session is complete only if the feed was connected all the time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from outcry.live import entries as log
from outcry.live.amendments import amended_rows
from outcry.live.model import StreamKey
from outcry.market.calendar import Session
from outcry.market.instruments import Contract
from outcry.recordings.file_model import NOTHING_ASSUMED, Assumptions, ReadCounts
from outcry.trades.coverage import Span
from outcry.trades.records import TRADE, Batch, Quality, Rows
from outcry.trades.rows import bars_of

if TYPE_CHECKING:
    from outcry.recordings.importing import Importer

_BATCH_ROWS = 100_000

#: Returns the session of a product at a time (ns UTC); None outside sessions.
SessionAt = Callable[[str, int], Session | None]


@dataclass(slots=True)
class LogReading:
    """Reads the log of a stream as if it were an imported file. Implements `Reading`."""

    path: Path
    source: str
    contract: Contract
    entries: Callable[[], Iterator[log.LogEntry]]
    covered: tuple[Span, ...]
    sessions: SessionAt
    #: Raises if the rows must no longer be stored.
    may_still: Callable[[], None]
    #: Whether trades were cancelled. Merging an earlier recording must not restore them.
    replaces: bool = False
    format: str = "log"
    counts: ReadCounts = field(default_factory=ReadCounts)
    bytes_total: int = 0
    bytes_read: int = 0
    assumed: Assumptions = NOTHING_ASSUMED
    _last: Session | None = None

    def batches(self) -> Iterator[Batch]:
        """Yield the rows of the log in batches.

        A recording has one quality, so if a session has any bars, all of it is stored as bars. At the end, before
        anything is stored, the function `may_still` is called, which raises if this process may no longer store the
        log.
        """
        entries = [(self._session(entry), entry) for entry in amended_rows(self.entries())]
        worst: dict[Session | None, Quality] = {}
        for session, entry in entries:
            worst[session] = max(worst.get(session, Quality.TICKS), _quality(entry), key=lambda q: q.rank)
        rows = _by_session(entries, worst)
        for quality, same in groupby(rows, key=lambda pair: pair[0]):
            for gathered in _gathered(part for _, part in same):
                self.counts.rows += len(gathered)
                yield Batch(self.contract, quality, gathered, "its log")
        self.may_still()

    def _session(self, entry: log.TradeRows | log.BarRows) -> Session | None:
        """Return the session of an entry; all rows of an entry are of one session."""
        at_ns, last = int(entry.rows["ts_event"][0]), self._last
        if last is None or not last.open_ns <= at_ns < last.close_ns:
            self._last = last = self.sessions(self.contract.root, at_ns)
        return last


class Archive:
    """Stores completed sessions of streams in the database. All calls block.

    They raise `StoreBusy`, `TapeInUse`, `TapeDamaged`, `FileRefused` and `OSError`. importer: creates the importer at
    first use, because importing its modules is slow and a service without feeds does not need them.
    """

    def __init__(self, importer: "Callable[[], Importer]", sessions: SessionAt) -> None:
        self._importer, self._sessions = importer, sessions

    def store(
        self, key: StreamKey, entries: Sequence[log.LogEntry], covered: Sequence[Span], settled_ns: int,
        may_still: Callable[[], None],
    ) -> None:  # fmt: skip
        """Store every session and trade date in a stream's log that is over by `settled_ns` (event time).

        may_still: raises if this process may no longer store the log; it is called while no other import can run. If
        the log has no rows, nothing is stored, because its rows were stored with an earlier trade date.
        """
        if not any(isinstance(entry, log.TradeRows | log.BarRows) for entry in entries):
            return
        amended = any(isinstance(entry, log.Amended | log.Replacement) for entry in entries)
        reading = LogReading(
            Path(key.text),
            key.feed,
            key.contract,
            lambda: iter(entries),
            tuple(covered),
            self._sessions,
            may_still,
            amended,
        )
        self._importer().record(reading, key.owner, settled_ns)


def _by_session(
    entries: Sequence[tuple[Session | None, log.TradeRows | log.BarRows]],
    worst: Mapping[Session | None, Quality],
) -> Iterator[tuple[Quality, Rows]]:
    """Yield rows in the quality in which their session is stored: the lowest that any of its rows has.

    If a session is stored as bars, its trades are aggregated to bars all at once, so that no bar is split.
    """
    apart: dict[Session | None, list[log.TradeRows | log.BarRows]] = {}
    for session, entry in entries:
        if worst[session] is Quality.TICKS:
            yield Quality.TICKS, _plain(entry.rows)
        else:
            apart.setdefault(session, []).append(entry)
    for session, of_it in apart.items():
        bars = [entry.rows for entry in of_it if isinstance(entry, log.BarRows)]
        trades = [entry.rows for entry in of_it if isinstance(entry, log.TradeRows)]
        if trades:
            bars.append(bars_of(np.concatenate(trades), worst[session]))
        rows = np.concatenate(bars)
        yield worst[session], rows[np.argsort(rows["ts_event"], kind="stable")]


def _quality(entry: log.TradeRows | log.BarRows) -> Quality:
    return entry.quality if isinstance(entry, log.BarRows) else Quality.TICKS


def _gathered(parts: Iterable[Rows]) -> Iterator[Rows]:
    """Concatenate adjacent small batches into few large ones."""
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

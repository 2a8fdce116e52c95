"""Read DBN files of every version, and older DBZ files.

Trades come from the schemas trades, tbbo, mbp-1 and mbo, bars from ohlcv-1s and ohlcv-1m. Only records with action `T`
are trades: an mbo `F` record is the resting side of the same trade. If a capture has several schemas, only the best one
is read, so that no trade counts twice. Rows of trades are views of the records that were read, because copying them
would cost more than all checks.
"""

import io
from collections.abc import Generator, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Final

import databento_dbn as dbn
import numpy as np
from numpy.typing import NDArray

from outcry.market.instruments import Contract
from outcry.market.units import UNDEFINED_PRICE_E9
from outcry.recordings.file_model import FileRefused, ReadCounts, ReadOptions
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.bar_checks import refuse_broken_bars
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.dbn_contracts import InstrumentMap
from outcry.recordings.formats.dbn_header import Header, open_records
from outcry.recordings.formats.dbn_stream import RecordRun, record_chunks
from outcry.recordings.formats.file_reading import FileReading, ReadProgress
from outcry.trades.records import BAR, Batch, Quality, trade_layout

NOT_TRADES = "order events that are not trades"
OTHER_RECORDS = "records of other kinds"
NO_PRICE = "undefined price"
NO_SIZE = "zero or undefined size"
NO_TIME = "no exchange time"
NO_VOLUME = "bars without volume"

_RTYPE_MAPPING: Final = 22
_RTYPE_BAR_BEFORE_DBN: Final = 17
_TRADES: Final = 0
_TOP: Final = 1
_MBO: Final = 160
_BAR_1S: Final = 32
_BAR_1M: Final = 33
#: Types of records with trades, best first. A capture with several schemas is read by the first type it has.
_LAYOUTS: Final[dict[int, np.dtype[Any]]] = {
    _TRADES: np.dtype(dbn.TradeMsg._dtypes),  # noqa: SLF001 - the library's published layout has no other name
    _TOP: np.dtype(dbn.MBP1Msg._dtypes),  # noqa: SLF001
    _MBO: np.dtype(dbn.MBOMsg._dtypes),  # noqa: SLF001
    _BAR_1S: np.dtype(dbn.OHLCVMsg._dtypes),  # noqa: SLF001
    _BAR_1M: np.dtype(dbn.OHLCVMsg._dtypes),  # noqa: SLF001
}
_QUALITY: Final = {_BAR_1S: Quality.BARS_1S, _BAR_1M: Quality.BARS_1M}
_OF_SCHEMA: Final = {"trades": _TRADES, "tbbo": _TOP, "mbp-1": _TOP, "mbo": _MBO,
                     "ohlcv-1s": _BAR_1S, "ohlcv-1m": _BAR_1M}  # fmt: skip
_UNDEFINED_SIZE: Final = (1 << 32) - 1
_UNDEFINED_TIME: Final = (1 << 63) - 1

Records = NDArray[Any]


def open_dbn(path: Path, names: ContractNames, options: ReadOptions) -> FileReading | None:
    """Start reading a DBN or DBZ file; return None if its schema contains neither trades nor bars."""
    file = CountedFile(path)
    try:
        header, stream = open_records(file)
        if (header.schema or "").startswith("ohlcv") and header.schema not in _OF_SCHEMA:
            raise FileRefused(path, "header", f"{header.schema} bars are too coarse for 30-minute brackets",
                              "export trades, ohlcv-1s or ohlcv-1m")  # fmt: skip
        wanted = _OF_SCHEMA.get(header.schema) if header.schema else _best_kind(stream, path)
    finally:
        file.close()
    if wanted is None:
        return None

    def rows(opened: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        selection = ContractFilter(path, names, options.contract)
        return _RecordReader(path, wanted, selection, progress).batches(opened)

    return FileReading(path, "dbn", "databento", file.size, rows)


def _best_kind(stream: io.RawIOBase, path: Path) -> int | None:
    """Read through a capture of several schemas; return its best record type with trades or bars, None without any."""
    found = {run.rtype for _, runs in record_chunks(stream, path, ReadProgress(ReadCounts())) for run in runs}
    return next((kind for kind in _LAYOUTS if kind in found), None)


class _RecordReader:
    """Converts the records of one record type to batches of rows."""

    def __init__(self, path: Path, wanted: int, selection: ContractFilter, progress: ReadProgress) -> None:
        self._path, self._wanted, self._selection = path, wanted, selection
        self._progress, self._counts = progress, progress.counts
        self._others = self._taken = 0

    def batches(self, file: CountedFile) -> Generator[Batch]:
        header, stream = open_records(file)
        instruments = InstrumentMap(self._path, header, self._selection.names, self._selection)
        for data, runs in record_chunks(stream, self._path, self._progress):
            parts: list[RecordRun] = []
            for run in runs:
                if run.rtype == self._wanted or self._is_old_bar(run, header):
                    parts.append(run)
                elif run.rtype == _RTYPE_MAPPING:
                    yield from self._emit(data, parts, header, instruments)
                    parts = []
                    self._learn(data, run, instruments)
                else:
                    self._others += run.count
                    self._counts.skip(OTHER_RECORDS, run.count)
            yield from self._emit(data, parts, header, instruments)
        if self._others and not self._taken:
            raise FileRefused(self._path, "", f"the header says {header.schema}, but no record has this schema",
                              "the file is mislabelled or damaged; download it again")  # fmt: skip
        self._selection.finish(self._counts.rows)

    def _is_old_bar(self, run: RecordRun, header: Header) -> bool:
        return run.rtype == _RTYPE_BAR_BEFORE_DBN and (header.schema or "").startswith("ohlcv")

    def _learn(self, data: memoryview, run: RecordRun, instruments: InstrumentMap) -> None:
        """Apply symbol mapping messages: each states which contract an instrument id means from now on.

        Version 1 messages have two symbols of 22 bytes. Later ones have two of 71 bytes, after their symbol types.
        """
        for at in range(run.at, run.at + run.count * run.size, run.size):
            record = bytes(data[at : at + run.size])
            first, second, length = (16, 38, 22) if run.size < 160 else (17, 89, 71)
            asked, given = (
                record[start : start + length].split(b"\0")[0].decode("ascii", "replace")
                for start in (first, second)
            )
            number, at_ns = (int.from_bytes(record[i:j], "little") for i, j in ((4, 8), (8, 16)))
            instruments.learn(number, (given, asked), min(at_ns, 1 << 62))

    def _emit(
        self, data: memoryview, runs: list[RecordRun], header: Header, instruments: InstrumentMap
    ) -> Iterator[Batch]:
        if not runs:
            return
        records = self._view(data, runs, header)
        self._taken += len(records)
        records = self._selected(records)
        if not len(records):
            return
        at = records["ts_event" if self._wanted in _QUALITY else "ts_recv"]
        near = _day(int(records["ts_event"][0]))
        for contract, group in instruments.groups(records, at):
            if not isinstance(contract, Contract):
                self._counts.skip(contract, len(group))
            elif self._selection.admits(contract, near, len(group), self._counts):
                if not header.is_tape:
                    self._selection.names.refuse_fractions(contract, self._path)
                quality = _QUALITY.get(self._wanted, Quality.TICKS)
                rows = _bars(group) if self._wanted in _QUALITY else _trades(group)
                yield Batch(contract, quality, rows, self._progress.place)

    def _view(self, data: memoryview, runs: list[RecordRun], header: Header) -> Records:
        layout = _LAYOUTS[self._wanted]
        if header.ts_out or runs[0].size == layout.itemsize + 8:
            layout = np.dtype([*layout.descr, ("ts_out", "<u8")])
        if any(run.size != layout.itemsize for run in runs):
            raise FileRefused(self._path, self._progress.place, f"a record has the length {runs[0].size} bytes",
                              f"{layout.itemsize} bytes are expected; download the file again")  # fmt: skip
        if len(runs) == 1:
            return np.frombuffer(data, layout, runs[0].count, runs[0].at)
        joined = bytearray().join(data[run.at : run.at + run.count * run.size] for run in runs)
        return np.frombuffer(joined, layout)

    def _selected(self, records: Records) -> Records:
        """Return the records that are trades, or bars with volume; count the others as skipped."""
        if self._wanted in _QUALITY:
            refuse_broken_bars(records, self._path, lambda row: f"{self._progress.place} + {row}")
            reasons = (
                (NO_VOLUME, records["volume"] != 0),
                (NO_PRICE, records["close"] != UNDEFINED_PRICE_E9),
            )
        else:
            sized = (records["size"] != 0) & (records["size"] != _UNDEFINED_SIZE)
            reasons = (
                (NOT_TRADES, records["action"].view(np.uint8) == ord("T")),
                (NO_PRICE, records["price"] != UNDEFINED_PRICE_E9),
                (NO_SIZE, sized),
            )
        keep: NDArray[np.bool_] | None = None
        for reason, good in (*reasons, (NO_TIME, records["ts_event"] < _UNDEFINED_TIME)):
            if not good.all():
                keep = np.ones(len(records), dtype=bool) if keep is None else keep
                self._counts.skip(reason, int(np.count_nonzero(keep & ~good)))
                keep &= good
        return records if keep is None else records[keep]


def _trades(records: Records) -> Records:
    """Return a view of the records as trades, with the fields of the row type `TRADE`.

    An aggressor side other than B, A or N is changed to N in the records themselves.
    """
    sides = np.ascontiguousarray(records["side"]).view(np.uint8)
    unknown = (sides != ord("B")) & (sides != ord("A")) & (sides != ord("N"))
    if unknown.any():
        records["side"][unknown] = b"N"
    return records.view(trade_layout(records.dtype))


def _bars(records: Records) -> Records:
    rows = np.empty(len(records), BAR)
    for name in ("ts_event", "open", "high", "low", "close", "volume"):
        rows[name] = records[name]
    return rows


def _day(at_ns: int) -> date:
    return date.fromordinal(date(1970, 1, 1).toordinal() + at_ns // 86_400_000_000_000)

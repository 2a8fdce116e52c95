"""The tape: imported trades and bars as DBN files compressed with zstd, an open format that other tools read.

Prices are in units of 10⁻⁹, and sizes in steps of the product (`size_step_e9`), as everywhere inside.

Layout: `operator/ES/ESZ2013/2013-10-08.lean.bars_1m.<unique>.dbn.zst`. Trades use the DBN schema `trades`, bars
`ohlcv-1s` and `ohlcv-1m`. A file is complete and on disk before the database stores its name, and it never changes
afterwards. If the database has the file's SHA-256, the file is verified each time it is opened, before any row is used.
"""

import hashlib
import io
import os
import secrets
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import databento_dbn as dbn
import numpy as np
import zstandard
from numpy.typing import NDArray

from outcry.base.portable_files import remove, replace, sync_folder
from outcry.base.quarantine import unused_name
from outcry.market.instruments import Contract
from outcry.recordings.formats.dbn_header import TAPE_DATASET
from outcry.recordings.tape_changes import TapeChanges
from outcry.recordings.tape_errors import TapeDamaged
from outcry.sessions.store_model import TapeFile
from outcry.trades.records import BAR, TRADE, Quality, Rows, trade_layout

_TRADE_RECORD = np.dtype(dbn.TradeMsg._dtypes)  # noqa: SLF001 - the library's own record layout, for numpy
_BAR_RECORD = np.dtype(dbn.OHLCVMsg._dtypes)  # noqa: SLF001
_TRADE_ROW = trade_layout(_TRADE_RECORD)
_SCHEMAS = {Quality.TICKS: "trades", Quality.BARS_1S: "ohlcv-1s", Quality.BARS_1M: "ohlcv-1m"}
_RTYPES = {Quality.TICKS: 0, Quality.BARS_1S: 32, Quality.BARS_1M: 33}
_INSTRUMENT_ID = 1
#: Level 3 saves one percent of trades and takes a third more time. This window fits into the cache of a core: a larger
#: one saves nothing and takes a sixth more time.
_COMPRESSION = zstandard.ZstdCompressionParameters.from_level(1, window_log=17, write_checksum=True)
_CHUNK_RECORDS = 1 << 16
_BLOCK_RECORDS = 1 << 11  # records made at a time, few enough for the cache of a core
_MAX_METADATA = 1 << 20
_MAX_WAITING = 8  # maximum chunks waiting for compression, which limits memory


class TapeFolder:
    """The folder of tape files: one file per contract, trade date, source and quality.

    A file is complete before a recording in the database names it. `changes` lists the files that no recording names:
    new ones, and those that were replaced.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.changes = TapeChanges(folder)
        # compression is half the work of an import and releases the GIL, so it runs in one thread beside the reader
        self._compressing = ThreadPoolExecutor(1, thread_name_prefix="tape")

    def begin(
        self, owner: int, contract: Contract, trade_date: date, source: str, quality: Quality
    ) -> "DbnWriter":
        """Start a new tape file, which replaces no existing file."""
        home = f"user-{owner}" if owner else "operator"
        name = f"{trade_date}.{source}.{quality}.{secrets.token_hex(6)}.dbn.zst"
        relative = f"{home}/{contract.root}/{contract.key}/{name}"
        path = self._folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self.changes.note(relative)
        return DbnWriter(
            path, relative, _metadata(contract, trade_date, source, quality), quality, self._compressing
        )

    def read(self, file: TapeFile, quality: Quality) -> Iterator[Rows]:
        """Yield the rows of a file, chunk by chunk, after verifying its digest. Raises `TapeDamaged`."""
        record = _TRADE_RECORD if quality is Quality.TICKS else _BAR_RECORD
        with self._reading(file.path) as opened:
            if file.digest and (found := hashlib.file_digest(opened, "sha256").hexdigest()) != file.digest:
                raise ValueError(
                    f"its SHA-256 begins with {found[:12]}, the stored one with {file.digest[:12]}"
                )
            opened.seek(0)
            with zstandard.ZstdDecompressor().stream_reader(opened) as stream:
                _skip_metadata(stream)
                while data := _fill(stream, record.itemsize * _CHUNK_RECORDS):
                    yield _rows(np.frombuffer(data, record), quality)

    def read_all(self, files: Iterable[TapeFile], quality: Quality) -> Rows:
        """Return the rows of several files in one array. Raises `TapeDamaged`."""
        chunks = [chunk for file in files for chunk in self.read(file, quality)]
        return np.concatenate(chunks) if chunks else np.zeros(0, quality.dtype)

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes. Raises `TapeDamaged`."""
        with self._reading(path) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    @contextmanager
    def _reading(self, path: str) -> Generator[io.BufferedReader]:
        """Open a file for the `with` block; raise `TapeDamaged` for any error of the file."""
        whole = self._folder / path
        try:
            with whole.open("rb") as opened:
                yield opened
        except (OSError, ValueError, zstandard.ZstdError) as problem:
            reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
            raise TapeDamaged(
                f"tape file {whole} is damaged ({reason}): import its recording again, or restore it from a backup"
            ) from problem

    def set_aside(self, path: str) -> None:
        """Rename a damaged file, so that `TapeChanges.sweep` does not delete it and a person can inspect it."""
        whole = self._folder / path
        with suppress(FileNotFoundError):
            replace(whole, unused_name(whole, "damaged"))

    def remove(self, path: str) -> None:
        """Remove a file that no recording in the database names."""
        remove(self._folder / path)


class _HashedFile(io.RawIOBase):
    """A new file that hashes the bytes written to it.

    So the digest is that of the intended bytes, even if the disk returns others later.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        """Return True: the file can be written."""
        return True

    def write(self, data: Any, /) -> int:
        """Write and hash bytes; return their number."""
        written = self._file.write(data)
        self.hash.update(data)
        return written

    def sync(self) -> None:
        """Write everything to the disk, so that it survives a crash."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class DbnWriter:
    """Writer of one tape file. A thread compresses the rows."""

    def __init__(
        self, path: Path, relative: str, metadata: bytes, quality: Quality, thread: ThreadPoolExecutor
    ) -> None:
        self._path, self._relative, self._quality, self._thread = path, relative, quality, thread
        self._waiting: deque[Future[int]] = deque()
        self._file = _HashedFile(path)
        compressor = zstandard.ZstdCompressor(compression_params=_COMPRESSION)
        self._stream = compressor.stream_writer(cast("IO[bytes]", self._file), closefd=False)
        self._stream.write(metadata)

    def append(self, rows: Rows) -> None:
        """Add rows, which have the quality's dtype and are in order of time.

        Waits if the compressing thread falls behind. Raises `OSError`, for example if the disk is full.
        """
        records = _records(rows, self._quality)
        self._waiting.append(self._thread.submit(self._stream.write, records.data.cast("B")))
        while len(self._waiting) > _MAX_WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()

    def close(self) -> TapeFile:
        """Finish the file; its bytes are on disk when this returns."""
        while self._waiting:
            self._waiting.popleft().result()
        self._stream.close()
        self._file.sync()
        self._file.close()
        sync_folder(self._path.parent)
        return TapeFile(self._relative, self._file.hash.hexdigest())

    def abandon(self) -> None:
        """Stop writing, and delete the unfinished tape file."""
        for chunk in self._waiting:
            chunk.cancel()
        with suppress(OSError):  # a full disk refuses the last bytes, which are no longer needed
            self._thread.submit(self._file.close).result()  # after any chunk in progress
        self._path.unlink(missing_ok=True)


def _metadata(contract: Contract, trade_date: date, source: str, quality: Quality) -> bytes:
    """Return the DBN metadata of a tape file: one instrument, and the UTC days for which its symbol is valid."""
    interval = SimpleNamespace(
        start_date=trade_date - timedelta(days=5),
        end_date=trade_date + timedelta(days=1),
        symbol=str(_INSTRUMENT_ID),
    )
    mapping: Any = SimpleNamespace(raw_symbol=contract.short_key, intervals=[interval])
    return bytes(
        dbn.Metadata(
            dataset=f"{TAPE_DATASET}{source.upper()}"[:15],
            start=0,
            stype_in=dbn.SType.from_str("raw_symbol"),
            stype_out=dbn.SType.from_str("instrument_id"),
            schema=dbn.Schema.from_str(_SCHEMAS[quality]),
            symbols=[contract.short_key],
            partial=[],
            not_found=[],
            mappings=[mapping],
            end=None,
            limit=None,
            ts_out=False,
        ).encode()
    )


def _records(rows: Rows, quality: Quality) -> np.ndarray[Any, Any]:
    if quality is Quality.TICKS:
        return _trade_records(rows)
    records = np.zeros(len(rows), _BAR_RECORD)
    records["length"] = _BAR_RECORD.itemsize // 4
    records["rtype"] = _RTYPES[quality]
    records["instrument_id"] = _INSTRUMENT_ID
    for name in rows.dtype.names or ():
        records[name] = rows[name]
    return records


def _trade_records(rows: Rows) -> np.ndarray[Any, Any]:
    """Return trades as DBN records.

    The records are copied as words of 64 bits, because numpy takes four times as long to copy field by field.
    """
    records = np.empty(len(rows), _TRADE_RECORD)
    for start in range(0, len(rows), _BLOCK_RECORDS):
        block = slice(start, start + _BLOCK_RECORDS)
        row_words = np.ascontiguousarray(rows[block], _TRADE_ROW).view(np.uint64)
        words, count = records[block].view(np.uint64), len(row_words)
        np.bitwise_and(row_words, _TRADE_FIELDS[:count], out=words)
        np.bitwise_or(words, _TRADE_CONSTANTS[:count], out=words)
        records["ts_recv"][block] = records["ts_event"][block]
    return records


def _trade_words(**values: Any) -> NDArray[np.uint64]:
    """Return a block filled with copies of one trade record, as 64-bit words. Fields that are not given are 0."""
    record = np.zeros(1, _TRADE_RECORD)
    for name, value in values.items():
        record[name] = value
    return np.tile(record.view(np.uint64), _BLOCK_RECORDS)


#: The bits of a trade record that its row has, and those that are equal in all records.
_TRADE_FIELDS = _trade_words(
    ts_event=2**64 - 1, price=-1, size=2**32 - 1, side=b"\xff", flags=255, sequence=2**32 - 1
)
_TRADE_CONSTANTS = _trade_words(
    length=_TRADE_RECORD.itemsize // 4,
    rtype=_RTYPES[Quality.TICKS],
    instrument_id=_INSTRUMENT_ID,
    action=b"T",
)


def _rows(records: np.ndarray[Any, Any], quality: Quality) -> Rows:
    rows = np.empty(len(records), TRADE if quality is Quality.TICKS else BAR)
    for name in rows.dtype.names or ():
        rows[name] = records[name]
    return rows


def _skip_metadata(stream: Any) -> None:
    head = _fill(stream, 8)
    if len(head) < 8 or head[:3] != b"DBN":
        raise ValueError("no DBN header")
    length = int.from_bytes(head[4:8], "little")
    if length > _MAX_METADATA or len(_fill(stream, length)) < length:
        raise ValueError("DBN metadata cut short")


def _fill(stream: Any, size: int) -> bytes:
    """Read `size` bytes, or fewer at the end of the stream."""
    parts: list[bytes] = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

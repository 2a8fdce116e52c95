"""The tape: imported trades and bars as DBN files compressed with zstd, an open format that other tools read.

Layout: `operator/ES/ESZ2013/2013-10-08.lean.bars_1m.<unique>.dbn.zst`. Trades are DBN `trades`, bars are `ohlcv-1s` and
`ohlcv-1m`. A file is complete and on disk before the database names it, and it never changes afterwards. If the
database has its SHA-256, the file is verified each time it is opened, before any row is used.
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

from outcry.base.quarantine import unused_name
from outcry.market.instruments import Contract
from outcry.recordings.tape_changes import TapeChanges
from outcry.sessions.store_model import TapeFile
from outcry.trades.records import BAR, TRADE, Quality, Rows

_TRADE_RECORD = np.dtype(dbn.TradeMsg._dtypes)  # noqa: SLF001 - the library's own record layout, for numpy
_BAR_RECORD = np.dtype(dbn.OHLCVMsg._dtypes)  # noqa: SLF001
_SCHEMAS = {Quality.TICKS: "trades", Quality.BARS_1S: "ohlcv-1s", Quality.BARS_1M: "ohlcv-1m"}
_RTYPES = {Quality.TICKS: 0, Quality.BARS_1S: 32, Quality.BARS_1M: 33}
_INSTRUMENT_ID = 1
#: Level 3 saves one percent of trades and takes a third more time. This window fits into the cache of a core: a larger
#: one saves nothing and takes a sixth more time.
_COMPRESSION = zstandard.ZstdCompressionParameters.from_level(1, window_log=17, write_checksum=True)
_CHUNK_RECORDS = 1 << 16
_MAX_METADATA = 1 << 20
_MAX_WAITING = 8  # maximum chunks waiting for compression, which limits memory


class TapeDamaged(Exception):
    """A tape file is missing, unreadable or not the file that was stored. The message names it and what to do."""


class TapeFolder:
    """The tape in a folder: one file per contract, trade date, source and quality.

    A file is complete before a recording in the database names it. `changes` tracks the files that no recording names.
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
        """Yield the rows of a file, chunk by chunk, after comparing its digest. Raises `TapeDamaged`."""
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
        """Return the rows of several files at once. Raises `TapeDamaged`."""
        chunks = [chunk for file in files for chunk in self.read(file, quality)]
        return np.concatenate(chunks) if chunks else np.zeros(0, quality.dtype)

    def digest(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes. Raises `TapeDamaged`."""
        with self._reading(path) as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    @contextmanager
    def _reading(self, path: str) -> Generator[io.BufferedReader]:
        """Open a file; raise `TapeDamaged` for any error of the file."""
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
        """Rename a damaged file, so that `sweep` does not delete it and a person can inspect it."""
        whole = self._folder / path
        with suppress(FileNotFoundError):
            whole.rename(unused_name(whole, "damaged"))

    def remove(self, path: str) -> None:
        """Remove a file that no recording names."""
        (self._folder / path).unlink(missing_ok=True)


class _HashedFile(io.RawIOBase):
    """A new file that hashes the bytes written to it.

    The digest is therefore that of the bytes intended, not of the bytes that the disk returns.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb")
        self.hash = hashlib.sha256()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Write and hash bytes; return their number."""
        written = self._file.write(data)
        self.hash.update(data)
        return written

    def sync(self) -> None:
        """Write everything to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class DbnWriter:
    """Writer of one tape file, compressed in the background."""

    def __init__(
        self, path: Path, relative: str, metadata: bytes, quality: Quality, thread: ThreadPoolExecutor
    ) -> None:
        self._path, self._relative, self._quality, self._thread = path, relative, quality, thread
        self._waiting: deque[Future[None]] = deque()
        self._file = _HashedFile(path)
        compressor = zstandard.ZstdCompressor(compression_params=_COMPRESSION)
        self._stream = compressor.stream_writer(cast("IO[bytes]", self._file), closefd=False)
        self._stream.write(metadata)

    def append(self, rows: Rows) -> None:
        """Add rows of the quality's dtype, in order of time. Raises `OSError` (a full disk).

        Waits if the thread that compresses falls behind.
        """
        self._waiting.append(self._thread.submit(self._compress, rows))
        while len(self._waiting) > _MAX_WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()

    def _compress(self, rows: Rows) -> None:
        self._stream.write(_records(rows, self._quality).data.cast("B"))

    def close(self) -> TapeFile:
        """Finish the file; its bytes are on disk when this returns."""
        while self._waiting:
            self._waiting.popleft().result()
        self._stream.close()
        self._file.sync()
        self._file.close()
        _sync_folder(self._path.parent)
        return TapeFile(self._relative, self._file.hash.hexdigest())

    def abandon(self) -> None:
        """Stop writing, and delete the unfinished tape file."""
        for chunk in self._waiting:
            chunk.cancel()
        with suppress(OSError):  # a full disk refuses the last bytes, which are no longer needed
            self._thread.submit(self._file.close).result()  # after any chunk in progress
        self._path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Write the folder's entries to the disk, so that a new file's name survives a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _metadata(contract: Contract, trade_date: date, source: str, quality: Quality) -> bytes:
    """Return DBN metadata of one instrument, with its symbol mapped over the days that its trade date touches."""
    interval = SimpleNamespace(
        start_date=trade_date - timedelta(days=5),
        end_date=trade_date + timedelta(days=1),
        symbol=str(_INSTRUMENT_ID),
    )
    mapping: Any = SimpleNamespace(raw_symbol=contract.short_key, intervals=[interval])
    return bytes(
        dbn.Metadata(
            dataset=f"OUTCRY.{source.upper()}"[:15],
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
    layout = _TRADE_RECORD if quality is Quality.TICKS else _BAR_RECORD
    records = np.zeros(len(rows), layout)
    records["length"] = layout.itemsize // 4
    records["rtype"] = _RTYPES[quality]
    records["instrument_id"] = _INSTRUMENT_ID
    for name in rows.dtype.names or ():
        records[name] = rows[name]
    if quality is Quality.TICKS:
        records["action"] = b"T"
        records["ts_recv"] = rows["ts_event"]
    return records


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

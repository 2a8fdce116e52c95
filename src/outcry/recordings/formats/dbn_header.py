"""Read the header of DBN files: schema, record layout and instrument mappings.

`databento_dbn` decodes versions 1 to 3. This module decodes older DBZ files by their published layout. A length in a
header is not trusted until that many bytes have been read.
"""

import io
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import chain
from pathlib import Path

import zstandard
from databento_dbn import Metadata

from outcry.recordings.file_model import FileRefused
from outcry.recordings.formats.archive import CountedFile, decompress, is_skippable, read_exactly

DBN_MAGIC = b"DBN"
DBZ_MAGIC = b"DBZ"
NEWEST_VERSION = 3
#: The dataset's name in files of the tape begins with this.
TAPE_DATASET = "OUTCRY."
#: A header with every symbol of a venue for ten years is smaller.
HEADER_LIMIT = 64 << 20

#: DBZ's fixed part: magic and version, dataset, schema, start, end, limit, records, compression, symbol types.
_DBZ_FIXED = struct.Struct("<3sB16sHQQQQBBB")
_DBZ_FIXED_SIZE = 96
_DBZ_SYMBOL = 22
_DBZ_SCHEMAS = ("mbo", "mbp-1", "mbp-10", "tbbo", "trades", "ohlcv-1s", "ohlcv-1m", "ohlcv-1h", "ohlcv-1d",
                "definition", "statistics", "status", "imbalance")  # fmt: skip


@dataclass(frozen=True, slots=True)
class SymbolMapping:
    """A symbol in the request for the DBN file, and what it meant from `start` until `end`.

    `given`: a contract's symbol, or an instrument id.
    """

    asked: str
    start: date
    end: date
    given: str


@dataclass(frozen=True, slots=True)
class Header:
    """Header of a DBN file.

    `is_tape`: whether Outcry wrote the file, whose sizes are in steps of the product. `schema` is None for a live
    capture of several schemas. `given_by_number`: whether `SymbolMapping.given` contains
    instrument ids instead of symbols.
    """

    schema: str | None
    start: date
    symbols: tuple[str, ...] = ()
    ts_out: bool = False
    given_by_number: bool = True
    is_tape: bool = False
    mappings: tuple[SymbolMapping, ...] = field(default=(), repr=False)


def open_records(file: CountedFile) -> tuple[Header, io.RawIOBase]:
    """Read the header; return it and the stream of records, positioned at the first one."""
    head = file.read(16) or b""
    file.seek(0)
    if is_skippable(head) and head[8:11] == DBZ_MAGIC:
        header = _read_dbz(file)
        file.seek(0)
        return header, decompress(file, head)
    stream = decompress(file, head)
    return _read_dbn(stream, file), stream


def _read_dbn(stream: io.RawIOBase, file: CountedFile) -> Header:
    prefix = read_exactly(stream, 8)
    if len(prefix) < 8:
        raise FileRefused(file.path, f"byte {len(prefix)}", "the file ends inside its header")
    if not prefix.startswith(DBN_MAGIC):
        raise FileRefused(file.path, "byte 0", "not a DBN file: it does not start with `DBN`")
    version, length = prefix[3], int.from_bytes(prefix[4:8], "little")
    if not 1 <= version <= NEWEST_VERSION:
        raise FileRefused(file.path, "byte 3", f"DBN version {version} is not supported",
                          f"supported versions are 1 to {NEWEST_VERSION}")  # fmt: skip
    if length > HEADER_LIMIT or (stream is file and length > file.size - 8):
        raise FileRefused(file.path, "byte 4", f"the header length of {length:,} bytes is too large",
                          "the file is damaged; download it again")  # fmt: skip
    body = read_exactly(stream, length)
    if len(body) < length:
        raise FileRefused(file.path, f"byte {8 + len(body):,}", "the file ends inside its header")
    return _header_of(Metadata.decode(prefix + body))


def _header_of(metadata: Metadata) -> Header:
    mappings = tuple(
        SymbolMapping(asked, interval["start_date"], interval["end_date"], interval["symbol"])
        for asked, intervals in metadata.mappings.items()
        for interval in intervals
    )
    return Header(
        schema=str(metadata.schema) if metadata.schema is not None else None,
        start=_date_of(metadata.start),
        symbols=tuple(metadata.symbols),
        ts_out=metadata.ts_out,
        given_by_number=str(metadata.stype_out) == "instrument_id",
        is_tape=metadata.dataset.startswith(TAPE_DATASET),
        mappings=mappings,
    )


def _date_of(at_ns: int) -> date:
    """Return the UTC date of a time in ns; 1970-01-01 if the time is out of range for a date."""
    seconds = at_ns // 1_000_000_000
    return datetime.fromtimestamp(seconds if seconds < 1 << 33 else 0, UTC).date()


def _read_dbz(file: CountedFile) -> Header:
    frame = read_exactly(file, 8)
    length = int.from_bytes(frame[4:8], "little")
    if length > HEADER_LIMIT or length > file.size - 8 or length < _DBZ_FIXED_SIZE:
        raise FileRefused(file.path, "byte 4", f"the DBZ header length of {length:,} bytes is invalid",
                          "the file is damaged; download it again")  # fmt: skip
    body = read_exactly(file, length)
    parts = _DBZ_FIXED.unpack_from(body)
    schema, start = int(parts[3]), int(parts[4])
    if schema >= len(_DBZ_SCHEMAS):
        raise FileRefused(file.path, "byte 28", f"unknown schema {schema}")
    stype_out = parts[10]
    tables = zstandard.ZstdDecompressor(max_window_size=HEADER_LIMIT).stream_reader(
        io.BytesIO(body[_DBZ_FIXED_SIZE:])
    )
    symbols, mappings = _DbzTables(tables.read(HEADER_LIMIT), file.path).read()
    return Header(_DBZ_SCHEMAS[schema], _date_of(start), symbols, ts_out=False,
                  given_by_number=stype_out == 0, mappings=mappings)  # fmt: skip


class _DbzTables:
    """Reader of the symbol tables in a DBZ header, which contain u32 counts, 22-byte symbols and dates as yyyymmdd."""

    def __init__(self, data: bytes, path: Path) -> None:
        self._data, self._path, self._at = data, path, 0

    def read(self) -> tuple[tuple[str, ...], tuple[SymbolMapping, ...]]:
        self._take(self._number())  # a schema definition, never filled
        symbols = tuple(self._symbol() for _ in self._counted())
        for _ in self._counted():  # symbols only partly resolved
            self._symbol()
        for _ in self._counted():  # symbols not found
            self._symbol()
        return symbols, tuple(chain.from_iterable(self._intervals() for _ in self._counted()))

    def _intervals(self) -> list[SymbolMapping]:
        asked = self._symbol()
        return [SymbolMapping(asked, self._date(), self._date(), self._symbol()) for _ in self._counted()]

    def _counted(self) -> range:
        return range(self._number())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise FileRefused(
                self._path, f"byte {self._at} of the symbol table", "the DBZ header is cut short"
            )
        self._at += size
        return taken

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "little")

    def _symbol(self) -> str:
        return self._take(_DBZ_SYMBOL).rstrip(b"\0").decode("ascii")

    def _date(self) -> date:
        number = self._number()
        return date(number // 10_000, number // 100 % 100, number % 100)

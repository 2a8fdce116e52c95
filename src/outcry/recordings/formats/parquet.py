"""Read Parquet files of trades or bars in batches of rows.

Columns are found by the names in `dialects.NAMES`. Times without a zone need the option `--tz`; integers are times
since 1970 in UTC. Decimals stay exact, and floats become the nearest decimal number of nine places. The sizes that the
file's footer states are checked before use.
"""

import io
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.archive import RATIO_FREE, RATIO_LIMIT, CountedFile, NonClosingFile
from outcry.recordings.formats.arrow import RecordBatch, pa, pq
from outcry.recordings.formats.bad_rows import SKIP, BadRows
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.decoder_errors import refuse_decoder_errors
from outcry.recordings.formats.delimited import TableReader, check_options
from outcry.recordings.formats.dialects import BAR_ROLES, TOTAL, Dialect, apply_options, generic_columns
from outcry.recordings.formats.file_reading import FileReading, ReadProgress
from outcry.recordings.formats.time_format import TimeFormat
from outcry.trades.records import Batch

BATCH_ROWS = 100_000
#: A footer with thousands of row groups is smaller.
FOOTER_LIMIT = 64 << 20
_DATABENTO = {"rtype", "publisher_id", "instrument_id"}
_DATABENTO_EXTRA = ("side", "sequence", "flags", "action", "symbol", "instrument_id", "rtype")


class ParquetTable:
    """The rows of a Parquet file, as a `Table` for `delimited.TableReader`."""

    inside = ""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.path, self._names = path, names

    def blocks(self, file: CountedFile, wanted: list[int]) -> Iterator[tuple[int, RecordBatch]]:
        """Yield batches of the wanted columns, each with the number of rows in the batches before it."""
        names = [self._names[index] for index in wanted]
        before = 0
        with refuse_decoder_errors(self.path, lambda: self.place(before)):
            for batch in _open(file).iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                if batch.num_rows:
                    yield before, batch.select(names)
                    before += batch.num_rows

    def place(self, row: int) -> str:
        """Return the place of a row for error messages, counted from 1."""
        return f"row {row + 1:,}"


def open_parquet(path: Path, names: ContractNames, options: ReadOptions) -> FileReading:
    """Start reading a Parquet file."""
    with CountedFile(path) as file:
        reader = _open(file)
        totals = options.volume == TOTAL
        dialect = apply_options(_dialect(path, reader.schema_arrow, totals=totals), options)
    check_options(path, dialect, options)
    table = ParquetTable(path, reader.schema_arrow.names)

    def rows(opened: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        selection = ContractFilter(path, names, options.contract, options.unnamed)
        bad = BadRows(path, progress.counts) if dialect.bad_rows == SKIP else None
        yield from TableReader(table, dialect, selection, progress, bad=bad).batches(opened)
        selection.finish(progress.counts.rows)

    return FileReading(path, dialect.format, dialect.source, file.size, rows, assumed=dialect.assumed)


def _open(file: CountedFile) -> Any:
    """Open the file with pyarrow, after checking the size of its footer."""
    file.seek(max(0, file.size - 8))
    tail = file.read(8) or b""
    if tail[4:] != b"PAR1":
        raise FileRefused(
            file.path, "the end", "the file has no footer; it is cut short", "download it again"
        )
    length = int.from_bytes(tail[:4], "little")
    if length > min(FOOTER_LIMIT, file.size - 12):
        raise FileRefused(file.path, "the end", f"the footer length of {length:,} bytes is too large",
                          "the file is damaged; download it again")  # fmt: skip
    file.seek(0)
    reader = pq.ParquetFile(io.BufferedReader(NonClosingFile(file)))
    claimed = max(reader.metadata.num_rows, _unpacked_bytes(reader.metadata))
    if claimed > RATIO_FREE and claimed > RATIO_LIMIT * file.size:
        raise FileRefused(file.path, "the footer", f"it states {claimed:,} rows or bytes, but the file is far smaller",
                          "market data does not compress like this; the file is not read")  # fmt: skip
    return reader


def _unpacked_bytes(metadata: Any) -> int:
    return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))


def _dialect(path: Path, schema: Any, *, totals: bool) -> Dialect:
    names: list[str] = schema.names
    lower = {name.lower(): index for index, name in reversed(list(enumerate(names)))}
    databento = "ts_event" in lower and bool(lower.keys() & _DATABENTO)
    columns = generic_columns(lower, totals=totals)
    if columns is None:
        raise FileRefused(path, "the schema", "the columns match neither trades nor bars",
                          "name them ts, price, size or ts, open, high, low, close, volume")  # fmt: skip
    if databento:
        columns |= {role: lower[role] for role in _DATABENTO_EXTRA if role in lower} | {
            "stamp": lower["ts_event"]
        }
    columns.pop("clock", None)
    utc = names[columns["stamp"]].lower().endswith("_utc")
    kind = schema.field(columns["stamp"]).type
    prices = [schema.field(columns[role]).type for role in (*BAR_ROLES[:4], "price") if role in columns]
    return Dialect(
        "parquet", "databento" if databento else "parquet", "", 0, len(names), columns, _stamps(path, kind),
        zone="UTC" if utc else None,
        ends=False if databento else None,
        says_utc=utc,
        fixed=databento and all(pa.types.is_integer(price) for price in prices),
    )  # fmt: skip


def _stamps(path: Path, kind: Any) -> TimeFormat:
    if pa.types.is_timestamp(kind):
        return TimeFormat.TIMESTAMP_ABSOLUTE if kind.tz else TimeFormat.TIMESTAMP
    if pa.types.is_integer(kind):
        return TimeFormat.EPOCH
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return TimeFormat.ISO
    raise FileRefused(
        path, "the schema", f"the times have the type {kind}", "use timestamps with a time zone"
    )

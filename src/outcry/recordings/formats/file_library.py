"""Detect the format of a market data file and start reading it.

The first bytes decide the format, not the file's name. If the user names a format and the bytes have another, the file
is refused.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from outcry.market.calendar import Calendar
from outcry.market.instruments import Universe
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.archive import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    CountedFile,
    decompressed,
    is_skippable,
    read_exactly,
)
from outcry.recordings.formats.bad_rows import SKIP
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.dbn import open_dbn
from outcry.recordings.formats.dbn_header import DBN_MAGIC, DBZ_MAGIC
from outcry.recordings.formats.decoder_errors import refuse_decoder_errors
from outcry.recordings.formats.dialects import DETECTORS
from outcry.recordings.formats.file_reading import FileReading
from outcry.recordings.formats.rdata import is_named_so, refuse_rdata
from outcry.recordings.formats.scid import open_scid
from outcry.recordings.formats.zip_members import list_members

#: Values of `--format`.
FORMATS = ("dbn", "scid", "lean", "parquet", *DETECTORS)
#: Suffixes of the files that a folder is searched for.
SUFFIXES = frozenset((".dbn", ".dbz", ".zst", ".scid", ".zip", ".csv", ".txt", ".gz", ".parquet"))
#: Number of decompressed bytes used to detect a format.
HEAD = 1 << 16
_PACKED = (ZSTD_MAGIC, GZIP_MAGIC)


class FileLibrary:
    """Opens market data files: detects each file's format, time zone, bar timestamps and contract.

    If one of them cannot be detected, the error names the option with which the user can state it. calendar: the trade
    dates of running totals; a library without it cannot read them.
    """

    def __init__(self, calendar: Calendar | None = None) -> None:
        self._calendar = calendar

    def expand(self, path: Path) -> list[Path]:
        """Return the files below a folder that may contain market data, sorted by name.

        If `path` is a file, return only that file.

        Skips links and hidden files. Raises `FileRefused` if there are no such files.
        """
        if not path.is_dir():
            with refuse_decoder_errors(path):
                CountedFile(path).close()
            return [path]
        found = sorted(_walk(path))
        if not found:
            raise FileRefused(path, "", "the folder has no market data files",
                              f"their names end in {', '.join(sorted(SUFFIXES))}")  # fmt: skip
        return found

    def open(self, path: Path, universe: Universe, options: ReadOptions) -> FileReading | None:
        """Start reading a file; return None if its format is known but it has no trades, only quotes for example.

        Raises `FileRefused`, and `MissingExtra` if the format needs pyarrow.
        """
        if options.format is not None and options.format not in FORMATS:
            raise FileRefused(path, "--format", f"unknown format {options.format[:40]!r}",
                              f"supported formats: {', '.join(FORMATS)}")  # fmt: skip
        names = ContractNames(universe, options.unnamed_step_e9)
        with refuse_decoder_errors(path), CountedFile(path) as file:
            raw = read_exactly(file, HEAD)
            refuse_rdata(path, raw)
            packed = raw.startswith(_PACKED) or (is_skippable(raw) and raw[8:11] != DBZ_MAGIC)
            head = read_exactly(decompressed(file), HEAD) if packed else raw
            kind = _kind(path, raw, head, packed=packed)
            if options.format is not None and not _suits(options.format, kind):
                raise FileRefused(path, "byte 0", f"not a {options.format} file: its content is {kind}",
                                  "omit --format")  # fmt: skip
            if kind in ("dbn", "scid", "zip"):
                _refuse_table_options(path, kind, options)
            match kind:
                case "dbn":
                    return open_dbn(path, names, options)
                case "scid":
                    return open_scid(path, names, options)
                case "parquet":
                    from outcry.recordings.formats.parquet import open_parquet  # noqa: PLC0415 - an extra

                    return self._volumes(open_parquet(path, names, options), options)
                case "zip":
                    from outcry.recordings.formats.lean import open_lean  # noqa: PLC0415 - an extra

                    return open_lean(path, file.size, list_members(file), names, options)
                case _:
                    from outcry.recordings.formats.delimited import open_table  # noqa: PLC0415 - an extra

                    return self._volumes(open_table(path, file.size, head, names, options), options)

    def _volumes(self, reading: FileReading, options: ReadOptions) -> FileReading:
        """Return a file with the volume of each row, if it has running totals."""
        if reading.assumed.volume is None:
            return reading
        from outcry.recordings.formats.running_totals import volumes_of_totals  # noqa: PLC0415 - an extra

        if self._calendar is None:
            raise FileRefused(reading.path, "--volume", "running totals need the trade dates of the product",
                              "omit --volume")  # fmt: skip
        rows = volumes_of_totals(reading.rows, self._calendar, reading.path, skip=options.bad_rows == SKIP)
        return replace(reading, rows=rows)


def _refuse_table_options(path: Path, kind: str, options: ReadOptions) -> None:
    """Refuse options that say how to read a table, for a file that is none."""
    stated = {"--volume": options.volume, "--decimal": options.decimal, "--dates": options.dates}
    for option, value in stated.items():
        if value is not None:
            raise FileRefused(path, option, f"the option is for tables (CSV and Parquet), but the file is {kind}",
                              f"omit {option}")  # fmt: skip


def _walk(folder: Path) -> Iterator[Path]:
    def give_up(fault: OSError) -> None:
        raise FileRefused(
            fault.filename or folder, "", f"cannot read the folder ({fault.strerror})"
        ) from fault

    for place, folders, files in os.walk(folder, onerror=give_up):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            file = Path(place, name)
            known = file.suffix.lower() in SUFFIXES or is_named_so(file)
            if not name.startswith(".") and known and not file.is_symlink():
                yield file


def _kind(path: Path, raw: bytes, head: bytes, *, packed: bool) -> str:
    """Return the type of the content: dbn, scid, parquet, zip or text.

    raw: the first bytes of the file. head: the same, decompressed. packed: whether the file is compressed.
    """
    if head.startswith(DBN_MAGIC) or (is_skippable(raw) and raw[8:11] == DBZ_MAGIC):
        return "dbn"
    if packed and head.startswith((*_PACKED, b"PK\x03\x04", b"PK\x05\x06")):
        raise FileRefused(
            path, "byte 0", "an archive inside an archive is not supported", "unpack the outer one first"
        )
    if not head:
        raise FileRefused(path, "byte 0", "the archive is empty")
    magics = {b"SCID": "scid", b"PAR1": "parquet", b"PK\x03\x04": "zip", b"PK\x05\x06": "zip"}
    kind = magics.get(head[:4], "text")
    if kind != "text" and packed:
        raise FileRefused(path, "byte 0", f"compressed {kind} files are not supported", "unpack it first")
    return kind


def _suits(wanted: str, kind: str) -> bool:
    return wanted == kind or (wanted == "lean" and kind == "zip") or (kind == "text" and wanted in DETECTORS)

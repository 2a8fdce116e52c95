"""Read LEAN zips of futures, which have ticks, seconds or minutes of one UTC day, and one member per expiry.

Times are milliseconds since the start of the UTC day that the member's name states. Bars are stamped at their start.
LEAN stores grains and livestock in dollars; their prices are converted to the exchange's unit, cents. Trades of size 0
are stored as rows, as in LEAN, but change no level.
"""

import re
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from pathlib import Path

from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.archive import CountedFile
from outcry.recordings.formats.bad_rows import REFUSE, SKIP, BadRows
from outcry.recordings.formats.contract_filter import ContractFilter
from outcry.recordings.formats.contract_names import ContractNames
from outcry.recordings.formats.delimited import TableReader
from outcry.recordings.formats.dialects import BAR_ROLES, Dialect
from outcry.recordings.formats.file_reading import FileReading, ReadProgress
from outcry.recordings.formats.table_text import TextTable
from outcry.recordings.formats.time_format import TimeFormat
from outcry.recordings.formats.zip_members import ZipMembers
from outcry.trades.records import Batch, Quality

_MEMBER = re.compile(
    r"(?P<day>\d{8})_(?P<root>[a-z0-9]{1,6})_(?P<step>tick|second|minute)_(?P<kind>[a-z]+)"
    r"(_(?P<month>\d{6}))?(_[a-z]+)*\.csv"
)
_COARSE = re.compile(r"[a-z0-9]{1,6}_([a-z]+_)*(hour_|daily_)?trade_\d{6}\.csv")
#: Products that LEAN stores in dollars and the exchange quotes in cents (LEAN symbol-properties: ZC .0025, LE .00025).
_IN_DOLLARS = frozenset(("ZC", "ZW", "ZS", "ZL", "LE", "HE", "GF"))
_CENTS = 100
_QUALITY = {"second": Quality.BARS_1S, "minute": Quality.BARS_1M}
_TICK_COLUMNS = {"stamp": 0, "price": 1, "size": 2, "suspicious": 5}


@dataclass(frozen=True, slots=True)
class Member:
    """What the name of a file inside a LEAN zip (a member) states about its content."""

    info: zipfile.ZipInfo
    day: date
    root: str
    step: str
    kind: str
    month: str | None

    @property
    def symbol(self) -> str:
        """Return the name of the member's contract, `ES_201312`."""
        return f"{self.root.upper()}_{self.month}"


def _members_of(path: Path, infos: list[zipfile.ZipInfo]) -> list[Member]:
    """Return the members of a LEAN zip, sorted by name. Raises `FileRefused` if the zip is not of LEAN's form."""
    found: list[Member] = []
    for info in sorted(infos, key=lambda one: one.filename):
        parts = _MEMBER.fullmatch(info.filename.lower())
        if (
            _COARSE.fullmatch(info.filename.lower())
            or "_hour_" in info.filename
            or "_daily_" in info.filename
        ):
            raise FileRefused(path, f"member {info.filename}", "hourly and daily bars are too coarse",
                              "import the minute or tick files")  # fmt: skip
        if parts is None:
            raise FileRefused(path, "", "the files in the archive are not LEAN files",
                              "unpack the archive and import its files")  # fmt: skip
        try:
            day = datetime.strptime(parts["day"], "%Y%m%d").replace(tzinfo=UTC).date()
        except ValueError as fault:
            raise FileRefused(path, f"member {info.filename}", "the file name has no date") from fault
        found.append(Member(info, day, parts["root"], parts["step"], parts["kind"], parts["month"]))
    return found


def open_lean(
    path: Path, size: int, infos: list[zipfile.ZipInfo], names: ContractNames, options: ReadOptions
) -> FileReading | None:
    """Start reading a LEAN zip. Return None if its members (`infos`) have only quotes or open interest."""
    trades = [member for member in _members_of(path, infos) if member.kind == "trade"]
    if not trades:
        return None

    def rows(file: CountedFile, progress: ReadProgress) -> Generator[Batch]:
        selection = ContractFilter(path, names, options.contract)
        archive = ZipMembers()
        for member in trades:
            yield from _reader(path, member, archive, selection, progress, options).batches(file)
        selection.finish(progress.counts.rows)

    return FileReading(path, "lean", "lean", size, rows)


def _reader(
    path: Path, member: Member, archive: ZipMembers, selection: ContractFilter, progress: ReadProgress,
    options: ReadOptions,
) -> TableReader:  # fmt: skip
    inside = f"member {member.info.filename}"
    progress.place = inside
    columns = _TICK_COLUMNS if member.step == "tick" else {r: i for i, r in enumerate(("stamp", *BAR_ROLES))}
    dialect = Dialect("lean", "lean", ",", 0, 6, columns, TimeFormat.MS_OF_DAY, ends=False,
                      scale=_CENTS if member.root.upper() in _IN_DOLLARS else 1,
                      quality=_QUALITY.get(member.step), zero_sizes=True, bad_rows=options.bad_rows or REFUSE,
                      day_ns=int(datetime.combine(member.day, time(), UTC).timestamp()) * 10**9)  # fmt: skip
    bad = BadRows(path, progress.counts) if dialect.bad_rows == SKIP else None
    table = TextTable(path, lambda file: archive.open(file, member.info.filename), ",", 6, 0, inside, bad)
    if member.month:
        contract = selection.names.contract(member.symbol, member.day)
    else:
        contract = selection.named_by_file(member.day)
    return TableReader(table, dialect, selection, progress, contract=contract, bad=bad)

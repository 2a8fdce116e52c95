"""Refuse to join recordings of a day that were read in different ways, because their rows contradict each other."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from zoneinfo import ZoneInfo

from outcry.base.timestamps import iso_timestamp
from outcry.recordings.contributions import known_contributions
from outcry.recordings.file_model import FileRefused
from outcry.recordings.import_choice import import_id, read_with
from outcry.recordings.staged_day import StagedDay
from outcry.sessions.store import SqlStore
from outcry.sessions.store_model import NO_FILE, ImportRow, ReadAs


def refuse_mixed_readings(store: SqlStore, path: Path, mine: ImportRow, days: Iterable[StagedDay]) -> None:
    """Refuse a file that would join rows of another file, read with another time zone, bar timestamp or price scale.

    The same applies to running totals of volume, beside volumes of each row or totals that begin at another time.

    mine: the import of the file. days: the contracts and trade dates of which it has rows. Imports by versions that did
    not store how a file was read are not compared. Raises `FileRefused`.
    """
    if mine.file.read_as is None:
        return
    others = {row.digest: row for row in store.imports(mine.owner) if row.digest != mine.digest}
    for day in days:
        for one in known_contributions(store, day.contribution(mine.digest, NO_FILE, day.counts)):
            other = others.get(one.digest)
            if not (one.path and other and other.file.read_as):
                continue
            if _contradict(mine.file.read_as, other.file.read_as, day.trade_date):
                raise FileRefused(
                    path, f"{day.contract.key} {day.trade_date}",
                    f"the file is read{read_with(mine)}, but {other.name} has rows of the same day and was "
                    f"read{read_with(other)}",
                    f"use the same options, or run `outcry import --forget {import_id(other)}` first",
                )  # fmt: skip
            if mine.file.read_as.volume == "total" and one.first_ns != day.counts.first_ns:
                begins = iso_timestamp(day.counts.first_ns), iso_timestamp(one.first_ns)
                raise FileRefused(
                    path, f"{day.contract.key} {day.trade_date}",
                    f"running totals of a day cannot be joined: the file begins at {begins[0]}, {other.name} at "
                    f"{begins[1]}, so the first row of one has volume of the other",
                    f"import one file with the whole day, and run `outcry import --forget {import_id(other)}` first",
                )  # fmt: skip


def _contradict(one: ReadAs, other: ReadAs, day: date) -> bool:
    """Return whether two ways to read a file assume different things. What a file itself states is no assumption."""
    if one.volume != other.volume:
        return True
    pairs = (one.stamp, other.stamp), (one.scale, other.scale)
    if any(a is not None and b is not None and a != b for a, b in pairs):
        return True
    return one.tz is not None and other.tz is not None and _offsets(one.tz, day) != _offsets(other.tz, day)


def _offsets(zone: str, day: date) -> Sequence[object]:
    """Return the offsets of a zone from UTC at the begin and end of a day, as several names may mean one zone."""
    return [datetime.combine(day, at, ZoneInfo(zone)).utcoffset() for at in (time.min, time.max)]

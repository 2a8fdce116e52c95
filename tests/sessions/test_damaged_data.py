"""Damage of stored data is detected and reported, never used in an answer, and repaired by a repeated import."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.recordings.test_importing import DAY, WHOLE, Write, rth, take

from outcry.access.licences import Grant, resolve
from outcry.app.installation import Installation
from outcry.base.errors import NoLicensedSource
from outcry.database.database import DATABASE_FILE
from outcry.recordings.contributions import is_intact
from outcry.recordings.tape_errors import TapeDamaged
from outcry.recordings.verification import add_digests
from outcry.trades.records import Quality

SCOPE = resolve(7, 0, "free", (Grant("everyone", "completed", (), None, None),))
NEXT_DAY = "20240703"


def tape_of(installation: Installation) -> Path:
    return installation.settings.folder / "tape"


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def sql(installation: Installation, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(installation.settings.folder / DATABASE_FILE)) as database:
        database.execute(statement, values)
        database.commit()


def refold(installation: Installation) -> tuple[int, list[str]]:
    (done,) = installation.importer.refold(installation.clock.now_ns())
    return done.sessions, list(done.faults)


def test_any_flipped_bit_of_a_tape_file_is_detected_before_a_row_is_used(
    installation: Installation, ticks: Write
) -> None:
    take(installation, ticks(DAY, *WHOLE))
    row = next(row for row in installation.store.all_recordings() if row.rows > 1)
    path = tape_of(installation) / row.path
    whole = path.read_bytes()
    for byte in range(len(whole)):
        flip(path, byte, byte % 8)
        with pytest.raises(TapeDamaged, match=path.name):
            next(installation.tape.read(row.file, row.quality))
        path.write_bytes(whole)
    assert sum(len(part) for part in installation.tape.read(row.file, row.quality)) == row.rows


@pytest.mark.parametrize(
    "damage", [lambda p: flip(p, 40), lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.write_bytes(b""),
               lambda p: p.unlink()]
)  # fmt: skip
def test_a_refold_names_a_damaged_tape_file_and_an_import_repairs_it(
    installation: Installation, ticks: Write, damage: Callable[[Path], object]
) -> None:
    recording = ticks(DAY, *WHOLE)
    take(installation, recording)
    before = replace(rth(installation), received_ns=0)
    row = next(row for row in installation.store.all_recordings() if row.rows > 1)
    path = tape_of(installation) / row.path
    damage(path)
    damaged = path.read_bytes() if path.exists() else None
    sessions, (fault,) = refold(installation)
    assert path.name in fault
    assert "import its recording again" in fault
    assert sessions == 3
    assert replace(rth(installation), received_ns=0) == before  # its own row is undamaged and still answers
    report = take(installation, recording)
    assert report.damaged == [row.path]
    assert replace(rth(installation), received_ns=0) == before
    assert refold(installation) == (3, [])
    aside = path.with_name(path.name + ".damaged")
    assert (aside.read_bytes() if aside.exists() else None) == damaged
    assert take(installation, recording).state == "unchanged"


def test_two_tape_files_swapped_are_both_named(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    take(installation, ticks(NEXT_DAY, *WHOLE, folder="next"))
    a, b = (tape_of(installation) / r.path for r in installation.store.all_recordings() if r.rows > 1)
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    _, faults = refold(installation)
    assert sorted(name.name for name in (a, b) for fault in faults if name.name in fault) == sorted(
        [a.name, b.name]
    )


def test_a_recording_of_two_files_is_repaired_by_importing_either(
    installation: Installation, ticks: Write
) -> None:
    """Each file contains half of the day. The tape also has the rows of each file alone, so one of them suffices."""
    halves = [ticks(DAY, *WHOLE[:9], folder="a"), ticks(DAY, *WHOLE[9:], folder="b")]
    for half in halves:
        take(installation, half)
    before = replace(rth(installation), received_ns=0)
    row = max(installation.store.all_recordings(), key=lambda row: row.rows)
    flip(tape_of(installation) / row.path, 50)
    assert take(installation, halves[0]).state == "imported"
    assert replace(rth(installation), received_ns=0) == before
    assert take(installation, halves[1]).state == "unchanged"


def test_rows_of_one_file_are_repaired_by_importing_that_file(
    installation: Installation, ticks: Write
) -> None:
    """Forgetting a file needs the rows of each other file alone, so damage of these is repaired as well."""
    halves = [ticks(DAY, *WHOLE[:9], folder="a"), ticks(DAY, *WHOLE[9:], folder="b")]
    for half in halves:
        take(installation, half)
    tape = tape_of(installation)
    recording = next(row.path for row in installation.store.all_recordings())
    alone = next(one for one in installation.store.contribution_files() if one.path != recording)
    flip(tape / alone.file.path, 50)
    states = [take(installation, half).state for half in halves]
    assert sorted(states) == ["unchanged", "unchanged"]
    assert all(is_intact(installation.tape, one.file) for one in installation.store.contribution_files())


@pytest.mark.parametrize("column", ["volume", "close_ns", "complete"])
def test_a_damaged_session_is_named_and_used_in_no_answer(
    installation: Installation, ticks: Write, column: str
) -> None:
    recording = ticks(DAY, *WHOLE)
    take(installation, recording)
    take(installation, ticks(NEXT_DAY, *WHOLE, folder="next"))
    now_ns = installation.clock.now_ns()
    before = installation.query.levels(SCOPE, "ES", now_ns).answer
    assert installation.query.context(SCOPE, "ES", now_ns).answer.damaged_sessions == []
    sql(
        installation,
        f"UPDATE sessions SET {column} = {column} + 2 WHERE trade_date = '2024-07-03' AND kind = 'rth'",
    )
    sql(installation, "UPDATE revision SET n = n + 1")
    assert installation.query.levels(SCOPE, "ES", now_ns).answer.as_of == "2024-07-02"
    assert installation.query.history(SCOPE, "ES", None, None, now_ns).answer.count == 1
    (named,) = installation.query.context(SCOPE, "ES", now_ns).answer.damaged_sessions
    assert (named.contract, named.date, named.session) == ("ESU2024", "2024-07-03", "rth")
    (damaged,) = installation.store.damaged()
    assert "ESU2024 2024-07-03 rth of sessions" in damaged.text()
    take(installation, ticks(NEXT_DAY, *WHOLE, folder="next"))
    assert installation.store.damaged() == []
    assert installation.query.levels(SCOPE, "ES", now_ns).answer == before


def test_a_refold_repairs_a_damaged_ladder(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    before = replace(rth(installation), received_ns=0)
    profile = bytearray(before.profile)
    profile[profile.index(b"]") - 1] ^= 1
    sql(installation, "UPDATE sessions SET profile = ? WHERE kind = 'rth'", bytes(profile))
    sql(installation, "UPDATE revision SET n = n + 1")
    with pytest.raises(NoLicensedSource):
        installation.query.levels(SCOPE, "ES", installation.clock.now_ns())
    assert refold(installation) == (3, [])
    assert replace(rth(installation), received_ns=0) == before


@pytest.mark.parametrize("value", ["2024-07-0\x12", "x", 7, b"\xff"])
def test_an_unreadable_row_affects_no_other(installation: Installation, ticks: Write, value: object) -> None:
    take(installation, ticks(DAY, *WHOLE))
    first = "kind = 'eth' AND trade_date = '2024-07-02'"
    sql(installation, f"UPDATE sessions SET trade_date = ?, checksum = NULL WHERE {first}", value)
    assert len(installation.store.sessions([0], "ES")) == 2
    assert len(installation.store.damaged()) == 1


def test_a_lost_recording_row_loses_no_session(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    before = rth(installation)
    sql(installation, "UPDATE recordings SET spans = '[]'")
    installation.store.sessions([0], "ES")
    assert list(installation.importer.refold(installation.clock.now_ns())) == []
    assert rth(installation) == before
    assert len(installation.store.damaged()) == 1


def test_a_file_of_an_earlier_version_gets_a_digest_after_its_counts_agree(
    installation: Installation, ticks: Write
) -> None:
    """An installation from before digests has rows without checksums and files without digests.

    A file whose counts agree gets a digest. A replaced file is named and gets none."""
    take(installation, ticks(DAY, *WHOLE))
    take(installation, ticks(NEXT_DAY, *WHOLE[3:], folder="next"))
    known = {row.path: row.digest for row in installation.store.all_recordings()}
    sql(installation, "UPDATE recordings SET digest = '', checksum = NULL")
    sql(installation, "UPDATE sessions SET checksum = NULL")
    first, second = (
        tape_of(installation) / r.path for r in installation.store.all_recordings() if r.rows > 1
    )
    first.write_bytes(second.read_bytes())
    (fault,) = add_digests(installation.store, installation.tape)
    assert first.name in fault
    rows = {row.path: row.digest for row in installation.store.all_recordings()}
    relative = str(first.relative_to(tape_of(installation)))
    assert rows == known | {relative: ""}
    assert installation.store.add_checksums() == len(installation.store.sessions([0], "ES")) + 1
    assert installation.store.damaged() == []


def test_tape_files_contain_checksums(installation: Installation, ticks: Write) -> None:
    """Even without the database, the open format detects damage: zstd frames have a checksum of their content."""
    take(installation, ticks(DAY, *WHOLE))
    row = next(row for row in installation.store.all_recordings() if row.rows > 1)
    path = tape_of(installation) / row.path
    flip(path, len(path.read_bytes()) - 1)  # the last four bytes are the checksum
    with pytest.raises(TapeDamaged):
        list(installation.tape.read(row.file._replace(digest=""), Quality.TICKS))

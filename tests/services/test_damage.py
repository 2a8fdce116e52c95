"""What is at rest is not trusted: damage is named, answered nowhere, and mended by importing its recording again."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.services.test_importing import DAY, WHOLE, Write, rth, take

from outcry.access.licences import Grant, resolve
from outcry.app.installation import Installation
from outcry.base.errors import NoLicensedSource
from outcry.database.database import DATABASE_FILE
from outcry.recordings.verification import add_digests
from outcry.sessions.tape_model import TapeDamaged
from outcry.trades.records import Quality

SCOPE = resolve(7, 0, "free", (Grant("everyone", "completed", (), None, None),))
NEXT_DAY = "20240703"


def tape_of(house: Installation) -> Path:
    return house.settings.folder / "tape"


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def sql(house: Installation, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(house.settings.folder / DATABASE_FILE)) as database:
        database.execute(statement, values)
        database.commit()


def refold(house: Installation) -> tuple[int, list[str]]:
    (done,) = house.importer.refold(house.clock.now_ns())
    return done.sessions, list(done.faults)


def test_any_flipped_bit_of_a_tape_file_is_noticed_before_a_row_is_used(
    house: Installation, ticks: Write
) -> None:
    take(house, ticks(DAY, *WHOLE))
    row = next(row for row in house.store.all_recordings() if row.rows > 1)
    path = tape_of(house) / row.path
    whole = path.read_bytes()
    for byte in range(len(whole)):
        flip(path, byte, byte % 8)
        with pytest.raises(TapeDamaged, match=path.name):
            next(house.tape.read(row.file, row.quality))
        path.write_bytes(whole)
    assert sum(len(part) for part in house.tape.read(row.file, row.quality)) == row.rows


@pytest.mark.parametrize(
    "damage", [lambda p: flip(p, 40), lambda p: p.write_bytes(p.read_bytes()[:-3]), lambda p: p.write_bytes(b""),
               lambda p: p.unlink()]
)  # fmt: skip
def test_a_damaged_tape_file_is_named_by_refold_and_mended_by_its_recording(
    house: Installation, ticks: Write, damage: Callable[[Path], object]
) -> None:
    recording = ticks(DAY, *WHOLE)
    take(house, recording)
    before = replace(rth(house), received_ns=0)
    row = next(row for row in house.store.all_recordings() if row.rows > 1)
    path = tape_of(house) / row.path
    damage(path)
    damaged = path.read_bytes() if path.exists() else None
    sessions, (fault,) = refold(house)
    assert path.name in fault
    assert "import its recording again" in fault
    assert sessions == 3
    assert replace(rth(house), received_ns=0) == before  # its own row is whole: it is answered on
    report = take(house, recording)
    assert report.damaged == [row.path]
    assert replace(rth(house), received_ns=0) == before
    assert refold(house) == (3, [])
    aside = path.with_name(path.name + ".damaged")
    assert (aside.read_bytes() if aside.exists() else None) == damaged
    assert take(house, recording).state == "unchanged"


def test_two_tape_files_swapped_are_both_named(house: Installation, ticks: Write) -> None:
    take(house, ticks(DAY, *WHOLE))
    take(house, ticks(NEXT_DAY, *WHOLE, folder="next"))
    a, b = (tape_of(house) / r.path for r in house.store.all_recordings() if r.rows > 1)
    first, second = a.read_bytes(), b.read_bytes()
    a.write_bytes(second)
    b.write_bytes(first)
    _, faults = refold(house)
    assert sorted(name.name for name in (a, b) for fault in faults if name.name in fault) == sorted(
        [a.name, b.name]
    )


def test_a_recording_joined_of_two_files_is_mended_by_both(house: Installation, ticks: Write) -> None:
    """Each file holds half of the day. After the damage each brings its half again, whichever comes first."""
    halves = [ticks(DAY, *WHOLE[:9], folder="a"), ticks(DAY, *WHOLE[9:], folder="b")]
    for half in halves:
        take(house, half)
    before = replace(rth(house), received_ns=0)
    row = max(house.store.all_recordings(), key=lambda row: row.rows)
    flip(tape_of(house) / row.path, 50)
    assert take(house, halves[0]).state == "imported"
    assert not rth(house).complete
    assert take(house, halves[1]).state == "imported"
    assert replace(rth(house), received_ns=0) == before


@pytest.mark.parametrize("column", ["volume", "close_ns", "complete"])
def test_a_damaged_session_is_answered_nowhere_and_named(
    house: Installation, ticks: Write, column: str
) -> None:
    recording = ticks(DAY, *WHOLE)
    take(house, recording)
    take(house, ticks(NEXT_DAY, *WHOLE, folder="next"))
    now_ns = house.clock.now_ns()
    before = house.query.levels(SCOPE, "ES", now_ns).answer
    assert house.query.context(SCOPE, "ES", now_ns).answer.damaged_sessions == []
    sql(
        house, f"UPDATE sessions SET {column} = {column} + 2 WHERE trade_date = '2024-07-03' AND kind = 'rth'"
    )
    sql(house, "UPDATE revision SET n = n + 1")
    assert house.query.levels(SCOPE, "ES", now_ns).answer.as_of == "2024-07-02"
    assert house.query.history(SCOPE, "ES", None, None, now_ns).answer.count == 1
    (named,) = house.query.context(SCOPE, "ES", now_ns).answer.damaged_sessions
    assert (named.contract, named.date, named.session) == ("ESU2024", "2024-07-03", "rth")
    (damaged,) = house.store.damaged()
    assert "ESU2024 2024-07-03 rth of sessions" in damaged.text()
    take(house, ticks(NEXT_DAY, *WHOLE, folder="next"))
    assert house.store.damaged() == []
    assert house.query.levels(SCOPE, "ES", now_ns).answer == before


def test_a_damaged_ladder_is_mended_by_a_refold(house: Installation, ticks: Write) -> None:
    take(house, ticks(DAY, *WHOLE))
    before = replace(rth(house), received_ns=0)
    profile = bytearray(before.profile)
    profile[profile.index(b"]") - 1] ^= 1
    sql(house, "UPDATE sessions SET profile = ? WHERE kind = 'rth'", bytes(profile))
    sql(house, "UPDATE revision SET n = n + 1")
    with pytest.raises(NoLicensedSource):
        house.query.levels(SCOPE, "ES", house.clock.now_ns())
    assert refold(house) == (3, [])
    assert replace(rth(house), received_ns=0) == before


@pytest.mark.parametrize("value", ["2024-07-0\x12", "x", 7, b"\xff"])
def test_a_row_that_cannot_even_be_read_holds_up_no_other(
    house: Installation, ticks: Write, value: object
) -> None:
    take(house, ticks(DAY, *WHOLE))
    first = "kind = 'eth' AND trade_date = '2024-07-02'"
    sql(house, f"UPDATE sessions SET trade_date = ?, checksum = NULL WHERE {first}", value)
    assert len(house.store.sessions([0], "ES")) == 2
    assert len(house.store.damaged()) == 1


def test_a_lost_recording_row_costs_no_session(house: Installation, ticks: Write) -> None:
    take(house, ticks(DAY, *WHOLE))
    before = rth(house)
    sql(house, "UPDATE recordings SET spans = '[]'")
    house.store.sessions([0], "ES")
    assert list(house.importer.refold(house.clock.now_ns())) == []
    assert rth(house) == before
    assert len(house.store.damaged()) == 1


def test_a_file_of_an_earlier_outcry_gets_a_digest_once_it_was_counted(
    house: Installation, ticks: Write
) -> None:
    """An installation from before digests: rows without checksums, files without digests. A file whose counts agree
    gets one; a file that was exchanged is named and gets none."""
    take(house, ticks(DAY, *WHOLE))
    take(house, ticks(NEXT_DAY, *WHOLE[3:], folder="next"))
    known = {row.path: row.digest for row in house.store.all_recordings()}
    sql(house, "UPDATE recordings SET digest = '', checksum = NULL")
    sql(house, "UPDATE sessions SET checksum = NULL")
    first, second = (tape_of(house) / r.path for r in house.store.all_recordings() if r.rows > 1)
    first.write_bytes(second.read_bytes())
    (fault,) = add_digests(house.store, house.tape)
    assert first.name in fault
    rows = {row.path: row.digest for row in house.store.all_recordings()}
    relative = str(first.relative_to(tape_of(house)))
    assert rows == known | {relative: ""}
    assert house.store.add_checksums() == len(house.store.sessions([0], "ES")) + 1
    assert house.store.damaged() == []


def test_the_tape_has_checksums_of_its_own(house: Installation, ticks: Write) -> None:
    """Without the database the open format still notices: zstd frames carry a checksum of their content."""
    take(house, ticks(DAY, *WHOLE))
    row = next(row for row in house.store.all_recordings() if row.rows > 1)
    path = tape_of(house) / row.path
    flip(path, len(path.read_bytes()) - 1)  # the last four bytes are the checksum
    with pytest.raises(TapeDamaged):
        list(house.tape.read(row.file._replace(digest=""), Quality.TICKS))

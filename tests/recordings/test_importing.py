"""Imports: atomic, without losses or duplicates, and which of two sources answers."""

import hashlib
import re
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import databento
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.market.snapshot import load
from outcry.recordings import session_splitting
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.import_report import FileReport
from outcry.recordings.tape_errors import TapeDamaged, TapeInUse
from outcry.sessions.store_model import FileRead, ReadAs, SessionRow
from outcry.trades.dedupe import join
from outcry.trades.records import BAR, TRADE, Quality
from outcry.trades.rows import volume_of

Write = Callable[..., Path]

# 2024-07-02 was a Tuesday; RTH 13:30 to 20:15 UTC. One trade in every bracket, so that pieces can make it whole.
DAY = "20240702"
WHOLE = [("13:00:00", "5500", 1), ("13:30:00", "5500.25", 2)] + [
    (f"{13 + (30 + 30 * n) // 60}:{(30 + 30 * n) % 60:02d}:01", f"{5500 + n * 0.5}", 10 + n) for n in range(14)
] + [("20:14:59", "5501", 5), ("20:16:00", "5501.25", 1)]  # fmt: skip


def take(installation: Installation, path: Path, owner: int = 0, now_ns: int | None = None) -> FileReport:
    return installation.importer.run(path, owner, ReadOptions(), now_ns or installation.clock.now_ns())


def rth(installation: Installation, owner: int = 0, contract: str = "ESU2024") -> SessionRow:
    rows = [
        r for r in installation.store.sessions([owner], "ES") if r.kind == "rth" and r.contract == contract
    ]
    assert len(rows) == 1
    return rows[0]


def everything(installation: Installation) -> tuple[int, dict[str, str]]:
    """Return the state that must not change: the store's revision, and each tape file's digest."""
    tape = Path(installation.settings.data) / "tape"
    files = {
        str(p.relative_to(tape)): hashlib.sha256(p.read_bytes()).hexdigest() for p in tape.rglob("*.zst")
    }
    return installation.store.revision(), files


def test_a_session_is_folded_and_reported(installation: Installation, ticks: Write) -> None:
    report = take(installation, ticks(DAY, *WHOLE))
    (session,) = [s for s in report.sessions if s.kind == "rth"]
    assert (session.contract, session.trade_date) == ("ESU2024", "2024-07-02")
    # two lots at 13:30:00, then 10 to 23 in fourteen brackets, then five
    assert (session.rows, session.volume) == (16, 2 + sum(range(10, 24)) + 5)
    assert (session.complete, session.outcome, session.quality) == (True, "new", "ticks")
    ladder = load(rth(installation).profile)
    assert (ladder.low_ticks, ladder.high_ticks) == (5500 * 4, 5500 * 4 + 26)
    assert len(ladder.brackets) == 14


def test_importing_again_changes_nothing(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, *WHOLE)
    take(installation, path)
    before = everything(installation)
    assert take(installation, path).state == "unchanged"
    assert everything(installation) == before


def test_an_import_is_recognised_by_bytes_name_and_options(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, *WHOLE)
    take(installation, path)
    options = repr((path.name, None, None, None, None)).encode()
    digest = hashlib.sha256(path.read_bytes() + options).hexdigest()
    assert installation.store.imports_named(0, path.name) == {digest}


def test_how_a_file_was_read_is_stored(installation: Installation, tmp_path: Path) -> None:
    """The times are New York's without saying so, and each minute has the time of its end."""
    path = tmp_path / "ESU24.csv"
    lines = [
        f"2024-07-02 {9 + (30 + n) // 60:02}:{(30 + n) % 60:02},5500,5500,5500,5500,3" for n in range(1, 406)
    ]
    path.write_text("\n".join(["time,open,high,low,close,volume", *lines]))
    options = ReadOptions(contract="ESU2024", tz="America/New_York", stamp="close")
    assert installation.importer.run(path, 0, options, installation.clock.now_ns()).state == "imported"
    (row,) = installation.store.imports(0)
    read_as = ReadAs("csv", "csv", "ESU2024", "America/New_York", "close", None)
    assert (row.name, row.at_ns // 10**12) == ("ESU24.csv", installation.clock.now_ns() // 10**12)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert row.file == FileRead(sha256, path.stat().st_size, 405, read_as)
    (one,) = installation.store.contributions_of(0, row.digest)
    (recording,) = installation.store.all_recordings()
    assert (one.file, one.rows, one.recording) == (recording.file, 405, recording.id)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"stamp": "open"}, {"stamp": "close"}, ("--stamp open", "--stamp close")),
        ({"tz": "America/New_York"}, {"tz": "America/Chicago"}, ("America/New_York", "America/Chicago")),
    ],
)
def test_files_read_differently_are_not_joined(
    installation: Installation,
    tmp_path: Path,
    first: dict[str, str],
    second: dict[str, str],
    named: tuple[str, str],
) -> None:
    """The remedy works: after the first file is forgotten, the second is imported."""
    lines = [
        f"2024-07-02 {9 + (30 + n) // 60:02}:{(30 + n) % 60:02},5500,5500,5500,5500,3" for n in range(405)
    ]
    common = {"contract": "ESU2024", "tz": "America/New_York", "stamp": "open"}

    def imported(name: str, part: list[str], **options: str) -> FileReport:
        (tmp_path / name).write_text("\n".join(["time,open,high,low,close,volume", *part]))
        read = ReadOptions(**(common | options))  # type: ignore[arg-type]
        return installation.importer.run(tmp_path / name, 0, read, installation.clock.now_ns())

    imported("a.csv", lines[:200], **first)
    before = everything(installation)
    with pytest.raises(FileRefused) as refused:
        imported("b.csv", lines[200:], **second)
    assert "ESU2024 2024-07-02" in str(refused.value)
    assert all(text in str(refused.value) for text in (*named, "a.csv", "b.csv"))
    assert everything(installation) == before
    (remedy,) = re.findall("outcry import --forget ([0-9a-f]+)", str(refused.value))
    installation.importer.forget([remedy], 0, installation.clock.now_ns())
    assert imported("b.csv", lines[200:], **second).state == "imported"


def test_zones_with_the_same_offset_are_joined(installation: Installation, tmp_path: Path) -> None:
    lines = [f"2024-07-02 09:{n:02},5500,5500,5500,5500,3" for n in range(30, 60)]
    for name, zone in (("a.csv", "America/New_York"), ("b.csv", "US/Eastern")):
        (tmp_path / name).write_text("\n".join(["time,open,high,low,close,volume", *lines]))
        read = ReadOptions(contract="ESU2024", tz=zone, stamp="open")
        report = installation.importer.run(tmp_path / name, 0, read, installation.clock.now_ns())
    assert report.sessions[0].duplicates == 30


def test_each_import_keeps_its_rows_beside_the_merged_ones(installation: Installation, ticks: Write) -> None:
    """Two overlapping parts of a day need three tape files. A file with the whole day shares the merged one."""
    parts = [ticks(DAY, *WHOLE[:10], folder="a"), ticks(DAY, *WHOLE[6:], folder="b")]
    rows: dict[str, int] = {}
    for part in parts:
        take(installation, part)
    (merged,) = [row for row in installation.store.all_recordings() if row.rows > 1]
    for row in installation.store.imports(0):
        for one in installation.store.contributions_of(0, row.digest):
            if one.recording == merged.id:
                rows[row.digest] = sum(len(chunk) for chunk in installation.tape.read(one.file, one.quality))
    assert sorted(rows.values()) == [10, 12]
    assert merged.rows == len(WHOLE) == 18
    take(installation, ticks(DAY, *WHOLE, folder="whole"))
    known = set(rows)
    (whole,) = [row for row in installation.store.imports(0) if row.digest not in known]
    assert merged.path in {one.path for one in installation.store.contributions_of(0, whole.digest)}


def test_the_same_rows_under_another_name_change_no_recording(
    installation: Installation, ticks: Write
) -> None:
    take(installation, ticks(DAY, *WHOLE))
    _, files = everything(installation)
    row = rth(installation)
    # the same rows in a file with another digest, because the archive member has another timestamp
    other = ticks(DAY, *WHOLE, folder="again")
    with zipfile.ZipFile(other, "a") as archive:
        archive.comment = b"another file"
    report = take(installation, other)
    assert report.state == "unchanged"
    assert {s.duplicates for s in report.sessions if s.kind == "rth"} == {16}
    assert everything(installation)[1] == files
    assert rth(installation) == row


def test_overlapping_files_equal_one_file(installation: Installation, ticks: Write, tmp_path: Path) -> None:
    take(installation, ticks(DAY, *WHOLE[:10], folder="a"))
    assert not rth(installation).complete
    take(installation, ticks(DAY, *WHOLE[6:], folder="b"))
    pieced = rth(installation)
    assert pieced.complete

    with open_installation(Settings(data=str(tmp_path / "other"))) as other:
        take(other, ticks(DAY, *WHOLE, folder="c"))
        whole = rth(other)
    assert pieced.profile == whole.profile
    assert (pieced.rows, pieced.volume) == (whole.rows, whole.volume)


def test_equal_trades_in_one_file_are_all_counted(installation: Installation, ticks: Write) -> None:
    twins = [("13:31:00.500", "5500", 3)] * 4
    assert take(installation, ticks(DAY, *twins)).sessions[0].volume == 12
    assert take(installation, ticks(DAY, *twins, ("13:32:00", "5500", 1), folder="more")).state == "imported"
    assert rth(installation).volume == 13


def test_off_tick_prices_are_quarantined_and_counted(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, ("13:31:00", "5500", 1), ("13:32:00", "5500.10", 50), ("13:33:00", "5500.25", 1))
    (session,) = take(installation, path).sessions
    assert (session.rows, session.volume, session.off_tick) == (2, 2, 1)
    assert rth(installation).off_tick == 1


def test_rows_out_of_order_are_counted_and_fold_to_the_same(
    installation: Installation, ticks: Write, tmp_path: Path
) -> None:
    lines = [
        ("13:31:00", "5500", 1),
        ("14:05:00", "5502", 2),
        ("13:45:00", "5499", 3),
        ("14:06:00", "5501", 1),
    ]
    (session,) = take(installation, ticks(DAY, *lines)).sessions
    assert session.out_of_order == 1
    a, b = load(rth(installation).profile).brackets
    assert (a.low_ticks, a.close_ticks, b.open_ticks, b.close_ticks) == (
        5499 * 4,
        5499 * 4,
        5502 * 4,
        5501 * 4,
    )
    (row,) = installation.store.recordings(0, "ESU2024", *[rth(installation).trade_date] * 2)
    rows = np.concatenate(list(installation.tape.read(row.file, Quality.TICKS)))
    assert (np.diff(rows["ts_event"]) >= 0).all()


def test_a_session_is_not_complete_before_five_minutes_past_its_close(
    installation: Installation, ticks: Write
) -> None:
    close_ns = 1_719_951_300_000_000_000  # 2024-07-02T20:15Z
    take(installation, ticks(DAY, *WHOLE), now_ns=close_ns + 299_000_000_000)
    assert not rth(installation).complete


def test_a_session_of_a_file_that_ends_early_is_incomplete(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE[:12]))
    assert not rth(installation).complete


def test_an_overnight_in_two_files_is_folded_as_one(installation: Installation, ticks: Write) -> None:
    # The overnight of 3 July runs from 20:15Z on the 2nd over midnight: LEAN cuts it in two files.
    take(installation, ticks(DAY, ("20:15:01", "5500", 1), ("23:59:00", "5510", 2)))
    take(installation, ticks("20240703", ("00:00:01", "5490", 4), ("13:29:59", "5500", 1)))
    (night,) = [
        r
        for r in installation.store.sessions([0], "ES")
        if r.kind == "eth" and str(r.trade_date) == "2024-07-03"
    ]
    ladder = load(night.profile)
    assert (ladder.low_ticks, ladder.high_ticks, night.volume, night.rows) == (5490 * 4, 5510 * 4, 8, 4)


def test_ticks_take_precedence_over_bars_in_any_import_order(
    installation: Installation, ticks: Write, bars: Write
) -> None:
    minute = [(at[:5], price, price, price, price, size) for at, price, size in WHOLE]
    unique = list({line[0]: line for line in minute}.values())
    take(installation, bars(DAY, *unique))
    assert rth(installation).quality is Quality.BARS_1M
    take(installation, ticks(DAY, *WHOLE, folder="ticks"))
    assert rth(installation).quality is Quality.TICKS
    report = take(installation, bars(DAY, *unique[:-1], folder="again"))
    assert rth(installation).quality is Quality.TICKS
    assert report.state == "unchanged"


def test_complete_bars_take_precedence_over_incomplete_ticks(
    installation: Installation, ticks: Write, bars: Write
) -> None:
    take(installation, ticks(DAY, *WHOLE[:5]))
    minute = [(at[:5], price, price, price, price, size) for at, price, size in WHOLE]
    take(installation, bars(DAY, *{line[0]: line for line in minute}.values(), folder="bars"))
    assert rth(installation).quality is Quality.BARS_1M


def test_a_complete_bar_replaces_one_exported_while_forming(installation: Installation, bars: Write) -> None:
    take(
        installation,
        bars(
            DAY, ("13:30", "5500", "5501", "5500", "5501", 10), ("13:31", "5501", "5501", "5501", "5501", 3)
        ),
    )
    more = bars(
        DAY,
        ("13:31", "5501", "5502", "5501", "5502", 9),
        ("13:32", "5502", "5502", "5502", "5502", 1),
        folder="b",
    )
    take(installation, more)
    row = rth(installation)
    assert (row.volume, row.rows) == (20, 3)


@pytest.mark.parametrize("damage", ["cut", "no zip", "not a number"])
def test_an_invalid_file_changes_nothing(
    installation: Installation, ticks: Write, tmp_path: Path, damage: str
) -> None:
    take(installation, ticks(DAY, *WHOLE))
    before = everything(installation)
    bad = ticks("20240703", *WHOLE, folder="bad")
    data = bad.read_bytes()
    if damage == "cut":
        bad.write_bytes(data[: len(data) // 2])
    elif damage == "no zip":
        bad.write_bytes(b"PK\x03\x04" + b"\0" * 100)
    else:
        ticks("20240703", *WHOLE[:5], ("15:00:00", "55oo", 1), folder="bad")
    with pytest.raises(FileRefused, match=r"20240703_trade\.zip"):
        take(installation, bad)
    assert everything(installation) == before


def test_an_error_during_an_import_changes_nothing(
    installation: Installation, ticks: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(installation, ticks(DAY, *WHOLE))
    before = everything(installation)

    def full(*_args: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outcry.recordings.tape.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        take(installation, ticks("20240703", *WHOLE, folder="next"))
    monkeypatch.undo()
    assert everything(installation) == before
    assert take(installation, ticks("20240703", *WHOLE, folder="next")).state == "imported"


def test_prices_in_another_unit_are_refused(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, ("13:31:00", "5500", 1), ("13:32:00", "5500000", 1))
    with pytest.raises(FileRefused, match="too far apart for one session"):
        take(installation, path)


def test_rows_while_the_market_is_closed_are_counted_not_stored(
    installation: Installation, ticks: Write
) -> None:
    # 21:30 UTC in July is 17:30 in New York: the maintenance break
    report = take(installation, ticks(DAY, ("13:31:00", "5500", 1), ("21:30:00", "5500", 1)))
    assert report.outside == 1
    with pytest.raises(FileRefused, match="outside the product's trading hours"):
        take(installation, ticks(DAY, ("21:30:00", "5500", 1), folder="closed"))


def test_only_files_left_by_a_crash_are_removed(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    stored = everything(installation)
    stray = (
        Path(installation.settings.data)
        / "tape"
        / "operator"
        / "ES"
        / "ESU2024"
        / "2024-07-05.lean.ticks.ab.dbn.zst"
    )
    stray.write_bytes(b"half a file")
    begun = Path(installation.settings.data) / "tape" / ".begun"
    begun.write_text("operator/ES/ESU2024/2024-07-05.lean.ticks.ab.dbn.zst\n")
    take(installation, ticks("20240703", *WHOLE, folder="next"))
    assert not stray.exists()
    assert set(stored[1]) < set(everything(installation)[1])


def test_a_second_simultaneous_import_is_refused(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, *WHOLE)
    with (
        installation.tape.changes.exclusively(installation.store.tape_named),
        pytest.raises(TapeInUse, match="another import"),
    ):
        take(installation, path)


def test_the_tape_is_dbn_that_other_tools_read(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    (path,) = (Path(installation.settings.data) / "tape").rglob("2024-07-02*.zst")
    store = databento.DBNStore.from_bytes(path.read_bytes())
    rows = store.to_ndarray()
    assert str(store.schema) == "trades"
    assert store.symbols == ["ESU4"]
    # the post-close trade of 20:16 belongs to the same trade date on the exchange
    assert len(rows) == len(WHOLE)
    assert rows["price"][:2].tolist() == [5500_000_000_000, 5500_250_000_000]
    assert rows["size"].sum() == sum(size for _, _, size in WHOLE)
    assert set(rows["action"]) == {b"T"}


def test_a_damaged_tape_file_is_named(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, *WHOLE))
    (path,) = (Path(installation.settings.data) / "tape").rglob("2024-07-02*.zst")
    path.write_bytes(path.read_bytes()[:60])
    (row,) = installation.store.all_recordings()
    with pytest.raises(TapeDamaged, match="2024-07-02"):
        list(installation.tape.read(row.file, row.quality))


TRADES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=12)


@given(TRADES, TRADES)
def test_joining_is_a_multiset_union(stored: list[tuple[int, int]], new: list[tuple[int, int]]) -> None:
    def rows(trades: list[tuple[int, int]]) -> np.ndarray:
        made = np.zeros(len(trades), TRADE)
        made["ts_event"], made["price"] = [t for t, _ in trades], [p for _, p in trades]
        return made

    joined, repeated = join(rows(stored), rows(new), Quality.TICKS)
    found = sorted(zip(joined["ts_event"].tolist(), joined["price"].tolist(), strict=True))
    expected = sorted(
        trade for trade in set(stored + new) for _ in range(max(stored.count(trade), new.count(trade)))
    )
    assert found == expected
    assert len(repeated) == len(stored) + len(new) - len(joined)
    assert (np.diff(joined["ts_event"]) >= 0).all()


def test_another_products_prices_are_refused(installation: Installation, ticks: Write) -> None:
    lines = [(f"13:31:{n:02d}", f"{70 + n / 100:.2f}", 1) for n in range(30)]  # crude oil under a label of ES
    with pytest.raises(FileRefused, match=r"of ESU2024 are not multiples of its tick 0\.25"):
        take(installation, ticks(DAY, *lines))
    assert everything(installation)[1] == {}


@pytest.mark.parametrize("month", ["202312", "203909"])
def test_a_contract_that_had_expired_or_was_not_listed_is_refused(
    installation: Installation, ticks: Write, month: str
) -> None:
    with pytest.raises(FileRefused, match="its last trading day is"):
        take(installation, ticks(DAY, *WHOLE, month=month))


def test_two_files_with_too_wide_a_range_are_refused(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, ("13:31:00", "5500", 1)))
    before = everything(installation)
    with pytest.raises(FileRefused, match="too far apart for one session"):
        take(installation, ticks(DAY, ("13:32:00", "5500000", 1), folder="wide"))
    assert everything(installation) == before


def test_a_fragment_does_not_make_a_whole_session_partial(installation: Installation, ticks: Write) -> None:
    take(installation, ticks(DAY, WHOLE[0], *WHOLE[2::3], WHOLE[-1]))
    assert rth(installation).complete
    take(installation, ticks(DAY, ("15:00:00.5", "5503", 1), folder="fragment"))
    assert rth(installation).complete
    assert rth(installation).rows == len(WHOLE[2::3]) + 1 - (WHOLE[2::3][-1] == WHOLE[-1])


def test_a_session_with_a_hole_between_two_files_is_incomplete(
    installation: Installation, ticks: Write
) -> None:
    take(installation, ticks(DAY, *WHOLE[:6]))
    take(installation, ticks(DAY, *WHOLE[8:], folder="later"))
    assert not rth(installation).complete
    take(installation, ticks(DAY, *WHOLE[5:9], folder="between"))
    assert rth(installation).complete


def test_a_refold_applies_changed_hours_and_loses_nothing(
    installation: Installation, ticks: Write, bars: Write, tmp_path: Path
) -> None:
    take(installation, ticks(DAY, *WHOLE, ("15:00:30", "5500.10", 1)))
    minute = {at[:5]: (at[:5], price, price, price, price, size) for at, price, size in WHOLE}
    take(installation, bars(DAY, *minute.values(), folder="bars"))
    before = [replace(row, received_ns=0) for row in installation.store.sessions([0], "ES")]
    assert [done.sessions for done in installation.importer.refold(installation.clock.now_ns())] == [3]
    assert [replace(row, received_ns=0) for row in installation.store.sessions([0], "ES")] == before
    with open_installation(
        Settings(data=installation.settings.data, session_variants={"ES": "cash"})
    ) as cash:
        assert [done.sessions for done in cash.importer.refold(cash.clock.now_ns())] == [3]
        # 16:00 in New York is 20:00 UTC, so the trade of 20:00:01 is outside RTH
        assert rth(cash).close_ns == 1_719_950_400_000_000_000
        assert rth(cash).last_ns < rth(cash).close_ns


def test_a_tape_of_another_database_is_not_changed(
    installation: Installation, ticks: Write, tmp_path: Path
) -> None:
    take(installation, ticks(DAY, *WHOLE))
    _, files = everything(installation)
    other = Settings(data=installation.settings.data, database_url=f"sqlite:///{tmp_path / 'other.sqlite3'}")
    with open_installation(other) as strange:
        take(strange, ticks("20240703", *WHOLE, folder="next"))
    assert files.items() <= everything(installation)[1].items()


def test_a_file_that_changes_while_it_is_read_is_refused(installation: Installation, ticks: Write) -> None:
    path = ticks(DAY, *WHOLE)

    def grow(_done: int, _of: int) -> None:
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = b"grown"

    with pytest.raises(FileRefused, match="changed while it was read"):
        installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns(), grow)
    assert everything(installation)[1] == {}


def test_a_wrong_century_from_a_flipped_bit_is_refused_quickly(
    installation: Installation, ticks: Write
) -> None:
    path = ticks("20840702", *WHOLE)
    started = time.process_time()
    with pytest.raises(FileRefused, match="its last trading day is"):
        take(installation, path)
    assert time.process_time() - started < 2


def test_rows_before_the_session_tables_begin_are_refused_as_such(
    installation: Installation, ticks: Write
) -> None:
    """ES has session tables from 2011 on. The error must not blame the time zone instead."""
    old = ticks("20100702", *WHOLE, month="201009", folder="old")
    with pytest.raises(FileRefused) as caught:
        take(installation, old)
    assert "18 rows before 2011-01-01, when the session tables of ES begin" in str(caught.value)
    assert "import recordings of later days" in str(caught.value)
    assert "time zone" not in str(caught.value)


def test_rows_of_the_future_are_refused(installation: Installation, ticks: Write) -> None:
    """The file's last row is at 20:16 UTC. Five minutes ahead of the clock count as clock error, six do not."""
    path, minute = ticks(DAY, *WHOLE), 60 * 10**9
    last_ns = 1_719_951_360_000_000_000
    with pytest.raises(FileRefused, match=r"the timestamp 2024-07-02T20:16:00\.000Z is in the future"):
        take(installation, path, now_ns=last_ns - 6 * minute)
    assert everything(installation)[1] == {}
    assert take(installation, path, now_ns=last_ns - 5 * minute).state == "imported"


def test_more_lots_than_can_be_stored_are_refused(installation: Installation, bars: Write) -> None:
    """Bars of 2⁵³ − 1 lots add up to more than 64 bits, and a bar of 2⁶² exceeds the maximum of 2⁴⁰."""
    line = ("13:31", "5500", "5500", "5500", "5500", 2**40)
    (session,) = take(installation, bars(DAY, line, folder="most")).sessions
    assert session.volume == 2**40
    before = everything(installation)
    for lots in (2**40 + 1, 2**53 - 1, 2**62 - 1):
        path = bars(DAY, (*line[:5], lots), folder=str(lots))
        with pytest.raises(FileRefused, match=f"ESU2024: a bar has {lots:,} lots") as caught:
            take(installation, path)
        assert caught.value.path == str(path)
    assert everything(installation) == before


def test_trades_are_refused_once_their_sum_is_too_large(
    installation: Installation, ticks: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A billion trades of 2³² lots take too long to write, so the test lowers the limit to ten lots."""
    monkeypatch.setattr(session_splitting, "MAX_VOLUME", 10)
    path = ticks(DAY, ("13:31:00", "5500", 10), ("13:32:00", "5500", 1))
    with pytest.raises(FileRefused, match="ESU2024: the file has 11 lots in total"):
        take(installation, path)


def test_sums_of_lots_do_not_overflow() -> None:
    """Two bars of 2⁶³ lots add up to 2⁶⁴, not zero."""
    rows = np.zeros(2, BAR)
    rows["volume"] = 2**63
    assert volume_of(rows, Quality.BARS_1M) == 2**64
    assert volume_of(rows[:0], Quality.BARS_1M) == 0

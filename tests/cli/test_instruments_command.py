"""`outcry instruments`: the products of a data folder, examples for its own tables, and their check."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from outcry.app.installation import open_installation
from outcry.app.settings import read_settings
from outcry.cli import app
from outcry.cli.mendable import MENDABLE
from outcry.live.file_log import FileLog
from outcry.market.hours import read_windows, windows_text
from outcry.market.snapshot import load
from outcry.sessions.product_units import UnitsChanged
from outcry.trades.reference_tables import BadReference, load_reference

DAY = "ts,price,size\n2026-11-19T09:00:00Z,5600,1\n2026-11-19T15:00:00Z,5610,2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty data folder, and no settings of the environment."""
    for name in [name for name in os.environ if name.startswith("OUTCRY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def run(words: str) -> int:
    return app(words, result_action="return_value")


def printed(words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert run(f"{words} --format json") == 0
    return json.loads(capsys.readouterr().out)


def test_list_names_the_origin_of_each_product(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("instruments add btc-perp") == 0
    rows = {row["root"]: row for row in printed("instruments list", capsys)}
    assert list(rows) == [*load_reference().universe.products, "BTC-PERP"]
    assert rows["ES"] == {
        "root": "ES", "name": "E-mini S&P 500", "exchange": "CME", "zone": "America/New_York", "tick": "0.25",
        "size_step": "1", "months": "HMUZ", "origin": "packaged",
    }  # fmt: skip
    (own,) = printed("instruments list --own", capsys)
    assert (own["size_step"], own["months"], own["origin"]) == ("0.001", None, "products.csv sessions.csv")


def test_add_without_names_lists_the_examples_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = printed("instruments add", capsys)
    assert {row["origin"] for row in rows} == {"example"}
    assert {"FESX", "NIFTY"} <= {row["root"] for row in rows}
    assert not (folder / "instruments").exists()


def test_add_says_what_it_wrote_and_refuses_a_second_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("instruments add FESX FDAX") == 0
    told = capsys.readouterr()
    assert [line.split("\t")[0] for line in told.out.splitlines()] == ["FESX", "FDAX"]
    assert f"Written: {folder / 'instruments' / 'products.csv'}" in told.err
    assert run("instruments add NIFTY FDAX") == 1
    assert "FDAX is already in" in capsys.readouterr().err
    assert run("instruments check") == 0
    assert "NIFTY" not in capsys.readouterr().out


def test_show_has_hours_and_holidays_of_an_own_product(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("instruments add NK225 FESX")
    rows = {row["field"]: row["value"] for row in printed("instruments show NK225", capsys)}
    assert (rows["tick"], rows["file"]) == ("10", str(folder / "instruments" / "products.csv"))
    (hours,) = (value for name, value in rows.items() if name.startswith("hours "))
    assert hours.startswith("^17:00-^06:00 08:45-15:45, regular 08:45-15:45 (general knowledge, ")
    rows = {row["field"]: row["value"] for row in printed("instruments show FESXZ6", capsys)}
    days = [name for name in rows if name.startswith("holiday ")]
    assert days == sorted(days)
    assert rows["root"] == "FESX"
    assert run("instruments show NOPE") == 1
    assert "outcry instruments list" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["^17:15-^03:00 09:15-12:00", "<18:00-16:15", "19:00-02:00", "00:00-24:00"])
def test_windows_are_printed_as_tables_have_them(text: str) -> None:
    assert windows_text(read_windows(text)) == text


def test_check_says_what_own_tables_replace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("instruments add FESX")
    table = folder / "instruments" / "holidays.csv"
    table.write_text(table.read_text() + "2027-01-04,a day,ES,closed,,,,,me,2026-11-23,\n", encoding="utf-8")
    rows = {row["root"]: (row["tables"], row["replaces"]) for row in printed("instruments check", capsys)}
    assert rows == {
        "ES": ("holidays.csv", "days"),
        "MES": ("holidays.csv", "days"),
        "FESX": ("products.csv sessions.csv holidays.csv", None),
    }


def test_check_reports_a_bad_row(folder: Path) -> None:
    """The program prints this error in one line and ends with 1 (`outcry.cli.mendable`)."""
    run("instruments add FESX")
    table = folder / "instruments" / "sessions.csv"
    table.write_text(table.read_text().replace("09:00-17:30", "09:00-1730"))
    with pytest.raises(BadReference) as refusal:
        run(f"instruments check {folder}")
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == (str(table), 2, "rth")
    assert BadReference in MENDABLE


def test_check_counts_the_stored_sessions_of_other_hours(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has one session, 09:00 to 17:30 in Berlin. Then the operator lets it end at 17:00."""
    run("instruments add FESX")
    recording = tmp_path / "FESXZ6.csv"
    recording.write_text(DAY)
    assert run(f"import {recording}") == 0
    capsys.readouterr()
    run("instruments check")
    assert capsys.readouterr().err == ""
    table = folder / "instruments" / "sessions.csv"
    table.write_text(table.read_text().replace("09:00-17:30", "09:00-17:00"))
    assert run("instruments check") == 0
    assert "1 stored session of FESX from 2026-11-19 to 2026-11-19 has" in capsys.readouterr().err
    assert run("refold") == 0
    capsys.readouterr()
    run("instruments check")
    assert capsys.readouterr().err == ""


def test_check_finds_a_moved_break(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hong Kong: regular hours from 9:15 to 16:30 as before, but the lunch break ends half an hour later."""
    run("instruments add HSI")
    recording = tmp_path / "HSIX6.csv"
    recording.write_text("ts,price,size\n2026-11-19T02:00:00Z,25000,1\n2026-11-19T07:00:00Z,25010,2\n")
    assert run(f"import {recording}") == 0
    table = folder / "instruments" / "sessions.csv"
    assert "12:00 13:00-16:30" in table.read_text()
    table.write_text(table.read_text().replace("12:00 13:00-16:30", "12:00 13:30-16:30"))
    capsys.readouterr()
    assert run("instruments check") == 0
    assert "of HSI from 2026-11-19 to 2026-11-" in capsys.readouterr().err
    assert run("refold") == 0
    capsys.readouterr()
    assert run("instruments check") == 0
    assert capsys.readouterr().err == ""


def test_a_changed_tick_is_named_by_check_doctor_and_at_start(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("instruments add FESX")
    recording = tmp_path / "FESXZ6.csv"
    recording.write_text(DAY)
    assert run(f"import {recording}") == 0
    table = folder / "instruments" / "products.csv"
    row = table.read_text()
    table.write_text(row.replace(",1,10,", ",0.5,10,"))
    assert table.read_text() != row
    capsys.readouterr()
    assert run("instruments check") == 1
    said = "tick of FESX is 0.5, but its stored data was recorded with 1. Set it back to 1."
    assert said in capsys.readouterr().err
    assert run("doctor") == 1
    assert said in capsys.readouterr().out
    with pytest.raises(UnitsChanged, match="tick of FESX"):
        run("keys list")
    assert UnitsChanged in MENDABLE


def test_refold_computes_sessions_with_a_changed_tick(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Stored levels count in ticks: 5600 and 5610 are rows 5600 and 5610 of tick 1, and 11200 and 11220 of tick 0.5."""
    run("instruments add FESX")
    recording = tmp_path / "FESXZ6.csv"
    recording.write_text(DAY)
    assert run(f"import {recording}") == 0
    log = FileLog(folder / "live")
    with log.exclusively():
        log.append("0/exchange/FESXZ2026", 0, 1, b"entry")
        log.append("0/exchange/ESZ2026", 0, 1, b"entry")
    table = folder / "instruments" / "products.csv"
    table.write_text(table.read_text().replace(",1,10,", ",0.5,10,"))
    assert run("refold") == 0
    with open_installation(read_settings()) as installation:
        (session,) = installation.store.all_sessions()
        ladder = load(session.profile)
        assert (ladder.low_ticks, ladder.low_ticks + len(ladder.volume) - 1) == (11200, 11220)
    assert FileLog(folder / "live").keys() == ["0/exchange/ESZ2026"]
    assert run("instruments check") == 0


def test_a_removed_product_is_named_and_comes_back_only_with_its_tick(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example has tick 1; the operator's row had 0.5 when the file was imported."""
    run("instruments add FESX")
    table = folder / "instruments" / "products.csv"
    table.write_text(table.read_text().replace(",1,10,", ",0.5,10,"))
    recording = tmp_path / "FESXZ6.csv"
    recording.write_text(DAY)
    assert run(f"import {recording}") == 0
    for path in (folder / "instruments").glob("*.csv"):
        path.unlink()
    capsys.readouterr()
    assert run("instruments check") == 0
    assert "No table has FESX, so 1 stored session of FESX" in capsys.readouterr().err
    assert run("instruments add FESX") == 1
    assert "recorded with 0.5" in capsys.readouterr().err
    assert not list((folder / "instruments").glob("*.csv"))

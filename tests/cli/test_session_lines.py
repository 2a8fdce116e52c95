"""`outcry session` and `outcry sessions`, called as functions: output, errors and exit statuses."""

import os
from datetime import date
from pathlib import Path

import pytest

from outcry.cli.sessions import session_at, sessions_between


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a data folder of the test, so that no other overrides apply."""
    for name in [name for name in os.environ if name.startswith("OUTCRY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path))
    return tmp_path


def test_an_instant_in_the_short_day(capsys: pytest.CaptureFixture[str]) -> None:
    """28 November 2025, 10:00 New York: regular hours 09:30 to 13:15, which is 14:30Z to 18:15Z."""
    assert session_at("/MESZ5", "2025-11-28T10:00:00-05:00") == 0
    out, err = capsys.readouterr()
    assert out == (
        "2025-11-28\trth\t2025-11-28T09:30:00-05:00\t2025-11-28T13:15:00-05:00"
        "\t2025-11-28T14:30:00Z\t2025-11-28T18:15:00Z\tshort\n"
    )
    assert not err


def test_the_same_instant_in_another_offset(capsys: pytest.CaptureFixture[str]) -> None:
    session_at("ES", "2024-03-10T22:00:00Z")
    session_at("es", "2024-03-10T23:00:00.000+01:00")
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert first.startswith("2024-03-11\teth\t2024-03-08T16:15:00-05:00\t2024-03-11T09:30:00-04:00\t")


def test_while_closed_the_next_session_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert session_at("ES", "2025-11-29T10:00:00Z") == 1
    out, err = capsys.readouterr()
    assert not out
    assert "No session of ES is open" in err
    assert "2025-12-01 eth 2025-11-30T18:00:00-05:00" in err


@pytest.mark.parametrize(
    ("symbol", "at", "expected"),
    [
        ("ES", "2025-11-28T10:00:00", "has no time zone. Add one"),
        ("ES", "2025-11-28", "has no time zone. Add one"),
        ("ES", "yesterday", "use a form such as 2026-01-02T15:04:05Z"),
        ("ES", "", "use a form such as"),
        ("ESX5", "2025-11-28T10:00:00Z", "did you mean ES"),
        ("QQQQQQ", "2025-11-28T10:00:00Z", "unknown symbol 'QQQQQQ'. Use a product such as ES"),
    ],
)
def test_what_cannot_be_read_is_refused(
    capsys: pytest.CaptureFixture[str], symbol: str, at: str, expected: str
) -> None:
    assert session_at(symbol, at) == 2
    out, err = capsys.readouterr()
    assert not out
    assert expected in err


def test_sessions_of_a_holiday_week_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Corn, 26 November to 1 December 2025, Chicago: closed on the 27th, no overnight before the 28th."""
    assert sessions_between("ZC", date(2025, 11, 26), date(2025, 12, 1)) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[1], row[2][11:16], row[3][11:16], row[6]) for row in rows] == [
        ("2025-11-26", "eth", "19:00", "07:45", "full"),
        ("2025-11-26", "rth", "08:30", "13:20", "full"),
        ("2025-11-28", "rth", "08:30", "12:05", "short"),
        ("2025-12-01", "eth", "19:00", "07:45", "full"),
        ("2025-12-01", "rth", "08:30", "13:20", "full"),
    ]


def test_years_without_known_holidays_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert sessions_between("ES", date(2031, 7, 4), date(2031, 7, 4)) == 0
    out, err = capsys.readouterr()
    assert "The holiday tables of ES cover 2012 to 2027 only" in err
    assert len(out.splitlines()) == 2


def test_dates_the_wrong_way_round_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert sessions_between("ES", date(2025, 12, 1), date(2025, 11, 1)) == 2
    assert "is before" in capsys.readouterr().err


def test_overrides_and_variants_of_the_service_count(
    capsys: pytest.CaptureFixture[str], own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crude closes early at 12:00 on 18 November 2026 by an override; index hours to 16:00 by the operator."""
    header = "date,name,applies_to,day,opens,closes,rth_opens,rth_closes,source,checked_on,note"
    row = "2026-11-18,a test,CL,open,,12:00,,,made up,2026-11-01,"
    (own_folder / "overrides.csv").write_text(f"{header}\n{row}\n", encoding="utf-8")
    monkeypatch.setenv("OUTCRY_SESSION_VARIANTS", "ES=cash")
    session_at("CL", "2026-11-18T15:00:00Z")
    session_at("ES", "2026-11-18T15:00:00Z")
    crude, index = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert (crude[3], crude[6]) == ("2026-11-18T12:00:00-05:00", "short")
    assert (index[3], index[6]) == ("2026-11-18T16:00:00-05:00", "full")


def test_in_a_daily_break_the_resumption_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """ES pauses from 17:00 to 18:00 in New York: the overnight session of the 4th resumes at 18:00."""
    assert session_at("ES", "2026-11-03T17:30:00-05:00") == 1
    out, err = capsys.readouterr()
    assert not out
    assert "Trading resumes at 2026-11-03T18:00:00-05:00: 2026-11-04 eth 2026-11-03T16:15:00-05:00" in err


def test_days_before_the_tables_begin_are_refused_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert session_at("ES", "2005-03-01T15:00:00Z") == 2
    assert (
        "No session data for 2005-03-01: the session tables of ES begin on 2011-01-01"
        in capsys.readouterr().err
    )
    assert session_at("MBT", "2016-03-01T15:00:00Z") == 2
    assert "2017-12-18" in capsys.readouterr().err
    assert sessions_between("ES", date(2005, 3, 1), date(2005, 3, 8)) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "No session data up to 2005-03-08" in err

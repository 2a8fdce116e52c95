"""`outcry import`: what it prints about micros, the list of imports, and undoing one."""

import json
import os
from pathlib import Path

import pytest

from outcry.cli import app


@pytest.fixture
def micro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with a session of the micro, in an environment without other settings."""
    for name in [name for name in os.environ if name.startswith("OUTCRY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OUTCRY_DATA", str(tmp_path / "data"))
    path = tmp_path / "MESU24.csv"
    lines = [
        f"2024-07-02 {9 + (30 + n) // 60:02}:{(30 + n) % 60:02},5500,5500,5500,5500,3" for n in range(405)
    ]
    path.write_text("\n".join(["time,open,high,low,close,volume", *lines]))
    return path


def run(*arguments: str) -> int:
    return app(["import", *arguments], result_action="return_value")


def test_an_import_of_a_micro_says_whose_levels_answer(
    micro: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(micro), "--contract", "MESU2024", "--tz", "America/New_York", "--stamp", "open") == 0
    assert "answers about MES have the levels of ES" in " ".join(capsys.readouterr().err.split())


def test_an_import_is_listed_and_undone(micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(str(micro), "--contract", "MESU2024", "--tz", "America/New_York", "--stamp", "open")
    capsys.readouterr()
    assert run("--list", "--output", "json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    read = {
        "contract": "MESU2024",
        "tz": "America/New_York",
        "stamp": "open",
        "format": "csv",
        "source": "csv",
    }
    holds = {
        "contracts": "MESU2024",
        "qualities": "bars_1m",
        "days": 1,
        "first": "2024-07-02",
        "last": "2024-07-02",
    }
    assert {name: row[name] for name in (*read, *holds)} == read | holds
    lost = {
        "contract": "MESU2024",
        "date": "2024-07-02",
        "source": "csv",
        "quality": "bars_1m",
        "removed": 405,
        "left": 0,
    }
    for arguments in (["--dry-run"], []):
        assert run("--forget", row["id"], *arguments, "--output", "json") == 0
        assert json.loads(capsys.readouterr().out) == [lost]
    assert run("--forget", row["id"]) == 1
    assert "Nothing was forgotten. No import is named" in capsys.readouterr().err
    assert run("--list", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    "arguments", [["--list", "x.csv"], ["--list", "--forget"], ["x.csv", "--dry-run"], ["--forget"]]
)
def test_options_that_exclude_each_other_are_refused(
    arguments: list[str], micro: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith("outcry import: ")


def test_the_owner_must_exist_to_have_imports(micro: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list", "--owner", "nobody@example.com") == 1
    assert "nobody@example.com has no account" in capsys.readouterr().err

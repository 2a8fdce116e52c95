"""`outcry match`, called as a function: output, errors and exit statuses."""

import csv
import io
import json
import os
from datetime import date
from pathlib import Path

import pytest
from tests.answers.test_query import put, session
from tests.installations import Write

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.cli.columns import MATCHES
from outcry.cli.matching import match

DAY = date(2024, 7, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ticks: Write) -> str:
    """Return a data folder with one session, whose levels `test_query` works out: 5500, 5501 and 5499."""
    for name in [name for name in os.environ if name.startswith("OUTCRY_")]:
        monkeypatch.delenv(name)
    data = str(tmp_path / "data")
    with open_installation(Settings(data=data)) as installation:
        put(installation, ticks("20240702", *session(5500)))
    return data


def test_levels_that_are_reproduced(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert match("ES", DAY, poc="5500", vah="5501", val="5499", output="csv", data=folder) == 0
    out, err = capsys.readouterr()
    first = next(iter(csv.DictReader(io.StringIO(out))))
    assert tuple(first) == MATCHES
    assert (first["distance"], first["preset"]) == ("0", "dalton")
    assert first["differences"] == "None: this is our own setting."
    assert "Not recorded and therefore not searched: full, trade_date" in err


def test_the_nearest_levels_have_status_1(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert match("ES", DAY, poc="5400", vah="5500", val="5300", output="json", data=folder) == 1
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert answer["exact"] is False
    assert min(match["distance"] for match in answer["matches"]) > 700  # of a day with a range of four points
    assert "No setting reproduces these levels." in err


def test_a_hundred_points_below_is_a_back_adjusted_contract(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert match("ES", DAY, poc="5400", vah="5401", val="5399", output="json", data=folder) == 0
    first = json.loads(capsys.readouterr().out)["matches"][0]
    assert (first["distance"], first["shift"]) == (0, -400)
    assert first["differences"][0]["reason"].startswith(
        "Its prices are -400 ticks above ours, as in a back-adjusted"
    )


@pytest.mark.parametrize(
    ("symbol", "day", "prices", "status", "message"),
    [
        ("ES", DAY, ("x", "2", "1"), 2, "'x' is not a price."),
        ("ES", DAY, ("1", "2", "3"), 2, "--vah 2 is below --val 3."),
        ("ESX", DAY, ("1", "2", "1"), 1, "Unknown symbol ESX. Did you mean ES"),
        (
            "ES",
            date(2024, 7, 3),
            ("1", "2", "1"),
            1,
            "No completed regular session of ES is recorded for 2024-07-03.",
        ),
        ("NQ", DAY, ("1", "2", "1"), 1, "No completed regular session of NQ is recorded"),
    ],
)
def test_errors_say_what_is_wrong(
    folder: str, capsys: pytest.CaptureFixture[str], symbol: str, day: date, prices: tuple[str, str, str], status: int,
    message: str,
) -> None:  # fmt: skip
    poc, vah, val = prices
    assert match(symbol, day, poc=poc, vah=vah, val=val, data=folder) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err

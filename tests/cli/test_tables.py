"""Rows of an answer: a table on a terminal, lines in a pipe, JSON and CSV on request."""

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.sample_answers import ANSWERS

from outcry.cli import reading, tables
from outcry.cli.columns import COLUMNS as ALL_COLUMNS
from outcry.cli.tables import Output, StreamedRows, csv_line, print_rows
from outcry.client import AlertEntry

COLUMNS = ("name", "open_price", "note")
ROWS = [("ES", 6900.25, None), ('a "b", c', 7, "short")]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make standard output a terminal of 100 columns."""
    monkeypatch.setattr(tables, "on_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")


def printed(capsys: Captured, output: Output) -> str:
    print_rows(COLUMNS, iter(ROWS), output)
    return capsys.readouterr().out


def test_a_pipe_gets_tab_separated_lines(capsys: Captured) -> None:
    assert printed(capsys, None) == 'ES\t6900.25\t\na "b", c\t7\tshort\n'


def test_json_is_an_array_of_objects_with_types(capsys: Captured) -> None:
    assert json.loads(printed(capsys, "json")) == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_csv_has_column_names_and_quotes(capsys: Captured) -> None:
    found = list(csv.reader(io.StringIO(printed(capsys, "csv"))))
    assert found == [list(COLUMNS), ["ES", "6900.25", ""], ['a "b", c', "7", "short"]]
    assert csv_line(ROWS[1]) == '"a ""b"", c",7,short'


@pytest.mark.usefixtures("terminal")
def test_a_terminal_gets_a_table(capsys: Captured) -> None:
    lines = printed(capsys, None).splitlines()
    assert lines[0].split() == ["name", "open", "price", "note"]
    assert lines[1].split() == ["ES", "6900.25"]
    assert lines[2].rstrip().endswith("7  short")  # numbers are aligned to the right


def test_a_table_in_a_pipe_is_not_folded(capsys: Captured) -> None:
    print_rows(("a", "b"), [("x" * 200, "y" * 200)], "table")
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_no_rows(capsys: Captured) -> None:
    print_rows(COLUMNS, [], "json")
    assert capsys.readouterr().out == "[]\n"
    print_rows(COLUMNS, [], "csv")
    assert capsys.readouterr().out == "name,open_price,note\n"


def test_streamed_rows_are_lines_at_once_in_a_pipe(capsys: Captured) -> None:
    with StreamedRows(COLUMNS) as rows:
        rows.add(*ROWS[0])
        assert capsys.readouterr().out == "name\topen_price\tnote\nES\t6900.25\t\n"
    assert capsys.readouterr().out == ""


def test_streamed_csv_is_a_line_at_once_and_json_an_array_at_the_end(capsys: Captured) -> None:
    with StreamedRows(COLUMNS, "csv") as rows:
        rows.add(*ROWS[0])
        assert capsys.readouterr().out == "name,open_price,note\nES,6900.25,\n"
    with StreamedRows(COLUMNS, "json") as rows:
        rows.add(*ROWS[0])
        assert capsys.readouterr().out == ""
    assert json.loads(capsys.readouterr().out) == [{"name": "ES", "open_price": 6900.25, "note": None}]


@pytest.mark.usefixtures("terminal")
def test_streamed_rows_without_a_row_are_no_table_unless_one_is_requested(capsys: Captured) -> None:
    with StreamedRows(COLUMNS):
        pass
    assert capsys.readouterr().out == ""
    with StreamedRows(COLUMNS, "table"):
        pass
    assert capsys.readouterr().out.split() == ["name", "open", "price", "note"]


def test_rows_before_an_error_are_printed(capsys: Captured) -> None:
    def stop() -> None:
        with StreamedRows(COLUMNS, "table") as rows:
            rows.add(*ROWS[0])
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        stop()
    assert "6900.25" in capsys.readouterr().out


@pytest.mark.usefixtures("terminal")
def test_streamed_rows_are_one_table_at_the_end_on_a_terminal(capsys: Captured) -> None:
    with StreamedRows(COLUMNS) as rows:
        for row in ROWS:
            rows.add(*row)
        assert capsys.readouterr().out == ""
    assert len(capsys.readouterr().out.splitlines()) == 3


class StubClient:
    """Stands for a client: its answers are the examples of the documentation."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> "StubClient":
        return self

    def __exit__(self, *_: object) -> None: ...

    def levels(self, _symbol: str) -> Any:
        return ANSWERS["LevelsAnswer"]

    def alerts(self, _symbol: str | None) -> Any:
        return ANSWERS["AlertsAnswer"]

    def stream(self, *_: str) -> list[AlertEntry]:
        return list(ANSWERS["AlertsHistoryAnswer"].alerts)  # type: ignore[attr-defined]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> Callable[..., str]:
    """Return a function that runs a command and returns what it prints."""
    monkeypatch.setattr(reading, "Client", StubClient)
    monkeypatch.setenv("OUTCRY_KEY", "a key")

    def call(command: Callable[..., int], *arguments: str, **options: Any) -> str:
        assert command(*arguments, url="http://localhost:1", **options) == 0
        return capsys.readouterr().out

    return call


def test_levels_in_a_pipe_are_the_answer_of_the_api(run: Callable[..., str]) -> None:
    assert json.loads(run(reading.levels, "ES")) == ANSWERS["LevelsAnswer"].to_dict()
    assert run(reading.levels, "ES", output="json") == run(reading.levels, "ES")


def test_levels_as_csv_have_every_price_with_its_name(run: Callable[..., str]) -> None:
    rows = list(csv.DictReader(io.StringIO(run(reading.levels, "ES", output="csv"))))
    found = {row["level"]: row for row in rows}
    answer = ANSWERS["LevelsAnswer"].to_dict()
    assert float(found["prior_poc"]["price"]) == answer["prior"]["poc"]
    assert found["naked_poc"]["date"] in {level["date"] for level in answer["nakedPocs"]}
    dated = len(answer["nakedPocs"]) + len(answer["poorHighs"]) + len(answer["poorLows"])
    assert len(rows) == dated + len(answer["prior"])  # a delayed answer has no other levels


@pytest.mark.usefixtures("terminal")
def test_levels_on_a_terminal_are_a_table_that_names_the_session(run: Callable[..., str]) -> None:
    lines = run(reading.levels, "ES").splitlines()
    assert lines[0] == f"ES: the session of {ANSWERS['LevelsAnswer'].to_dict()['asOf']}, source delayed"
    assert lines[2].split() == ["level", "price", "date"]


def test_alerts_in_each_format(run: Callable[..., str]) -> None:
    answer = ANSWERS["AlertsAnswer"].to_dict()
    assert json.loads(run(reading.alerts)) == answer
    rows = list(csv.DictReader(io.StringIO(run(reading.alerts, output="csv"))))
    assert [row["message"] for row in rows] == [alert["message"] for alert in answer["alerts"]]
    assert answer["alerts"][0]["message"] in run(reading.alerts, output="table")


def test_followed_alerts_are_a_line_each(run: Callable[..., str]) -> None:
    alert = ANSWERS["AlertsHistoryAnswer"].alerts[0]  # type: ignore[attr-defined]
    assert json.loads(run(reading.alerts, follow=True).splitlines()[0])["key"] == alert.key
    assert run(reading.alerts, follow=True, output="table").splitlines()[0].endswith(alert.message)
    names, first, *_ = run(reading.alerts, follow=True, output="csv").splitlines()
    assert names == ",".join(ALL_COLUMNS["alerts --follow"])
    assert first.startswith(f"{alert.at},{alert.symbol},")


def test_column_names_can_be_names_in_a_program() -> None:
    for command, names in ALL_COLUMNS.items():
        assert all(re.fullmatch("[a-z][a-z_]*", name) for name in names), command
        assert len(set(names)) == len(names), command

"""Log events: the table, the source and the page agree."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.arch.logs_page import page

from outcry.base.log_events import LogEvent, report_to_writer

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "outcry"
TABLE = SOURCE / "base" / "log_events.py"


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path != TABLE:
            yield path, ast.parse(path.read_text())


def test_every_event_of_the_table_is_logged_and_every_logged_event_is_in_the_table() -> None:
    used = {
        node.attr
        for _, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "LogEvent"
    }
    assert used == set(LogEvent.__members__)


def test_no_event_is_logged_as_text() -> None:
    """The first argument of `event_log.warning`, `self.report` and the like is never a literal."""
    writers = {"event_log", "_event_log", "_dispatcher", "_streams", "_recorder", "_engine", "engine"}
    found = [
        f"{path.name}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (
            (
                node.func.attr in {"info", "warning", "error"}
                and ast.unparse(node.func.value).split(".")[-1] in writers
            )
            or (
                node.func.attr == "report"
                and ast.unparse(node.func.value).split(".")[-1] in {*writers, "self"}
            )
        )
        and node.args
        and isinstance(node.args[0], ast.JoinedStr | ast.Constant)
    ]
    assert found == []


def test_ids_are_snake_case_and_each_event_says_what_it_means_and_what_to_do() -> None:
    for event in LogEvent:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", event.value)
        assert event.name == event.value.upper()
        assert event.meaning.endswith(".")
        assert event.level == "info" or event.action.endswith(".")


def test_an_event_is_written_at_the_level_of_the_table() -> None:
    class Writer:
        def __init__(self) -> None:
            self.lines: list[tuple[str, str]] = []

        def info(self, event: LogEvent, **_: object) -> None:
            self.lines.append(("info", event))

        def warning(self, event: LogEvent, **_: object) -> None:
            self.lines.append(("warning", event))

        def error(self, event: LogEvent, **_: object) -> None:
            self.lines.append(("error", event))

    writer = Writer()
    for event in LogEvent:
        report_to_writer(writer)(event)
    assert writer.lines == [(event.level, event.value) for event in LogEvent]


def test_the_page_is_what_the_table_says() -> None:
    assert (ROOT / "docs" / "reference" / "logs.md").read_text() == page(), "run `make docs`"

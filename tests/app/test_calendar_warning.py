"""A service logs at its start which calendars end within a year. The packaged holidays end on 31 December 2027."""

from datetime import UTC, datetime
from typing import Any

import pytest

from outcry.app.calendar_warning import warn_of_ending_holidays
from outcry.base.log_events import LogEvent
from outcry.trades.reference_tables import load_reference

GROUPS = {"index", "energy", "metals", "rates", "fx", "crypto", "grains", "livestock"}


class Lines:
    """A log that keeps its warnings. Every other level fails."""

    def __init__(self) -> None:
        self.warnings: list[tuple[LogEvent, dict[str, Any]]] = []

    def info(self, event: LogEvent, **values: Any) -> None:
        raise AssertionError((event, values))

    def error(self, event: LogEvent, **values: Any) -> None:
        raise AssertionError((event, values))

    def warning(self, event: LogEvent, **values: Any) -> None:
        self.warnings.append((event, values))


@pytest.mark.parametrize(
    ("today", "groups"), [("2026-12-31", set[str]()), ("2027-01-01", GROUPS), ("2028-06-01", GROUPS)]
)
def test_calendars_that_end_within_a_year_are_logged(today: str, groups: set[str]) -> None:
    lines = Lines()
    now = datetime.fromisoformat(today).replace(tzinfo=UTC)
    warn_of_ending_holidays(lines, load_reference(), int(now.timestamp()) * 10**9)
    assert {values["calendar"] for _, values in lines.warnings} == groups
    assert {(event, values["last"]) for event, values in lines.warnings} <= {
        (LogEvent.HOLIDAYS_ENDING, "2027-12-31")
    }

"""Start of a new stream's history, worked by hand for ES around Thanksgiving 2024."""

from datetime import date

import pytest
from tests.live.first_connection_harness import new_york

from outcry.live.history_start import history_begin_ns
from outcry.trades.reference_tables import load_reference

CALENDAR = load_reference().calendar
FRIDAY, MONDAY, TUESDAY = (date(2024, 11, day) for day in (22, 25, 26))


@pytest.mark.parametrize(
    ("root", "now", "newest", "begins"),
    [
        # the overnight of Tuesday began with Monday's regular close
        ("ES", "2024-11-25T16:15:00", MONDAY, "2024-11-25T16:15:00"),
        ("ES", "2024-11-25T17:30:00", MONDAY, "2024-11-25T16:15:00"),
        ("ES", "2024-11-25T18:00:01", MONDAY, "2024-11-25T16:15:00"),
        ("ES", "2024-11-26T11:00:00", MONDAY, "2024-11-25T16:15:00"),
        # that of Monday with Friday's
        ("ES", "2024-11-23T12:00:00", FRIDAY, "2024-11-22T16:15:00"),
        ("ES", "2024-11-24T17:59:00", FRIDAY, "2024-11-22T16:15:00"),
        # Thursday has no regular hours: the overnight of Friday began with Wednesday's close
        ("ES", "2024-11-28T13:30:00", date(2024, 11, 27), "2024-11-27T16:15:00"),
        # Monday is not stored: its overnight began with Friday's close
        ("ES", "2024-11-25T17:30:00", FRIDAY, "2024-11-22T16:15:00"),
        # nothing is stored: the newest regular session with its overnight
        ("ES", "2024-11-26T11:00:00", None, "2024-11-22T16:15:00"),
        # nothing of November is stored: five regular sessions, of which Wednesday's overnight began on Tuesday
        ("ES", "2024-11-26T17:30:00", date(2024, 10, 31), "2024-11-19T16:15:00"),
        # grains pause from 07:45 to 08:30 in Chicago, between their overnight and their regular hours
        ("ZC", "2024-11-26T09:00:00", MONDAY, "2024-11-25T20:00:00"),
        # between the regular close at 13:20 and 19:00 nothing trades, so no history is requested
        ("ZC", "2024-11-25T17:30:00", MONDAY, "2024-11-25T17:30:00"),
    ],
)
def test_history_begins_with_the_current_overnight_or_the_missing_sessions(
    root: str, now: str, newest: date | None, begins: str
) -> None:
    assert history_begin_ns(CALENDAR, root, new_york(now), newest) == new_york(begins)

"""Opening hours of products at timestamps worked by hand from the exchange's table."""

from datetime import date, datetime
from zoneinfo import ZoneInfo

import pytest

from outcry.market.calendar import SessionKind
from outcry.sessions.opening_hours import OpeningHours
from outcry.trades.reference_tables import load_reference

NEW_YORK = ZoneInfo("America/New_York")
HOURS = OpeningHours(load_reference().calendar)


def at(text: str) -> int:
    """Convert a New York time to ns UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=NEW_YORK).timestamp()) * 10**9


def test_in_regular_hours_a_period_has_a_letter_and_an_end() -> None:
    found = HOURS.at("ES", at("2026-11-20T10:20"))
    assert found.session is not None
    assert found.session.kind is SessionKind.RTH
    assert (found.letter, found.bracket_ends_ns) == ("B", at("2026-11-20T10:30"))
    assert found.opens_ns is None
    assert found.regular_ns == at("2026-11-23T09:30")


def test_overnight_counts_down_to_regular_hours() -> None:
    found = HOURS.at("ES", at("2026-11-20T08:47:50"))
    assert found.session is not None
    assert found.session.kind is SessionKind.ETH
    assert found.regular_ns == at("2026-11-20T09:30")


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-11-19T17:30", "2026-11-19T18:00"),  # the daily break
        ("2026-11-21T12:00", "2026-11-22T18:00"),  # a Saturday
        ("2026-12-25T12:00", "2026-12-27T18:00"),  # Christmas, a Friday
    ],
)
def test_while_closed_the_next_open_is_returned(now: str, opens: str) -> None:
    found = HOURS.at("ES", at(now))
    assert found.session is None
    assert (found.letter, found.bracket_ends_ns) == ("", None)
    assert found.opens_ns == at(opens)


def test_the_age_of_a_level_counts_regular_sessions() -> None:
    """Thanksgiving (Thursday, 26 November 2026) has no session; the Friday after it has a short one."""
    assert HOURS.sessions_since("ES", date(2026, 11, 25), date(2026, 11, 25)) == 0
    assert HOURS.sessions_since("ES", date(2026, 11, 25), date(2026, 11, 27)) == 1
    assert HOURS.sessions_since("ES", date(2026, 11, 20), date(2026, 11, 30)) == 5

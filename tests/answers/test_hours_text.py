"""Regular hours as text, in the product's time zone."""

from datetime import UTC, date, datetime

import pytest

from outcry.answers.describe import hours
from outcry.market.calendar import Session, SessionKind


def session(*segments: tuple[str, str], short: bool = False) -> Session:
    """Return a session with segments given in UTC."""
    times = [
        tuple(int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()) * 10**9 for at in segment)
        for segment in segments
    ]
    return Session("XX", date(2026, 1, 6), SessionKind.RTH, tuple((a, b) for a, b in times), short)


WHOLE = session(("2026-01-06T14:30", "2026-01-06T21:15"))
HALF = session(("2026-01-07T14:30", "2026-01-07T18:00"), short=True)


@pytest.mark.parametrize(
    ("sessions", "zone", "text"),
    [
        ([WHOLE, HALF], "America/New_York", "09:30–16:15"),  # the last one of full length
        ([HALF], "America/New_York", ""),
        ([], "UTC", ""),
        (
            [session(("2026-01-06T01:15", "2026-01-06T04:00"), ("2026-01-06T05:00", "2026-01-06T08:30"))],
            "Asia/Hong_Kong",
            "09:15–12:00, 13:00–16:30",
        ),
        ([session(("2026-01-06T00:00", "2026-01-07T00:00"))], "UTC", "00:00–24:00"),
        ([session(("2026-01-05T22:00", "2026-01-06T22:00"))], "America/New_York", "17:00–17:00"),
    ],
)
def test_regular_hours_as_text(sessions: list[Session], zone: str, text: str) -> None:
    assert hours(sessions, zone) == text

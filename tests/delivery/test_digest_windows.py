"""When a digest's window ends: worked by hand from each zone's published clock changes."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outcry.delivery.digest_windows import window_end_ns
from outcry.delivery.model import Window
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE

NEW_YORK, BERLIN, KOLKATA = "America/New_York", "Europe/Berlin", "Asia/Kolkata"
LORD_HOWE, CHATHAM = "Australia/Lord_Howe", "Pacific/Chatham"
ZONES = (NEW_YORK, BERLIN, KOLKATA, LORD_HOWE, CHATHAM, "America/Havana", "America/St_Johns", "UTC")


def ns(text: str) -> int:
    """Convert `2026-03-08 06:59` in UTC to ns."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


#: Zone, window, digest hour; when an entry was created and when its window ends, in UTC.
WORKED: list[tuple[str, Window, int, str, str]] = [
    # an ordinary day; an entry at the end of a window belongs to the next
    (NEW_YORK, "quarter", 17, "2026-01-15 14:07", "2026-01-15 14:15"),
    (NEW_YORK, "quarter", 17, "2026-01-15 14:15", "2026-01-15 14:30"),
    (NEW_YORK, "hour", 17, "2026-01-15 14:07", "2026-01-15 15:00"),
    (NEW_YORK, "day", 17, "2026-01-15 21:59", "2026-01-15 22:00"),  # 16:59 EST
    (NEW_YORK, "day", 17, "2026-01-15 22:00", "2026-01-16 22:00"),
    # India is 5 h 30 min ahead: its full hours are UTC's half-hours
    (KOLKATA, "quarter", 9, "2026-01-15 14:07", "2026-01-15 14:15"),
    (KOLKATA, "hour", 9, "2026-01-15 14:07", "2026-01-15 14:30"),
    (KOLKATA, "hour", 9, "2026-01-15 14:30", "2026-01-15 15:30"),
    (KOLKATA, "day", 9, "2026-01-15 03:29", "2026-01-15 03:30"),
    (KOLKATA, "day", 0, "2026-01-15 18:29", "2026-01-15 18:30"),
    # New York on 8 March 2026: 02:00 EST (07:00 UTC) becomes 03:00 EDT
    (NEW_YORK, "hour", 17, "2026-03-08 06:40", "2026-03-08 07:00"),
    (NEW_YORK, "hour", 17, "2026-03-08 07:00", "2026-03-08 08:00"),
    (NEW_YORK, "day", 2, "2026-03-08 06:40", "2026-03-08 07:00"),  # 02:00 does not exist
    (NEW_YORK, "day", 2, "2026-03-08 07:00", "2026-03-09 06:00"),
    (NEW_YORK, "day", 17, "2026-03-07 22:00", "2026-03-08 21:00"),  # 23 hours
    # New York on 1 November 2026: 02:00 EDT (06:00 UTC) becomes 01:00 EST
    (NEW_YORK, "day", 1, "2026-11-01 04:30", "2026-11-01 05:00"),  # 01:00 EDT, not 01:00 EST an hour later
    (NEW_YORK, "day", 1, "2026-11-01 05:00", "2026-11-02 06:00"),  # 25 hours
    (NEW_YORK, "day", 17, "2026-10-31 21:00", "2026-11-01 22:00"),
    (NEW_YORK, "quarter", 17, "2026-11-01 05:50", "2026-11-01 06:00"),
    (NEW_YORK, "hour", 17, "2026-11-01 05:50", "2026-11-01 06:00"),
    # Berlin on 29 March 2026: 02:00 CET (01:00 UTC) becomes 03:00 CEST
    (BERLIN, "day", 2, "2026-03-29 00:10", "2026-03-29 01:00"),
    (BERLIN, "day", 7, "2026-03-28 06:00", "2026-03-29 05:00"),
    (BERLIN, "quarter", 7, "2026-03-29 00:55", "2026-03-29 01:00"),
    # Berlin on 25 October 2026: 03:00 CEST (01:00 UTC) becomes 02:00 CET
    (BERLIN, "day", 2, "2026-10-24 23:10", "2026-10-25 00:00"),
    (BERLIN, "day", 2, "2026-10-25 00:30", "2026-10-26 01:00"),  # the second 02:00 sends no digest
    (BERLIN, "hour", 2, "2026-10-25 00:30", "2026-10-25 01:00"),
    # Lord Howe on 5 April 2026: 02:00 at 11 h ahead (4 April 15:00 UTC) becomes 01:30 at 10 h 30 min
    (LORD_HOWE, "hour", 7, "2026-04-04 14:10", "2026-04-04 15:00"),  # the clock is set back on the full hour
    (LORD_HOWE, "hour", 7, "2026-04-04 15:10", "2026-04-04 15:30"),  # 01:40, and 02:00 still follows
    (LORD_HOWE, "day", 2, "2026-04-04 14:10", "2026-04-04 15:30"),
    (LORD_HOWE, "day", 7, "2026-04-03 20:00", "2026-04-04 20:30"),  # 24 and a half hours
    # Lord Howe on 4 October 2026: 02:00 at 10 h 30 min ahead (3 October 15:30 UTC) becomes 02:30 at 11 h
    (LORD_HOWE, "hour", 7, "2026-10-03 15:20", "2026-10-03 15:30"),
    (LORD_HOWE, "hour", 7, "2026-10-03 15:30", "2026-10-03 16:00"),  # 02:30
    (LORD_HOWE, "day", 2, "2026-10-03 15:20", "2026-10-03 15:30"),
    # Chatham on 27 September 2026: 02:45 at 12 h 45 min ahead (26 September 14:00 UTC) becomes 03:45 at 13 h 45 min
    (CHATHAM, "day", 3, "2026-09-26 13:30", "2026-09-26 14:00"),  # the clock jumps over 03:00
    (CHATHAM, "day", 3, "2026-09-26 14:00", "2026-09-27 13:15"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "window", "hour", "since", "end"), WORKED)
def test_a_window_ends_in_the_readers_time_zone(
    zone: str, window: Window, hour: int, since: str, end: str
) -> None:
    found = datetime.fromtimestamp(window_end_ns(window, ns(since), zone, hour) // 10**9, UTC)
    assert found.strftime("%Y-%m-%d %H:%M") == end


@given(
    at_s=st.integers(ns("2024-01-01 00:00") // 10**9, ns("2030-01-01 00:00") // 10**9),
    nanos=st.integers(0, 10**9 - 1),
    zone=st.sampled_from(ZONES),
    hour=st.integers(0, 23),
)
@example(at_s=ns("2026-11-01 05:00") // 10**9, nanos=0, zone=NEW_YORK, hour=1)  # at most 25 hours
def test_a_window_always_ends_and_in_time(at_s: int, nanos: int, zone: str, hour: int) -> None:
    since_ns = at_s * 10**9 + nanos
    most: dict[Window, int] = {
        "quarter": 15 * NANOS_PER_MINUTE,
        "hour": NANOS_PER_HOUR,
        "day": 25 * NANOS_PER_HOUR,
    }
    for window, most_ns in most.items():
        assert 0 < window_end_ns(window, since_ns, zone, hour) - since_ns <= most_ns


@given(
    at_s=st.integers(ns("2024-01-01 00:00") // 10**9, ns("2030-01-01 00:00") // 10**9),
    zone=st.sampled_from(ZONES),
    hour=st.integers(0, 23),
)
def test_a_daily_digest_is_sent_at_its_hour_or_where_the_clock_jumped_over_it(
    at_s: int, zone: str, hour: int
) -> None:
    end = datetime.fromtimestamp(window_end_ns("day", at_s * 10**9, zone, hour) // 10**9, UTC)
    there = end.astimezone(ZoneInfo(zone))
    before = (end - timedelta(microseconds=1)).astimezone(ZoneInfo(zone))
    if (there.hour, there.minute, there.second) != (hour, 0, 0):
        assert there.utcoffset() != before.utcoffset()
        wanted = there.replace(hour=hour, minute=0, second=0, tzinfo=None)
        assert before.replace(tzinfo=None) < wanted < there.replace(tzinfo=None)


def test_an_unknown_time_zone_falls_back_to_utc() -> None:
    assert window_end_ns("day", ns("2026-01-15 14:07"), "Mars/Olympus", 17) == ns("2026-01-15 17:00")

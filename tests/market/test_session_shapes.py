"""Sessions of markets with other hours than CME's, worked by hand: breaks, several windows, midnight, weekends.

Hours are those that the exchanges publish for 2026, as far as a shape needs them. Hong Kong is UTC+8, Tokyo UTC+9,
India UTC+5:30 and Riyadh UTC+3 all year. Berlin is UTC+1 and London UTC+0 until 29 March 2026. New York is UTC-5 until
8 March and from 1 November 2026. Times in the tables below are local times of the market, unless they end in Z.
"""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Universe
from outcry.market.ladder import bracket_windows
from outcry.market.reference import PRODUCT_COLUMNS, parse_products
from outcry.market.reference_hours import DAY_COLUMNS, HOURS_COLUMNS, parse_days, parse_hours
from outcry.market.reference_rows import BadReference
from outcry.market.units import NANOS_PER_HOUR, NANOS_PER_MINUTE

RTH, ETH = SessionKind.RTH, SessionKind.ETH
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# root → zone, weekdays, trading hours, regular hours.
MARKETS = {
    "HSI": ("Asia/Hong_Kong", [("Mon-Fri", "^17:15-^03:00 09:15-12:00 13:00-16:30", "09:15-16:30")]),
    "NK225": ("Asia/Tokyo", [("Mon-Fri", "^17:00-^06:00 08:45-15:45", "08:45-15:45")]),
    "NIFTY": ("Asia/Kolkata", [("Mon-Fri", "09:15-15:30", "09:15-15:30")]),
    "FESX": ("Europe/Berlin", [("Mon-Fri", "01:10-22:00", "09:00-17:30")]),
    "BRN": (
        "Europe/London",
        [("Mon", "<23:00-23:00", "08:00-19:30"), ("Tue-Fri", "01:00-23:00", "08:00-19:30")],
    ),
    "BTC": ("UTC", [("Mon-Sun", "00:00-24:00", "00:00-24:00")]),
    "NYC": ("America/New_York", [("Mon-Sun", "00:00-24:00", "00:00-24:00")]),
    "EURUSD": ("America/New_York", [("Mon-Fri", "<17:00-17:00", "<17:00-17:00")]),
    "SAR": ("Asia/Riyadh", [("Sun-Thu", "10:00-15:00", "10:00-15:00")]),
    "LATE": ("America/Chicago", [("Mon-Fri", "19:00-02:00", "20:00-02:00")]),
    "SHORT": ("UTC", [("Mon-Fri", "08:00-09:00", "08:00-08:30")]),
    "ASIA": ("Asia/Singapore", [("Mon-Fri", "<20:00-<23:00 02:00-04:00 08:00-10:00", "08:00-10:00")]),
}  # fmt: skip

# date, group or root, kind, opens, closes. Hong Kong's Christmas of 2025, Japan's New Year of 2026.
HOLIDAYS = [
    ("2025-12-24", "HSI", "open", "", "12:00"), ("2025-12-25", "HSI", "closed", "", ""),
    ("2025-12-26", "HSI", "closed", "", ""), ("2025-12-29", "HSI", "open", "09:15", ""),
    ("2025-12-31", "ose", "closed", "", ""), ("2026-01-01", "ose", "closed", "", ""),
    ("2026-01-02", "ose", "closed", "", ""), ("2026-02-22", "SAR", "closed", "", ""),
    ("2026-01-17", "BTC", "closed", "", ""),
]  # fmt: skip


def table(header: str, rows: list[dict[str, str]]) -> str:
    common = {"source": "by hand", "checked_on": "2026-11-23"}
    columns = header.split(",")
    return "\n".join(
        [header, *(",".join((common | row).get(column, "") for column in columns) for row in rows)]
    )


def product(root: str, zone: str) -> dict[str, str]:
    return {
        "root": root, "name": root, "exchange": "OWN", "sector": "ose" if root == "NK225" else "own",
        "tick": "1", "multiplier": "1", "unit": "points", "months": "HMUZ", "zone": zone, "settle": "none",
        "expiry_rule": "third_friday", "notice_rule": "none", "roll_sessions": "1",
    }  # fmt: skip


def week(root: str, days: str, trading: str, regular: str) -> dict[str, str]:
    return {"roots": root, "days": days, "valid_from": "2020-01-01", "globex": trading, "rth": regular}


def made(
    markets: dict[str, tuple[str, list[tuple[str, str, str]]]], holidays: list[tuple[str, ...]]
) -> Calendar:
    products = parse_products(
        table(PRODUCT_COLUMNS, [product(root, zone) for root, (zone, _) in markets.items()])
    )
    rows = [week(root, *row) for root, (_, weeks) in markets.items() for row in weeks]
    hours = parse_hours(table(HOURS_COLUMNS, rows), products)
    days = [
        {"date": day, "name": "a day", "applies_to": name, "day": kind, "opens": opens, "closes": closes}
        for day, name, kind, opens, closes in holidays
    ]
    return Calendar(products, hours, parse_days(table(DAY_COLUMNS, days), products, hours))


CALENDAR = made(MARKETS, HOLIDAYS)


def ns(text: str, zone: str = "UTC") -> int:
    at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=ZoneInfo(zone))
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


def segments(root: str, day: str, kind: SessionKind) -> str:
    """Return the segments of a session in local time, `01-05 09:15 to 12:00, 01-05 13:00 to 16:30`."""
    session, zone = CALENDAR.session(root, date.fromisoformat(day), kind), CALENDAR.hours.zone(root)
    times = [
        tuple((EPOCH + timedelta(microseconds=at // 1000)).astimezone(zone) for at in segment)
        for segment in (session.segments if session else ())
    ]
    return ", ".join(f"{start:%m-%d %H:%M} to {end:%H:%M}" for start, end in times)


SESSIONS = """
# Monday; the night before it was Friday's, after the regular close.
HSI    2026-01-05 01-05 09:15 to 12:00, 01-05 13:00 to 16:30 | 01-02 17:15 to 03:00
HSI    2026-01-06 01-06 09:15 to 12:00, 01-06 13:00 to 16:30 | 01-05 17:15 to 03:00
# Christmas Eve closes at noon. No night follows it: the row of 29 December opens at 09:15.
HSI    2025-12-24 12-24 09:15 to 12:00 | 12-23 17:15 to 03:00
HSI    2025-12-25 |
HSI    2025-12-29 12-29 09:15 to 12:00, 12-29 13:00 to 16:30 |
NK225  2026-01-06 01-06 08:45 to 15:45 | 01-05 17:00 to 06:00
# The last night of 2025 follows 30 December and belongs to 5 January.
NK225  2026-01-05 01-05 08:45 to 15:45 | 12-30 17:00 to 06:00
NIFTY  2026-01-05 01-05 09:15 to 15:30 |
FESX   2026-01-05 01-05 09:00 to 17:30 | 01-02 17:30 to 22:00, 01-05 01:10 to 09:00
BRN    2026-01-05 01-05 08:00 to 19:30 | 01-02 19:30 to 23:00, 01-04 23:00 to 08:00
BRN    2026-01-06 01-06 08:00 to 19:30 | 01-05 19:30 to 23:00, 01-06 01:00 to 08:00
# A Saturday, the last day of a year, and a Saturday that the table closes.
BTC    2026-01-03 01-03 00:00 to 00:00 |
BTC    2025-12-31 12-31 00:00 to 00:00 |
BTC    2026-01-17 |
# From Sunday; nothing on Saturday.
EURUSD 2026-01-05 01-04 17:00 to 17:00 |
EURUSD 2026-01-03 |
# A Sunday, a Friday, and a Sunday that the table closes.
SAR    2026-01-04 01-04 10:00 to 15:00 |
SAR    2026-01-02 |
SAR    2026-02-22 |
LATE   2025-12-31 12-31 20:00 to 02:00 | 12-31 19:00 to 20:00
# Half an hour is the usual length; only a cut to an hour or less cancels regular hours.
SHORT  2026-01-05 01-05 08:00 to 08:30 | 01-02 08:30 to 09:00
ASIA   2026-01-05 01-05 08:00 to 10:00 | 01-04 20:00 to 23:00, 01-05 02:00 to 04:00
"""
CASES = [line for line in SESSIONS.strip().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("case", CASES)
def test_sessions_of_a_trade_date(case: str) -> None:
    """A case is a root, a trade date, the segments of RTH, and those of ETH. The day is that of the start."""
    root, day, spans = case.split(maxsplit=2)
    regular, overnight = spans.split("|")
    assert segments(root, day, RTH) == regular.strip()
    assert segments(root, day, ETH) == overnight.strip()


@pytest.mark.parametrize(
    ("root", "day", "opens", "closes"),
    [
        ("HSI", "2026-01-06", "2026-01-06T01:15Z", "2026-01-06T08:30Z"),
        ("NK225", "2026-01-06", "2026-01-05T23:45Z", "2026-01-06T06:45Z"),  # opens on the UTC day before
        ("NIFTY", "2026-01-06", "2026-01-06T03:45Z", "2026-01-06T10:00Z"),
        ("FESX", "2026-03-27", "2026-03-27T08:00Z", "2026-03-27T16:30Z"),
        ("FESX", "2026-03-30", "2026-03-30T07:00Z", "2026-03-30T15:30Z"),  # after the change of clocks
        ("BRN", "2026-03-27", "2026-03-27T08:00Z", "2026-03-27T19:30Z"),
        ("BRN", "2026-03-30", "2026-03-30T07:00Z", "2026-03-30T18:30Z"),
        ("EURUSD", "2026-03-06", "2026-03-05T22:00Z", "2026-03-06T22:00Z"),
        ("EURUSD", "2026-03-09", "2026-03-08T21:00Z", "2026-03-09T21:00Z"),
        ("NYC", "2026-03-08", "2026-03-08T05:00Z", "2026-03-09T04:00Z"),  # 23 hours
        ("NYC", "2026-11-01", "2026-11-01T04:00Z", "2026-11-02T05:00Z"),  # 25 hours
    ],
)
def test_regular_hours_in_utc(root: str, day: str, opens: str, closes: str) -> None:
    session = CALENDAR.session(root, date.fromisoformat(day), RTH)
    assert session is not None
    assert (session.open_ns, session.close_ns) == (ns(opens), ns(closes))


@pytest.mark.parametrize(
    ("root", "at", "trade_date", "kind"),
    [
        ("HSI", "2026-01-06T12:30", None, None),  # the lunch break
        ("HSI", "2026-01-09T23:00", "2026-01-12", ETH),  # Friday night belongs to Monday
        ("HSI", "2026-01-10T02:59", "2026-01-12", ETH),
        ("HSI", "2026-01-10T03:00", None, None),
        ("NK225", "2025-12-30T20:00", "2026-01-05", ETH),
        ("NYC", "2025-12-31T19:30", "2025-12-31", RTH),  # 2026-01-01 in UTC
        ("NYC", "2026-01-01T00:00", "2026-01-01", RTH),
        ("LATE", "2026-01-01T01:59", "2025-12-31", RTH),
        ("LATE", "2026-01-01T02:00", None, None),
        ("BTC", "2026-01-04T00:00", "2026-01-04", RTH),
        ("EURUSD", "2026-01-02T17:00", None, None),
    ],
)
def test_trade_dates_of_timestamps(
    root: str, at: str, trade_date: str | None, kind: SessionKind | None
) -> None:
    at_ns = ns(at, MARKETS[root][0])
    found, session = CALENDAR.trade_date_at(root, at_ns), CALENDAR.session_at(root, at_ns)
    assert (found and str(found), session and session.kind) == (trade_date, kind)
    assert session is None or str(session.trade_date) == trade_date


def test_brackets_start_again_after_a_break() -> None:
    """Hong Kong: A to F from 09:15, the sixth only 15 minutes long; G to M from 13:00 to 16:30."""
    session = CALENDAR.session("HSI", date(2026, 1, 6), RTH)
    assert session is not None
    brackets = bracket_windows(session.segments, 30)
    lengths = [(end - start) // NANOS_PER_MINUTE for start, end in brackets]
    assert lengths == [30, 30, 30, 30, 30, 15, 30, 30, 30, 30, 30, 30, 30]
    assert brackets[5][1] == ns("2026-01-06T04:00Z")
    assert brackets[6][0] == ns("2026-01-06T05:00Z")


def test_a_shortened_session_is_marked() -> None:
    for day, short in (("2025-12-24", True), ("2025-12-29", False)):
        session = CALENDAR.session("HSI", date.fromisoformat(day), RTH)
        assert session is not None
        assert session.short is short


def test_expiry_counts_business_days_of_the_products_own_week() -> None:
    """Friday 19 June 2026 is the third Friday, and no business day in Riyadh: Thursday is the last trading day."""
    products = {"SAR": CALENDAR.hours}
    universe = Universe(
        parse_products(table(PRODUCT_COLUMNS, [product(root, MARKETS[root][0]) for root in products])),
        CALENDAR.hours.is_business_day,
    )
    assert universe.expiry(universe.contract("SARM2026")) == date(2026, 6, 18)
    assert [CALENDAR.hours.is_business_day("SAR", date(2026, 1, day)) for day in (2, 3, 4)] == [
        False,
        False,
        True,
    ]


def test_holidays_warn_a_year_before_they_end() -> None:
    """`ose` lists 2025 and 2026. HSI lists 2025 alone and has no group with holidays. BTC and SAR: 2026."""
    hours = CALENDAR.hours
    assert hours.known_years("NK225") == range(2025, 2027)
    assert hours.known_years("NIFTY") == range(0)
    assert hours.holidays_ending(date(2025, 12, 31)) == {"HSI": date(2025, 12, 31)}
    ends_2026 = dict.fromkeys(("ose", "SAR", "BTC"), date(2026, 12, 31))
    assert hours.holidays_ending(date(2026, 1, 1)) == {"HSI": date(2025, 12, 31)} | ends_2026


DAYS = st.sampled_from(["Mon-Fri", "Mon-Sun", "Sun-Thu", "Sat", "Wed", "Fri-Mon"])
ZONES = st.sampled_from(
    ["UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]
)


def window(start: int, end: int, mark: str) -> str:
    """Write a window. start, end: minutes from midnight of the trade date; `mark` replaces the day before it."""
    before = mark if start < 0 else ""
    end_mark = before if end <= 0 else ""
    written = "24:00" if end in {0, 1440} and end_mark == before else f"{end % 1440 // 60:02}:{end % 60:02}"
    return f"{before}{start % 1440 // 60:02}:{start % 60:02}-{end_mark}{written}"


@st.composite
def weeks(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw weekdays, one to three windows in at most 24 hours, and regular hours between two of their times."""
    base = draw(st.integers(-96, 92))
    edges = sorted(draw(st.sets(st.integers(base, base + 96), min_size=2, max_size=6)))
    spans = [(a * 15, b * 15) for a, b in zip(edges[::2], edges[1::2], strict=False)]
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(spans) - 1)] * 2)))
    opened = draw(st.integers(spans[first][0], spans[first][1] - 1))
    closed = draw(st.integers(max(opened, spans[last][0]) + 1, spans[last][1]))
    mark = draw(st.sampled_from("<^"))
    return draw(DAYS), " ".join(window(*span, mark) for span in spans), window(opened, closed, mark)


def assert_partitioned(calendar: Calendar, root: str, first: date, last: date) -> None:
    """Segments of trade dates and sessions are ascending, disjoint and not empty; sessions cover only trading."""
    days, sessions = calendar.trading_days(root, first, last), calendar.sessions(root, first, last)
    trading = [segment for day in days for segment in day.segments]
    covered = [segment for session in sessions for segment in session.segments]
    for spans in (trading, covered):
        assert all(start < end for start, end in spans)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    for session in sessions:
        for start, end in session.segments:
            assert calendar.session_at(root, start) == session == calendar.session_at(root, end - 1)
            assert calendar.trade_date_at(root, start) is not None
    for day in days:
        for start, end in day.segments:
            assert (
                calendar.trade_date_at(root, start) == day.trade_date == calendar.trade_date_at(root, end - 1)
            )
            if sessions and sessions[0].open_ns <= start < sessions[-1].close_ns:
                assert calendar.session_at(root, start) is not None


@pytest.mark.parametrize("root", MARKETS)
@pytest.mark.parametrize("year", [2025, 2026])
def test_sessions_partition_the_trading_of_each_market(root: str, year: int) -> None:
    assert_partitioned(CALENDAR, root, date(year, 1, 1), date(year, 12, 31))


@settings(deadline=None, max_examples=200)
@given(ZONES, st.lists(weeks(), min_size=1, max_size=2), st.dates(date(2025, 1, 1), date(2026, 12, 31)))
def test_accepted_hours_always_partition_time(zone: str, rows: list[tuple[str, str, str]], day: date) -> None:
    """Whatever hours a table has, either it is refused, or its sessions and trade dates are ordered and disjoint."""
    try:
        calendar = made({"ONE": (zone, rows)}, [])
    except BadReference:
        return
    assert_partitioned(calendar, "ONE", day, day + timedelta(days=40))
    trading = calendar.trading_days("ONE", day, day + timedelta(days=40))
    assert len(trading) >= 5  # every week has a trade date


def test_trade_dates_that_overlap_are_refused() -> None:
    """Monday lasts until Tuesday 02:00; Tuesday starts on Monday at 23:00."""
    weeks = [("Mon", "19:00-02:00", "19:00-02:00"), ("Tue-Fri", "<23:00-17:00", "09:00-17:00")]
    with pytest.raises(BadReference, match="before the trading of the previous trade date ends") as refusal:
        made({"ONE": ("UTC", weeks)}, [])
    assert (refusal.value.row, refusal.value.column) == (3, "globex")
    # The trade date before Monday is Friday, so that Monday may last through the weekend.
    made(
        {
            "ONE": (
                "UTC",
                [("Mon", "^17:00-17:00", "09:00-17:00"), ("Tue-Fri", "<17:00-17:00", "09:00-17:00")],
            )
        },
        [],
    )


def test_an_hour_of_a_break_is_no_part_of_a_session() -> None:
    """HSI trades 2:45 and 3:30 hours a day, so 6:15 hours of regular hours."""
    session = CALENDAR.session("HSI", date(2026, 1, 6), RTH)
    assert session is not None
    assert sum(end - start for start, end in session.segments) == 25 * NANOS_PER_HOUR // 4

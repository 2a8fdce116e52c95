"""Sessions compared with expectations worked by hand from the table of rules §3.3 and the time zones' rules.

New York is UTC-5 in winter and UTC-4 in summer; Chicago is one hour behind it. Times in tables are local times of the
product (New York; Chicago for grains and livestock) unless they end in Z.
"""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.market.calendar import Calendar, Session, SessionKind, TradingDay
from outcry.trades.reference_tables import load_reference

CALENDAR = load_reference().calendar
RTH, ETH = SessionKind.RTH, SessionKind.ETH
NEW_YORK, CHICAGO = ZoneInfo("America/New_York"), ZoneInfo("America/Chicago")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FULL_SIZE = [
    *("ES", "NQ", "RTY", "YM", "CL", "NG", "RB", "HO", "GC", "SI", "HG", "PL", "ZB", "ZN", "ZF", "ZT"),
    *("ZC", "ZW", "ZS", "ZL", "ZM", "LE", "HE", "GF", "6E", "6S", "6B", "6A", "6C", "6J", "BTC", "ETH"),
]


def ns(text: str, zone: ZoneInfo = NEW_YORK) -> int:
    """Convert a local time such as `2025-11-28 13:15` to ns; UTC if it ends in Z."""
    at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC if text.endswith("Z") else zone)
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


def clock(at_ns: int, zone: ZoneInfo) -> str:
    return (EPOCH + timedelta(microseconds=at_ns // 1000)).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def on(text: str) -> date:
    return date.fromisoformat(text)


# Regular hours on special days and their ends by rules §3.3 (Chicago for ZC and LE).
SPECIAL_DAYS = {
    # Thanksgiving: half-day for all products that trade; grains and livestock are closed.
    "2025-11-27": dict.fromkeys(FULL_SIZE),
    "2026-11-26": dict.fromkeys(FULL_SIZE),
    # The day after. Index and rates 13:15; energy and metals close 14:45 (LEAN), later than their regular
    # hours end; currencies and crypto 14:45 (13:45 Chicago); grains and livestock 12:05 Chicago (13:05 New
    # York).
    "2025-11-28": {
        "ES": "13:15", "YM": "13:15", "ZN": "13:15", "ZT": "13:15", "CL": "14:30", "NG": "14:30",
        "GC": "13:30",
        "SI": "13:25", "HG": "13:00", "PL": "13:05", "6E": "14:45", "6J": "14:45", "BTC": "14:45",
        "ZC": "12:05",
        "ZM": "12:05", "LE": "12:05", "GF": "12:05",
    },
    "2026-11-27": {
        "ES": "13:15", "NQ": "13:15", "ZB": "13:15", "CL": "14:30", "HO": "14:30", "GC": "13:30",
        "SI": "13:25",
        "6E": "14:45", "6C": "14:45", "ETH": "14:45", "ZC": "12:05", "ZS": "12:05", "LE": "12:05",
        "HE": "12:05",
    },
    # Juneteenth: closes 13:00 everywhere, grains and livestock closed; a US holiday without regular hours for any
    # product.
    "2026-06-19": dict.fromkeys(FULL_SIZE),
    # Christmas Eve: energy, metals and currencies close 13:45, before the regular hours of CL end but after
    # gold's.
    "2025-12-24": {
        "ES": "13:15", "RTY": "13:15", "ZF": "13:15", "CL": "13:45", "RB": "13:45", "GC": "13:30",
        "6E": "13:45",
        "BTC": "13:45", "ZC": "12:05", "ZW": "12:05", "LE": "12:15",
    },
    # Carter's funeral: equities to 08:30 Chicago, before their regular hours; rates and agriculture to 12:15
    # Chicago.
    "2025-01-09": {
        "ES": None, "NQ": None, "RTY": None, "YM": None, "ZN": "13:15", "ZB": "13:15", "ZC": "12:15",
        "LE": "12:15",
        "CL": "14:30", "GC": "13:30", "6E": "15:00", "BTC": "16:00",
    },
    # Good Friday 2026: index closes 09:15, before it opens; energy, metals, agriculture closed; rates and
    # currencies trade until 11:15 for the employment report.
    "2026-04-03": {
        "ES": None, "YM": None, "CL": None, "GC": None, "ZC": None, "LE": None, "BTC": None, "ZN": "11:15",
        "6E": "11:15",
    },
    # Good Friday 2025, 2024: no report, all closed.
    "2025-04-18": dict.fromkeys(FULL_SIZE),
    "2024-03-29": dict.fromkeys(FULL_SIZE),
    # Other holidays of the years with real recordings.
    "2013-11-28": dict.fromkeys(FULL_SIZE[:-2]),
    "2013-12-25": dict.fromkeys(FULL_SIZE),
    "2024-01-01": dict.fromkeys(FULL_SIZE),
    "2024-01-15": dict.fromkeys(FULL_SIZE),
    "2024-07-04": dict.fromkeys(FULL_SIZE),
    "2026-07-03": dict.fromkeys(FULL_SIZE),
    # The grains reopen on 2 January 2024 (another project's table has them closed by mistake).
    "2024-01-02": {"ES": "16:15", "ZC": "13:20", "LE": "13:05", "6E": "15:00"},
    "2024-07-03": {"ES": "13:15", "ZC": "12:05", "CL": "14:30", "ZN": "15:00"},
    # Columbus and Veterans Day are bank holidays only.
    "2013-10-14": {"ES": "16:15", "ZN": "15:00", "6E": "15:00", "CL": "14:30", "ZC": "13:15"},
    "2025-11-11": {"ES": "16:15", "ZN": "15:00", "6E": "15:00", "CL": "14:30", "ZC": "13:20"},
}  # fmt: skip

CASES = [(day, root, end) for day, ends in SPECIAL_DAYS.items() for root, end in ends.items()]


@pytest.mark.parametrize(("day", "root", "end"), CASES)
def test_regular_hours_of_special_days(day: str, root: str, end: str | None) -> None:
    session = CALENDAR.session(root, on(day), RTH)
    zone = CALENDAR.hours.zone(root)
    assert (session and clock(session.close_ns, zone)) == (end and f"{day} {end}")


# root → regular hours of an ordinary day in local time (rules §3.2; the table's New York times for the grains and
# livestock, 09:30–14:20 and 09:30–14:05, are 08:30–13:20 and 08:30–13:05 in Chicago).
REGULAR_HOURS = {
    "09:30-16:15": "ES NQ RTY YM MES MNQ M2K MYM",
    "09:00-14:30": "CL NG RB HO MCL MNG",
    "08:20-13:30": "GC MGC",
    "08:25-13:25": "SI SIL",
    "08:10-13:00": "HG MHG",
    "08:20-13:05": "PL",
    "08:20-15:00": "ZB ZN ZF ZT 6E 6S 6B 6A 6C 6J M6E M6B M6A MJY",
    "08:30-13:20": "ZC ZW ZS ZL ZM",
    "08:30-13:05": "LE HE GF",
    "09:30-16:00": "BTC ETH MBT MET",
}


@pytest.mark.parametrize(
    ("hours", "root"), [(h, r) for h, roots in REGULAR_HOURS.items() for r in roots.split()]
)
def test_regular_hours_of_an_ordinary_day(hours: str, root: str) -> None:
    session = CALENDAR.session(root, date(2024, 5, 14), RTH)
    assert session is not None
    zone = CALENDAR.hours.zone(root)
    start, end = (clock(at, zone).removeprefix("2024-05-14 ") for at in (session.open_ns, session.close_ns))
    assert (f"{start}-{end}", session.short, session.root) == (hours, False, root)


@pytest.mark.parametrize(
    ("root", "day", "short"),
    [
        ("ES", "2025-11-28", True),
        ("CL", "2025-11-28", False),  # the market closes early, but after the regular hours
        ("GC", "2025-12-24", False),
        ("CL", "2025-12-24", True),
        ("ES", "2025-12-23", False),
        ("ZC", "2026-11-27", True),
    ],
)
def test_short_marks_sessions_with_an_early_close(root: str, day: str, short: bool) -> None:
    session = CALENDAR.session(root, on(day), RTH)
    assert session is not None
    assert session.short is short


# Sessions around changes of daylight saving time, in UTC. 2013-11-03, 2024-03-10 and 2025-03-09 are Sundays.
DAYLIGHT = [
    # ES, autumn 2013: 09:30–16:15 is 13:30–20:15Z in summer, 14:30–21:15Z in winter.
    ("ES", "2013-11-01", RTH, ["2013-11-01 13:30Z", "2013-11-01 20:15Z"]),
    ("ES", "2013-11-04", RTH, ["2013-11-04 14:30Z", "2013-11-04 21:15Z"]),
    # its overnight: Friday 16:30–17:15 in summer time, then Sunday 18:00 in winter time.
    ("ES", "2013-11-04", ETH,
     ["2013-11-01 20:30Z", "2013-11-01 21:15Z", "2013-11-03 23:00Z", "2013-11-04 14:30Z"]),
    # ES, spring 2024: Friday 16:15–17:00 in winter time, Sunday 18:00 in summer time.
    ("ES", "2024-03-08", RTH, ["2024-03-08 14:30Z", "2024-03-08 21:15Z"]),
    ("ES", "2024-03-11", ETH,
     ["2024-03-08 21:15Z", "2024-03-08 22:00Z", "2024-03-10 22:00Z", "2024-03-11 13:30Z"]),
    ("ES", "2024-03-11", RTH, ["2024-03-11 13:30Z", "2024-03-11 20:15Z"]),
    # CL, spring 2025, New York: 09:00–14:30.
    ("CL", "2025-03-07", RTH, ["2025-03-07 14:00Z", "2025-03-07 19:30Z"]),
    ("CL", "2025-03-10", RTH, ["2025-03-10 13:00Z", "2025-03-10 18:30Z"]),
    # Corn, Chicago: 08:30–13:20, overnight 19:00–07:45.
    ("ZC", "2025-03-07", RTH, ["2025-03-07 14:30Z", "2025-03-07 19:20Z"]),
    ("ZC", "2025-03-07", ETH, ["2025-03-07 01:00Z", "2025-03-07 13:45Z"]),
    ("ZC", "2025-03-10", ETH, ["2025-03-10 00:00Z", "2025-03-10 12:45Z"]),
    ("ZC", "2025-03-10", RTH, ["2025-03-10 13:30Z", "2025-03-10 18:20Z"]),
    ("ZC", "2013-11-04", ETH, ["2013-11-04 01:00Z", "2013-11-04 13:45Z"]),
    ("LE", "2024-03-11", RTH, ["2024-03-11 13:30Z", "2024-03-11 18:05Z"]),
    # The weeks in which Europe has changed its clocks and the United States have not.
    ("6E", "2024-03-27", RTH, ["2024-03-27 12:20Z", "2024-03-27 19:00Z"]),
    ("6E", "2024-10-29", RTH, ["2024-10-29 12:20Z", "2024-10-29 19:00Z"]),
]  # fmt: skip


@pytest.mark.parametrize(("root", "day", "kind", "edges"), DAYLIGHT)
def test_sessions_around_changes_of_daylight_saving_time(
    root: str, day: str, kind: SessionKind, edges: list[str]
) -> None:
    session = CALENDAR.session(root, on(day), kind)
    assert session is not None
    assert [clock(at, ZoneInfo("UTC")) + "Z" for segment in session.segments for at in segment] == edges


# Regular hours before and after a change by the exchange, in local time of the product.
CHANGES = [
    ("ZC", "2012-05-18", "09:30", "13:15"),
    ("ZC", "2012-05-21", "09:30", "14:00"),
    ("ZC", "2013-04-05", "09:30", "14:00"),
    ("ZC", "2013-04-08", "08:30", "13:15"),
    ("ZS", "2015-07-01", "08:30", "13:15"),
    ("ZS", "2015-07-06", "08:30", "13:20"),
    ("LE", "2016-02-26", "09:05", "13:00"),
    ("LE", "2016-02-29", "08:30", "13:05"),
]


@pytest.mark.parametrize(("root", "day", "start", "end"), CHANGES)
def test_regular_hours_change_on_their_date(root: str, day: str, start: str, end: str) -> None:
    session = CALENDAR.session(root, on(day), RTH)
    assert session is not None
    edges = [clock(at, CHICAGO) for at in (session.open_ns, session.close_ns)]
    assert edges == [f"{day} {start}", f"{day} {end}"]


# The overnight session after a holiday includes the holiday's half-session. Local time of the product.
HOLIDAY_OVERNIGHTS = [
    # Wednesday after the close, Wednesday evening to Thursday 13:00, Thursday evening to Friday's open.
    ("ES", "2025-11-28",
     ["2025-11-26 16:15", "2025-11-26 17:00", "2025-11-26 18:00", "2025-11-27 13:00", "2025-11-27 18:00",
      "2025-11-28 09:30"]),
    ("CL", "2025-11-28",
     ["2025-11-26 14:30", "2025-11-26 17:00", "2025-11-26 18:00", "2025-11-27 14:30", "2025-11-27 18:00",
      "2025-11-28 09:00"]),
    ("6E", "2025-11-28",
     ["2025-11-26 15:00", "2025-11-26 17:00", "2025-11-26 18:00", "2025-11-27 17:00", "2025-11-27 18:00",
      "2025-11-28 08:20"]),
    # Martin Luther King Day: Friday's hour, Sunday evening to Monday 13:00, Monday evening to Tuesday's open.
    ("NQ", "2024-01-16",
     ["2024-01-12 16:15", "2024-01-12 17:00", "2024-01-14 18:00", "2024-01-15 13:00", "2024-01-15 18:00",
      "2024-01-16 09:30"]),
    # Good Friday 2026: Thursday's hour, Thursday evening to Friday 09:15, Sunday evening.
    ("ES", "2026-04-06",
     ["2026-04-02 16:15", "2026-04-02 17:00", "2026-04-02 18:00", "2026-04-03 09:15", "2026-04-05 18:00",
      "2026-04-06 09:30"]),
    # Carter: Wednesday's hour, the evening to Thursday 09:30, Thursday evening to Friday.
    ("ES", "2025-01-10",
     ["2025-01-08 16:15", "2025-01-08 17:00", "2025-01-08 18:00", "2025-01-09 09:30", "2025-01-09 18:00",
      "2025-01-10 09:30"]),
    # Juneteenth 2026, a Friday: to 13:00, then Sunday evening.
    ("GC", "2026-06-22",
     ["2026-06-18 13:30", "2026-06-18 17:00", "2026-06-18 18:00", "2026-06-19 13:00", "2026-06-21 18:00",
      "2026-06-22 08:20"]),
    # Christmas: nothing between the eve's early close and the evening of the 25th.
    ("CL", "2025-12-26", ["2025-12-25 18:00", "2025-12-26 09:00"]),
    ("GC", "2025-12-26", ["2025-12-24 13:30", "2025-12-24 13:45", "2025-12-25 18:00", "2025-12-26 08:20"]),
    # Grains after a Monday holiday: nothing on Sunday evening, Monday evening as usual (Chicago).
    ("ZC", "2024-01-16", ["2024-01-15 19:00", "2024-01-16 07:45"]),
    # Products that trade around the clock have no break: one segment from the previous close to the open.
    ("BTC", "2026-06-10", ["2026-06-09 16:00", "2026-06-10 09:30"]),
    ("ETH", "2026-09-08", ["2026-09-04 16:00", "2026-09-08 09:30"]),
    # The year's first: over New Year from 2024 to 2025.
    ("ES", "2025-01-02",
     ["2024-12-31 16:15", "2024-12-31 17:00", "2025-01-01 18:00", "2025-01-02 09:30"]),
]  # fmt: skip


@pytest.mark.parametrize(("root", "day", "edges"), HOLIDAY_OVERNIGHTS)
def test_overnight_segments(root: str, day: str, edges: list[str]) -> None:
    session = CALENDAR.session(root, on(day), ETH)
    assert session is not None
    zone = CALENDAR.hours.zone(root)
    assert [clock(at, zone) for segment in session.segments for at in segment] == edges


@pytest.mark.parametrize(
    ("root", "day"),
    [
        ("ZC", "2025-11-28"),  # grains reopen on the morning after Thanksgiving
        ("ZS", "2026-11-27"),
        ("ZW", "2026-01-02"),
        ("LE", "2024-05-14"),  # livestock trade in regular hours only
    ],
)
def test_a_day_may_have_regular_hours_and_no_overnight(root: str, day: str) -> None:
    assert CALENDAR.session(root, on(day), ETH) is None
    assert CALENDAR.session(root, on(day), RTH) is not None


# timestamp (New York) → kind and trade date of the session, and the exchange's trade date.
INSTANTS = [
    ("ES", "2024-01-07 17:59:59", None, None, None),  # Sunday before the open
    ("ES", "2024-01-07 18:00", ETH, "2024-01-08", "2024-01-08"),  # Sunday evening is Monday's
    ("ES", "2024-01-08 09:29:59", ETH, "2024-01-08", "2024-01-08"),
    ("ES", "2024-01-08 09:30", RTH, "2024-01-08", "2024-01-08"),
    ("ES", "2024-01-08 16:14:59", RTH, "2024-01-08", "2024-01-08"),
    (
        "ES",
        "2024-01-08 16:15",
        ETH,
        "2024-01-09",
        "2024-01-08",
    ),  # after the close: next session, same trade date
    ("ES", "2024-01-08 16:59:59", ETH, "2024-01-09", "2024-01-08"),
    ("ES", "2024-01-08 17:00", None, None, None),  # maintenance
    ("ES", "2024-01-08 17:59:59", None, None, None),
    ("ES", "2024-01-08 18:00", ETH, "2024-01-09", "2024-01-09"),
    ("ES", "2024-01-12 16:59", ETH, "2024-01-16", "2024-01-12"),  # Friday before Martin Luther King Day
    ("ES", "2024-01-13 12:00", None, None, None),  # Saturday
    ("ES", "2024-01-15 12:00", ETH, "2024-01-16", "2024-01-16"),  # the holiday's half-session is Tuesday's
    ("ES", "2024-01-15 13:00", None, None, None),
    ("CL", "2025-11-27 14:29", ETH, "2025-11-28", "2025-11-28"),
    ("CL", "2025-11-27 14:30", None, None, None),
    ("CL", "2025-11-28 14:44", ETH, "2025-12-01", "2025-11-28"),
    ("CL", "2025-11-28 14:45", None, None, None),
    ("ZC", "2025-11-27 12:00", None, None, None),
    ("ZC", "2024-01-08 08:46", None, None, None),  # between 07:45 and 08:30 Chicago
    ("ZC", "2024-01-08 09:30", RTH, "2024-01-08", "2024-01-08"),
    ("6E", "2024-01-01 18:00", ETH, "2024-01-02", "2024-01-02"),
    ("6E", "2024-01-01 17:59", None, None, None),
    ("ES", "2024-12-31 18:30", None, None, None),  # New Year's Eve
    ("ES", "2024-12-31 16:30", ETH, "2025-01-02", "2024-12-31"),
    # the halt after the regular hours, and the later close, of 2013
    ("ES", "2013-10-08 16:20", None, None, None),
    ("ES", "2013-10-08 16:30", ETH, "2013-10-09", "2013-10-08"),
    ("ES", "2013-10-08 17:14:59", ETH, "2013-10-09", "2013-10-08"),
    ("ES", "2013-10-08 17:15", None, None, None),
    ("GC", "2013-10-07 17:10", ETH, "2013-10-08", "2013-10-07"),
    # the last day with the halt (a Friday) and the first without; the last with the later close and the first
    # without
    ("ES", "2021-06-25 16:20", None, None, None),
    ("ES", "2021-06-28 16:20", ETH, "2021-06-29", "2021-06-28"),
    ("ES", "2015-09-18 17:10", ETH, "2015-09-21", "2015-09-18"),
    ("ES", "2015-09-21 17:10", None, None, None),
    ("CL", "2015-09-18 17:10", ETH, "2015-09-21", "2015-09-18"),
    ("CL", "2015-09-21 17:10", None, None, None),
    # corn: the long day until 2013-04-05 had no morning break (07:45 to 08:30 Chicago)
    ("ZC", "2013-04-05 09:00", ETH, "2013-04-05", "2013-04-05"),
    ("ZC", "2013-04-08 09:00", None, None, None),
    # crypto around the clock, as announced: the weekend belongs to Monday, a holiday to the next business day
    ("BTC", "2026-05-23 12:00", None, None, None),
    ("BTC", "2026-06-06 12:00", ETH, "2026-06-08", "2026-06-08"),
    ("BTC", "2026-09-07 12:00", ETH, "2026-09-08", "2026-09-08"),
    ("BTC", "2026-06-09 17:30", ETH, "2026-06-10", "2026-06-10"),
    ("MBT", "2026-06-09 12:00", RTH, "2026-06-09", "2026-06-09"),
]


@pytest.mark.parametrize(("root", "at", "kind", "of", "trade_date"), INSTANTS)
def test_session_and_trade_date_of_a_timestamp(
    root: str, at: str, kind: SessionKind | None, of: str | None, trade_date: str | None
) -> None:
    found = CALENDAR.session_at(root, ns(at))
    assert (found and found.kind) == kind
    assert (found and found.trade_date.isoformat()) == of
    day = CALENDAR.trade_date_at(root, ns(at))
    assert (day and day.isoformat()) == trade_date


def test_sessions_of_thanksgiving_week() -> None:
    """Check Monday to Monday, 24 November to 1 December 2025: no session on the 27th, a short one on the 28th."""
    found = CALENDAR.sessions("ES", date(2025, 11, 24), date(2025, 12, 1))
    assert [(s.trade_date.day, s.kind.value, s.short) for s in found] == [
        (24, "eth", False), (24, "rth", False), (25, "eth", False), (25, "rth", False), (26, "eth", False),
        (26, "rth", False), (28, "eth", False), (28, "rth", True), (1, "eth", False), (1, "rth", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("root", "year", "count"),
    [
        # NYSE trading days, counted by NYSE: 252 in 2013, 2014, 2015, 2016, 2019, 2024; 251 in 2017, 2018,
        # 2022; 253 in 2020; 250 in 2012 (two lost to a hurricane), 2023 and 2025; 252 in 2021; 251 in 2026.
        *[("ES", y, n) for y, n in {
            2012: 250, 2013: 252, 2014: 252, 2015: 252, 2016: 252, 2017: 251, 2018: 251, 2019: 252, 2020: 253,
            2021: 252, 2022: 251, 2023: 250, 2024: 252, 2025: 250, 2026: 251}.items()],
        # The exchange also trades on the NYSE's days of mourning: one more in 2018 and 2025, two more in 2012.
        ("CL", 2012, 252), ("CL", 2018, 252), ("CL", 2025, 251), ("ZC", 2025, 251), ("LE", 2018, 252),
        ("ZN", 2026, 252),  # includes Good Friday with the employment report
    ],
)  # fmt: skip
def test_regular_days_of_a_year(root: str, year: int, count: int) -> None:
    days = CALENDAR.sessions(root, date(year, 1, 1), date(year, 12, 31))
    assert sum(session.kind is RTH for session in days) == count


def test_variants_change_only_the_regular_hours() -> None:
    usual, cash = (CALENDAR.session("ES", date(2024, 5, 14), RTH, variant=v) for v in ("", "cash"))
    assert usual is not None
    assert cash is not None
    assert usual.close_ns - cash.close_ns == 15 * 60 * 10**9
    after = CALENDAR.session("ES", date(2024, 5, 15), ETH, variant="cash")
    assert after is not None
    assert after.open_ns == cash.close_ns
    short = CALENDAR.session("ES", date(2025, 11, 28), RTH, variant="cash")
    assert short is not None
    assert clock(short.close_ns, NEW_YORK) == "2025-11-28 13:15"
    assert CALENDAR.variants("MES") == ("", "cash")


def test_a_calendar_can_use_a_variant() -> None:
    calendar = load_reference(variants={"ES": "cash"}).calendar
    for root in ("ES", "MES"):
        session = calendar.session(root, date(2024, 5, 14), RTH)
        assert session is not None
        assert clock(session.close_ns, NEW_YORK) == "2024-05-14 16:00"
    assert calendar.session("NQ", date(2024, 5, 14), RTH) == CALENDAR.session("NQ", date(2024, 5, 14), RTH)


@pytest.mark.parametrize(
    ("name", "day", "expected"),
    [
        ("ES", "2026-06-19", False), ("MES", "2026-06-19", False), ("CL", "2025-01-09", True),
        ("ES", "2025-01-09", True), ("GC", "2025-11-28", True), ("ZN", "2025-11-27", False),
        ("ZC", "2025-10-13", True), ("ES", "2025-11-29", False), ("6E", "2024-12-31", True),
    ],
)  # fmt: skip
def test_business_days(name: str, day: str, expected: bool) -> None:
    assert CALENDAR.hours.is_business_day(name, on(day)) is expected


def test_trade_dates_of_a_span() -> None:
    """Friday 16:30 to Sunday 18:01 touches two trade dates; the weekend alone touches none."""
    touched = CALENDAR.trade_dates("ES", ns("2024-01-05 16:30"), ns("2024-01-07 18:01"))
    assert [day.trade_date for day in touched] == [date(2024, 1, 5), date(2024, 1, 8)]
    assert CALENDAR.trade_dates("ES", ns("2024-01-05 17:00"), ns("2024-01-07 18:00")) == ()
    edges = [clock(at, NEW_YORK) for segment in touched[0].segments for at in segment]
    assert edges == ["2024-01-04 18:00", "2024-01-05 17:00"]


def test_an_unknown_root_raises_key_error() -> None:
    with pytest.raises(KeyError):
        CALENDAR.session_at("XX", ns("2024-01-08 10:00"))


@pytest.mark.parametrize("at_ns", [-1, 0, 2**63 - 1, 2**63, -(2**70)])
def test_timestamps_outside_all_trading_have_no_session(at_ns: int) -> None:
    assert CALENDAR.session_at("BTC", at_ns) is None
    assert CALENDAR.trade_date_at("BTC", at_ns) is None
    assert CALENDAR.trade_dates("BTC", at_ns, at_ns + 1) == ()


def test_dates_before_the_tables_have_no_session() -> None:
    assert CALENDAR.sessions("ES", date.min, date(2010, 12, 31)) == ()
    assert CALENDAR.session("ES", date.min, RTH) is None
    assert CALENDAR.session("ES", date.max, RTH) is None
    assert CALENDAR.hours.known_years("ES") == CALENDAR.hours.known_years("MES") == range(2012, 2028)


def test_crypto_has_no_session_before_it_was_listed() -> None:
    assert CALENDAR.sessions("BTC", date(2012, 1, 1), date(2017, 12, 17)) == ()
    first = CALENDAR.sessions("BTC", date(2017, 12, 18), date(2017, 12, 18))
    assert clock(first[0].open_ns, NEW_YORK) == "2017-12-17 18:00"


roots = st.sampled_from([*FULL_SIZE, "MES", "MCL", "MGC", "M6E", "MBT"])
days = st.dates(date(2012, 1, 3), date(2027, 12, 20))


def _sessions_and_days(root: str, day: date) -> tuple[tuple[Session, ...], tuple[TradingDay, ...]]:
    last = day + timedelta(days=10)
    return CALENDAR.sessions(root, day, last), CALENDAR.trading_days(root, day, last)


@settings(deadline=None, max_examples=300)
@given(roots, days, st.data())
def test_sessions_and_trade_dates_partition_time(root: str, day: date, data: st.DataObject) -> None:
    """Check that sessions partition trading time.

    In any span, segments are ordered and disjoint. Each timestamp inside a segment finds its own session, the
    timestamps at the ends do not, and every timestamp in a trading window between the first and last session is in a
    session.
    """
    sessions, trading = _sessions_and_days(root, day)
    segments = [(start, end, s) for s in sessions for start, end in s.segments]
    for (_, end, _), (start, _, _) in pairwise(segments):
        assert end <= start
    for start, end, session in segments:
        at = data.draw(st.integers(start, end - 1))
        assert CALENDAR.session_at(root, at) == session
        assert CALENDAR.session_at(root, start) == session
        assert CALENDAR.session_at(root, end) != session
    windows = [(start, end, d) for d in trading for start, end in d.segments]
    for (_, end, _), (start, _, _) in pairwise(windows):
        assert end <= start
    for start, end, trade_day in windows:
        at = data.draw(st.integers(start, end - 1))
        assert CALENDAR.trade_date_at(root, at) == trade_day.trade_date
        assert CALENDAR.trade_date_at(root, start - 1) != trade_day.trade_date or start != trade_day.open_ns
        if sessions and sessions[0].open_ns <= at < sessions[-1].close_ns:
            assert CALENDAR.session_at(root, at) is not None


@settings(deadline=None, max_examples=200)
@given(roots, days)
def test_regular_hours_adjoin_the_overnight_session_on_both_sides(root: str, day: date) -> None:
    """Check regular and overnight hours of one trade date.

    The overnight ends at or before the start of regular hours and belongs to the same trade date. Regular hours are one
    window of more than an hour, within the trade date.
    """
    for session in CALENDAR.sessions(root, day, day):
        if session.kind is RTH:
            assert len(session.segments) == 1
            assert session.close_ns - session.open_ns > 3600 * 10**9
            assert CALENDAR.trade_date_at(root, session.open_ns) == day
            overnight = CALENDAR.session(root, day, ETH)
            assert overnight is None or overnight.close_ns <= session.open_ns
        else:
            assert not session.short


def test_sessions_do_not_depend_on_the_order_of_queries() -> None:
    """Years are computed on demand, so their order must not matter."""
    fresh: Calendar = load_reference().calendar
    later = fresh.sessions("CL", date(2026, 1, 1), date(2026, 2, 1))
    assert later == CALENDAR.sessions("CL", date(2025, 12, 1), date(2026, 2, 1))[-len(later) :]

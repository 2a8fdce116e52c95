"""Each trading window of a stored session is compared with the tables, not only open and close."""

from datetime import UTC, date, datetime

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.reference import parse_products
from outcry.market.reference_hours import parse_hours
from outcry.sessions.stored_hours import OutdatedSessions, StoredHours, outdated_sessions

PRODUCTS = """\
root,name,exchange,sector,parent,tick,multiplier,unit,months,serial,skipped,zone,settle,expiry_rule,notice_rule,\
roll_sessions,projectx,aliases,source,checked_on,note
NOON,Noon,X,noon,,1,1,points,,,,UTC,,,,,,,test,2026-11-23,
"""
HOURS = """\
roots,variant,days,valid_from,valid_to,globex,rth,source,checked_on,note
NOON,,Mon-Fri,2020-01-01,,09:00-12:00 13:00-16:00,09:00-16:00,test,2026-11-23,
"""
DAY = date(2026, 11, 19)


def calendar(hours: str = HOURS) -> Calendar:
    products = parse_products(PRODUCTS)
    return Calendar(products, parse_hours(hours, products), ())


def at(hour: int, minute: int = 0) -> int:
    return int(datetime(2026, 11, 19, hour, minute, tzinfo=UTC).timestamp()) * 10**9


def stored(*windows: tuple[int, int]) -> StoredHours:
    return StoredHours("NOON", DAY, SessionKind.RTH, at(9), at(16), windows)


WITH_BREAK = stored((at(9), at(12)), (at(13), at(16)))
OUTDATED = [OutdatedSessions("NOON", 1, DAY, DAY)]


def test_equal_windows_are_current() -> None:
    assert outdated_sessions([WITH_BREAK], {"NOON"}, calendar()) == []


def test_a_moved_break_is_found() -> None:
    moved = HOURS.replace("12:00 13:00", "12:20 13:00")
    assert outdated_sessions([WITH_BREAK], {"NOON"}, calendar(moved)) == OUTDATED


def test_a_removed_and_a_second_break_are_found() -> None:
    assert outdated_sessions([WITH_BREAK], {"NOON"}, calendar(HOURS.replace("12:00 13:00-", ""))) == OUTDATED
    third = HOURS.replace("13:00-16:00 ", "13:00-14:00 14:30-16:00 ").replace(
        "13:00-16:00,", "13:00-14:00 14:30-16:00,"
    )
    assert outdated_sessions([WITH_BREAK], {"NOON"}, calendar(third)) == OUTDATED


def test_of_a_session_of_an_earlier_version_open_and_close_are_compared() -> None:
    moved = HOURS.replace("12:00 13:00", "12:20 13:00")
    assert outdated_sessions([stored()], {"NOON"}, calendar(moved)) == []
    assert outdated_sessions([stored()], {"NOON"}, calendar(HOURS.replace("16:00", "15:30"))) == OUTDATED


def test_a_product_that_no_table_has_is_named() -> None:
    (found,) = outdated_sessions([WITH_BREAK], set(), calendar())
    assert (found.root, found.known) == ("NOON", False)

"""Completeness of a session: every gap is explained by the product's usual activity at that hour.

The rule, worked by hand: where a product trades in the share p of the minutes, a gap of n minutes has the probability
(1 − p)ⁿ; below e⁻¹⁵ it is a hole. With p = 0.95, the maximum, that is beyond 15 ÷ 2.996 = 5.007 minutes; with 0.9, 6.5;
with 0.3, 42.06; with 0.1, 142.4.
"""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pytest

from outcry.access.licences import Grant, Scope
from outcry.app.installation import Installation
from outcry.market.calendar import Session, SessionKind
from outcry.market.units import NANOS_PER_MINUTE
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.import_report import SessionReport
from outcry.sessions.completeness import (
    Usual,
    activity_of,
    has_no_gap,
    hole_text,
    traded_minutes,
    unexplained,
)
from outcry.sessions.store_model import SessionRow, Traded
from outcry.trades.reference_tables import load_reference

Write = Callable[..., Path]
Bar = tuple[str, str, str, str, str, int]

REFERENCE = load_reference()
ES, PL = (REFERENCE.universe.products[root] for root in ("ES", "PL"))
DAY = "20240702"  # a Tuesday; RTH 13:30 to 20:15 UTC, which is 09:30 to 16:15 in New York


def rth(day: date = date(2024, 7, 2), root: str = "ES") -> Session:
    found = REFERENCE.calendar.session(root, day, SessionKind.RTH)
    assert found is not None
    return found


def minutes_of(session: Session, *gaps: tuple[int, int], every: int = 1) -> np.ndarray:
    """Return the minutes with a trade: one in `every`, none in `gaps` (half-open, in minutes from the open)."""
    opened = session.open_ns // NANOS_PER_MINUTE
    length = (session.close_ns - session.open_ns) // NANOS_PER_MINUTE
    present = [n for n in range(0, length, every) if not any(first <= n < last for first, last in gaps)]
    return np.array([opened + n for n in present], dtype=np.int64)


def holes(
    session: Session, minutes: np.ndarray, *recorded: Traded, front: bool = True
) -> list[tuple[int, int]]:
    """Return the holes, in minutes from the open."""
    product = REFERENCE.universe.products[session.root]
    found = unexplained(minutes, session, product, Usual(product, session, recorded), front=front)
    return [
        ((first - session.open_ns) // NANOS_PER_MINUTE, (last - session.open_ns) // NANOS_PER_MINUTE)
        for first, last in found
    ]


def bar(minute: int) -> Bar:
    """Return a bar at a minute of the day (UTC); its price depends on the minute."""
    price = f"{5500 + minute % 7 * 0.25}"
    return f"{minute // 60:02d}:{minute % 60:02d}", price, price, price, price, 10


REGULAR = [bar(minute) for minute in range(13 * 60 + 30, 20 * 60 + 15)]
OUTSIDE = [bar(13 * 60), bar(20 * 60 + 16)]


def without(first: str, last: str) -> list[Bar]:
    return [line for line in REGULAR if not first <= line[0] < last]


def take(installation: Installation, path: Path) -> list[SessionReport]:
    return installation.importer.run(path, 0, ReadOptions(), installation.clock.now_ns()).sessions


def stored(installation: Installation) -> SessionRow:
    (row,) = [row for row in installation.store.sessions([0], "ES") if row.kind == "rth"]
    return row


def at(clock: str) -> int:
    when = datetime.strptime(f"{DAY} {clock}", "%Y%m%d %H:%M").replace(tzinfo=UTC)
    return int(when.timestamp()) * 10**9


def test_a_session_with_a_hole_within_one_file_is_incomplete(installation: Installation, bars: Write) -> None:
    """A day without 11:00 to 16:15 in New York, 90 of 405 bars, is not complete."""
    take(installation, bars(DAY, *OUTSIDE, *without("15:00", "20:15")))
    row = stored(installation)
    assert (row.rows, row.complete) == (90, False)
    assert row.holes == ((at("15:00"), at("20:15")),)


def test_completeness_does_not_depend_on_how_files_split_a_recording(
    installation: Installation, bars: Write
) -> None:
    """The same bars are imported in three files, and the last one fills the hole."""
    take(installation, bars(DAY, *[line for line in REGULAR if line[0] < "15:00"], folder="a"))
    take(installation, bars(DAY, *[line for line in REGULAR if line[0] >= "17:30"], *OUTSIDE, folder="b"))
    assert stored(installation).holes == ((at("15:00"), at("17:30")),)
    assert not stored(installation).complete
    take(installation, bars(DAY, *[line for line in REGULAR if "15:00" <= line[0] < "17:30"], folder="c"))
    assert (stored(installation).complete, stored(installation).holes) == (True, ())


def test_a_report_names_the_hole(installation: Installation, bars: Write) -> None:
    reports = take(installation, bars(DAY, *OUTSIDE, *without("16:00", "16:30")))
    (report,) = [one for one in reports if one.kind == "rth"]
    assert report.holes == ((at("16:00"), at("16:30")),)
    assert hole_text(report.holes[0], "America/New_York") == "2024-07-02 12:00 to 12:30 America/New_York"


def test_a_refold_evaluates_sessions_of_earlier_versions(installation: Installation, bars: Write) -> None:
    take(installation, bars(DAY, *OUTSIDE, *without("15:00", "20:15")))
    old = [
        replace(row, complete=True, holes=(), activity=()) for row in installation.store.sessions([0], "ES")
    ]
    installation.store.replace_sessions(0, "ESU2024", old)
    assert stored(installation).complete
    list(installation.importer.refold(installation.clock.now_ns()))
    assert (stored(installation).complete, stored(installation).holes) == (
        False,
        ((at("15:00"), at("20:15")),),
    )


@pytest.mark.parametrize(("length", "found"), [(6, []), (7, [(100, 107)]), (30, [(100, 130)])])
def test_a_liquid_product_explains_six_minutes_by_default(length: int, found: list[tuple[int, int]]) -> None:
    """ES in regular hours: nine of ten minutes, 6.5 minutes."""
    assert holes(rth(), minutes_of(rth(), (100, 100 + length))) == found


def test_the_edges_of_a_session_are_no_exception() -> None:
    assert holes(rth(), minutes_of(rth(), (0, 20), (395, 405))) == [(0, 20), (395, 405)]


def test_an_illiquid_product_explains_more() -> None:
    """Platinum by default: three minutes of ten, 42 minutes."""
    session = rth(root="PL")
    assert holes(session, minutes_of(session, (100, 140), every=2)) == []
    assert holes(session, minutes_of(session, (100, 150), every=2)) == [(99, 150)]


def test_a_quiet_day_of_the_front_explains_more() -> None:
    """One trade in five minutes is 0.2 ÷ 0.9 of the usual trade: p = 0.2 and 67 minutes."""
    assert holes(rth(), minutes_of(rth(), (100, 160), every=5)) == []
    assert holes(rth(), minutes_of(rth(), (100, 180), every=5)) == [(96, 180)]


def test_usual_activity_of_a_back_month() -> None:
    """One trade an hour: p = 1 ÷ 60 and 892 minutes, more than the length of a session.

    The front is never considered that quiet: at least 0.15 of the usual, p = 0.135 and 103 minutes."""
    minutes = minutes_of(rth(), (30, 150), every=60)
    assert holes(rth(), minutes, front=False) == []
    assert holes(rth(), minutes, front=True) == [(1, 180)]


def traded(day: date, minutes: np.ndarray, contract: str = "ESU2024", volume: int = 100) -> Traded:
    activity = activity_of(minutes, rth(day), ES.zone)
    return Traded(contract, day, SessionKind.RTH, volume, activity)


def test_a_gap_at_a_usually_quiet_time_is_no_hole() -> None:
    """Four Tuesdays have no trade from 12:00 to 13:00.

    That is none of 240 minutes, and 54 of the default's 60: p = 0.18, and 60 × 0.198 = 11.9 is less than 15."""
    before = [
        traded(date(2024, 6, day), minutes_of(rth(date(2024, 6, day)), (150, 210))) for day in (4, 11, 18, 25)
    ]
    lunch = minutes_of(rth(), (150, 210))
    assert holes(rth(), lunch) == [(150, 210)]
    assert holes(rth(), lunch, *before) == []
    assert holes(rth(), minutes_of(rth(), (60, 120)), *before) == [(60, 120)]


def test_usual_activity_depends_on_the_hour_of_the_week() -> None:
    """A gap that is usual on Mondays is a hole on a Tuesday."""
    mondays = [date(2024, 6, day) for day in (3, 10, 17, 24)]
    before = [traded(day, minutes_of(rth(day), (150, 210))) for day in mondays]
    assert holes(rth(), minutes_of(rth(), (150, 210)), *before) == [(150, 210)]


def test_only_the_busiest_contract_before_defines_usual_activity() -> None:
    """A back month that never trades at noon, and days after the session, explain no gap."""
    tuesdays = [date(2024, 6, day) for day in (4, 11, 18, 25)]
    full = [traded(day, minutes_of(rth(day))) for day in tuesdays]
    back = [traded(day, minutes_of(rth(day), (150, 210)), "ESZ2024", 1) for day in tuesdays]
    later = [
        traded(date(2024, 7, day), minutes_of(rth(date(2024, 7, day)), (150, 210))) for day in (9, 16, 23)
    ]
    assert holes(rth(), minutes_of(rth(), (150, 210)), *full, *back, *later) == [(150, 210)]


def test_activity_is_counted_in_the_products_time_zone() -> None:
    """Tuesday 09:30 to 16:15 in New York: hours 33 to 40 of the week; the first and last are halves and quarters."""
    found = activity_of(minutes_of(rth(), (30, 90)), rth(), ES.zone)
    assert found == ((33, 30, 30), (34, 0, 60), *((hour, 60, 60) for hour in range(35, 40)), (40, 15, 15))


def test_the_short_session_before_a_holiday_has_no_hole_after_its_close() -> None:
    """3 July 2024 ended at 13:15 in New York: 225 minutes."""
    session = rth(date(2024, 7, 3))
    assert session.short
    assert holes(session, minutes_of(session)) == []


def es_without(folder: Path, shared: Path, first_ms: int, last_ms: int) -> Path:
    """Return real ES minutes of four days, without the bars of 2013-10-09 between two times of the day (ms UTC)."""
    folder.mkdir()
    for path in sorted((shared / "data/lean/cme/minute/es").glob("*_trade.zip")):
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(folder / path.name, "w") as cut:
            for name in whole.namelist():
                lines = whole.read(name).decode().splitlines()
                if path.name.startswith("20131009"):
                    lines = [line for line in lines if not first_ms <= int(line.split(",")[0]) < last_ms]
                cut.writestr(name, "\n".join(lines) + "\n")
    return folder


def test_an_incomplete_day_contributes_no_levels(
    installation: Installation, shared: Path, tmp_path: Path
) -> None:
    """ES of 9 October 2013 without 11:00 to 16:15 in New York, which is 15:00 to 20:15 UTC.

    The day before stays the newest session, and no POC of the cut day is naked. Every other session of the files is
    complete."""
    hour = 3_600_000
    folder = es_without(tmp_path / "cut", shared, 15 * hour, 20 * hour + hour // 4)
    reports = [
        one for path in installation.importer.library.expand(folder) for one in take(installation, path)
    ]
    regular = {(one.contract, one.trade_date): one.complete for one in reports if one.kind == "rth"}
    assert regular == {
        ("ESZ2013", "2013-10-07"): True, ("ESH2014", "2013-10-07"): True, ("ESM2014", "2013-10-07"): True,
        ("ESZ2013", "2013-10-08"): True, ("ESH2014", "2013-10-08"): True, ("ESM2014", "2013-10-08"): True,
        ("ESZ2013", "2013-10-09"): False, ("ESH2014", "2013-10-09"): False,
    }  # fmt: skip
    scope = Scope(1, (Grant("everyone", "completed", (), None, None),))
    answer = installation.query.levels(scope, "ES", installation.clock.now_ns()).answer
    assert answer.as_of == "2013-10-08"
    assert "2013-10-09" not in {poc.date for poc in answer.naked_pocs}
    found = installation.query.context(scope, "ES", installation.clock.now_ns()).answer.completeness
    (missing,) = found.missing
    assert (missing.date, missing.recorded) == ("2013-10-09", True)
    assert [(hole.from_, hole.to) for hole in missing.holes] == [
        ("2013-10-09T15:00:00.000Z", "2013-10-09T20:15:00.000Z")
    ]
    assert "no gap longer than is usual for the product" in found.rule


def test_unrecorded_days_of_the_look_back_are_named(installation: Installation, bars: Write) -> None:
    """1 and 5 July 2024 are complete; the 2nd has a hole, the 3rd is missing, the 4th was a holiday."""
    take(installation, bars("20240701", *OUTSIDE, *REGULAR, folder="mon"))
    take(installation, bars(DAY, *OUTSIDE, *without("15:00", "20:15"), folder="tue"))
    take(installation, bars("20240705", *OUTSIDE, *REGULAR, folder="fri"))
    scope = Scope(1, (Grant("everyone", "completed", (), None, None),))
    answer = installation.query.context(scope, "ES", installation.clock.now_ns()).answer
    assert answer.as_of == "2024-07-05"
    assert [(one.date, one.recorded, len(one.holes)) for one in answer.completeness.missing] == [
        ("2024-07-02", True, 1),
        ("2024-07-03", False, 0),
    ]


def test_minutes_with_rows_are_named_once() -> None:
    minute = NANOS_PER_MINUTE
    times = np.array([7 * minute, 8 * minute - 1, 8 * minute, 8 * minute, 11 * minute + 5, 12 * minute - 1])
    assert traded_minutes(times).tolist() == [7, 8, 11]
    assert traded_minutes(times[:0]).tolist() == []


def test_a_session_too_dense_for_a_hole() -> None:
    """A hole has at least six minutes, in one hour, in two consecutive ones, or around an hour without trades."""
    assert has_no_gap(((10, 57, 60), (11, 58, 60), (12, 57, 60)))
    assert not has_no_gap(((10, 57, 60), (11, 57, 60)))
    assert not has_no_gap(((0, 57, 60), (167, 57, 60)))  # Sunday's last hour and Monday's first
    assert not has_no_gap(((10, 59, 60), (11, 0, 60), (12, 59, 60)))
    assert has_no_gap(())


@pytest.mark.parametrize(
    ("every", "length", "found"), [(1, 21, []), (1, 22, [(100, 122)]), (2, 50, []), (2, 52, [(99, 152)])]
)
def test_the_first_session_of_an_own_product_speaks_for_itself(
    every: int, length: int, found: list[tuple[int, int]]
) -> None:
    """Its default is one of ten minutes, in which 142 minutes are no hole.

    It trades in every minute, so p is at least half of 1: 15 ÷ 0.693 = 21.6 minutes; or in every second one, so p is at
    least 0.25: 15 ÷ 0.288 = 52.1. With every second minute, minute 99 has no trade either. Once an earlier session has
    the same hours, it decides, and there one trade an hour is usual.
    """
    product = replace(ES, activity=(10, 5, 2))
    session = rth()
    minutes = minutes_of(session, (100, 100 + length), every=every)

    def gaps(*recorded: Traded) -> list[tuple[int, int]]:
        spans = unexplained(minutes, session, product, Usual(product, session, recorded), front=True)
        return [tuple((at_ns - session.open_ns) // NANOS_PER_MINUTE for at_ns in span) for span in spans]

    assert gaps() == found
    thin = tuple((hour, 1, opened) for hour, _, opened in activity_of(minutes, session, product.zone))
    assert gaps(Traded("ESU2024", date(2024, 6, 25), SessionKind.RTH, 1, thin)) == []

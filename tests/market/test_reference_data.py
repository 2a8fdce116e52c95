"""Reference tables match independent lists, and errors name the row and column.

Independent lists: ticks and multipliers of LEAN (`symbol-properties`), its early closes (`market-hours`), real ES, GC
and 6E recordings, all in the shared data folder; and the tables of rules §3.2, typed again here."""

import csv
import gzip
import json
import os
import zipfile
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from time import process_time

import pytest

from outcry.market.calendar import SessionKind
from outcry.market.instruments import Product
from outcry.market.reference import parse_products
from outcry.market.reference_hours import parse_days, parse_hours
from outcry.market.reference_rows import BadReference
from outcry.trades.reference_tables import UnknownVariant, load_reference

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("SHARED_DATA", ROOT.parent / "shared"))
DATA = ROOT / "src" / "outcry" / "market" / "data"
REFERENCE = load_reference()
PRODUCTS = REFERENCE.universe.products
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no shared data at {SHARED}")

# Rules §3.2, typed again: tick, dollars a tick, dollars a point, months, micro and its dollars a point.
TABLE = """
ES .25 12.50 50 HMUZ MES 5
NQ .25 5 20 HMUZ MNQ 2
RTY .1 5 50 HMUZ M2K 5
YM 1 5 5 HMUZ MYM .5
CL .01 10 1000 FGHJKMNQUVXZ MCL 100
NG .001 10 10000 FGHJKMNQUVXZ MNG 1000
RB .0001 4.20 42000 FGHJKMNQUVXZ
HO .0001 4.20 42000 FGHJKMNQUVXZ
GC .1 10 100 GJMQVZ MGC 10
SI .005 25 5000 HKNUZ SIL 1000
HG .0005 12.50 25000 HKNUZ MHG 2500
PL .1 5 50 FJNV
ZB .03125 31.25 1000 HMUZ
ZN .015625 15.625 1000 HMUZ
ZF .0078125 7.8125 1000 HMUZ
ZT .00390625 7.8125 2000 HMUZ
ZC .25 12.50 50 HKNUZ
ZW .25 12.50 50 HKNUZ
ZS .25 12.50 50 FHKNQUX
ZL .01 6 600 FHKNQUVZ
ZM .1 10 100 FHKNQUVZ
LE .025 10 400 GJMQVZ
HE .025 10 400 GJKMNQVZ
GF .025 12.50 500 FHJKQUVX
6E .00005 6.25 125000 HMUZ M6E 12500
6S .00005 6.25 125000 HMUZ
6B .0001 6.25 62500 HMUZ M6B 6250
6A .00005 5 100000 HMUZ M6A 10000
6C .00005 5 100000 HMUZ
6J .0000005 6.25 12500000 HMUZ MJY 1250000
BTC 5 25 5 FGHJKMNQUVXZ MBT .1
ETH .5 25 50 FGHJKMNQUVXZ MET .1
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def of_e9(value: int) -> Decimal:
    return Decimal(value) / 10**9


def test_the_universe_is_that_of_the_rules() -> None:
    micros = [row[5] for row in ROWS if len(row) > 5]
    assert set(PRODUCTS) == {row[0] for row in ROWS} | set(micros)
    assert len(PRODUCTS) == 47
    assert {p.root for p in PRODUCTS.values() if p.parent} == set(micros)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_ticks_values_and_months(row: list[str]) -> None:
    product = PRODUCTS[row[0]]
    tick, value, point = (Decimal(cell) for cell in row[1:4])
    assert (of_e9(product.tick_e9), of_e9(product.multiplier_e9)) == (tick, point)
    assert of_e9(product.tick_value_e9) == value == tick * point
    assert product.months == row[4]
    if len(row) > 5:
        micro = PRODUCTS[row[5]]
        assert micro.parent == product.root
        assert of_e9(micro.multiplier_e9) == Decimal(row[6])


@needs_shared
def test_ticks_and_multipliers_are_those_of_lean() -> None:
    """LEAN has grains and livestock in dollars; its price magnifier of 100 converts them to cents."""
    with (SHARED / "data/reference/symbol-properties.cme-futures.csv").open(newline="") as file:
        lean = {row["symbol"]: row for row in csv.DictReader(file)}
    compared = 0
    for root, product in PRODUCTS.items():
        if root not in lean:
            assert root in {"MNG", "MHG"}  # rules §3.2: from general knowledge
            continue
        cents = Decimal(lean[root]["price_magnifier"] or 1)
        assert of_e9(product.tick_e9) == Decimal(lean[root]["minimum_price_variation"]) * cents, root
        assert of_e9(product.multiplier_e9) == Decimal(lean[root]["contract_multiplier"]) / cents, root
        assert product.exchange.lower() == lean[root]["market"], root
        compared += 1
    assert compared == 45


@needs_shared
@pytest.mark.parametrize(
    ("root", "entry", "hour"),
    [("ES", "cme-ES", 0), ("CL", "nymex-CL", 0), ("ZN", "cbot-ZN", 1), ("6E", "cme-6E", 1), ("ZC", "cbot-ZC",
    0), ("LE", "cme-LE", 0), ("MGC", "comex-MGC", 0)],
)  # fmt: skip
def test_early_closes_are_those_of_lean(root: str, entry: str, hour: int) -> None:
    """Each weekday's trading ends when LEAN says that it ends early, in the product's time zone.

    LEAN has rates and currencies in Chicago time, an hour behind. Its rows at the usual close only mean that no evening
    session follows."""
    with gzip.open(SHARED / "data/reference/market-hours.cme-universe.json.gz") as file:
        closes: dict[str, str] = json.load(file)["entries"][f"Future-{entry}"]["earlyCloses"]
    zone = REFERENCE.calendar.hours.zone(root)
    compared = 0
    for text, at in closes.items():
        month, day, year = map(int, text.split("/"))
        day_of = date(year, month, day)
        early = datetime(year, month, day, int(at[:2]), int(at[3:5]), tzinfo=zone) + timedelta(hours=hour)
        if (
            not 2012 <= year <= 2027
            or day_of.weekday() >= 5
            or early.hour >= (17 if entry != "cbot-ZC" else 16)
        ):
            continue
        at_ns = int((early - EPOCH) / timedelta(seconds=1)) * 10**9
        if REFERENCE.calendar.trade_date_at(root, at_ns - 1) is None and entry in {"cbot-ZC", "cme-LE"}:
            continue  # already closed for the whole day
        assert REFERENCE.calendar.trade_date_at(root, at_ns - 1) is not None, text
        assert REFERENCE.calendar.trade_date_at(root, at_ns) is None, text
        compared += 1
    assert compared >= 25


@needs_shared
@pytest.mark.parametrize(
    ("folder", "root", "day"),
    [
        ("cme/minute/es", "ES", "20131007"),
        ("cme/minute/es", "ES", "20131008"),
        ("comex/minute/gc", "GC", "20131007"),
    ],
)
def test_every_real_trade_of_2013_has_a_trade_date(folder: str, root: str, day: str) -> None:
    """All minutes of the recordings are within trading hours and on the expected trade date.

    Minutes have their start as timestamp, in ms of the UTC day. Before 21:15Z (17:15 New York) they are on that day's
    trade date, from 22:00Z (18:00) on the next day's."""
    midnight = datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)
    start = int((midnight - EPOCH) / timedelta(seconds=1)) * 10**9
    minutes: set[int] = set()
    with zipfile.ZipFile(SHARED / f"data/lean/{folder}/{day}_trade.zip") as archive:
        for name in archive.namelist():
            minutes |= {int(line.split(b",")[0]) for line in archive.read(name).splitlines()}
    assert len(minutes) > 1000
    for ms in minutes:
        evening = ms >= 22 * 3_600_000
        expected = midnight.date() + timedelta(days=evening)
        assert REFERENCE.calendar.trade_date_at(root, start + ms * 10**6) == expected
        assert REFERENCE.calendar.session_at(root, start + ms * 10**6) is not None


@needs_shared
def test_every_real_minute_of_january_2024_has_a_trade_date() -> None:
    """6EH4, 2 to 12 January 2024, with minutes stamped at their ends, from 23:01Z to 22:00Z.

    Each minute ended inside or at the end of a trading window. The first one, on New Year's evening, belongs to 2
    January."""
    with gzip.open(SHARED / "data/6e/6EH4_1min_20240101_20240112.csv.gz", "rt") as file:
        stamps = [row["timestamp_utc"] for row in csv.DictReader(file)]
    ends = [datetime.fromisoformat(stamp).replace(tzinfo=UTC) for stamp in stamps]
    dates = [
        REFERENCE.calendar.trade_date_at("6E", int((end - EPOCH) / timedelta(seconds=1)) * 10**9 - 1)
        for end in ends
    ]
    assert sorted({day.day for day in dates if day}) == [2, 3, 4, 5, 8, 9, 10, 11, 12]
    assert None not in dates


def test_every_row_has_a_source_and_a_date_of_verification() -> None:
    for name in ("products", "sessions", "holidays", "overrides"):
        with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                assert row["source"].strip(), row
                assert date.fromisoformat(row["checked_on"]) >= date(2026, 11, 1), row


def test_every_year_has_its_holidays() -> None:
    """The exchange has ten holidays a year since Juneteenth was added in 2022, and nine before.

    New Year's Day is not a holiday in a year in which it is a Saturday. Worked by hand: 2022 lacks New Year's Day."""
    for year in range(2012, 2028):
        days = [date(year, 1, 1) + timedelta(days=n) for n in range(366)]
        closed = [
            day
            for day in days
            if day.year == year
            and day.weekday() < 5
            and not REFERENCE.calendar.hours.is_business_day("ZC", day)
        ]
        assert len(closed) == (10 if year >= 2023 else 9), (year, closed)


def test_loading_is_quick() -> None:
    """Reading and checking all tables takes at most 60 ms of processor time, in the best of five runs."""
    seconds: list[float] = []
    for _ in range(5):
        begun = process_time()
        load_reference()
        seconds.append(process_time() - begun)
    assert min(seconds) < 0.06


# --- faults
# -------------------------------------------------------------------------------------------------------

PRODUCT_HEADER = (DATA / "products.csv").read_text(encoding="utf-8").splitlines()[0]
HOURS_HEADER = (DATA / "sessions.csv").read_text(encoding="utf-8").splitlines()[0]
DAY_HEADER = (DATA / "holidays.csv").read_text(encoding="utf-8").splitlines()[0]
GOOD_PRODUCT = {
    "root": "AA", "name": "Alpha", "exchange": "CME", "sector": "index", "parent": "", "tick": "0.25",
    "multiplier": "50", "unit": "points", "months": "HMUZ", "serial": "", "skipped": "",
    "zone": "America/New_York",
    "settle": "15:59:30-16:00:00", "expiry_rule": "third_friday", "notice_rule": "none", "roll_sessions": "1",
    "projectx": "", "aliases": "", "source": "a notice", "checked_on": "2026-11-21", "note": "",
}  # fmt: skip
GOOD_HOURS = {
    "roots": "AA", "variant": "", "days": "Mon-Fri", "valid_from": "2012-01-01", "valid_to": "", "globex":
    "<18:00-16:15 16:30-17:00", "rth": "09:30-16:15", "source": "a notice", "checked_on": "2026-11-21",
    "note": "",
}  # fmt: skip
GOOD_DAY = {
    "date": "2025-11-28", "name": "a day", "applies_to": "index", "day": "open", "opens": "",
    "closes": "13:15",
    "rth_opens": "", "rth_closes": "", "source": "a notice", "checked_on": "2026-11-21", "note": "",
}  # fmt: skip


def table(header: str, *rows: dict[str, str]) -> str:
    columns = header.split(",")
    assert set(columns) == set(rows[0])
    return "\n".join([header, *(",".join(row[column] for column in columns) for row in rows)]) + "\n"


def two_products(**second: str) -> str:
    return table(PRODUCT_HEADER, GOOD_PRODUCT, GOOD_PRODUCT | {"root": "BB"} | second)


SOME: dict[str, Product] = parse_products(two_products())
SOME_HOURS = parse_hours(table(HOURS_HEADER, GOOD_HOURS | {"roots": "AA BB"}), SOME)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("root", "AA", "twice"),
        ("root", "", "empty"),
        ("name", "", "empty"),
        ("exchange", "CME Group", "not a word"),
        ("sector", "équités", "not a word"),
        ("sector", "AA", "is a product"),
        ("tick", "0", "above zero"),
        ("tick", "-0.25", "above zero"),
        ("tick", "a quarter", "not a decimal"),
        ("tick", "0.0000000001", "nine decimals"),
        ("tick", "1e-2", "not a decimal"),
        ("multiplier", "", "empty"),
        ("multiplier", "0.0000000003", "nine decimals"),
        ("months", "HMZU", "order of the year"),
        ("months", "HMUA", "month codes"),
        ("months", "HHM", "each once"),
        ("serial", "1", "month codes"),
        ("skipped", "F", "not in months"),
        ("zone", "America/Chicargo", "time zone"),
        ("zone", "../etc", "time zone"),
        ("expiry_rule", "someday", "none of third_friday"),
        ("notice_rule", "", "empty"),
        ("roll_sessions", "0", "1 to 9"),
        ("roll_sessions", "two", "1 to 9"),
        ("parent", "CC", "no full-size product"),
        ("parent", "BB", "no full-size product"),
        ("aliases", "AA", "names AA too"),
        ("source", "", "empty"),
        ("checked_on", "", "empty"),
        ("checked_on", "21.11.2026", "YYYY-MM-DD"),
        ("checked_on", "20261121", "YYYY-MM-DD"),
    ],
)
def test_faulty_products_are_refused_by_row_and_column(column: str, value: str, problem: str) -> None:
    with pytest.raises(BadReference, match=problem) as refusal:
        parse_products(two_products(**{column: value}), "mine.csv")
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == ("mine.csv", 3, column)
    assert str(refusal.value).startswith(f"mine.csv, row 3, column {column}: ")


def test_a_micro_must_share_its_parents_time_zone() -> None:
    with pytest.raises(BadReference, match="differs from the parent AA") as refusal:
        parse_products(two_products(parent="AA", zone="America/Chicago"))
    assert (refusal.value.row, refusal.value.column) == (3, "parent")


@pytest.mark.parametrize(
    ("text", "row", "column", "problem"),
    [
        ("", 1, "root", "missing"),
        (PRODUCT_HEADER.replace(",tick", ""), 1, "tick", "missing"),
        (PRODUCT_HEADER + ",colour", 1, "colour", "not known"),
        (PRODUCT_HEADER + ",tick", 1, "", "twice"),
        (two_products() + "CC,too,few\n", 4, "", "3 cells where the header has 21"),
        (two_products() + '"CC\n', 4, "", "unexpected end"),
    ],
)
def test_malformed_tables_are_refused(text: str, row: int, column: str, problem: str) -> None:
    with pytest.raises(BadReference, match=problem) as refusal:
        parse_products(text)
    assert (refusal.value.row, refusal.value.column) == (row, column)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("roots", "CC", "none of AA, BB"),
        ("roots", "", "empty"),
        ("days", "Mo", "weekday"),
        ("days", "Mon-Fri-Sun", "weekday"),
        ("valid_from", "2012-02-30", "YYYY-MM-DD"),
        ("valid_to", "2011-12-31", "before valid_from"),
        ("globex", "<16:00-17:00", "before the trading of the previous trade date ends"),
        ("globex", "^18:00-<17:00", "only the mark of the start"),
        ("globex", "24:00-17:00", "not a window"),
        ("globex", "<18:00", "not a window"),
        ("globex", "<18:00-25:00", "not a window"),
        ("globex", "<18:00-16:15 16:00-17:00", "overlap"),
        ("globex", "09:00-10:00 <18:00-19:00", "out of order"),
        ("globex", "", "only a variant"),
        ("rth", "09:30-12:00 13:00-16:00", "not one window"),
        ("rth", "09:30-16:20", "outside the trading hours"),
        ("rth", "17:00-17:30", "outside the trading hours"),
        ("rth", "", "empty"),
        ("source", "", "empty"),
        ("checked_on", "never", "YYYY-MM-DD"),
        ("valid_from", "2012-01-01", "overlaps another row of AA"),
    ],
)
def test_faulty_hours_are_refused_by_row_and_column(column: str, value: str, problem: str) -> None:
    overlapping = column == "valid_from" and value == "2012-01-01"
    first = GOOD_HOURS | ({"roots": "AA BB"} if overlapping else {"roots": "BB"})
    with pytest.raises(BadReference, match=problem) as refusal:
        parse_hours(table(HOURS_HEADER, first, GOOD_HOURS | {column: value}), SOME)
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == ("sessions.csv", 3, column)


def test_a_product_without_hours_is_refused() -> None:
    with pytest.raises(BadReference, match="BB has no hours"):
        parse_hours(table(HOURS_HEADER, GOOD_HOURS), SOME)


@pytest.mark.parametrize(
    ("column", "value", "problem"),
    [
        ("date", "2025-11-29", "a Sat, on which index never trades"),
        ("date", "2025-11-31", "YYYY-MM-DD"),
        ("date", "2025-11-26", "twice for index"),
        ("applies_to", "stocks", "none of"),
        ("applies_to", "", "empty"),
        ("day", "half", "none of closed, joined, no_rth, open"),
        ("day", "closed", "no times"),
        ("closes", "1315", "HH:MM"),
        ("closes", "24:00", "HH:MM"),
        ("closes", "9:15", "HH:MM"),
        ("opens", "noon", "HH:MM"),
        ("rth_closes", "13.15", "HH:MM"),
        ("name", "", "empty"),
        ("source", "", "empty"),
        ("checked_on", "2026", "YYYY-MM-DD"),
    ],
)
def test_faulty_days_are_refused_by_row_and_column(column: str, value: str, problem: str) -> None:
    first = GOOD_DAY | {"date": "2025-11-26"}
    with pytest.raises(BadReference, match=problem) as refusal:
        parse_days(table(DAY_HEADER, first, GOOD_DAY | {column: value}), SOME, SOME_HOURS)
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == ("holidays.csv", 3, column)


def test_a_day_that_closes_before_it_opens_is_refused() -> None:
    with pytest.raises(BadReference, match="not after opens") as refusal:
        parse_days(table(DAY_HEADER, GOOD_DAY | {"opens": "13:15"}), SOME, SOME_HOURS)
    assert (refusal.value.row, refusal.value.column) == (2, "closes")


# --- the operator's overrides
# -------------------------------------------------------------------------------------


def test_operator_overrides_take_precedence(tmp_path: Path) -> None:
    """An override adds an early close for ES only, and another cancels our day of mourning for YM."""
    rows = (
        GOOD_DAY | {"date": "2026-11-18", "applies_to": "ES", "closes": "12:00"},
        GOOD_DAY | {"date": "2025-01-09", "applies_to": "YM", "closes": ""},
    )
    (tmp_path / "overrides.csv").write_text(table(DAY_HEADER, *rows), encoding="utf-8")
    calendar = load_reference(tmp_path).calendar

    def length_minutes(root: str, day: date) -> int | None:
        session = calendar.session(root, day, SessionKind.RTH)
        return session and (session.close_ns - session.open_ns) // (60 * 10**9)

    assert length_minutes("ES", date(2026, 11, 18)) == 150  # 09:30 to 12:00
    assert length_minutes("MES", date(2026, 11, 18)) == 150
    assert length_minutes("NQ", date(2026, 11, 18)) == 405
    assert length_minutes("YM", date(2025, 1, 9)) == 405
    assert length_minutes("ES", date(2025, 1, 9)) is None


@pytest.mark.parametrize(
    ("closes", "minutes"), [("10:29", None), ("10:30", None), ("10:31", 61), ("09:00", None)]
)
def test_regular_hours_of_an_hour_or_less_are_dropped(
    tmp_path: Path, closes: str, minutes: int | None
) -> None:
    """Rules §3.3: the early close must be more than 60 minutes after 09:30."""
    row = GOOD_DAY | {"date": "2026-11-18", "closes": closes}
    (tmp_path / "overrides.csv").write_text(table(DAY_HEADER, row), encoding="utf-8")
    session = load_reference(tmp_path).calendar.session("ES", date(2026, 11, 18), SessionKind.RTH)
    assert (session and (session.close_ns - session.open_ns) // (60 * 10**9)) == minutes


def test_a_faulty_override_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "overrides.csv"
    path.write_text(table(DAY_HEADER, GOOD_DAY | {"day": "holiday"}), encoding="utf-8")
    with pytest.raises(BadReference) as refusal:
        load_reference(tmp_path)
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == (str(path), 2, "day")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadReference, match="not UTF-8"):
        load_reference(tmp_path)


@pytest.mark.parametrize(
    ("root", "variant", "message"),
    [("ES", "cahs", "it has cash"), ("CL", "cash", "it has none"), ("MES", "cash", "it has none")],
)
def test_unknown_regular_hours_are_refused(root: str, variant: str, message: str) -> None:
    """A micro has its parent's hours and cannot choose others."""
    with pytest.raises(UnknownVariant, match=message):
        load_reference(variants={root: variant})
    assert load_reference(variants={"ES": ""}).calendar.variants("ES") == ("", "cash")


def test_a_folder_without_overrides_yields_the_packaged_tables(tmp_path: Path) -> None:
    calendar = load_reference(tmp_path).calendar
    year = date(2026, 1, 1), date(2026, 12, 31)
    assert calendar.sessions("ES", *year) == REFERENCE.calendar.sessions("ES", *year)


def test_the_override_in_the_docs_can_be_used(tmp_path: Path) -> None:
    """3 March 2027, a Wednesday: no regular hours for the index, the usual ones for crude."""
    text = (ROOT / "docs" / "reference" / "sessions.md").read_text(encoding="utf-8")
    start = text.index(DAY_HEADER, text.index("## Add your own overrides"))
    (tmp_path / "overrides.csv").write_text(text[start : text.index("```", start)], encoding="utf-8")
    calendar = load_reference(tmp_path).calendar
    assert calendar.session("ES", date(2027, 3, 3), SessionKind.RTH) is None
    assert calendar.session("CL", date(2027, 3, 3), SessionKind.RTH) is not None

"""Instruments of the operator: tables in `instruments/` of the data folder, over the packaged ones."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from outcry.market.calendar import SessionKind
from outcry.market.reference import ACTIVITY_COLUMNS, PRODUCT_COLUMNS
from outcry.market.reference_hours import DAY_COLUMNS, HOURS_COLUMNS
from outcry.trades.reference_tables import INSTRUMENTS_FOLDER, BadReference, Reference, load_reference

ROOT = Path(__file__).parents[2]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PACKAGED = load_reference()
CHECKED = {"source": "the exchange's website", "checked_on": "2026-11-23"}
HSI = {
    "root": "HSI", "name": "Hang Seng Index", "exchange": "HKEX", "sector": "hong_kong", "tick": "1",
    "multiplier": "50", "unit": "points", "months": "FGHJKMNQUVXZ", "zone": "Asia/Hong_Kong", "settle": "none",
    "expiry_rule": "third_last", "notice_rule": "none", "roll_sessions": "1", "aliases": "HANGSENG",
}  # fmt: skip
HSI_HOURS = {
    "roots": "HSI", "days": "Mon-Fri", "valid_from": "2019-01-01", "globex": "^17:15-^03:00 09:15-12:00 13:00-16:30",
    "rth": "09:15-16:30",
}  # fmt: skip
CHRISTMAS = {"date": "2025-12-25", "name": "Christmas", "applies_to": "hong_kong", "day": "closed"}
ES = {
    "root": "ES", "name": "My E-mini", "exchange": "CME", "sector": "index", "tick": "0.05", "multiplier": "50",
    "unit": "points", "months": "HMUZ", "zone": "America/New_York", "settle": "none",
    "expiry_rule": "third_friday", "notice_rule": "none", "roll_sessions": "1",
}  # fmt: skip


def table(columns: str, *rows: dict[str, str]) -> str:
    lines = [",".join((CHECKED | row).get(column, "") for column in columns.split(",")) for row in rows]
    return "\n".join([columns, *lines]) + "\n"


def write(folder: Path, **tables: str) -> None:
    place = folder / INSTRUMENTS_FOLDER
    place.mkdir(exist_ok=True)
    for name, text in tables.items():
        (place / f"{name}.csv").write_text(text, encoding="utf-8")


def regular(reference: Reference, root: str, day: date) -> list[str]:
    """Return the segments of regular hours in UTC, `01:15-04:00`."""
    session = reference.calendar.session(root, day, SessionKind.RTH)
    times = [
        [EPOCH + timedelta(microseconds=at // 1000) for at in s]
        for s in (session.segments if session else ())
    ]
    return [f"{start:%H:%M}-{end:%H:%M}" for start, end in times]


def test_a_new_product_has_its_own_hours_and_holidays(tmp_path: Path) -> None:
    """Hong Kong is UTC+8. Without a row of activity, the defaults apply; its last trading day is the third last."""
    write(
        tmp_path,
        products=table(PRODUCT_COLUMNS, HSI),
        sessions=table(HOURS_COLUMNS, HSI_HOURS),
        holidays=table(DAY_COLUMNS, CHRISTMAS),
    )
    reference = load_reference(tmp_path)
    product = reference.universe.products["HSI"]
    assert product.own_tables == ("products.csv", "sessions.csv", "holidays.csv")
    assert product.activity == (10, 5, 2)
    assert regular(reference, "HSI", date(2026, 1, 6)) == ["01:15-04:00", "05:00-08:30"]
    assert regular(reference, "HSI", date(2025, 12, 25)) == []
    found = reference.universe.resolve("HSIF6", date(2026, 1, 6))
    assert found.contract is not None
    assert reference.universe.expiry(found.contract) == date(
        2026, 1, 28
    )  # 30, 29 and 28 January are business days
    assert reference.universe.resolve("hangseng", date(2026, 1, 6)).product is product
    assert list(reference.universe.products) == [*PACKAGED.universe.products, "HSI"]


def test_packaged_products_stay_as_they_are(tmp_path: Path) -> None:
    write(tmp_path, products=table(PRODUCT_COLUMNS, HSI), sessions=table(HOURS_COLUMNS, HSI_HOURS))
    reference = load_reference(tmp_path)
    for root, product in PACKAGED.universe.products.items():
        assert reference.universe.products[root] == product
    year = date(2026, 1, 1), date(2026, 12, 31)
    assert reference.calendar.sessions("ES", *year) == PACKAGED.calendar.sessions("ES", *year)
    assert not PACKAGED.universe.products["ES"].own_tables


def test_a_row_replaces_the_packaged_product_of_its_root(tmp_path: Path) -> None:
    """Hours, holidays and activity are in other tables, so they stay; so does the place in the list of products."""
    write(tmp_path, products=table(PRODUCT_COLUMNS, ES))
    reference = load_reference(tmp_path)
    product, before = reference.universe.products["ES"], PACKAGED.universe.products["ES"]
    assert (product.name, product.tick_e9, product.own_tables) == ("My E-mini", 50_000_000, ("products.csv",))
    assert product.activity == before.activity
    assert list(reference.universe.products) == list(PACKAGED.universe.products)
    assert regular(reference, "ES", date(2026, 1, 6)) == regular(PACKAGED, "ES", date(2026, 1, 6))


def test_own_hours_replace_all_packaged_hours_of_a_root(tmp_path: Path) -> None:
    """ES trades from 2020 on, 10:00 to 15:00 New York; NQ, in the same packaged row, does not change."""
    hours = {
        "roots": "ES",
        "days": "Mon-Fri",
        "valid_from": "2020-01-01",
        "globex": "10:00-15:00",
        "rth": "10:00-15:00",
    }
    write(tmp_path, sessions=table(HOURS_COLUMNS, hours), activity=table(ACTIVITY_COLUMNS, {
        "root": "ES", "regular": "50", "day": "40", "night": "30"}))  # fmt: skip
    reference = load_reference(tmp_path)
    assert regular(reference, "ES", date(2026, 1, 6)) == ["15:00-20:00"]
    assert regular(reference, "MES", date(2026, 1, 6)) == ["15:00-20:00"]
    assert regular(reference, "ES", date(2019, 1, 8)) == []
    assert reference.calendar.variants("ES") == ("",)
    assert regular(reference, "NQ", date(2026, 1, 6)) == regular(PACKAGED, "NQ", date(2026, 1, 6))
    assert reference.universe.products["ES"].activity == (50, 40, 30)
    own = {root: p.own_tables for root, p in reference.universe.products.items() if p.own_tables}
    assert own == {"ES": ("sessions.csv",), "MES": ("sessions.csv",)}


def test_own_holidays_take_precedence_and_overrides_over_both(tmp_path: Path) -> None:
    """25 December 2026 is a Friday: the own table opens it for index futures, an override shortens it for YM."""
    day = {"date": "2026-12-25", "name": "Christmas", "day": "open"}
    write(tmp_path, holidays=table(DAY_COLUMNS, day | {"applies_to": "index"}))
    early = day | {"applies_to": "YM", "closes": "12:00"}
    (tmp_path / "overrides.csv").write_text(table(DAY_COLUMNS, early), encoding="utf-8")
    reference = load_reference(tmp_path)
    assert regular(PACKAGED, "ES", date(2026, 12, 25)) == []
    assert regular(reference, "ES", date(2026, 12, 25)) == ["14:30-21:15"]
    assert regular(reference, "YM", date(2026, 12, 25)) == ["14:30-17:00"]
    assert reference.universe.products["YM"].own_tables == ("holidays.csv",)


@pytest.mark.parametrize(
    ("name", "columns", "row", "place", "problem"),
    [
        ("products", PRODUCT_COLUMNS, HSI | {"tick": "0"}, (2, "tick"), "above zero"),
        ("products", PRODUCT_COLUMNS, HSI | {"aliases": "TY"}, (2, "aliases"), "names ZN too"),
        ("products", PRODUCT_COLUMNS, HSI | {"root": "TY", "aliases": ""}, (2, "root"), "alias of ZN"),
        ("products", PRODUCT_COLUMNS, HSI | {"sector": "ES"}, (2, "sector"), "is a product"),
        ("products", PRODUCT_COLUMNS, ES | {"zone": "America/Chicago"}, (2, "root"), "add a row for MES"),
        ("products", PRODUCT_COLUMNS, ES | {"parent": "NQ"}, (2, "parent"), "has the micro MES"),
        ("sessions", HOURS_COLUMNS, HSI_HOURS, (2, "roots"), "none of ES"),
        ("sessions", HOURS_COLUMNS, HSI_HOURS | {"roots": "MES"}, (2, "roots"), "none of ES"),
        ("holidays", DAY_COLUMNS, CHRISTMAS, (2, "applies_to"), "none of ES"),
        ("holidays", DAY_COLUMNS, CHRISTMAS | {"date": "2026-01-03", "applies_to": "ES"}, (2, "date"), "never trades"),
        ("activity", ACTIVITY_COLUMNS, {"root": "HSI", "regular": "9"}, (2, "root"), "none of"),
        ("session", HOURS_COLUMNS, HSI_HOURS, (1, ""), "unknown name; use products.csv, sessions.csv"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused_with_file_row_and_column(
    tmp_path: Path, name: str, columns: str, row: dict[str, str], place: tuple[int, str], problem: str
) -> None:
    write(tmp_path, **{name: table(columns, row)})
    with pytest.raises(BadReference, match=problem) as refusal:
        load_reference(tmp_path)
    path = tmp_path / INSTRUMENTS_FOLDER / f"{name}.csv"
    assert (refusal.value.file, refusal.value.row, refusal.value.column) == (str(path), *place)


def test_a_product_without_hours_is_refused(tmp_path: Path) -> None:
    write(tmp_path, products=table(PRODUCT_COLUMNS, HSI))
    with pytest.raises(BadReference, match="HSI has no hours") as refusal:
        load_reference(tmp_path)
    assert refusal.value.file == str(tmp_path / INSTRUMENTS_FOLDER / "sessions.csv")


def test_a_product_in_another_time_zone_needs_its_own_hours(tmp_path: Path) -> None:
    """CL has the micro MCL, which moves with it."""
    cl = ES | {"root": "CL", "sector": "energy", "zone": "Europe/London"}
    write(tmp_path, products=table(PRODUCT_COLUMNS, cl, cl | {"root": "MCL", "parent": "CL"}))
    with pytest.raises(BadReference, match="CL has no hours for its new time zone Europe/London"):
        load_reference(tmp_path)
    hours = {
        "roots": "CL",
        "days": "Mon-Fri",
        "valid_from": "2020-01-01",
        "globex": "08:00-18:00",
        "rth": "09:00-17:00",
    }
    write(tmp_path, sessions=table(HOURS_COLUMNS, hours))
    assert regular(load_reference(tmp_path), "MCL", date(2026, 1, 6)) == ["09:00-17:00"]


def test_a_packaged_product_may_become_a_micro(tmp_path: Path) -> None:
    """YM has the micro MYM, which needs a row of its own then."""
    ym = ES | {"root": "YM", "parent": "ES", "multiplier": "5"}
    write(tmp_path, products=table(PRODUCT_COLUMNS, ym, ym | {"root": "MYM", "multiplier": "0.5"}))
    reference = load_reference(tmp_path)
    assert reference.universe.parent_of("YM").root == "ES"
    assert regular(reference, "YM", date(2026, 1, 6)) == ["14:30-21:15"]


def test_the_instrument_with_a_break_in_the_docs_can_be_used(tmp_path: Path) -> None:
    """Monday 28 December 2026: two parts of regular hours, and no night before it; 24 December ends at noon."""
    text = (ROOT / "docs" / "guides" / "instruments.md").read_text(encoding="utf-8")
    text = text[text.index("## Write the tables") :]
    for name, columns in (
        ("products", PRODUCT_COLUMNS),
        ("sessions", HOURS_COLUMNS),
        ("holidays", DAY_COLUMNS),
    ):
        start = text.rindex(columns)  # the guide has another example before it
        write(tmp_path, **{name: text[start : text.index("```", start)]})
    reference = load_reference(tmp_path)
    assert regular(reference, "HSI", date(2026, 12, 24)) == ["01:15-04:00"]
    assert regular(reference, "HSI", date(2026, 12, 25)) == []
    assert regular(reference, "HSI", date(2026, 12, 28)) == ["01:15-04:00", "05:00-08:30"]
    assert reference.calendar.session("HSI", date(2026, 12, 28), SessionKind.ETH) is None
    assert reference.calendar.session("HSI", date(2026, 12, 29), SessionKind.ETH) is not None

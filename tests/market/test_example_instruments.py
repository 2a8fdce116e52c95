"""The shipped example instruments load beside the packaged products; their hours and expiries are worked by hand."""

from collections.abc import Iterable
from datetime import date, datetime
from importlib.resources import as_file, files
from shutil import copytree
from zoneinfo import ZoneInfo

import pytest

from outcry.market.calendar import Calendar, SessionKind
from outcry.market.instruments import Universe
from outcry.trades.reference_tables import Reference, load_reference

FRIDAY = date(2026, 11, 20)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Return the reference data of an installation whose operator has copied the examples."""
    folder = tmp_path_factory.mktemp("data")
    with as_file(files("outcry.market") / "data" / "examples") as examples:
        copytree(examples, folder / "instruments")
    return load_reference(folder)


@pytest.fixture(scope="module")
def universe(reference: Reference) -> Universe:
    return reference.universe


@pytest.fixture(scope="module")
def calendar(reference: Reference) -> Calendar:
    return reference.calendar


def shown(segments: Iterable[tuple[int, int]], zone: str) -> str:
    """Return windows in local time: day of the month and time, `20 09:15-12:00`."""
    local = [[datetime.fromtimestamp(at // 10**9, ZoneInfo(zone)) for at in segment] for segment in segments]
    return ", ".join(f"{start:%d %H:%M}-{end:%H:%M}" for start, end in local)


@pytest.mark.parametrize(
    ("root", "day", "regular", "overnight"),
    [
        ("FESX", FRIDAY, "20 09:00-17:30", "19 17:30-22:00, 20 01:10-09:00"),
        ("FDAX", date(2026, 12, 24), "", ""),
        ("NIFTY", FRIDAY, "20 09:15-15:30", ""),
        ("HSI", FRIDAY, "20 09:15-12:00, 20 13:00-16:30", "19 17:15-03:00"),
        ("NK225", FRIDAY, "20 08:45-15:45", "19 17:00-06:00"),
        ("NK225", date(2026, 11, 4), "04 08:45-15:45", "02 17:00-06:00, 03 08:45-15:45, 03 17:00-06:00"),
        ("NK225", date(2026, 11, 3), "", ""),  # trading on Culture Day has the date of the day after it
        (
            "NK225",
            date(2026, 9, 24),
            "24 08:45-15:45",
            "18 17:00-06:00, 21 08:45-15:45, 21 17:00-06:00, 22 08:45-15:45, 22 17:00-06:00, 23 08:45-15:45, "
            "23 17:00-06:00",
        ),
        ("NK225", date(2026, 11, 24), "24 08:45-15:45", "20 17:00-06:00"),  # closed on the 23rd
        ("HSI", date(2026, 12, 24), "24 09:15-12:00", "23 17:15-03:00"),
        ("HSI", date(2026, 12, 25), "", ""),
        ("HSI", date(2026, 12, 28), "28 09:15-12:00, 28 13:00-16:30", ""),  # no night after Christmas Eve
        ("HSI", date(2026, 10, 20), "20 09:15-12:00, 20 13:00-16:30", "16 17:15-03:00"),
        ("NIFTY", date(2026, 11, 10), "", ""),
        ("NK225", date(2024, 11, 1), "01 08:45-15:15", "31 16:30-06:00"),
        ("BRN", date(2026, 11, 23), "23 08:00-19:30", "20 19:30-23:00, 22 23:00-08:00"),
        ("SPY", FRIDAY, "20 09:30-16:00", "19 16:00-20:00, 20 04:00-09:30"),
        ("SPY", date(2026, 11, 26), "", ""),
        ("SPY", date(2026, 11, 27), "27 09:30-13:00", "25 16:00-20:00, 27 04:00-09:30"),
        ("EURUSD", date(2026, 11, 23), "23 08:00-17:00", "22 17:00-08:00"),
        ("BTC-PERP", date(2026, 11, 21), "21 00:00-00:00", ""),  # a Saturday
    ],
)
def test_hours(
    calendar: Calendar, universe: Universe, root: str, day: date, regular: str, overnight: str
) -> None:
    zone = universe.products[root].zone
    found = [calendar.session(root, day, kind) for kind in (SessionKind.RTH, SessionKind.ETH)]
    assert [shown(one.segments if one else (), zone) for one in found] == [regular, overnight]


@pytest.mark.parametrize(
    ("key", "end"),
    [
        ("FESXZ2026", "2026-12-18"),  # the third Friday
        ("NIFTYV2026", "2026-10-27"),  # the last Tuesday
        ("NIFTYX2026", "2026-11-23"),  # the last Tuesday, the 24th, is a holiday
        ("NIFTYH2026", "2026-03-30"),  # and so is 31 March
        ("HSIX2026", "2026-11-27"),  # 30 November is a Monday; before it the 27th
        ("NK225Z2026", "2026-12-10"),  # the second Friday is the 11th
        ("BRNF2027", "2026-11-30"),  # the last business day of November
        ("BRNG2027", "2026-12-30"),  # the 31st is the business day before New Year's Day
        ("BRNH2027", "2027-01-29"),  # 30 and 31 January are a weekend
    ],
)
def test_expiries(universe: Universe, key: str, end: str) -> None:
    assert str(universe.expiry(universe.contract(key))) == end


@pytest.mark.parametrize(
    ("symbol", "root", "contract"),
    [
        ("FESXZ6", "FESX", "FESXZ2026"), ("NK225H27", "NK225", "NK225H2027"), ("HSI", "HSI", None),
        ("BRNF7", "BRN", "BRNF2027"), ("EUR/USD", "EURUSD", None), ("btc/usdt", "BTC-PERP", None),
        ("BTCZ6", "BTC", "BTCZ2026"),
        ("ESZ6", "ES", "ESZ2026"),
    ],
)  # fmt: skip
def test_symbols(universe: Universe, symbol: str, root: str, contract: str | None) -> None:
    found = universe.resolve(symbol, FRIDAY)
    assert (found.product.root, found.contract.key if found.contract else None) == (root, contract)


def test_fronts(universe: Universe) -> None:
    """Brent's January contract ends on 30 November, so on the 26th, two business days before, February is front."""
    fronts = [universe.front(root, FRIDAY).key for root in ("FESX", "BRN", "SPY", "BTC-PERP")]
    assert fronts == ["FESXZ2026", "BRNF2027", "SPY", "BTC-PERP"]
    assert [universe.front("BRN", date(2026, 11, day)).key for day in (25, 26)] == ["BRNF2027", "BRNG2027"]


def test_they_are_not_loaded_by_themselves(universe: Universe) -> None:
    packaged = load_reference().universe.products
    examples = {"FESX", "FDAX", "NIFTY", "HSI", "NK225", "BRN", "SPY", "EURUSD", "BTC-PERP"}
    assert universe.products.keys() - packaged.keys() == examples
    assert {universe.products[root].source for root in examples} == {"general knowledge"}
    assert {root for root in packaged if universe.products[root] != packaged[root]} == set()

"""`outcry.profile`: published vectors under their presets, real sessions from every dataframe library, clear errors."""

import csv
import datetime as dt
import io
import json
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outcry

mpl.use("Agg")
WINDOW = ("2013-10-07T08:20-04:00", "2013-10-07T13:30-04:00")


def lean(path: Path, member: str, day: str, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    start = dt.datetime.fromisoformat(f"{day}T00:00+00:00")
    with zipfile.ZipFile(path) as archive, archive.open(member) as raw:
        rows = list(csv.reader(io.TextIOWrapper(raw)))
    columns: dict[str, np.ndarray] = {
        "ts": np.array([int(start.timestamp()) * 10**9 + int(row[0]) * 10**6 for row in rows])
    }
    return columns | {name: np.array([float(row[at]) for row in rows]) for at, name in enumerate(names, 1)}


@pytest.fixture(scope="module")
def gold(shared: Path) -> dict[str, np.ndarray]:
    path = shared / "data/lean/comex/tick/gc/20131007_trade.zip"
    return lean(path, "20131007_gc_tick_trade_201312.csv", "2013-10-07", ("price", "size"))


@pytest.fixture(scope="module")
def es(shared: Path) -> dict[str, np.ndarray]:
    path = shared / "data/lean/cme/minute/es/20131008_trade.zip"
    names = ("open", "high", "low", "close", "volume")
    return lean(path, "20131008_es_minute_trade_201312.csv", "2013-10-08", names)


def worked(shared: Path, block: str, day: str) -> dict[str, Any]:
    return json.loads((shared / "vectors/worked_sessions.json").read_text())[block]["sessions"][day]


def frames(columns: dict[str, np.ndarray]) -> list[Any]:
    stamps = pd.to_datetime(columns["ts"], utc=True)
    return [
        columns,
        {name: column.tolist() for name, column in columns.items()},
        pd.DataFrame(columns),
        pd.DataFrame({**columns, "ts": stamps}),
        pd.DataFrame({**columns, "ts": stamps.tz_convert("America/New_York")}),
        pl.DataFrame({**columns, "ts": pl.Series(columns["ts"]).cast(pl.Datetime("ns", "UTC"))}),
        pa.table(columns),
        {**columns, "ts": [stamp.isoformat() for stamp in stamps]},
        {**columns, "ts": [stamp.to_pydatetime().replace(tzinfo=None) for stamp in stamps]},
    ]


@pytest.mark.parametrize("kind", range(9))
def test_trades_in_every_kind_of_dataframe(gold: dict[str, np.ndarray], shared: Path, kind: int) -> None:
    found = outcry.profile(frames(gold)[kind], tick_size=0.1, window=WINDOW)
    want = worked(shared, "GC_PIT_trades_0820_1330_ET", "2013-10-07")
    assert (found.poc, found.val, found.vah) == (want["tpo"]["poc"], *want["tpo"]["va_two_row_up"])
    assert found.poc_candidates == want["tpo"]["poc_candidates"]
    assert found.vpoc == want["volume_profile_exact_trades"]["poc"]
    assert (found.high, found.low, found.ib_high, found.ib_low) == (
        want["high"], want["low"], want["ib_high"], want["ib_low"])  # fmt: skip
    assert sum(row.volume for row in found.rows) == want["volume"]


def test_the_package_lists_its_public_names() -> None:
    assert {"profile", "Profile", "__version__"} <= set(dir(outcry))


def test_bars_by_symbol_and_date(es: dict[str, np.ndarray], shared: Path) -> None:
    want = worked(shared, "ES_RTH_0930_1615_ET", "2013-10-08")
    for symbol in ("ES", "MESZ3", "/es"):
        found = outcry.profile(es, symbol=symbol, date="2013-10-08")
        assert (found.poc, found.val, found.vah) == (want["tpo"]["poc"], *want["tpo"]["va_two_row_up"])
        assert [list(zone) for zone in found.single_prints] == want["tpo"]["interior_single_zones"]
        assert found.vpoc == want["volume_profile_uniform_high_low"]["poc"]
        assert not found.poor_high


def test_windows_in_every_form(gold: dict[str, np.ndarray]) -> None:
    start, end = (dt.datetime.fromisoformat(edge) for edge in WINDOW)
    by_text = outcry.profile(gold, tick_size="0.1", window=WINDOW)
    as_ns = tuple(int(edge.timestamp()) * 10**9 for edge in (start, end))
    for window in ((start, end), as_ns, (pd.Timestamp(start), pd.Timestamp(end))):
        assert outcry.profile(gold, tick_size=Decimal("0.1"), window=window) == by_text


def test_the_window_is_half_open() -> None:
    data = {"ts": [0, 10, 20], "price": [1.0, 2.0, 3.0], "size": [1, 1, 1]}
    found = outcry.profile(data, tick_size=1, window=(0, 20))
    assert (found.low, found.high) == (1, 2)


def test_py_market_profiles_google_example(shared: Path) -> None:
    with (shared / "vectors/py_market_profile_google.csv").open() as file:
        rows = list(csv.DictReader(file))
    data = {"ts": pd.to_datetime([row["Timestamp"] for row in rows], utc=True)}
    data |= {
        name: [float(row[name.title()]) for row in rows]
        for name in ("open", "high", "low", "close", "volume")
    }
    window = ("2017-09-01T00:00Z", "2017-12-01T00:00Z")
    found = outcry.profile(pd.DataFrame(data), tick_size=0.05, window=window, method="py_market_profile")
    want = json.loads((shared / "vectors/py_market_profile.json").read_text())["expected"]
    assert (found.poc, found.val, found.vah, found.low, found.high) == (
        want["poc"], want["val"], want["vah"], want["low"], want["high"])  # fmt: skip


@pytest.mark.parametrize(("series", "method"), [("volume_profile", "lean"), ("time_profile", "lean_time")])
def test_leans_rolling_profiles(shared: Path, series: str, method: str) -> None:
    vectors = json.loads((shared / "vectors/lean_market_profile.json").read_text())["series"][series]
    checked = 0
    for at in range(2, len(vectors)):
        want, bars = vectors[at]["expected"], vectors[at - 2 : at + 1]
        if want["poc"] is None:
            continue
        data: dict[str, Any] = {"ts": [0, 1, 2]}
        data |= {name: [bar[name] for bar in bars] for name in ("open", "high", "low", "close", "volume")}
        found = outcry.profile(data, tick_size=0.05, window=(0, 3), method=method)
        assert (found.poc, found.high, found.low, found.vah, found.val) == tuple(
            want[name] for name in ("poc", "profile_high", "profile_low", "vah", "val")
        ), vectors[at]["date"]
        checked += 1
    assert checked == 19


def test_prices_of_bonds_yen_and_below_zero_are_exact() -> None:
    for tick, prices in (
        (Decimal(1) / 64, [110.015625, 110.03125]),
        (Decimal("0.0000005"), [0.0064005, 0.006401]),
        (Decimal("0.01"), [-37.63, -37.62]),
    ):
        found = outcry.profile({"ts": [0, 1], "price": prices, "size": [1, 2]}, tick_size=tick, window=(0, 9))
        assert (found.low, found.high) == tuple(prices)


TRADES: dict[str, Any] = {"ts": [0, 1], "price": [10.0, 10.25], "size": [1, 1]}
BARS: dict[str, Any] = {
    "ts": [0],
    "open": [10.0],
    "high": [11.0],
    "low": [9.0],
    "close": [10.0],
    "volume": [5],
}


@pytest.mark.parametrize(
    ("data", "terms", "message"),
    [
        ({**TRADES, "price": [10.0, 10.1]}, {}, "Row 1: price 10.1 is not a multiple of the tick 0.25"),
        ({**TRADES, "price": [10.0, float("nan")]}, {}, "Row 1: nan is not a price"),
        ({**TRADES, "size": [1, -1]}, {}, "Give a whole number"),
        ({**TRADES, "size": [1, 1.5]}, {}, "Give a whole number"),
        ({**TRADES, "size": [1]}, {}, "different lengths"),
        ({"ts": [0], "price": [1.0]}, {}, "no column 'size'"),
        ({"ts": [0], "close": [1.0]}, {}, "no column 'open'"),
        ({**BARS, "high": [9.5]}, {}, "Row 0: The bar's open or close is outside"),
        (TRADES, {"window": (5, 9)}, "No rows in the window"),
        (TRADES, {"window": (9, 5)}, "starts at or after its end"),
        (TRADES, {"window": ("2013-10-07T08:20", "2013-10-07T13:30")}, "has no time zone"),
        (TRADES, {"method": "secret sauce"}, "Use one of dalton"),
        (TRADES, {"bracket_minutes": 25}, "divide an hour"),
        (TRADES, {"tick_size": 0}, "positive"),
        (TRADES, {"symbol": "ES", "date": "2013-10-08"}, "either tick_size and window, or symbol and date"),
        (TRADES, {"tick_size": None}, "either tick_size and window, or symbol and date"),
        (
            TRADES,
            {"tick_size": None, "window": None, "symbol": "ZZZ", "date": "2013-10-08"},
            "unknown symbol",
        ),
        (
            TRADES,
            {"tick_size": None, "window": None, "symbol": "ES", "date": "2013-12-25"},
            "no regular session",
        ),
    ],
)
def test_mistakes_are_named(data: dict[str, Any], terms: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        outcry.profile(data, **{"tick_size": 0.25, "window": (0, 9), **terms})


def test_the_plot_shows_every_letter_and_the_levels(es: dict[str, np.ndarray]) -> None:
    found = outcry.profile(es, symbol="ES", date="2013-10-08")
    axes = found.plot()
    letters = [text for text in axes.texts if len(text.get_text()) == 1]
    assert len(letters) == sum(row.tpos for row in found.rows) == 308
    at_poc = {text.get_text() for text in letters if text.get_position()[1] == found.poc}
    assert at_poc == set(next(row.letters for row in found.rows if row.price == found.poc))
    named = " ".join(text.get_text() for text in axes.texts)
    for level in ("POC 1655.75", "VAH 1660.75", "VAL 1648.75", "VPOC 1656.25", "high 1671.25", "low 1648.25"):
        assert level in named
    mpl.pyplot.close(axes.figure)

"""Inputs that `outcry.profile` accepts and refuses; expected values are worked by hand."""

import datetime as dt
from decimal import Decimal
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outcry

mpl.use("Agg")
MINUTE = 60 * 10**9
OPEN = pd.Timestamp("2013-10-08T09:30", tz="America/New_York").value


def trades(**columns: Any) -> dict[str, Any]:
    return {"ts": [0, 1, 2], "price": [10.0, 10.25, 10.5], "size": [1, 2, 3]} | columns


def bars(stamps: list[int]) -> dict[str, Any]:
    price = [1655.25 for _ in stamps]
    return {
        "ts": stamps,
        "open": price,
        "high": price,
        "low": price,
        "close": price,
        "volume": [4] * len(stamps),
    }


def of(data: Any, **terms: Any) -> outcry.Profile:
    return outcry.profile(data, **{"tick_size": 0.25, "window": (0, 9), **terms})


def of_es(data: Any, **terms: Any) -> outcry.Profile:
    return outcry.profile(data, **{"symbol": "ES", "date": "2013-10-08", **terms})


# -- missing timestamps


STAMPS = ["1970-01-01T00:00:00.000000001", None, "1970-01-01T00:00:00.000000002"]
MISSING: dict[str, Any] = {
    "pandas": pd.DataFrame(trades(ts=pd.to_datetime(STAMPS))),
    "pandas, with a zone": pd.DataFrame(trades(ts=pd.to_datetime(STAMPS, utc=True))),
    "pandas, integers": pd.DataFrame(trades(ts=pd.array([1, None, 2], "Int64"))),
    "pandas, objects": pd.DataFrame(trades(ts=pd.Series([pd.Timestamp(1), pd.NaT, pd.Timestamp(2)], dtype=object))),
    "polars": pl.DataFrame(trades(ts=pl.Series(STAMPS).str.to_datetime(time_unit="ns"))),
    "polars, integers": pl.DataFrame(trades(ts=[1, None, 2])),
    "pyarrow": pa.table(trades(ts=pa.array(np.array([1, "NaT", 2], "datetime64[ns]")))),
    "pyarrow, integers": pa.table(trades(ts=pa.array([1, None, 2]))),
    "numpy": trades(ts=np.array([1, "NaT", 2], "datetime64[ns]")),
    "lists": trades(ts=[dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_time_is_named_with_its_row_and_what_to_do(kind: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"^Row 1: ts is missing \(NaT or null\)\. Drop the row or give it a time\. Rows count from 0\.$",
    ):
        of(MISSING[kind])


def test_text_without_a_time_is_named_with_its_row() -> None:
    with pytest.raises(ValueError, match="Row 2: ts 'noon' is not an ISO 8601 time"):
        of(trades(ts=["1970-01-01T00:00:00", "1970-01-01T00:00:00", "noon"]))


# -- the trade date


@pytest.mark.parametrize(
    "day",
    [
        "2013-10-08", "2013-10-08T00:00:00", "20131008", dt.date(2013, 10, 8), dt.datetime(2013, 10, 8),  # noqa: DTZ001
        pd.Timestamp("2013-10-08"), pd.Timestamp("2013-10-08", tz="America/New_York"), np.datetime64("2013-10-08"),
        np.datetime64("2013-10-08", "ns"), pd.DatetimeIndex(["2013-10-08"])[0],
    ],
)  # fmt: skip
def test_a_date_in_every_form(day: Any) -> None:
    data = bars([OPEN, OPEN + MINUTE, OPEN + 2 * MINUTE])
    assert of_es(data, date=day) == of_es(data)
    assert of_es(data).high == 1655.25


@pytest.mark.parametrize(
    ("day", "message"),
    [
        (
            pd.Timestamp("2013-10-08T09:30"),
            "Invalid date 2013-10-08 09:30:00: it has a time of day. Give only the trade date",
        ),
        (dt.datetime(2013, 10, 8, 9, 30, tzinfo=dt.UTC), "has a time of day"),
        (np.datetime64("2013-10-08T09:30"), "has a time of day"),
        (pd.Timestamp("2013-10-08") + pd.Timedelta(1, "ns"), "has a time of day"),
        ("8 October 2013", "Invalid date '8 October 2013': use the form 2013-10-08"),
        (np.datetime64("2013-10"), "Invalid date '2013-10'"),
        (pd.NaT, "Invalid date NaT"), (np.datetime64("NaT"), "Invalid date 'NaT'"), (20131008, "Invalid date 20131008"),
    ],
)  # fmt: skip
def test_an_invalid_trade_date_is_refused(day: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}|^Invalid date .*{message}"):
        of_es(bars([OPEN]), date=day)


# -- bars


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_bars_of_one_stamp_are_refused_and_trades_are_not(kind: Any) -> None:
    again = kind(bars([OPEN + MINUTE, OPEN, OPEN + MINUTE]))
    with pytest.raises(ValueError, match=r"Row 2: The bar has the same ts as row 0\. Drop one of them"):
        of_es(again)
    assert sum(row.volume for row in of(kind(trades(ts=[1, 1, 1]))).rows) == 6


def test_bars_of_one_stamp_outside_the_window_do_no_harm() -> None:
    assert of_es(bars([OPEN - MINUTE, OPEN - MINUTE, OPEN, OPEN + MINUTE])).rows[0].volume == 8


@pytest.mark.parametrize(
    ("minutes", "bracket", "fits"),
    [(1, 30, True), (5, 30, True), (30, 30, True), (20, 30, False), (60, 30, False), (1440, 30, False),
     (60, 60, True), (30, 15, False)],
)  # fmt: skip
def test_bars_longer_than_a_bracket_or_across_its_edges_are_refused(
    minutes: int, bracket: int, fits: bool
) -> None:
    data = bars([OPEN + n * minutes * MINUTE for n in range(-3, 6)])
    if fits:
        assert of_es(data, bracket_minutes=bracket).low == 1655.25
        return
    message = f"{minutes}-minute bars do not fit into {bracket}-minute brackets. Give 1-minute bars"
    with pytest.raises(ValueError, match=message):
        of_es(data, bracket_minutes=bracket)


def test_bars_that_begin_beside_the_brackets_are_refused() -> None:
    """Half-hours from 09:15 on cross 09:30, 10:00 and so on; quarters of an hour fit."""
    with pytest.raises(ValueError, match="30-minute bars overlap two brackets"):
        of_es(bars([OPEN + n * 30 * MINUTE - 15 * MINUTE for n in range(8)]))
    assert of_es(bars([OPEN + n * 15 * MINUTE - 15 * MINUTE for n in range(8)])).low == 1655.25


def test_a_quiet_market_has_no_long_bars() -> None:
    assert of_es(bars([OPEN, OPEN + 37 * MINUTE])).rows[0].letters == "AB"


# -- prices


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_float32_prices_are_rounded_to_their_ticks(kind: Any) -> None:
    """The float32 of 17234.2 is 17234.19921875, and half a unit in its last place is 0.0009765625."""
    prices = np.array([17234.2, 17234.3, 17233.9], np.float32)
    found = of(kind(trades(price=prices)), tick_size=0.1)
    assert (found.low, found.high) == (17233.9, 17234.3)
    assert [row.price for row in found.rows if row.volume] == [17234.3, 17234.2, 17233.9]


@pytest.mark.parametrize(
    ("price", "tick"),
    [(17234.25, 0.1), (np.nextafter(np.float32(17234.2), np.float32(0)), 0.1), (1655.3, 0.25)],
)
def test_other_float32_prices_are_between_two_ticks(price: float, tick: float) -> None:
    prices = np.array([1655.0 if tick == 0.25 else 17234.2, price, price], np.float32)
    with pytest.raises(ValueError, match=r"Row 1: price .* is not a multiple of the tick"):
        of(trades(price=prices), tick_size=tick)


def test_a_double_is_not_as_tolerant() -> None:
    with pytest.raises(ValueError, match=r"Row 0: price 17234\.19921875 is not a multiple"):
        of(trades(price=[17234.19921875, 17234.2, 17234.2]), tick_size=0.1)


def test_float32_too_coarse_for_ticks_is_refused() -> None:
    """Above 2²⁴ quarters (4,194,304) a float32 cannot represent quarters, because its step is a half."""
    with pytest.raises(ValueError, match=r"Row 0: float32 is too imprecise for ticks at 5000000\.0\. Give"):
        of(trades(price=np.array([5e6, 5e6, 5e6], np.float32)))


def test_float32_closes_are_not_rounded_up_to_the_next_row() -> None:
    """17234.3 as float32 is 17234.30078125: a preset that rounds up leaves it on its row."""
    prices = np.array([17234.2, 17234.3, 17233.9], np.float32)
    found = of(trades(price=prices), tick_size=0.1, method="lean")
    assert [row.price for row in found.rows] == [17234.3, 17234.2, 17233.9]


def test_invalid_prices_and_sizes_are_named_with_their_row() -> None:
    with pytest.raises(ValueError, match="Row 2: None is not a price"):
        of(trades(price=[Decimal("10.0"), Decimal("10.25"), None]))
    with pytest.raises(ValueError, match=r"Row 1: size is None\. Give a whole number of contracts"):
        of(pd.DataFrame(trades(size=pd.Series([1, None, 3], dtype=object))))
    with pytest.raises(ValueError, match=r"Row 1: size is .*Give a whole number"):
        of(pa.table(trades(size=pa.array([1, None, 3]))))


# -- no data


NO_ROWS: dict[str, Any] = {
    "None": None, "a list": [], "a list of rows": [(0, 10.0, 1)], "a number": 5, "a Series": pd.Series([1.0]),
    "an empty lazy frame": pl.LazyFrame(trades()).head(0), "an empty mapping": {}, "an empty frame": pd.DataFrame(),
    "no rows in pandas": pd.DataFrame(trades()).iloc[:0], "no rows in Polars": pl.DataFrame(trades()).head(0),
    "no rows in PyArrow": pa.table(trades()).slice(0, 0), "no rows in a mapping": trades(ts=[], price=[], size=[]),
}  # fmt: skip


@pytest.mark.parametrize("what", NO_ROWS)
def test_no_data_is_one_clear_error(what: str) -> None:
    message = (
        r"^data is (None|empty|of type \w+)\. Give a path, or a mapping or dataframe "
        r"\(pandas, Polars, PyArrow, numpy\) with ts,"
    )
    with pytest.raises(outcry.InvalidInput, match=message):
        of(NO_ROWS[what])


def test_a_column_without_a_value_for_each_row_is_named() -> None:
    with pytest.raises(ValueError, match="data has several columns 'size', or several values per row"):
        of(trades(size=5))
    twice = pd.DataFrame(np.ones((3, 4)), columns=["ts", "price", "price", "size"])
    with pytest.raises(ValueError, match="data has several columns 'price'"):
        of(twice)


def test_a_window_without_rows_reports_the_range_of_the_data() -> None:
    message = "No rows in the window 2013-10-09T13:30:00Z to 2013-10-09T20:15:00Z: "
    with pytest.raises(
        ValueError, match=message + "the data covers 2013-10-08T13:30:00Z to 2013-10-08T13:31:00Z"
    ):
        of_es(bars([OPEN, OPEN + MINUTE]), date="2013-10-09")


@pytest.mark.parametrize("method", ["dalton", "lean", "lean_time"])
def test_rows_of_size_or_volume_0_alone_are_refused(method: str) -> None:
    message = "No trades in the window: all rows there have size or volume 0"
    with pytest.raises(ValueError, match=message):
        of(trades(size=[0, 0, 0]), method=method)
    with pytest.raises(ValueError, match=message):
        of_es(bars([OPEN]) | {"volume": [0]}, method=method)


@pytest.mark.parametrize("method", ["dalton", "lean", "lean_time"])
def test_rows_of_size_0_count_in_no_level(method: str) -> None:
    some = of(trades(size=[0, 3, 0]), method=method)
    assert (some.low, some.poc, some.high) == (some.low,) * 3


# -- labels of a plot


@pytest.mark.parametrize(
    ("tick", "prices", "message"),
    [
        (0.25, [17234.25, 17236.5, 17240.0], ["low 17234.25", "high 17240.00"]),
        ("0.0000005", [0.0064005, 0.006401, 0.0064015], ["0.0064005", "0.0064015"]),
        (Decimal(1) / 64, [110.015625, 110.03125, 111.0], ["110.015625", "111.000000"]),
        (1, [123456789, 123456790, 123456791], ["123456789", "123456791"]),
        (0.05, [-37.65, -37.6, -37.55], ["-37.65", "-37.55"]),
    ],
)  # fmt: skip
def test_labels_of_a_plot_are_the_prices_to_the_tick(
    tick: Any, prices: list[float], message: list[str]
) -> None:
    axes = of(trades(price=prices), tick_size=tick).plot()
    names = [text.get_text() for text in axes.texts]
    assert all(any(name.endswith(one) for name in names) for one in message), names
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert 2 <= len(labels) <= 13
    step = Decimal(str(tick))
    for label, at in zip(labels, axes.get_yticks(), strict=True):
        assert Decimal(label) % step == 0
        assert float(label) == at
    mpl.pyplot.close(axes.figure)


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_a_profile_does_not_depend_on_how_many_rows_are_converted_at_a_time(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are out of order, before and after the window, and two of one timestamp whose order decides the close."""
    start, end = OPEN, OPEN + 60 * MINUTE
    times = [
        start + 40 * MINUTE,
        start - 1,
        start,
        start + 5,
        end - 1,
        end - 1,
        start + 31 * MINUTE,
        end,
        start,
    ]
    prices = [10.5, 99.0, 10.0, 10.25, 11.0, 10.75, 10.0, 99.0, 10.25]
    data = {"ts": times, "price": prices, "size": [3, 1, 2, 1, 4, 1, 2, 1, 1]}
    whole = outcry.profile(data, tick_size=0.25, window=(start, end))
    monkeypatch.setattr("outcry.library._PART_ROWS", rows)
    assert outcry.profile(data, tick_size=0.25, window=(start, end)) == whole
    assert (whole.low, whole.high, sum(row.volume for row in whole.rows)) == (10.0, 11.0, 14)
    prices[6] = 10.1
    with pytest.raises(ValueError, match=r"Row 6: price 10\.1"):
        outcry.profile(data, tick_size=0.25, window=(start, end))

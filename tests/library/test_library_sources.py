"""Sources of `outcry.profile`: column names, time zones, lazy and numpy data, contracts. Expected values by hand."""

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import outcry

#: 09:30 and 10:00 in New York on 8 October 2013, in UTC.
OPEN, LATER = pd.Timestamp("2013-10-08T13:30Z"), pd.Timestamp("2013-10-08T14:00Z")
PRICES, SIZES = [1655.25, 1655.75], [3, 2]
#: A prints 1655.25 with 3 lots, B prints 1655.75 with 2 lots.
WANTED = [(1655.75, "B", 2), (1655.5, "", 0), (1655.25, "A", 3)]


def rows_of(data: Any, **terms: Any) -> list[tuple[float, str, int]]:
    found = outcry.profile(data, **{"symbol": "ES", "date": "2013-10-08", **terms})
    return [(row.price, row.letters, row.volume) for row in found.rows]


def frame(stamp: str = "ts", **more: Any) -> pd.DataFrame:
    return pd.DataFrame({stamp: [OPEN, LATER], "price": PRICES, "size": SIZES, **more})


# -- names


@pytest.mark.parametrize(
    "stamp", ["ts", "TS", "ts_event", "Timestamp", "DateTime", "date_time", "Time", "timestamp_utc"]
)
@pytest.mark.parametrize(("price", "size"), [("price", "size"), ("Price", "Qty"), ("LAST", "Volume")])
def test_usual_names_in_any_case(stamp: str, price: str, size: str) -> None:
    data = frame(stamp).rename(columns={"price": price, "size": size})
    assert rows_of(data) == rows_of(pl.from_pandas(data)) == rows_of(pa.Table.from_pandas(data)) == WANTED


def test_bars_with_the_names_of_chart_programs() -> None:
    names = ("Open", "High", "Low", "Close")
    data = pd.DataFrame(
        {name: [1655.25, 1655.75] for name in names} | {"Adj Close": [1.0, 2.0], "Volume": SIZES},
        index=pd.DatetimeIndex([OPEN, LATER], name="Datetime"),
    )
    assert rows_of(data) == WANTED


def test_bars_with_a_price_column_are_bars_unless_there_is_a_size() -> None:
    """The bars print 1655.25 to 1655.75; the column `last` alone would print one row."""
    bars = {
        "ts": [OPEN],
        "open": [1655.25],
        "high": [1655.75],
        "low": [1655.25],
        "close": [1655.5],
        "volume": [3],
    }
    wanted = [(1655.75, "A", 1), (1655.5, "A", 1), (1655.25, "A", 1)]
    assert rows_of(bars | {"last": [1655.5]}) == wanted
    assert rows_of(bars | {"price": [1655.5], "size": [7]}) == [(1655.5, "A", 7)]


def test_a_datetime_index_goes_before_a_column_that_is_only_named_like_a_time() -> None:
    data = frame().set_index("ts").assign(date="8 October", time="morning")
    assert rows_of(data) == WANTED


def test_the_event_time_goes_before_the_index() -> None:
    """Databento's frames have the time of receipt as index."""
    received = pd.DatetimeIndex([OPEN, LATER], name="ts_recv") + pd.Timedelta(hours=20)
    assert rows_of(frame("ts_event").set_index(received)) == WANTED


def test_an_index_with_the_name_of_a_time() -> None:
    data = frame().assign(ts=[OPEN.value, LATER.value]).set_index("ts")
    assert rows_of(data) == WANTED


def test_times_in_two_columns_are_refused() -> None:
    data = frame().drop(columns="ts").assign(Date="2013-10-08", Time=["09:30", "10:00"])
    with pytest.raises(
        outcry.InvalidInput, match=r"two columns, date and time. Join them into one column, timestamp"
    ):
        rows_of(data)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["when", "price", "size"], "no column 'ts'. Name the times ts, timestamp or datetime"),
        (["ts", "price", "amount"], "no column 'size', only ts, price, amount. Trades need ts, price, size"),
        (["ts", "open", "close"], "no column 'high', only ts, open, close"),
    ],
)
def test_a_missing_column_is_named(names: list[str], message: str) -> None:
    with pytest.raises(outcry.InvalidInput, match=message):
        rows_of({name: [1] for name in names})


# -- kinds of data


def test_lazy_frames_and_datasets_read_only_the_columns_they_need() -> None:
    read: list[str] = []

    def noted(column: pl.Series) -> pl.Series:
        read.append(column.name)
        return column

    lazy = pl.from_pandas(frame(note="x")).lazy()
    lazy = lazy.with_columns(pl.col("note").map_batches(noted, return_dtype=pl.String))
    assert rows_of(lazy) == WANTED
    assert read == []
    assert rows_of(ds.dataset(pa.Table.from_pandas(frame(note="x")))) == WANTED


def test_record_batches() -> None:
    assert rows_of(pa.Table.from_pandas(frame()).to_batches()[0]) == WANTED


def test_structured_arrays_of_numpy() -> None:
    layout = [("Timestamp", "datetime64[ns]"), ("Price", "f8"), ("Size", "u4")]
    array = np.array([(OPEN.to_datetime64(), 1655.25, 3), (LATER.to_datetime64(), 1655.75, 2)], dtype=layout)
    assert rows_of(array, tz="UTC") == rows_of(array.view(np.recarray), tz="UTC") == WANTED
    with pytest.raises(
        outcry.InvalidInput, match=r"numpy array of shape \(2, 3\) without named columns\. Give a struct"
    ):
        rows_of(np.zeros((2, 3)))


DATABENTO = {
    "ts_event": np.array([OPEN.value, OPEN.value + 1, LATER.value], np.uint64), "rtype": [1, 1, 1],
    "publisher_id": [1, 1, 1], "instrument_id": [7, 7, 7], "action": ["T", "A", "T"],
    "price": np.array([1655_250_000_000, 1700_000_000_000, 1655_750_000_000]), "size": [3, 9, 2],
}  # fmt: skip


def test_databento_columns_have_integer_prices_and_orders_that_are_no_trades() -> None:
    assert rows_of(DATABENTO) == rows_of(pd.DataFrame(DATABENTO)) == WANTED
    actions = np.array([b"T", b"A", b"T"], "S1")
    assert rows_of(DATABENTO | {"action": actions}) == WANTED
    with pytest.raises(outcry.InvalidInput, match="Row 2: undefined is not a price"):
        rows_of(DATABENTO | {"price": np.array([1655_250_000_000, 0, 2**63 - 1])})
    assert rows_of({"ts": [OPEN, LATER], "price": [1655, 1656], "size": SIZES})[-1] == (1655.0, "A", 3)


# -- several contracts


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_rows_of_two_contracts_are_refused(kind: Any) -> None:
    data = {"ts": [OPEN.value, LATER.value], "price": PRICES, "size": SIZES}
    assert rows_of(kind(data | {"symbol": ["ESZ3", "ESZ3"]})) == WANTED
    with pytest.raises(
        outcry.InvalidInput,
        match=r"Row 1: the contract is ESH4, but ESZ3 in the rows before. Keep the rows of one",
    ):
        rows_of(kind(data | {"symbol": ["ESZ3", "ESH4"]}))


def test_rows_of_another_contract_outside_the_window_do_no_harm() -> None:
    times = [OPEN.value, LATER.value, OPEN.value - 10**15]
    data = {"ts": times, "price": [*PRICES, 1.0], "size": [*SIZES, 1], "contract": ["Z", "Z", "U"]}
    assert rows_of(data) == WANTED


# -- times


LOCAL = ["2013-10-08T09:30", "2013-10-08T10:00"]
NAIVE: dict[str, Any] = {
    "pandas": pd.DataFrame({"timestamp": pd.to_datetime(LOCAL), "price": PRICES, "size": SIZES}),
    "index": pd.DataFrame({"price": PRICES, "size": SIZES}, index=pd.to_datetime(LOCAL)),
    "polars": pl.DataFrame({"timestamp": LOCAL, "price": PRICES, "size": SIZES}).with_columns(
        pl.col("timestamp").str.to_datetime()
    ),
    "pyarrow": pa.table(
        {"timestamp": pa.array(np.array(LOCAL, "datetime64[us]")), "price": PRICES, "size": SIZES}
    ),
    "numpy": {"timestamp": np.array(LOCAL, "datetime64[m]"), "price": PRICES, "size": SIZES},
    "text": {"timestamp": LOCAL, "price": PRICES, "size": SIZES},
    "datetimes": {
        "timestamp": [dt.datetime.fromisoformat(at) for at in LOCAL],
        "price": PRICES,
        "size": SIZES,
    },
}


@pytest.mark.parametrize("kind", NAIVE)
def test_naive_times_need_a_zone(kind: str) -> None:
    with pytest.raises(
        outcry.InvalidInput,
        match=r"^Row 0: (timestamp|index) 2013-10-08T09:30:00\.000 has no time zone\. Add tz, for example "
        r'tz="America/New_York" or tz="UTC"\. Rows count from 0\.$',
    ):
        rows_of(NAIVE[kind])
    assert rows_of(NAIVE[kind], tz="America/New_York") == WANTED
    assert rows_of(NAIVE[kind], tz=ZoneInfo("America/New_York")) == WANTED


def test_a_zone_changes_no_time_that_has_one() -> None:
    chicago = frame("timestamp").assign(timestamp=lambda f: f["timestamp"].dt.tz_convert("America/Chicago"))
    for data in (chicago, pl.from_pandas(chicago), pa.Table.from_pandas(chicago)):
        assert rows_of(data) == rows_of(data, tz="Asia/Tokyo") == WANTED


def test_ts_without_a_zone_is_utc_unless_the_user_names_one() -> None:
    utc = frame().assign(ts=lambda f: f["ts"].dt.tz_localize(None))
    assert rows_of(utc) == WANTED
    assert rows_of(NAIVE["numpy"] | {"ts": NAIVE["numpy"]["timestamp"]}, tz="America/New_York") == WANTED


def test_a_column_that_says_utc_has_no_other_zone() -> None:
    with pytest.raises(
        outcry.InvalidInput, match=r"'timestamp_utc' says UTC, but tz is Europe/Berlin. Omit tz"
    ):
        rows_of(frame("timestamp_utc"), tz="Europe/Berlin")
    with pytest.raises(outcry.InvalidInput, match=r"Invalid tz 'Mars'. Use an IANA name"):
        rows_of(frame(), tz="Mars")


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
def test_whole_numbers_since_1970_in_every_unit(unit: int) -> None:
    data = {"time": [OPEN.value // unit, LATER.value // unit], "price": PRICES, "size": SIZES}
    assert rows_of(data) == WANTED
    with pytest.raises(
        outcry.InvalidInput, match="Row 1: time 5 is not a time between 1980 and 2100 in the unit"
    ):
        rows_of(data | {"time": [OPEN.value // unit, 5]})


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("2024-11-03T01:30", "Row 1: timestamp 2024-11-03T01:30:00.000 occurs twice in America/New_York"),
        ("2024-03-10T02:30", "Row 1: timestamp 2024-03-10T02:30:00.000 does not exist in America/New_York"),
    ],
)
def test_local_times_when_clocks_change_are_refused(at: str, message: str) -> None:
    """Clocks in New York go back at 02:00 on 3 November 2024 and forward at 02:00 on 10 March."""
    data = {"timestamp": np.array([at[:11] + "00:59", at], "datetime64[m]"), "price": PRICES, "size": SIZES}
    with pytest.raises(outcry.InvalidInput, match=message):
        rows_of(data, tz="America/New_York")


def test_offsets_of_a_zone_follow_the_season() -> None:
    """09:30 in New York is 14:30 UTC in January and 13:30 UTC in July."""
    times = np.array(["2024-01-03T09:30", "2024-07-03T09:30"], "datetime64[m]")
    data = {"timestamp": times, "price": [10, 10], "size": [1, 2]}
    for window, size in (
        (("2024-01-03T14:30Z", "2024-01-03T14:31Z"), 1),
        (("2024-07-03T13:30Z", "2024-07-03T13:31Z"), 2),
    ):
        found = outcry.profile(data, tick_size=1, window=window, tz="America/New_York")
        assert found.rows[0].volume == size


def test_bars_stamped_at_their_end() -> None:
    """The bar stamped 10:00 covers 09:59, so all three are in bracket A; as starts, the last would be in B."""
    times = [OPEN + pd.Timedelta(minutes=n) for n in (28, 29, 30)]
    bars = {name: [1655.25] * 3 for name in ("open", "high", "low", "close")}
    data = pd.DataFrame({"ts": times, **bars, "volume": [1, 1, 1]})
    assert rows_of(data) == [(1655.25, "AB", 3)]
    assert rows_of(data, stamp="open") == [(1655.25, "AB", 3)]
    assert rows_of(data, stamp="close") == [(1655.25, "A", 3)]
    with pytest.raises(outcry.InvalidInput, match="Cannot tell the length of a single bar"):
        rows_of(data.head(1), stamp="close")


# -- errors


def test_the_error_names_the_first_bad_row_of_all_columns() -> None:
    prices, sizes = [10.0, 10.0, float("nan")], [1, -4, 1]
    with pytest.raises(outcry.InvalidInput) as caught:
        outcry.profile({"ts": [0, 1, 2], "price": prices, "size": sizes}, tick_size=1, window=(0, 9))
    assert caught.value.row == 1
    assert (
        str(caught.value)
        == "Row 1: size is -4. Give a whole number of contracts, 0 or more. Rows count from 0."
    )


@pytest.mark.parametrize(
    ("data", "terms"),
    [
        ({"ts": [0], "price": [1], "size": ["many"]}, {}), ({"ts": [0], "price": ["x"], "size": [1]}, {}),
        ({"ts": [1.5], "price": [1], "size": [1]}, {}), ({"ts": [True], "price": [1], "size": [1]}, {}),
        ({"ts": [dt.date(2024, 1, 3)], "price": [1], "size": [1]}, {}),
        ({"ts": [0, 1], "price": [1, 5e6], "size": [1, 1]}, {}),
        ({"ts": [0, 1], "price": [1, 5e6], "size": [1, 1]}, {"method": "lean"}),
        ({}, {"tick_size": "a quarter"}), ({}, {"window": 5}), ({}, {"window": ("yesterday", "today")}),
        ({}, {"window": (np.datetime64(0, "s"), np.datetime64(9, "s"))}), ({}, {"window": (None, 5)}),
        ({}, {"session": "overnight"}), ({}, {"session": "lunch"}), ({}, {"stamp": "middle"}),
        ({}, {"contract": "ESZ3"}),
        ({}, {"bracket_minutes": 0}), ({}, {"tz": 5}),
        ({}, {"tick_size": None, "window": None, "symbol": "ES"}),
    ],
)  # fmt: skip
def test_every_mistake_is_the_same_kind_of_error(data: dict[str, Any], terms: dict[str, Any]) -> None:
    given = {"ts": [0], "price": [1.0], "size": [1]} | data
    with pytest.raises(outcry.InvalidInput) as caught:
        outcry.profile(given, **{"tick_size": 1, "window": (0, 9), **terms})
    assert isinstance(caught.value, ValueError)
    assert caught.value.remedy or "give" in caught.value.problem

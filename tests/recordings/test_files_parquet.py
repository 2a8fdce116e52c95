"""Parquet: exact prices from decimals and floats; timestamps have a time zone or require an option."""

from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.recordings.sample_files import OPENING, parquet_trades

NS = OPENING * 10**9


def write(tmp_path, columns: dict, name: str = "ESH4.parquet", **options):
    path = tmp_path / name
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("at", [
    pa.array([NS, NS], pa.int64()), pa.array([OPENING] * 2, pa.timestamp("s", "UTC")),
    pa.array([NS // 1_000] * 2, pa.timestamp("us", "America/New_York")), pa.array(["2024-01-02T14:30:00"] * 2),
])  # fmt: skip
@pytest.mark.parametrize("price", [
    pa.array([4755.25, 4755.5]), pa.array([4755.25, 4755.5], pa.float32()),
    pa.array([Decimal("4755.25"), Decimal("4755.50")]), pa.array(["4755.25", "4755.5"]),
])  # fmt: skip
def test_times_and_prices_of_every_type(tmp_path, read, at, price) -> None:
    path = write(
        tmp_path, {"ts": at, "price": price, "size": pa.array([2, 1], pa.uint32()), "side": ["B", "S"]}
    )
    rows = read(path, tz="UTC" if pa.types.is_string(at.type) else None).rows("ESH2024")
    assert rows.tolist() == [(NS, 4755_250000000, 2, b"B", 0, 0), (NS, 4755_500000000, 1, b"A", 0, 0)]


def test_naive_parquet_times_require_a_time_zone_option(tmp_path, read, refused) -> None:
    at = pa.array([datetime(2024, 1, 2, 9, 30)], pa.timestamp("ns"))  # noqa: DTZ001 - naive is the case
    path = write(tmp_path, {"ts": at, "price": [4755.25], "size": [1]})
    assert "--tz" in str(refused(path))
    assert read(path, tz="America/New_York").rows()["ts_event"].tolist() == [NS]


def test_row_groups_are_streamed_in_order(tmp_path, read) -> None:
    count = 250_000
    path = write(tmp_path, {"ts": NS + np.arange(count), "price": np.full(count, 4755.25), "size": np.ones(count, int)},
                 row_group_size=30_000)  # fmt: skip
    result = read(path)
    assert max(len(batch.rows) for batch in result.batches) <= 100_000
    np.testing.assert_array_equal(result.rows()["ts_event"], NS + np.arange(count))


def test_symbols_in_a_dictionary_and_bars(tmp_path, read, refused) -> None:
    columns = {
        "timestamp": pa.array([OPENING, OPENING + 60], pa.timestamp("s", "UTC")),
        **{name: [4755.25, 4755.25] for name in ("open", "high", "low", "close")}, "volume": [3, 4],
        "symbol": pa.array(["ESH4", "ESH4"]).dictionary_encode(),
    }  # fmt: skip
    path = write(tmp_path, columns, "bars.parquet")
    assert "--stamp" in str(refused(path))
    result = read(path, stamp="close")
    assert (result.keys, result.qualities) == ({"ESH2024"}, {"bars_1m"})
    assert result.rows()["ts_event"].tolist() == [NS - 60 * 10**9, NS]


@pytest.mark.filterwarnings("ignore")
def test_databentos_parquet(shared, tmp_path, read) -> None:
    import databento as db

    sample = shared / "data/dbn/futures_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"
    expected = read(sample).rows()
    for kind in ("float", "fixed"):
        path = tmp_path / f"{kind}.parquet"
        db.DBNStore.from_file(sample).to_parquet(path, price_type=kind)
        result = read(path)
        assert result.source == "databento"
        np.testing.assert_array_equal(result.rows("ESU2024"), expected)


@pytest.mark.parametrize(("column", "value", "problem"), [
    ("price", [float("nan"), 1.0], "row 1"), ("price", [1.0, 1e300], "row 2"), ("price", [1.0, None], "row 2"),
    ("size", [1, -1], "row 2"), ("price", [1.0, 0.1 + 0.2], "nine decimals"), ("ts", [NS, 10], "unit"),
])  # fmt: skip
def test_bad_values_are_refused_with_their_row(tmp_path, refused, column, value, problem) -> None:
    columns = {"ts": [NS, NS], "price": [1.0, 1.0], "size": [1, 1]} | {column: value}
    assert problem in str(refused(write(tmp_path, columns)))


def test_a_truncated_or_false_footer_is_refused(tmp_path, refused) -> None:
    path = parquet_trades(tmp_path / "ESH4.parquet")
    data = path.read_bytes()
    path.write_bytes(data[:-20])
    assert "cut short" in str(refused(path))
    path.write_bytes(data[:-8] + b"\xff\xff\xff\x7f" + b"PAR1")
    assert "too large" in str(refused(path))

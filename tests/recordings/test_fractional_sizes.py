"""Sizes of a product that is traded in fractions are whole steps inside, exact, or the file is refused with its row."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.own_products import own_reference
from tests.recordings.file_readers import Read
from tests.recordings.sample_files import scid_ticks

from outcry.market.instruments import Contract
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.recordings.tape import TapeFolder
from outcry.trades.records import TRADE, Quality

UNIVERSE = own_reference().universe
PERP = Contract("BTC-PERP")
AT = "2026-11-20T15:00:0{}Z"


def read(path: Path, **options: str) -> Read:
    reading = FileLibrary().open(path, UNIVERSE, ReadOptions(**options))  # type: ignore[arg-type]
    assert reading is not None
    return Read(reading.source, reading.format, list(reading.batches()), reading.counts)


def trades(path: Path, *sizes: str) -> Path:
    rows = [f"{AT.format(row)},90000.1,{size}" for row, size in enumerate(sizes)]
    path.write_text("\n".join(["ts,price,size", *rows]) + "\n")
    return path


def test_a_table_of_trades_has_exact_steps(tmp_path: Path) -> None:
    """0.1 + 0.2 is no double, and 4294967.294 is the largest size of 0.001: 2³²−2 steps."""
    found = read(trades(tmp_path / "BTC-PERP.csv", "0.001", "0.3", "12", "0", "4294967.294", "1.2340"))
    assert found.keys == {"BTC-PERP"}
    assert found.rows()["size"].tolist() == [1, 300, 12_000, 4_294_967_294, 1234]
    assert found.counts.skipped == {"zero size": 1}


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        ("0.0005", "'0.0005' is not a size in steps of 0.001"),
        ("1.2345", "'1.2345' is not a size in steps of 0.001"),
        ("-0.001", "'-0.001' is out of range for a size: 0 to 4,294,967.294"),
        ("4294967.295", "'4294967.295' is out of range for a size"),
        ("many", "'many' is not a valid size"),
    ],
)
def test_a_wrong_size_is_refused_with_its_row(tmp_path: Path, size: str, problem: str) -> None:
    with pytest.raises(FileRefused, match=problem) as refusal:
        read(trades(tmp_path / "BTC-PERP.csv", "0.001", size))
    assert refusal.value.place == "line 3"  # the header is row 1


def test_a_lot_of_a_future_is_whole(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match=r"'0\.5' is not a whole size"):
        read(trades(tmp_path / "x.csv", "1", "0.5"), contract="NK225Z26")


def test_a_table_may_have_products_with_different_steps(tmp_path: Path) -> None:
    """Sizes of a product that is not known are not read, so they may be anything."""
    path = tmp_path / "all.csv"
    path.write_text(
        "ts,price,size,symbol\n"
        f"{AT.format(0)},90000.1,0.25,BTCUSDT\n{AT.format(1)},601.25,7,SPY\n{AT.format(2)},3.5,0.0001,DOGEUSDT\n"
    )
    found = read(path)
    assert found.rows("BTC-PERP")["size"].tolist() == [250]
    assert found.rows("SPY")["size"].tolist() == [7]
    assert found.counts.skipped == {"trades of products not in the universe": 1}
    path.write_text(
        f"ts,price,size,symbol\n{AT.format(0)},90000.1,0.25,BTCUSDT\n{AT.format(1)},601.25,7.5,SPY\n"
    )
    with pytest.raises(FileRefused, match=r"'7\.5' is not a size in steps of 1") as refusal:
        read(path)
    assert refusal.value.place == "line 3"


def test_parquet_has_decimals_floats_and_bars(tmp_path: Path) -> None:
    """The float 0.1 means the decimal 0.1; a minute's volume of 1234.567 is 1,234,567 steps."""
    times = pa.array([1_795_186_800_000_000_000, 1_795_186_860_000_000_000], pa.timestamp("ns", "UTC"))
    path = tmp_path / "BTC-PERP.parquet"
    pq.write_table(pa.table({"ts": times, "price": [90000.1, 90000.2], "size": [0.1, 2.5]}), path)
    assert read(path).rows()["size"].tolist() == [100, 2500]
    prices = {name: [90000.1, 90000.2] for name in ("open", "high", "low", "close")}
    pq.write_table(pa.table({"ts": times} | prices | {"volume": [1234.567, 0.001]}), path)
    assert read(path, stamp="open").rows()["volume"].tolist() == [1_234_567, 1]


def test_a_format_with_whole_sizes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "BTC-PERP.scid"
    path.write_bytes(scid_ticks([90000.1, 90000.2]))
    with pytest.raises(FileRefused, match=r"sizes of BTC-PERP are multiples of 0\.001") as refusal:
        read(path)
    assert refusal.value.remedy == "export it as CSV or Parquet"


def test_the_tape_keeps_steps_and_can_be_imported(tmp_path: Path) -> None:
    writer = TapeFolder(tmp_path).begin(0, PERP, date(2026, 11, 20), "csv", Quality.TICKS)
    rows = read(trades(tmp_path / "BTC-PERP.csv", "0.001", "0.3")).rows().astype(TRADE)
    writer.append(rows)
    file = writer.close()
    assert file.path.startswith("operator/BTC-PERP/BTC-PERP/2026-11-20.csv.ticks.")
    found = read(tmp_path / file.path)
    assert found.keys == {"BTC-PERP"}
    assert found.rows()["size"].tolist() == [1, 300]

"""`outcry.profile` of a file. Rows are those of `tests/recordings/sample_files.py`, levels are worked out by hand."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.recordings import sample_files

import outcry
from outcry.library.files import as_arguments

DAY = {"symbol": "ES", "date": "2024-01-02"}
FORMATS = Path(outcry.__file__).parent / "recordings" / "formats"


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


@pytest.fixture
def kinds(tmp_path: Path) -> dict[str, Path]:
    return {path.name: path for path in sample_files.all_kinds(tmp_path)}


@pytest.mark.parametrize(
    ("name", "low", "high", "volume"),
    [
        ("ESH4.databento.csv", 4755.0, 4755.25, 3), ("ESH4_kibot.txt", 4755.0, 4757.0, 180),
        ("ES_H24_1min.txt", 4755.0, 4757.0, 180), ("ES 03-24.Last.txt", 4755.0, 4757.0, 180),
        ("ES 03-24.Ticks.txt", 4755.0, 4755.25, 4), ("ESH4_tv.csv", 4755.0, 4757.0, 180),
        ("ESH24_FUT_CME.scid", 4755.0, 4755.75, 4), ("ESH4.parquet", 4755.0, 4755.25, 3),
    ],
)  # fmt: skip
def test_files_of_every_kind(kinds: dict[str, Path], name: str, low: float, high: float, volume: int) -> None:
    for path in (kinds[name], str(kinds[name])):
        found = outcry.profile(path, **DAY)
        assert (found.low, found.high, sum(row.volume for row in found.rows)) == (low, high, volume)
        assert (found.symbol, found.contract, str(found.date)) == ("ES", "ESH2024", "2024-01-02")


def test_a_file_and_its_dataframe_have_the_same_profile(kinds: dict[str, Path]) -> None:
    by_file, by_frame = (
        outcry.profile(data, **DAY)
        for data in (kinds["ESH4.parquet"], pd.read_parquet(kinds["ESH4.parquet"]))
    )
    assert by_file.rows == by_frame.rows
    assert (by_file.poc, by_file.vah, by_file.val) == (by_frame.poc, by_frame.vah, by_frame.val)


def test_real_sessions(shared: Path) -> None:
    """The published levels of ES on 8 October 2013, and of gold's trades on the day before (two contracts)."""
    found = outcry.profile(
        shared / "data/lean/cme/minute/es/20131008_trade.zip", symbol="ES", date="2013-10-08"
    )
    assert (found.poc, found.vah, found.val, found.contract) == (1655.75, 1660.75, 1648.75, "ESZ2013")
    gold = shared / "data/lean/comex/tick/gc/20131007_trade.zip"
    window = ("2013-10-07T08:20-04:00", "2013-10-07T13:30-04:00")
    found = outcry.profile(gold, tick_size="0.1", window=window, contract="GCZ3")
    assert found.contract == "GCZ2013"


def test_a_table_without_a_contract_needs_none(tmp_path: Path) -> None:
    at = pa.array([sample_files.OPENING * 10**9], pa.timestamp("ns", "UTC"))
    path = write(tmp_path / "trades.parquet", ts=at, price=[4755.25], size=[2])
    assert (outcry.profile(path, **DAY).poc, outcry.profile(path, **DAY).contract) == (4755.25, None)
    window = ("2024-01-02T14:30Z", "2024-01-02T15:00Z")
    assert outcry.profile(path, tick_size=0.25, window=window).poc == 4755.25
    assert outcry.profile(path, contract="ESH4", **DAY).contract == "ESH2024"


def several(folder: Path) -> Path:
    """Write two lots of March, three of June and nine of the micro, all in the regular session of 2 January 2024."""
    at = [sample_files.OPENING * 10**9 + second * 10**9 for second in range(4)]
    return write(
        folder / "all.parquet", ts=pa.array(at, pa.timestamp("ns", "UTC")), price=[4755.25, 4800.0, 4800.25, 4760.0],
        size=[2, 1, 2, 9], symbol=["ESH4", "ESM4", "ESM4", "MESH4"],
    )  # fmt: skip


def test_the_contract_with_the_most_volume_is_used(tmp_path: Path) -> None:
    path = several(tmp_path)
    assert (outcry.profile(path, **DAY).contract, outcry.profile(path, **DAY).high) == ("ESM2024", 4800.25)
    for terms in (DAY | {"symbol": "ESH4"}, DAY | {"contract": "ESH4"}):
        found = outcry.profile(path, **terms)
        assert (found.contract, found.high) == ("ESH2024", 4755.25)
    assert outcry.profile(path, **DAY, contract="MESH4").high == 4760.0
    with pytest.raises(
        outcry.InvalidInput, match=r"all\.parquet has ESH2024, ESM2024, MESH2024, not NQ\. Correct the"
    ):
        outcry.profile(path, symbol="NQ", date="2024-01-02")


def test_without_a_symbol_the_contract_must_be_certain(tmp_path: Path) -> None:
    window = ("2024-01-02T14:30Z", "2024-01-02T15:00Z")
    message = (
        'several contracts in the window: ESH2024, ESM2024, MESH2024. Add contract="ESH2024", for example.'
    )
    with pytest.raises(outcry.InvalidInput, match=message):
        outcry.profile(several(tmp_path), tick_size=0.25, window=window)


BARS = """\
time,open,high,low,close,volume
2024-01-02 09:30:00,4755.25,4756,4755,4755.5,100
2024-01-02 09:31:00,4755.5,4757,4755.5,4756.75,80
"""


def test_arguments_state_what_a_file_does_not(tmp_path: Path) -> None:
    path = tmp_path / "ESH4.csv"
    path.write_text(BARS)
    with pytest.raises(
        outcry.InvalidInput,
        match=r'ESH4\.csv: the timestamps have no time zone\. Add tz, for example tz="America/New_York" or tz="UTC"\.$',
    ):
        outcry.profile(path, **DAY)
    with pytest.raises(outcry.InvalidInput, match=r'Add stamp="open" \(start\) or stamp="close" \(end\)\.$'):
        outcry.profile(path, **DAY, tz="America/New_York")
    assert outcry.profile(path, **DAY, tz="America/New_York", stamp="open").high == 4757.0


def test_an_invalid_price_is_named_with_its_file_and_time(tmp_path: Path) -> None:
    at = pa.array([sample_files.OPENING * 10**9], pa.timestamp("ns", "UTC"))
    path = write(tmp_path / "ESH4.parquet", ts=at, price=[4755.1], size=[2])
    message = "^ESH4.parquet, 2024-01-02T14:30:00Z: price 4755.1 is not a multiple of the tick 0.25. Check tick_size"
    with pytest.raises(outcry.InvalidInput, match=message):
        outcry.profile(path, **DAY)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.csv", None, "missing.csv: no such file. Give the path of an existing file."),
        ("ESH4.csv", b"", "ESH4.csv: the file is empty."),
        ("ESH4.bin", b"\xff\x00\x01", "ESH4.bin, byte 0: unknown file format. "),
        ("ESH4.csv", b"timestamp_utc,price,size\n2024-01-02 14:30:00,nan,1\n", "ESH4.csv, "),
        ("ESH4.csv", b"timestamp_utc,price,size\n2023-01-03 14:30:00,1,1\n", "the file covers 2023-01-03T14:30:00Z to"),
        ("a.csv", b"timestamp_utc,price,size,symbol\n2024-01-02 14:30:00,1,1,BTC\n",
         "skipped: 1 trades of continuous symbols. Read the file into a dataframe"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(outcry.InvalidInput, match=re.escape(message)) as refused:
        outcry.profile(tmp_path / name, **DAY)
    assert ".." not in str(refused.value)


def test_a_table_of_totals_with_decimal_commas_and_a_note(tmp_path: Path) -> None:
    """Ten lots at 4800.25 and five more at 4800.50; the line of text is left out."""
    path = tmp_path / "ESH4.csv"
    path.write_text(
        "date;time;price;volume\n02/01/2024;14:30:00;4800,25;10\n02/01/2024;14:31:00;4800,50;15\nend of data\n"
    )
    options: dict[str, Any] = {"tz": "UTC", "volume": "total", "decimal": "comma", "dates": "day-first"}
    with pytest.raises(outcry.InvalidInput, match='add bad_rows="skip" to leave it out'):
        outcry.profile(path, **DAY, **options)
    found = outcry.profile(path, **DAY, **options, bad_rows="skip")
    assert [(row.price, row.volume) for row in found.rows] == [(4800.5, 5), (4800.25, 10)]
    unnamed, window = tmp_path / "trades.csv", ("2024-01-02T14:00Z", "2024-01-02T15:00Z")
    unnamed.write_bytes(path.read_bytes())
    with pytest.raises(outcry.InvalidInput, match=r"need the trade dates of a product\. Name the symbol"):
        outcry.profile(unnamed, tick_size="0.25", window=window, **options, bad_rows="skip")
    with pytest.raises(outcry.InvalidInput, match="but data is a table"):
        outcry.profile({"ts": [0], "price": [1], "size": [1]}, **DAY, volume="total")


def test_no_message_of_a_reader_names_an_option_of_the_command_line() -> None:
    """Every text of the readers, as the library shows it."""
    texts = {
        node.value
        for path in FORMATS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
    }
    options = {text for text in texts if "--" in text}
    assert len(options) > 10
    assert not [text for text in options if "--" in as_arguments(text)]
    assert (
        as_arguments("add --tz, for example --tz America/New_York")
        == 'add tz, for example tz="America/New_York"'
    )


def test_a_missing_library_is_named_with_its_command() -> None:
    script = """
import sys
sys.modules["zstandard"] = None
import outcry
outcry.profile("es.csv", symbol="ES", date="2024-01-02")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    wanted = "Reading a file needs the extra `files`. Run: pip install 'openoutcry[files]'"
    assert done.stderr.splitlines()[-1].endswith(wanted)


def test_only_rows_inside_the_window_stay_in_memory(tmp_path: Path) -> None:
    """The overnight session before has another price, which the profile must not have."""
    second = 10**9 * np.arange(4)
    at = np.concatenate(
        [sample_files.OPENING * 10**9 - 3600 * 10**9 + second, sample_files.OPENING * 10**9 + second]
    )
    path = write(
        tmp_path / "ESH4.parquet", ts=pa.array(at, pa.timestamp("ns", "UTC")), price=[4700.0] * 4 + [4755.0] * 4,
        size=[5] * 4 + [1] * 4,
    )  # fmt: skip
    assert outcry.profile(path, **DAY).rows == [outcry.profile(path, **DAY).rows[0]]
    night = outcry.profile(path, **DAY, session="overnight")
    assert (night.low, night.high, night.session) == (4700.0, 4700.0, "overnight")
    both = outcry.profile(path, **DAY, session="full")
    assert (both.low, both.high, sum(row.volume for row in both.rows)) == (4700.0, 4755.0, 24)

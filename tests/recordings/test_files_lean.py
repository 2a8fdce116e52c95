"""LEAN zips: independently computed totals, cents for prices that LEAN stores in dollars, and only safe members."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from tests.recordings.sample_files import lean_zip

NEW_YORK = ZoneInfo("America/New_York")


def between(rows, start: str, end: str):
    low, high = (
        int(datetime.fromisoformat(t).replace(tzinfo=NEW_YORK).timestamp()) * 10**9 for t in (start, end)
    )
    return rows[(rows["ts_event"] >= low) & (rows["ts_event"] < high)]


def test_gold_ticks_add_up_to_the_worked_session(shared, read) -> None:
    worked = json.loads((shared / "vectors/worked_sessions.json").read_text())
    session = worked["GC_PIT_trades_0820_1330_ET"]["sessions"]["2013-10-07"]
    result = read(shared / "data/lean/comex/tick/gc/20131007_trade.zip")
    rows = between(result.rows("GCZ2013"), "2013-10-07T08:20", "2013-10-07T13:30")
    assert result.qualities == {"ticks"}
    assert (len(rows), int(rows["size"].sum())) == (24_468, 32_389)
    assert rows["price"].max() == round(session["high"] * 10) * 10**8
    assert rows["price"].min() == round(session["low"] * 10) * 10**8


def test_es_minutes_add_up_to_the_worked_session(shared, read) -> None:
    worked = json.loads((shared / "vectors/worked_sessions.json").read_text())
    for day in ("2013-10-07", "2013-10-08"):
        session = worked["ES_RTH_0930_1600_ET"]["sessions"][day]
        rows = read(shared / f"data/lean/cme/minute/es/{day.replace('-', '')}_trade.zip").rows("ESZ2013")
        rows = between(rows, f"{day}T09:30", f"{day}T16:00")
        assert (len(rows), int(rows["volume"].sum())) == (session["bars"], session["volume"])


def test_members_are_contracts_and_quotes_are_skipped(shared, read) -> None:
    result = read(shared / "data/lean/cme/minute/es/20131008_trade.zip")
    assert result.keys == {"ESZ2013", "ESH2014", "ESM2014", "ESU2014"}
    assert (result.source, result.format, result.qualities) == ("lean", "lean", {"bars_1m"})
    assert read(shared / "data/lean/cme/minute/es/20131008_quote.zip") is None


def test_grains_are_read_in_cents(tmp_path, read) -> None:
    """4.4275 dollars a bushel is 442.75 cents, the tick being a quarter of a cent; soybean meal is in dollars."""
    path = lean_zip(tmp_path / "20240102_trade.zip", {
        "20240102_zc_minute_trade_202403.csv": "52200000,4.4275,4.43,4.4275,4.4275,10\n",
        "20240102_zm_minute_trade_202403.csv": "52200000,380.1,380.2,380.1,380.2,5\n",
    })  # fmt: skip
    result = read(path)
    assert result.rows("ZCH2024")["open"].tolist() == [442_750_000_000]
    assert result.rows("ZMH2024")["open"].tolist() == [380_100_000_000]


def test_identical_prints_are_imported_and_suspicious_ones_are_not(tmp_path, read) -> None:
    text = "52200000,4755.25,1,usa,,0\n" * 2 + "52200000,4755.25,9,usa,,1\n" + "52199000,4755,0,usa,,0\n"
    path = lean_zip(tmp_path / "20240102_trade.zip", {"20240102_es_tick_trade_202403.csv": text})
    result = read(path)
    assert result.rows()["size"].tolist() == [1, 1, 0]
    assert result.counts.skipped == {"prints marked suspicious": 1}


def test_unknown_members_are_counted(tmp_path, read) -> None:
    path = lean_zip(tmp_path / "20240102_trade.zip", {
        "20240102_qqq_tick_trade_202403.csv": "52200000,4755.25,1,usa,,0\n",
        "20240102_es_tick_trade_202403.csv": "52200000,4755.25,1,usa,,0\n",
    })  # fmt: skip
    assert read(path).counts.skipped == {"trades of products not in the universe": 1}


@pytest.mark.parametrize(("text", "place", "problem"), [
    ("52200000,4755.25,1,usa,,0\nx,4755,1,usa,,0\n", "line 2", "'x' is not a valid time"),
    ("52200000,4755.25,1,usa,,0\n\n52200000,1\n", "line 3", "6 columns are expected"),
    ("52200000,nan,1,usa,,0\n", "line 1", "'nan' is not a valid price"),
    ("99200000,4755,1,usa,,0\n", "line 1", "out of range for a time"),
    ("52200000,4755,-1,usa,,0\n", "line 1", "out of range for a size"),
    ("52200000,99999999999999,1,usa,,0\n", "line 1", "too large"),
])  # fmt: skip
def test_a_bad_row_is_named(tmp_path, refused, text, place, problem) -> None:
    name = "20240102_es_tick_trade_202403.csv"
    fault = refused(lean_zip(tmp_path / "20240102_trade.zip", {name: text}))
    assert fault.place == f"member {name}, {place}"
    assert problem in fault.problem


def test_daily_bars_are_refused(tmp_path, refused) -> None:
    fault = refused(
        lean_zip(tmp_path / "es_trade.zip", {"es_trade_202403.csv": "20240102 00:00,1,1,1,1,1\n"})
    )
    assert "too coarse" in str(fault)

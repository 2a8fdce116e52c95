"""Text tables: the first bar or trade of each dialect, worked by hand, and the options that a table requires."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
import zstandard
from tests.recordings import sample_files as samples

from outcry.recordings.formats.file_library import FileLibrary

OPENING_NS = samples.OPENING * 10**9
MINUTE = 60 * 10**9
#: 4755.25, 4756, 4755, 4755.5, 100 from 14:30 UTC, and 4755.5, 4757, 4755.5, 4756.75, 80 from 14:31.
BARS = [
    (OPENING_NS, 4755_250000000, 4756_000000000, 4755_000000000, 4755_500000000, 100),
    (OPENING_NS + MINUTE, 4755_500000000, 4757_000000000, 4755_500000000, 4756_750000000, 80),
]


def write(tmp_path, name: str, text: str):
    path = tmp_path / name
    path.write_text(text, newline="")
    return path


@pytest.mark.parametrize(("name", "text", "source"), [
    ("ESH4_kibot.txt", samples.KIBOT_BARS, "kibot"),  # New York, stamped at the opening
    ("ES_H24_1min.txt", samples.FIRSTRATE, "firstrate"),  # New York, stamped at the opening
    ("ES 03-24.Last.txt", samples.NINJA_BARS, "ninjatrader"),  # UTC, stamped at the END
    ("ESH4_tv.csv", samples.TRADINGVIEW, "tradingview"),
])  # fmt: skip
def test_bars_of_each_dialect_start_at_the_opening(tmp_path, read, name, text, source) -> None:
    for ending in ("\n", "\r\n"):
        result = read(write(tmp_path, name, text.replace("\n", ending) + ending))
        assert (result.source, result.keys, result.qualities) == (source, {"ESH2024"}, {"bars_1m"})
        assert result.rows().tolist() == BARS


@pytest.mark.parametrize(("name", "text", "rows"), [
    ("ESH4.txt", samples.KIBOT_TICKS, [(OPENING_NS, 3), (OPENING_NS, 3)]),
    ("ES 03-24.Last.txt", samples.NINJA_TICKS, [(OPENING_NS + 123_000_000, 3), (OPENING_NS + 10**9, 1)]),
    ("trades.csv", samples.DATABENTO_TRADES, [(OPENING_NS + 1, 2), (OPENING_NS + 2, 1)]),
])  # fmt: skip
def test_prints_keep_order_and_duplicates(tmp_path, read, name, text, rows) -> None:
    result = read(write(tmp_path, name, text))
    assert result.qualities == {"ticks"}
    assert list(zip(result.rows()["ts_event"].tolist(), result.rows()["size"].tolist(), strict=True)) == rows


def test_real_euro_minutes(shared, read, refused) -> None:
    path = shared / "data/6e/6EH4_1min_20240101_20240112.csv.gz"
    assert "--stamp" in str(refused(path))
    rows = read(path, stamp="open").rows("6EH2024")
    assert len(rows) == 12_268
    assert rows[0].tolist() == (1704150060 * 10**9, 1_107600000, 1_107850000, 1_107600000, 1_107800000, 205)


def test_generic_bars_require_a_stamp_option(tmp_path, read, refused) -> None:
    path = write(tmp_path, "ESH4.csv", samples.GENERIC)
    assert "add --stamp open (start) or --stamp close (end)" in str(refused(path))
    assert read(path, stamp="open").rows().tolist() == BARS
    assert read(path, stamp="close").rows()["ts_event"].tolist() == [OPENING_NS - MINUTE, OPENING_NS]


def test_naive_timestamps_require_a_time_zone_option(tmp_path, read, refused) -> None:
    path = write(tmp_path, "ESH4.csv", "datetime,price,size\n2024-01-02 09:30:00,4755.25,2\n")
    assert "--tz" in str(refused(path))
    assert "not a time zone" in str(refused(path, tz="Mars/Olympus"))
    assert read(path, tz="America/New_York").rows()["ts_event"].tolist() == [OPENING_NS]


@pytest.mark.parametrize("stamp", [
    "2024-01-02T14:30:00Z", "2024-01-02 09:30:00-05:00", "2024-01-02T14:30:00.000000000+00:00",
    "1704205800", "1704205800000", "1704205800000000", "1704205800000000000",
])  # fmt: skip
def test_timestamps_with_a_time_zone(tmp_path, read, stamp) -> None:
    path = write(tmp_path, "x.csv", f"\ufeffTime,Last,Qty,Symbol,Side\n{stamp},4755.25,2,ESH4,buy\n")
    rows = read(path).rows("ESH2024")
    assert rows.tolist() == [(OPENING_NS, 4755_250000000, 2, b"B", 0, 0)]


def test_a_column_named_utc_is_not_overruled(tmp_path, refused) -> None:
    assert "says UTC" in str(
        refused(write(tmp_path, "ESH4.csv", samples.GENERIC), tz="Asia/Tokyo", stamp="open")
    )


def test_the_contract_is_from_the_symbol_then_the_name_then_required(tmp_path, read, refused) -> None:
    text = "ts_utc,price,size\n2024-01-02 14:30:00,4755.25,2\n"
    assert "--contract" in str(refused(write(tmp_path, "trades.csv", text)))
    assert read(tmp_path / "trades.csv", contract="ESH4").keys == {"ESH2024"}
    assert read(write(tmp_path, "MESH4.csv", text)).keys == {"MESH2024"}
    assert "the file name says MESH2024" in str(refused(tmp_path / "MESH4.csv", contract="ESH4"))
    both = "ts_utc,price,size,symbol\n2024-01-02 14:30:00,1,2,ESH4\n2024-01-02 14:30:00,1,2,NQH4\n"
    assert read(write(tmp_path, "both.csv", both)).keys == {"ESH2024", "NQH2024"}


def test_the_repeated_hour_is_resolved_by_order(tmp_path, read) -> None:
    """2024-11-03 in New York: 01:30 is 05:30 UTC at first and 06:30 UTC when clocks have gone back."""
    local = ["00:59", "01:30", "01:59", "01:00", "01:30", "02:00"]
    lines = "".join(f"2024-11-03 {t}:00,70000,1\n" for t in local)
    rows = read(write(tmp_path, "BTCX4.csv", "time,price,size\n" + lines), tz="America/New_York").rows()
    minutes = (rows["ts_event"] // MINUTE % 1440).tolist()
    assert minutes == [4 * 60 + 59, 5 * 60 + 30, 5 * 60 + 59, 6 * 60, 6 * 60 + 30, 7 * 60]


def test_a_skipped_local_time_is_refused_with_its_line(tmp_path, refused) -> None:
    text = "time,price,size\n2024-03-10 01:59:00,70000,1\n2024-03-10 02:30:00,70000,1\n"
    fault = refused(write(tmp_path, "BTCH4.csv", text), tz="America/New_York")
    assert fault.place == "line 3"
    assert "does not exist" in fault.problem


@pytest.mark.parametrize(("row", "problem"), [
    ("2024-01-02 14:30:00,1,2,3", "3 columns are expected, but the line has 4"),
    ('2024-01-02 14:30:00,"4,755.25",2', "decimal point"),
    ("2024-01-02 14:30:00,inf,2", "'inf' is not a valid price"),
    ("2024-01-02 14:30:00,,2", "an empty cell is not a valid price"),
    ("2024-01-02 14:30:00,1.0000000001,2", "not a valid price"),
    ("2024-01-02 14:30:00,12345678901234567890,2", "too large"),
    ("2024-01-02 14:30:00,4755.25,1.5", "not a whole size"),
    ("2024-01-02 14:30:00,4755.25,4294967296", "out of range for a size"),
    ("2024-02-30 14:30:00,4755.25,1", "not a valid time"),
    ("1822-02-03 14:30:00,4755.25,1", "out of range for a time"),
])  # fmt: skip
def test_a_bad_row_is_refused_with_its_line(tmp_path, refused, row, problem) -> None:
    text = f"ts_utc,price,size\n2024-01-02 14:30:00,4755.25,2\n\n{row}\n2024-01-02 14:30:00,4755.25,2\n"
    fault = refused(write(tmp_path, "ESH4.csv", text))
    assert fault.place == "line 4"
    assert problem in str(fault)


def test_a_decimal_comma_is_refused(tmp_path, refused) -> None:
    text = "20240102 143100;4755,25;4756;4755;4755,5;100\n"
    assert "decimal point" in str(refused(write(tmp_path, "ES 03-24.txt", text)))


@pytest.mark.parametrize(("rows", "problem"), [
    ("2024-01-02 14:30:00,10,9,8,9,1\n2024-01-02 14:31:00,10,10,8,9,1\n", "outside its high-low range"),
    ("2024-01-02 14:30:00,9,10,8,9,1\n2024-01-02 14:30:00,9,10,8,9,1\n", "same timestamp as the bar before"),
    ("2024-01-02 14:30:00,9,10,8,9,1\n2024-01-02 14:35:00,9,10,8,9,1\n2024-01-02 14:40:00,9,10,8,9,1\n", "5 minutes"),
    ("2024-01-02 14:30:00,9,10,8,9,1\n", "length of a single bar"),
])  # fmt: skip
def test_invalid_bars_are_refused(tmp_path, refused, rows, problem) -> None:
    path = write(tmp_path, "ESH4.csv", "ts_utc,open,high,low,close,volume\n" + rows)
    assert problem in str(refused(path, stamp="open"))


def test_a_running_total_of_volume_is_refused(tmp_path, refused, read) -> None:
    def bars(volumes) -> str:
        lines = (f"2024-01-02 {14 + i // 60}:{i % 60:02d}:00,9,10,8,9,{v}\n" for i, v in enumerate(volumes))
        return "ts_utc,open,high,low,close,volume\n" + "".join(lines)

    rising = np.cumsum(np.full(80, 7))
    assert "running total" in str(refused(write(tmp_path, "ESH4.csv", bars(rising)), stamp="open"))
    assert len(read(write(tmp_path, "ESH4.csv", bars(np.full(80, 7))), stamp="open").rows()) == 80


def test_bars_without_volume_are_counted(tmp_path, read) -> None:
    result = read(write(tmp_path, "ESH4_1min.csv", samples.GENERIC.replace(",80", ",0")), stamp="open")
    assert result.counts.skipped == {"bars without volume": 1}


def test_databento_tables_count_trades_once(tmp_path, read) -> None:
    header = (
        "ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,price,size,channel_id,order_id,flags,"
        "ts_in_delta,sequence,symbol"
    )
    at = "2024-01-02T14:30:00.000000001Z"
    events = (
        ("A", "4755.250000000", 3),
        ("T", "4755.250000000", 3),
        ("F", "4755.250000000", 3),
        ("R", "", 0),
    )
    rows = [f"{at},{at},160,1,118,{a},B,{p},{s},0,1,0,0,5,ESH4" for a, p, s in events]
    result = read(write(tmp_path, "mbo.csv", "\n".join([header, *rows])))
    assert result.rows().tolist() == [(OPENING_NS + 1, 4755_250000000, 3, b"B", 0, 5)]
    assert result.counts.skipped == {"order events that are not trades": 3}


def test_databento_bars_and_their_kinds(tmp_path, read, refused) -> None:
    text = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol\n"
    row = "1704205800000000000,{},1,118,4755250000000,4756000000000,4755000000000,4755500000000,100,ESH4\n"
    assert read(write(tmp_path, "a.csv", text + row.format(33))).rows().tolist() == BARS[:1]
    assert "too coarse" in str(refused(write(tmp_path, "a.csv", text + row.format(34))))


@pytest.mark.filterwarnings("ignore")
def test_tables_of_databentos_own_client(shared, tmp_path, read) -> None:
    import databento as db

    sample = shared / "data/dbn/futures_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"
    store = db.DBNStore.from_file(sample)
    plain, fixed, frame = tmp_path / "plain.csv", tmp_path / "fixed.csv", tmp_path / "frame.csv"
    store.to_csv(plain)
    store.to_csv(fixed, pretty_px=False, pretty_ts=False)
    store.to_df().to_csv(frame)
    expected = read(sample).rows()
    for path in (plain, fixed, frame):
        result = read(path)
        assert result.source == "databento"
        np.testing.assert_array_equal(result.rows("ESU2024"), expected)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_tables_are_read_whatever_their_name(tmp_path, read, pack) -> None:
    path = tmp_path / "ESH4.csv"
    path.write_bytes(pack(samples.GENERIC.encode()))
    assert read(path, stamp="open").rows().tolist() == BARS


def test_a_format_that_does_not_fit_is_refused(tmp_path, refused) -> None:
    path = write(tmp_path, "ESH4.csv", samples.GENERIC)
    assert "not in the format kibot" in str(refused(path, format="kibot"))
    assert "its content is text" in str(refused(path, format="dbn"))
    assert "tradingview" in str(refused(path, format="excel"))


def test_a_table_without_header_is_not_guessed(tmp_path, read, refused) -> None:
    path = write(tmp_path, "ESH4.csv", samples.FIRSTRATE)
    assert "--format" in str(refused(path))
    assert read(path, format="firstrate").rows().tolist() == BARS


#: One bar of 09:30 New York in each format: 14:30 UTC on 2 January 2024.
PRICES = "4755.25,4756,4755,4755.5,100"
HEADER = "open,high,low,close,volume"


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        (f"date,{HEADER}\n20240102 09:30:00,{PRICES}\n", "America/New_York"),
        (f"date,{HEADER}\n20240102  09:30:00,{PRICES}\n", "America/New_York"),
        (f"date,{HEADER}\n20240102 09:30:00 US/Eastern,{PRICES}\n", None),
        (f"{HEADER}\n2024-01-02 09:30:00,{PRICES}\n", "America/New_York"),
        (f'"","open","high","low","close","volume"\n"2024-01-02 09:30:00",{PRICES}\n', "America/New_York"),
        (f'"ESH4.Open","ESH4.High","ESH4.Low","ESH4.Close","ESH4.Volume"\n"2024-01-02 09:30:00",{PRICES}\n',
         "America/New_York"),
    ],
    ids=["ib", "ib, two blanks", "ib, with its zone", "R, no name", "R, empty name", "R, a series"],
)  # fmt: skip
def test_times_written_by_ib_and_by_r_without_a_column_name(tmp_path, read, text, zone) -> None:
    (rows,) = [
        batch.rows for batch in read(write(tmp_path, "ESH4_1min.csv", text), tz=zone, stamp="open").batches
    ]
    assert rows.tolist() == [BARS[0]]


def test_a_time_zone_in_the_timestamps_is_not_overruled(tmp_path, refused) -> None:
    good, other = "20240102 09:30:00 US/Eastern", "20240102 09:31:00 US/Central"
    path = write(tmp_path, "ESH4.csv", f"date,{HEADER}\n{good},{PRICES}\n{other},{PRICES}\n")
    assert "the timestamps are in US/Eastern, but --tz is UTC" in str(refused(path, tz="UTC", stamp="open"))
    assert "line 3" in str(refused(path, stamp="open"))
    strange = write(tmp_path, "ESM4.csv", f"date,{HEADER}\n20240102 09:30:00 Nowhere/Land,{PRICES}\n")
    assert "'Nowhere/Land' is not a time zone" in str(refused(strange, stamp="open"))


def test_a_table_without_a_header_gets_an_example_for_local_times_too(tmp_path, refused) -> None:
    """Interactive Brokers writes exchange time; in a column named `timestamp_utc` it would be hours off."""
    path = write(tmp_path, "ESH4.csv", f"20240102 09:30:00,{PRICES}\n")
    message = str(refused(path, tz="America/New_York", stamp="open"))
    assert "no header" in message
    assert message.endswith(
        "if the times are not UTC, use time,open,high,low,close,volume with --tz and --stamp"
    )


def test_a_table_without_times_names_the_columns_it_has(tmp_path, refused) -> None:
    path = write(tmp_path, "ESH4.csv", f"{HEADER}\n{PRICES}\n")
    assert str(refused(path, tz="UTC", stamp="open")).endswith(
        "no time column among the columns open, high, low, close, volume — rename the time column to"
        " timestamp_utc, or to time with --tz"
    )


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("magic", [b"RDX2\nX\n", b"RDX3\nX\n", b"X\n\0\0\0\3"])
def test_an_r_data_file_is_refused_with_advice(tmp_path, refused, magic, pack) -> None:
    """The name of the file does not matter, except for later parts of a split one, which have no other mark."""
    packed = pack(magic + bytes(range(256)) * 40)
    path = tmp_path / "ESH4.csv"
    path.write_bytes(packed)
    assert str(refused(path)).endswith(
        "R data files are not supported — open it in R and save the table as text: write.csv(data, 'ESZ3.csv')"
    )
    first, second = tmp_path / "ESH4.RData.aa", tmp_path / "ESH4.RData.ab"
    first.write_bytes(packed[:50])
    second.write_bytes(packed[50:])
    for part in (first, second):
        assert "join the parts, open" in str(refused(part))


def test_a_folder_is_searched_for_data_files_of_r(tmp_path) -> None:
    """The search reports and refuses them instead of skipping them."""
    for name in ("ESH4.RData", "ESH4.rds", "ESM4.RData.001", "notes.md"):
        (tmp_path / name).write_bytes(b"RDX3\n")
    assert [path.name for path in FileLibrary().expand(tmp_path)] == [
        "ESH4.RData",
        "ESH4.rds",
        "ESM4.RData.001",
    ]


def test_bzip2_files_are_refused_with_advice(tmp_path, refused) -> None:
    path = tmp_path / "ESH4.csv"
    path.write_bytes(bz2.compress(f"time,{HEADER}\n".encode()))
    assert "bzip2 compression is not supported — unpack the file first" in str(refused(path))

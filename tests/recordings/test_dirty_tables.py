"""Tables with running totals, decimal commas, dates of other countries and invalid rows: values worked by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.market.instruments import Universe
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.reference_tables import load_reference

#: 09:00 in New York on Tuesday 2024-01-02; ES trades from Monday evening to 17:00.
TUESDAY = datetime(2024, 1, 2, 14, tzinfo=UTC)
HEADER = "ts_utc,open,high,low,close,volume"


@pytest.fixture(scope="module")
def library() -> FileLibrary:
    return FileLibrary(load_reference().calendar)


@pytest.fixture(scope="module")
def known() -> Universe:
    return load_reference().universe


class Opened:
    """A file that was read completely."""

    def __init__(self, library: FileLibrary, known: Universe, path: Path, **options: str) -> None:
        reading = library.open(path, known, ReadOptions(today=TUESDAY.date(), **options))  # type: ignore[arg-type]
        assert reading is not None
        batches = list(reading.batches())
        self.rows = np.concatenate([batch.rows for batch in batches])
        self.counts, self.assumed = reading.counts, reading.assumed


def write(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def minute(number: int, cells: str, start: datetime = TUESDAY) -> str:
    return f"{start + timedelta(minutes=number):%Y-%m-%d %H:%M:%S},{cells}"


def calm(number: int) -> str:
    """Return a bar at 4800 with volume 1."""
    return minute(number, "4800,4801,4799,4800,1")


def refusal(library: FileLibrary, known: Universe, path: Path, **options: str) -> str:
    with pytest.raises(FileRefused) as refused:
        Opened(library, known, path, **options)
    return str(refused.value)


def test_running_totals_become_the_volume_of_each_bar(library, known, tmp_path) -> None:
    """Tuesday: 5, 5, 12. From 18:00 in New York it is Wednesday's trade date, whose total starts again above 12."""
    evening = TUESDAY.replace(hour=23)
    path = write(
        tmp_path / "ESH4_1min.csv",
        *(minute(n, f"4800,4801,4799,4800,{total}") for n, total in enumerate((5, 5, 12))),
        *(minute(n, f"4800,4801,4799,4800,{total}", evening) for n, total in enumerate((20, 21))),
    )
    found = Opened(library, known, path, stamp="open", volume="total")
    assert found.rows["volume"].tolist() == [5, 7, 20, 1]
    assert found.counts.skipped == {"rows without new volume": 1}
    assert found.assumed.volume == "total"
    assert found.counts.rows == 4


def test_running_totals_in_disorder_are_sorted(library, known, tmp_path) -> None:
    """Two trades of one time are in order of their totals. A `volume` is preferred to the size of the trade."""
    lines = [
        "2024-01-02 14:00:01,4800,9,30",
        "2024-01-02 14:00:00,4799,9,10",
        "2024-01-02 14:00:01,4801,9,25",
    ]
    path = write(tmp_path / "ESH4.csv", *lines, header="ts_utc,price,size,volume")
    found = Opened(library, known, path, volume="total")
    assert found.rows["size"].tolist() == [10, 15, 5]
    assert (found.rows["price"] // 10**9).tolist() == [4799, 4801, 4800]


def test_a_total_that_falls_within_a_trade_date_is_refused_or_left_out(library, known, tmp_path) -> None:
    totals = (10, 40, 35, 50)
    path = write(
        tmp_path / "ESH4_1min.csv", *(minute(n, f"4800,4801,4799,4800,{t}") for n, t in enumerate(totals))
    )
    problem = refusal(library, known, path, stamp="open", volume="total")
    assert "ESH2024 falls from 40 to 35 at 2024-01-02T14:02:00.000Z" in problem
    found = Opened(library, known, path, stamp="open", volume="total", bad_rows="skip")
    assert found.rows["volume"].tolist() == [10, 30, 10]
    assert found.counts.skipped == {"invalid rows": 1}


def test_a_total_may_start_again_after_a_break(library, known, tmp_path) -> None:
    """Some vendors count the night and the day of one trade date apart."""
    rows = ((0, 10), (1, 30), (61, 20), (62, 25))
    path = write(tmp_path / "ESH4_1min.csv", *(minute(n, f"4800,4801,4799,4800,{t}") for n, t in rows))
    assert Opened(library, known, path, stamp="open", volume="total").rows["volume"].tolist() == [
        10,
        20,
        20,
        5,
    ]
    close = write(
        tmp_path / "ESM4_1min.csv", *(minute(n, f"4800,4801,4799,4800,{t}") for n, t in ((0, 10), (60, 9)))
    )
    assert Opened(library, known, close, stamp="open", volume="total").rows["volume"].tolist() == [10, 9]


def test_of_two_totals_of_one_minute_the_higher_counts(library, known, tmp_path) -> None:
    rows = ((0, 10), (1, 15), (2, 40), (1, 30))
    path = write(tmp_path / "ESH4_1min.csv", *(minute(n, f"4800,4801,4799,4800,{t}") for n, t in rows))
    found = Opened(library, known, path, stamp="open", volume="total")
    assert found.rows["volume"].tolist() == [10, 20, 10]


def test_days_that_are_not_together_are_refused(library, known, tmp_path) -> None:
    """The file is larger than a block, so that Tuesday is complete before its last row."""
    wednesday = TUESDAY + timedelta(days=1)
    lines = [
        *(minute(n, f"4800,4801,4799,4800,{n + 1}") for n in range(30_000 // 60)),
        *(
            f"{wednesday + timedelta(seconds=n):%Y-%m-%d %H:%M:%S},4800,4801,4799,4800,{n + 1}"
            for n in range(25_000)
        ),
        minute(400, "4800,4801,4799,4800,999"),
    ]
    path = write(tmp_path / "ESH4.csv", *lines)
    problem = refusal(library, known, path, stamp="open", volume="total", format="csv")
    assert (
        "the row of 2024-01-02T20:40:00.000Z comes after rows of other days — sort the file by time"
        in problem
    )


def test_totals_in_parquet(library, known, tmp_path) -> None:
    at = pa.array([TUESDAY, TUESDAY + timedelta(seconds=1)], pa.timestamp("ns", "UTC"))
    path = tmp_path / "ESH4.parquet"
    pq.write_table(pa.table({"ts": at, "price": [4800.0, 4800.25], "cum_volume": [3, 10]}), path)
    assert "match neither trades nor bars" in refusal(library, known, path)
    assert Opened(library, known, path, volume="total").rows["size"].tolist() == [3, 7]


def test_a_running_total_of_trades_is_refused_without_the_option(library, known, tmp_path) -> None:
    lines = [f"2024-01-02 14:{n // 60:02}:{n % 60:02},4800,{3 + n * 2}" for n in range(60)]
    path = write(tmp_path / "ESH4.csv", *lines, header="ts_utc,price,size")
    assert "line 2: the volume rises for 60 rows in a row" in refusal(library, known, path)
    named = write(tmp_path / "ESM4.csv", *lines[:3], header="ts_utc,price,volume_traded")
    assert "volume_traded is a running total of the volume — add --volume total" in refusal(
        library, known, named
    )


def test_files_of_one_day_with_totals_are_not_joined_unless_both_begin_together(
    installation: Installation, tmp_path: Path
) -> None:
    """The first row of a later file has all volume of the earlier one. A file that has grown is no such case."""

    def imported(name: str, *rows: tuple[int, int], **options: str):
        path = write(tmp_path / name, *(minute(n, f"4800,4801,4799,4800,{t}") for n, t in rows))
        read = ReadOptions(stamp="open", today=TUESDAY.date(), **options)  # type: ignore[arg-type]
        return installation.importer.run(path, 0, read, installation.clock.now_ns())

    imported("ESH4_1min_a.csv", (0, 10), (1, 20), volume="total")
    assert imported("ESH4_1min_b.csv", (0, 10), (1, 20), (2, 25), volume="total").state == "imported"
    (recording,) = installation.store.all_recordings()
    assert recording.volume == 25
    with pytest.raises(FileRefused, match="running totals of a day cannot be joined"):
        imported("ESH4_1min_c.csv", (3, 30), (4, 31), volume="total")
    with pytest.raises(FileRefused, match=r"--volume total.*use the same options"):
        imported("ESH4_1min_c.csv", (3, 30), (4, 31))
    assert [row.file.read_as.volume for row in installation.store.imports(0) if row.file.read_as] == [
        "total"
    ] * 2


def test_decimal_commas(library, known, tmp_path) -> None:
    lines = [
        "2024-01-02 14:00:00;4800,25;4800,50;4800,25;4800,5;3",
        "2024-01-02 14:01:00;4800,5;4801;4800;4800;4",
    ]
    path = write(tmp_path / "ESH4.csv", *lines, header=HEADER.replace(",", ";"))
    assert "for a decimal comma, add --decimal comma" in refusal(library, known, path, stamp="open")
    found = Opened(library, known, path, stamp="open", decimal="comma")
    assert found.rows["open"].tolist() == [4800_250000000, 4800_500000000]
    assert found.assumed.decimal == "comma"
    thousands = write(
        tmp_path / "ESM4.csv", lines[0].replace("4800", "4.800"), header=HEADER.replace(",", ";")
    )
    problem = refusal(library, known, thousands, stamp="open", decimal="comma")
    assert "line 2: '4.800,25' has a point, but --decimal is comma" in problem


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("02.01.2024 14:00", {}),
        ("02.01.2024 14:00:00.000", {"dates": "day-first"}),
        ("02/01/2024 14:00", {"dates": "day-first"}),
        ("02-01-2024 14:00:00", {"dates": "day-first"}),
        ("01/02/2024 14:00:00", {"dates": "month-first"}),
        ("20240102 14:00", {}),
        ("20240102 14:00:00.000", {}),
    ],
)
def test_dates_of_other_countries(library, known, tmp_path, text, options) -> None:
    path = write(tmp_path / "ESH4.csv", f"{text},4800,3", header="time,price,size")
    assert Opened(library, known, path, tz="UTC", **options).rows["ts_event"].tolist() == [
        int(TUESDAY.timestamp()) * 10**9
    ]
    day, _, clock = text.partition(" ")
    apart = write(tmp_path / "ESM4.csv", f"{day},{clock},4800,3", header="date,time,price,size")
    assert Opened(library, known, apart, tz="UTC", **options).rows["ts_event"].tolist() == [
        int(TUESDAY.timestamp()) * 10**9
    ]


def test_an_ambiguous_or_contradicting_date_is_refused(library, known, tmp_path) -> None:
    path = write(tmp_path / "ESH4.csv", "02/01/2024 14:00,4800,3", header="time,price,size")
    assert "line 2: '02/01/2024' does not tell day from month — add --dates day-first or" in refusal(
        library, known, path, tz="UTC"
    )
    dotted = write(tmp_path / "ESM4.csv", "02.01.2024 14:00,4800,3", header="time,price,size")
    assert "are day-first, but --dates is month-first" in refusal(
        library, known, dotted, tz="UTC", dates="month-first"
    )
    kibot = tmp_path / "ESU4.txt"
    kibot.write_text("01/02/2024,09:30,4800,4801,4799,4800,1\n")
    assert "are month-first, but --dates is day-first" in refusal(library, known, kibot, dates="day-first")


def test_invalid_rows_are_named_by_their_line(library, known, tmp_path) -> None:
    """Lines count from the header, also after lines that the parser left out and after blank ones."""
    lines = [calm(n) for n in range(130)]
    lines[3] = "a note"
    lines[5] = ""
    lines[9] = lines[9].replace("4801", "x")
    lines[20] = "2024-02-30" + lines[20][10:]
    lines[40] = minute(40, "4800,4799,4801,4800,1")
    lines[50] = lines[49]
    lines[60] = minute(60, "4800,4801,0,4800,1")
    lines[70] = minute(70, "480000,480000,480000,480000,1")
    lines.append("2024-01-02 16:30:00,4800,48")
    path = write(tmp_path / "ESH4_1min.csv", *lines)
    assert "line 5: 6 columns are expected, but the line has 1" in refusal(library, known, path, stamp="open")
    found = Opened(library, known, path, stamp="open", bad_rows="skip")
    assert sorted(found.counts.invalid, key=lambda row: int(row.split()[1].rstrip(":"))) == [
        "line 5: 6 columns are expected, but the line has 1",
        "line 11: 'x' is not a valid high",
        "line 22: '2024-02-30 14:20:00' is not a valid time",
        "line 42: a bar's open or close lies outside its high-low range",
        "line 52: the bar has the same timestamp as the bar before it",
        "line 62: the price 0 is more than 10 % away from the rows around it",
        "line 72: the price 480000 is more than 10 % away from the rows around it",
        "line 132: 6 columns are expected, but the line has 3",
    ]
    assert found.counts.skipped == {"invalid rows": 8}
    assert len(found.rows) == 130 - 8 + 1 - 1  # the blank line is none, the last is the 131st


def test_notes_around_the_header_are_passed_over(library, known, tmp_path) -> None:
    path = tmp_path / "ESH4_1min.csv"
    lines = ["sep=;", "Exported by a platform, 2024", "", HEADER.replace(",", ";"), "--- page 1 ---"]
    path.write_text("\n".join([*lines, *(calm(n).replace(",", ";") for n in range(20)), "x;1"]))
    assert "no header" in refusal(library, known, path, stamp="open")
    found = Opened(library, known, path, stamp="open", bad_rows="skip")
    assert len(found.rows) == 20
    assert found.counts.invalid == [
        "line 5: 6 columns are expected, but the line has 1",
        "line 26: 6 columns are expected, but the line has 2",
    ]


def test_more_invalid_rows_than_one_in_ten_refuse_the_table(library, known, tmp_path) -> None:
    good = [calm(n) for n in range(100)]
    bad = [minute(n, "4800,4799,4801,4800,1") for n in range(100, 112)]
    path = write(tmp_path / "ESH4_1min.csv", *good, *bad)
    problem = refusal(library, known, path, stamp="open", bad_rows="skip")
    assert "12 of 112 rows are invalid" in problem
    assert "the first is line 102: a bar's open" in problem


def test_a_table_full_of_invalid_cells_is_refused_early(library, known, tmp_path) -> None:
    good = [calm(n) for n in range(20)]
    path = write(
        tmp_path / "ESH4_1min.csv", *good, *(minute(n, "4800,x,4799,4800,1") for n in range(20, 1400))
    )
    problem = refusal(library, known, path, stamp="open", bad_rows="skip")
    assert "1,001 rows are invalid; the first is line 22: 'x' is not a valid high" in problem


def test_unlikely_prices_are_kept_on_request(library, known, tmp_path) -> None:
    path = write(tmp_path / "ESH4_1min.csv", calm(0), calm(1), minute(2, "4800,4801,4200,4800,1"), calm(3))
    assert "line 4: the price 4200 is more than 10 % away" in refusal(library, known, path, stamp="open")
    assert len(Opened(library, known, path, stamp="open", bad_rows="keep").rows) == 4


@pytest.mark.parametrize("jump", [4000, 5600])
def test_a_move_of_the_market_is_not_unlikely(library, known, tmp_path, jump) -> None:
    """A gap of more than a tenth over a weekend, a bar that spans it, and four rows elsewhere are all possible."""
    there = f"{jump},{jump + 1},{jump - 1},{jump},1"
    lines = (
        [calm(n) for n in range(5)]
        + [minute(n, there) for n in range(5, 9)]
        + [calm(n) for n in range(9, 12)]
    )
    assert len(Opened(library, known, write(tmp_path / "ESH4_1min.csv", *lines), stamp="open").rows) == 12
    low, high = sorted((4800, jump))
    bridge = minute(5, f"4800,{high},{low},{jump},1")
    lines = [calm(n) for n in range(5)] + [bridge] + [minute(n, there) for n in range(6, 12)]
    assert len(Opened(library, known, write(tmp_path / "ESM4_1min.csv", *lines), stamp="open").rows) == 12


def test_wrong_prices_at_the_ends_and_across_blocks(library, known, tmp_path) -> None:
    """The first and the last row, and each row of a file of several blocks, are compared with their neighbours."""
    at = [TUESDAY + timedelta(seconds=n) for n in range(60_000)]
    prices = ["4800"] * len(at)
    for row in (0, 20_000, 40_001, len(at) - 1):
        prices[row] = "48"
    lines = [f"{when:%Y-%m-%d %H:%M:%S.%f},{price},1" for when, price in zip(at, prices, strict=True)]
    path = write(tmp_path / "ESH4.csv", *lines, header="ts_utc,price,size")
    assert path.stat().st_size > 1 << 20
    found = Opened(library, known, path, bad_rows="skip")
    assert [row.partition(":")[0] for row in found.counts.invalid] == [
        "line 2", "line 20,002", "line 40,003", "line 60,001"
    ]  # fmt: skip
    assert len(found.rows) == 60_000 - 4


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"volume": "sum"}, "'sum' is neither each nor total — use --volume each or --volume total"),
        ({"decimal": ","}, "',' is neither point nor comma"),
        ({"dates": "dmy"}, "'dmy' is neither day-first nor month-first"),
        (
            {"bad_rows": "drop"},
            "'drop' is not one of refuse, skip, keep — use --bad-rows refuse, --bad-rows skip or",
        ),
        ({"stamp": "end"}, "'end' is neither open nor close — use --stamp open or --stamp close"),
    ],
)
def test_an_unknown_value_of_an_option_is_refused(library, known, tmp_path, options, problem) -> None:
    assert problem in refusal(library, known, write(tmp_path / "ESH4_1min.csv", calm(0)), **options)


@pytest.mark.parametrize("option", ["volume", "decimal", "dates"])
def test_options_of_tables_are_refused_for_other_files(library, known, shared, option) -> None:
    path = shared / "data/dbn/futures_trades_2024-07-01T23-58_2024-07-02T00-02.dbn.zst"
    value = {"volume": "total", "decimal": "comma", "dates": "day-first"}[option]
    assert f"--{option}: the option is for tables" in refusal(library, known, path, **{option: value})


def test_how_a_dirty_file_was_read_is_stored_and_makes_another_import(tmp_path: Path) -> None:
    with open_installation(Settings(data=str(tmp_path / "data"))) as installation:
        path = write(tmp_path / "ESH4_1min.csv", *(calm(n) for n in range(20)), "the end")
        now_ns = installation.clock.now_ns()
        with pytest.raises(FileRefused):
            installation.importer.run(path, 0, ReadOptions(stamp="open", today=TUESDAY.date()), now_ns)
        read = ReadOptions(stamp="open", today=TUESDAY.date(), bad_rows="skip")
        report = installation.importer.run(path, 0, read, now_ns)
        assert report.skipped == {"invalid rows": 1}
        assert report.invalid == ["line 22: 6 columns are expected, but the line has 1"]
        assert installation.importer.run(path, 0, read, now_ns).state == "unchanged"
        (row,) = installation.store.imports(0)
        assert row.file.read_as
        assert (row.file.read_as.bad_rows, row.file.read_as.decimal) == ("skip", None)

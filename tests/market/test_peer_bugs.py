"""Known bugs of other programs, each as a case that this project must handle correctly.

Expected values are worked by hand in each test. `tests/arch/test_peer_bug_list.py` maps each bug of the list to its
tests, here and elsewhere.
"""

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import databento_dbn as dbn
import numpy as np
import pytest

from outcry.market.fold import SessionFold
from outcry.market.instruments import Universe
from outcry.market.kernels import BulkFold
from outcry.market.ladder import Ladder, bracket_windows
from outcry.market.methods import Method
from outcry.market.profile import point_of_control, profile_of, value_area, volume_area
from outcry.market.units import NANOS_PER_MINUTE, OffTickPrice, ticks_from_e9
from outcry.recordings.file_model import FileRefused, ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.dedupe import join
from outcry.trades.records import TRADE, Batch, Quality
from outcry.trades.reference_tables import load_reference

MIN = NANOS_PER_MINUTE
QUARTER = 250_000_000  # the tick of ES, in 10⁻⁹

Trade = tuple[int, int, int]


def folded(*trades: Trade, minutes: int = 390) -> Ladder:
    """Return the ladder of trades `(ns from the open, ticks, lots)`; both folds agree on it."""
    windows = bracket_windows([(0, minutes * MIN)], 30)
    one, bulk = SessionFold(windows), BulkFold(windows)
    one.trades(trades)
    bulk.trades(*np.array(trades, dtype=np.int64).T)
    ladder = one.ladder()
    assert ladder is not None
    assert bulk.ladder() == ladder
    return ladder


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


def read(path: Path, universe: Universe, **said: str) -> list[Batch]:
    options = ReadOptions(today=date(2024, 6, 1), **said)
    reading = FileLibrary().open(path, universe, options)
    assert reading is not None
    return list(reading.batches())


# -- the price grid by ceiling or truncation


@pytest.mark.parametrize("price_e9", [1_655_600_000_000, 1_655_500_000_001, -37_630_000_001])
def test_a_price_between_two_ticks_is_refused_and_never_rounded(price_e9: int) -> None:
    # 1655.60 lies between 1655.50 and 1655.75: a ceiling yields 1655.75, a truncation 1655.50, and both are wrong.
    with pytest.raises(OffTickPrice):
        ticks_from_e9(price_e9, QUARTER)


@pytest.mark.parametrize(
    ("price_e9", "tick_e9", "ticks"),
    [
        (1_655_750_000_000, QUARTER, 6_623),  # 1655.75 / 0.25
        (
            -37_630_000_000,
            10_000_000,
            -3_763,
        ),  # crude on 20 April 2020, -37.63: truncation toward zero errs below 0
        (6_703_500, 500, 13_407),  # yen, 0.0067035 / 0.0000005
        (110_515_625_000, 15_625_000, 7_073),  # 110 and 33/64 in 64ths: 110 × 64 + 33
        (8_200_000_000, 100_000_000, 82),  # 8.2 / 0.1 is 81.99999999999999 in doubles: truncated, 81
        (19_400_000_000, 100_000_000, 194),
    ],
)
def test_a_price_on_the_grid_stays_on_its_row(price_e9: int, tick_e9: int, ticks: int) -> None:
    assert ticks_from_e9(price_e9, tick_e9) == ticks


# -- the initial balance with its end included, or with a third bracket


def test_a_trade_at_the_end_of_the_first_hour_is_not_in_the_initial_balance() -> None:
    # 09:30 to 10:30, half-open: the trade of 10:29:59.999999999 at 14 counts, that of 10:30:00 at 20 does not.
    ladder = folded((0, 10, 1), (31 * MIN, 12, 1), (60 * MIN - 1, 14, 1), (60 * MIN, 20, 1), (60 * MIN, 5, 1))
    found = profile_of(ladder, 2)
    assert (found.ib_low, found.ib_high) == (10, 14)


def test_the_third_bracket_does_not_widen_the_initial_balance() -> None:
    # A trades 10–12, B 11–13, C 8–20, D 12: the balance is that of A and B, 10–13.
    trades = [(0, 10), (1, 12), (30 * MIN, 11), (31 * MIN, 13), (60 * MIN, 8), (61 * MIN, 20), (90 * MIN, 12)]
    found = profile_of(folded(*((at, price, 1) for at, price in trades)), 2)
    assert (found.ib_low, found.ib_high) == (10, 13)
    assert (found.low, found.high) == (8, 20)


# -- a half-open high that drops the top tick


def test_a_bar_prints_its_high() -> None:
    # One bar of 10 to 13 with 8 lots: four rows of two. A half-open range has three rows, and no TPO at 13.
    windows = bracket_windows([(0, 60 * MIN)], 30)
    one, bulk = SessionFold(windows), BulkFold(windows)
    one.bar(0, 10, 13, 10, 12, 8)
    bulk.bars(*(np.array([value]) for value in (0, 10, 13, 10, 12, 8)))
    ladder = one.ladder()
    assert ladder is not None
    assert bulk.ladder() == ladder
    assert (ladder.high_ticks, ladder.volume, ladder.tpo_counts()) == (13, (2, 2, 2, 2), [1, 1, 1, 1])


# -- a fixed cap on levels, and on brackets; letters past Z


def test_more_rows_than_a_table_of_fixed_size_holds() -> None:
    # ES of 8 October 2013 had 345 rows, more than the 256 of another program. Here 1,001 rows, two lots in the outer
    # ones.
    ladder = folded((0, 0, 1), (1, 1_000, 2), (2, 500, 1))
    found = profile_of(ladder, 2)
    assert len(ladder.volume) == 1_001
    assert (found.low, found.high, found.vpoc) == (0, 1_000, 1_000)
    assert sum(found.tpos) == 1_001


def test_a_session_of_23_hours_keeps_all_its_46_brackets() -> None:
    # One trade in each half hour, always at 100; the 46 letters are A–Z and a–t.
    ladder = folded(*((index * 30 * MIN, 100, 1) for index in range(46)), minutes=23 * 60)
    assert ladder.tpo_counts() == [46]
    assert ladder.letters() == ["ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrst"]


# -- notional in place of contracts


def test_the_volume_poc_counts_contracts_not_notional() -> None:
    # 10 lots at 100 against 6 at 200: by contracts 100 wins (10 > 6), by notional 200 would (1,200 > 1,000).
    assert profile_of(folded((0, 100, 10), (1, 200, 6)), 2).vpoc == 100


# -- a value area with holes


def test_the_value_area_has_no_holes() -> None:
    # 20 TPOs, 14 wanted. Taking rows by size gives rows 3 and 0 (17), with a hole between. From the POC, row 3 (9):
    # above is 1, the pair below 1 + 1 = 2, so down (11); above 1, below 8, so down (19). Rows 0 to 3.
    counts = [8, 1, 1, 9, 1]
    assert value_area(counts, 3) == (0, 3, 19)
    assert sum(counts[0:4]) == 19


# -- POC and value area from different tied rows


def test_the_value_area_grows_from_the_reported_poc() -> None:
    # Rows 0 and 5 are tied at 7, equally near the centre, 2.5; 6 + 6 + 7 = 19 lie above it, 14 below: row 5. 33 × 70 %
    # is 23.1: 7, then the pair 6 + 6 makes 19, the pair 6 + 1 makes 26. Rows 1 to 5. Grown from row 0, as another
    # program does, it is rows 0 to 4 and does not contain the POC.
    counts = [7, 1, 6, 6, 6, 7]
    poc, tied = point_of_control(counts)
    assert (poc, tied) == (5, (0, 5))
    assert value_area(counts, poc) == (1, 5, 26)
    assert value_area(counts, 0) == (0, 4, 26)


# -- rows without volume


def test_rows_without_trades_are_rows() -> None:
    # 4 lots at 10 and 6 at 14, nothing between: the ladder has five rows; the volume area of 70 % is both ends.
    ladder = folded((0, 10, 4), (1, 14, 6))
    found = profile_of(ladder, 2)
    assert ladder.volume == (4, 0, 0, 0, 6)
    assert (found.vpoc, volume_area(ladder)) == (14, (10, 14))


def test_an_edge_of_value_never_lies_on_a_row_without_volume() -> None:
    # POC row 4 with 9 of 12, 70 % being 8.4: the area is that row alone. With 80 % (9.6) the pair below, 1 + 0, joins,
    # and the empty row is given back.
    counts = [1, 1, 0, 1, 9]
    assert value_area(counts, 4)[:2] == (4, 4)
    assert value_area(counts, 4, Method("eighty", percent=80))[:2] == (3, 4)


def test_prints_without_size_yield_no_levels() -> None:
    found = profile_of(folded((0, 10, 0), (1, 12, 3), (31 * MIN, 11, 0)), 2)
    assert (found.poc, found.vpoc, found.low, found.high) == (12, 12, 12, 12)
    nothing = BulkFold(bracket_windows([(0, 390 * MIN)], 30))
    nothing.trades(*np.array([(0, 10, 0), (1, 12, 0)], dtype=np.int64).T)
    assert nothing.ladder() is None


# -- prints out of order, and prints twice


def test_the_order_of_prints_changes_no_level() -> None:
    trades = [(0, 10, 3), (5 * MIN, 14, 2), (29 * MIN, 12, 9), (31 * MIN, 13, 1), (65 * MIN, 11, 4)]
    in_order = folded(*trades)
    assert folded(*trades[::-1]) == in_order
    assert folded(*(trades[index] for index in (3, 0, 4, 2, 1))) == in_order
    assert (in_order.open_ticks, in_order.close_ticks) == (10, 11)


def prints(*rows: tuple[int, int, int, int]) -> np.ndarray:
    """Trades of `(time, price, size, sequence)`."""
    return np.array([(at, price, size, b"B", 0, sequence) for at, price, size, sequence in rows], TRADE)


def test_a_print_repeated_by_a_second_file_counts_once() -> None:
    # The tape has 5 lots; the file repeats this print and adds one of 2: 7 lots, not 12.
    kept, new = prints((10, 400, 5, 1)), prints((10, 400, 5, 1), (11, 400, 2, 2))
    rows, known = join(kept, new, Quality.TICKS)
    assert (int(rows["size"].sum()), known.tolist()) == (7, [10])


def test_two_equal_prints_of_one_file_count_twice() -> None:
    # Two sellers hit the same bid in the same nanosecond. Real files contain such pairs, and both traded.
    twins = prints((10, 400, 5, 0), (10, 400, 5, 0))
    rows, known = join(twins[:0], twins, Quality.TICKS)
    assert (len(rows), len(known)) == (2, 0)
    again, known = join(rows, twins, Quality.TICKS)
    assert (len(again), len(known)) == (2, 2)


# -- bars stamped at their end


NINJA = "20240102 143100;4755.25;4756;4755;4755.5;100\n20240102 143200;4755.5;4757;4755.5;4756.75;80\n"


def test_bars_stamped_at_their_end_are_shifted_to_their_start(tmp_path: Path, universe: Universe) -> None:
    # NinjaTrader stamps the end: the bar of 14:31 traded from 14:30, New York's open. Unshifted, the last bar of each
    # bracket would count for the next.
    path = tmp_path / "ES 03-24.Last.txt"
    path.write_text(NINJA)
    (batch,) = read(path, universe)
    opening = int(np.datetime64("2024-01-02T14:30", "ns").astype(np.int64))
    assert batch.rows["ts_event"].tolist() == [opening, opening + MIN]


def test_a_table_with_ambiguous_timestamps_requires_an_option(tmp_path: Path, universe: Universe) -> None:
    path = tmp_path / "ESH4.csv"
    rows = "2024-01-02 14:31:00,4755.25,4756,4755,4755.5,100\n2024-01-02 14:32:00,4755.5,4757,4755.5,4756.75,80\n"
    path.write_text("timestamp_utc,open,high,low,close,volume\n" + rows)
    with pytest.raises(FileRefused, match="stamp"):
        read(path, universe)
    opening = int(np.datetime64("2024-01-02T14:30", "ns").astype(np.int64))
    assert read(path, universe, stamp="close")[0].rows["ts_event"].tolist() == [opening, opening + MIN]
    assert read(path, universe, stamp="open")[0].rows["ts_event"].tolist() == [
        opening + MIN,
        opening + 2 * MIN,
    ]


# -- a running total instead of volume


def test_a_running_total_is_refused_as_volume(tmp_path: Path, universe: Universe) -> None:
    # Sixty bars whose volume column is the day's total so far, 100 more a bar: folded as it stands it would be 183,000
    # lots (100 × 60 × 61 / 2) where 6,000 traded.
    path = tmp_path / "ESH4.csv"
    lines = [f"2024-01-02 14:{m:02}:00,4755,4756,4755,4755,{(m + 1) * 100}" for m in range(60)]
    path.write_text("timestamp_utc,open,high,low,close,volume\n" + "\n".join(lines) + "\n")
    with pytest.raises(FileRefused, match="running total"):
        read(path, universe, stamp="open")


# -- both sides of a trade counted, in market-by-order data


def test_the_fill_of_a_trade_is_not_a_second_trade(tmp_path: Path, universe: Universe) -> None:
    # One trade of 3 lots in mbo is T (the aggressor) and F (the resting order), and C takes the order away: 3 lots.
    layout = np.dtype(dbn.MBOMsg._dtypes)
    records = np.zeros(4, layout)
    records["length"], records["rtype"], records["instrument_id"] = layout.itemsize // 4, 160, 1
    records["ts_event"] = records["ts_recv"] = int(np.datetime64("2024-01-02T14:30", "ns").astype(np.int64))
    records["action"] = [b"A", b"T", b"F", b"C"]
    records["side"] = [b"A", b"B", b"A", b"A"]
    records["price"], records["size"] = 4_755_250_000_000, [3, 3, 3, 3]
    path = tmp_path / "mbo.dbn"
    path.write_bytes(_mbo_metadata() + records.tobytes())
    (batch,) = read(path, universe)
    assert (batch.contract.key, batch.quality) == ("ESH2024", Quality.TICKS)
    assert batch.rows["size"].tolist() == [3]
    assert batch.rows["side"].tolist() == [b"B"]


def _mbo_metadata() -> bytes:
    days = SimpleNamespace(start_date=date(2024, 1, 1), end_date=date(2024, 1, 4), symbol="1")
    mapping: Any = SimpleNamespace(raw_symbol="ESH4", intervals=[days])
    return bytes(
        dbn.Metadata(
            dataset="GLBX.MDP3", start=0, stype_in=dbn.SType.from_str("raw_symbol"),
            stype_out=dbn.SType.from_str("instrument_id"), schema=dbn.Schema.from_str("mbo"), symbols=["ESH4"],
            partial=[], not_found=[], mappings=[mapping], end=None, limit=None, ts_out=False,
        ).encode()
    )  # fmt: skip

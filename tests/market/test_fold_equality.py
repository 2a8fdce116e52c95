"""The bulk kernel yields the same as the fold, for any trades or bars, in any order and any batches."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outcry.market.calendar import SessionKind
from outcry.market.fold import OutsideSession, SessionFold
from outcry.market.kernels import BulkFold
from outcry.market.ladder import RangeTooWide, bracket_windows
from outcry.market.levels import CarriedLevels
from outcry.market.live_session import LiveSession
from outcry.market.opening import Opening
from outcry.market.snapshot import SnapshotMismatch, dump, load
from outcry.market.units import NANOS_PER_MINUTE

SEGMENTS = ((0, 95 * NANOS_PER_MINUTE), (120 * NANOS_PER_MINUTE, 200 * NANOS_PER_MINUTE))
WINDOWS = bracket_windows(SEGMENTS, 30)
OPENING = Opening(
    "ESU2024",
    "ES",
    SessionKind.RTH,
    date(2024, 7, 2),
    SEGMENTS,
    short=False,
    prior=None,
    carried=CarriedLevels((), (), ()),
)
TIMES = st.one_of(
    st.integers(0, 95 * NANOS_PER_MINUTE - 1),
    st.integers(120 * NANOS_PER_MINUTE, 200 * NANOS_PER_MINUTE - 1),
    st.sampled_from([0, 30 * NANOS_PER_MINUTE - 1, 30 * NANOS_PER_MINUTE, 120 * NANOS_PER_MINUTE]),
)
TRADES = st.lists(st.tuples(TIMES, st.integers(-400, 400), st.integers(0, 5000)), max_size=60)
BARS = st.lists(
    st.tuples(
        TIMES,
        st.integers(-300, 300),
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(0, 40),
        st.integers(0, 9999),
    ),
    max_size=40,
)


@st.composite
def pieces(draw: st.DrawFn, rows: st.SearchStrategy[list[tuple[int, ...]]]) -> list[list[tuple[int, ...]]]:
    whole = draw(rows)
    if draw(st.booleans()):
        whole = sorted(whole, key=lambda row: row[0])
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def columns(rows: list[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)


@given(pieces(TRADES))
@settings(max_examples=300)
def test_trades(parts: list[list[tuple[int, int, int]]]) -> None:
    one, bulk = SessionFold(WINDOWS), BulkFold(WINDOWS)
    for part in parts:
        one.trades(part)
        bulk.trades(*columns(part, 3))
    assert bulk.ladder() == one.ladder()


@given(pieces(TRADES))
def test_an_iterable_of_trades_equals_single_trades(parts: list[list[tuple[int, int, int]]]) -> None:
    many, single = SessionFold(WINDOWS), SessionFold(WINDOWS)
    for part in parts:
        many.trades(part)
        for trade in part:
            single.trade(*trade)
    assert many.ladder() == single.ladder()


def test_a_refused_trade_keeps_those_before_it() -> None:
    fold, trades = SessionFold(WINDOWS), [(0, 5, 1), (1, 5, 2), (2, 6, 3), (3, 5, 4)]
    with pytest.raises(OutsideSession):
        fold.trades([*trades, (-1, 5, 9), (4, 5, 9)])
    fold.trades([(4, 6, 1)])
    same = SessionFold(WINDOWS)
    same.trades([*trades, (4, 6, 1)])
    assert fold.ladder() == same.ladder()


@given(pieces(BARS))
@settings(max_examples=300)
def test_bars(parts: list[list[tuple[int, ...]]]) -> None:
    one, bulk = SessionFold(WINDOWS), BulkFold(WINDOWS)
    for part in parts:
        rows = []
        for at_ns, low, height, opened, closed, volume in part:
            high = low + height
            rows.append((at_ns, min(high, low + opened), high, low, min(high, low + closed), volume))
            one.bar(*rows[-1])
        bulk.bars(*columns(rows, 6))
    assert bulk.ladder() == one.ladder()


@given(TRADES.filter(lambda trades: any(lots for _, _, lots in trades)))
def test_a_snapshot_is_the_ladder(trades: list[tuple[int, int, int]]) -> None:
    fold = SessionFold(WINDOWS)
    fold.trades(trades)
    ladder = fold.ladder()
    assert ladder is not None
    assert load(dump(ladder)) == ladder
    assert dump(load(dump(ladder))) == dump(ladder)


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"[2]", b"[99,1,2,3,4,5]", b"\xff", b'{"a":1}', b"[1,2,3,4,5,6]"]
)
def test_invalid_snapshots_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotMismatch):
        load(data)


def test_a_bracket_with_more_trades_than_a_chunk() -> None:
    rng = np.random.default_rng(7)
    count = 200_001
    at_ns = np.sort(rng.integers(0, 30 * NANOS_PER_MINUTE, count))
    prices = np.cumsum(rng.choice([-1, 0, 1], count))
    sizes = rng.integers(1, 90, count).astype(np.uint32)
    one, bulk = SessionFold(WINDOWS), BulkFold(WINDOWS)
    one.trades(zip(at_ns.tolist(), prices.tolist(), sizes.tolist(), strict=True))
    bulk.trades(at_ns, prices, sizes)
    assert bulk.ladder() == one.ladder()


@pytest.mark.parametrize(
    "times", [[-1], [0, 95 * NANOS_PER_MINUTE], [200 * NANOS_PER_MINUTE], [5, 300 * NANOS_PER_MINUTE, 6]]
)
def test_rows_outside_the_session_are_refused(times: list[int]) -> None:
    ones = np.ones(len(times), dtype=np.int64)
    with pytest.raises(OutsideSession):
        BulkFold(WINDOWS).trades(np.array(times), ones, ones)


def test_an_impossible_range_is_refused() -> None:
    with pytest.raises(RangeTooWide):
        BulkFold(WINDOWS).trades(np.array([0, 1]), np.array([0, 2_000_000]), np.array([1, 1]))


def test_sums_are_exact_beyond_32_bit_floats() -> None:
    bulk = BulkFold(WINDOWS)
    for _ in range(3):
        bulk.trades(np.array([0, 1]), np.array([5, 5]), np.array([2**32 - 1, 2**32 - 1], dtype=np.uint32))
    ladder = bulk.ladder()
    assert ladder is not None
    assert ladder.volume == (6 * (2**32 - 1),)


def test_size_0_and_volume_0_are_not_trades() -> None:
    """Prices of size 0 above and below the trades at 5 and 6 leave the range at 5 to 6, bulk and one by one.

    The same applies to a bar of volume 0. Without other trades there is no session.
    """
    trades, none = [(0, 5, 1), (1, 9, 0), (2, 6, 2), (3, 1, 0)], [(0, 5, 0)]
    one, bulk, live = SessionFold(WINDOWS), BulkFold(WINDOWS), LiveSession(OPENING)
    one.trades(trades)
    bulk.trades(*columns(trades, 3))
    live.trades(*([int(n) for n in column] for column in columns(trades, 3)))
    for ladder in (one.ladder(), bulk.ladder(), live.ladder()):
        assert ladder is not None
        assert (ladder.low_ticks, ladder.volume) == (5, (1, 2))
    empty, empty_bulk = SessionFold(WINDOWS), BulkFold(WINDOWS)
    empty.trades(none)
    empty_bulk.trades(*columns(none, 3))
    assert (empty.ladder(), empty_bulk.ladder()) == (None, None)
    bars = [(0, 5, 6, 5, 6, 4), (60 * 10**9, 6, 9, 1, 6, 0)]
    one, bulk, live = SessionFold(WINDOWS), BulkFold(WINDOWS), LiveSession(OPENING)
    for bar in bars:
        one.bar(*bar)
        live.bar(bar[0], bar[0] + 60 * 10**9, *bar[1:])
    bulk.bars(*columns(bars, 6))
    for ladder in (one.ladder(), bulk.ladder(), live.ladder()):
        assert ladder is not None
        assert (ladder.low_ticks, ladder.volume) == (5, (2, 2))

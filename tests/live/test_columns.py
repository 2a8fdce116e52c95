"""Rows of a feed as lists: a few rows and many rows follow the same rules."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from outcry.live.columns import FEW, STALE_NS, columns_of, valid_columns
from outcry.trades.feed import LIVE_TRADE, RowFlag
from outcry.trades.records import Rows

TICK_E9 = 250_000_000
FIRST_NS, END_NS, AHEAD_NS = 1_000, 2_000, 50
#: Time after the row before it, delay, price, size, flags: mostly of valid rows.
ROW = st.tuples(
    st.one_of(st.integers(0, 20), st.integers(-5, 60)),
    st.one_of(st.integers(0, 99), st.sampled_from((-AHEAD_NS - 1, -AHEAD_NS, STALE_NS, STALE_NS + 1))),
    st.one_of(st.integers(-9, 9).map(lambda ticks: ticks * TICK_E9), st.sampled_from((1, TICK_E9 - 1))),
    st.one_of(st.integers(0, 99), st.sampled_from((2**31 - 1, 2**31))),
    st.sampled_from((0, int(RowFlag.BACKFILL), int(RowFlag.ESTIMATED_TIME))),
)
CLEAN = st.tuples(
    st.integers(0, 20),
    st.one_of(st.integers(0, 99), st.sampled_from((STALE_NS, STALE_NS + 1))),
    st.integers(-9, 9).map(lambda ticks: ticks * TICK_E9),
    st.integers(0, 99),
    st.sampled_from((0, int(RowFlag.BACKFILL))),
)
BATCHES = st.one_of(
    st.lists(ROW, min_size=1, max_size=4),
    st.lists(CLEAN, min_size=1, max_size=2 * FEW),
    st.tuples(st.lists(CLEAN, min_size=FEW, max_size=FEW + 9), ROW).map(lambda both: [*both[0], both[1]]),
)


def rows_of(batch: list[tuple[int, int, int, int, int]]) -> Rows:
    rows, at_ns = np.zeros(len(batch), LIVE_TRADE), FIRST_NS
    for number, (after_ns, delay_ns, price, size, flags) in enumerate(batch):
        at_ns += after_ns
        rows[number] = (at_ns, at_ns + delay_ns, price, size, b"B", flags, number, number)
    return rows


@given(BATCHES)
def test_valid_rows_become_lists_and_others_are_refused(batch: list[tuple[int, int, int, int, int]]) -> None:
    """The expected values follow from the definition of each field, one row at a time."""
    rows = rows_of(batch)
    at_ns = rows["ts_event"].tolist()
    is_valid = (
        at_ns == sorted(at_ns) and at_ns[0] >= FIRST_NS and at_ns[-1] < END_NS
        and all(delay >= -AHEAD_NS and price % TICK_E9 == 0 and size < 2**31 for _, delay, price, size, _ in batch)
    )  # fmt: skip
    found = valid_columns(rows, TICK_E9, 0, FIRST_NS, END_NS, AHEAD_NS)
    assert (found is not None) == is_valid
    if found is None:
        return
    live = [delay for _, delay, _, _, flags in batch if not flags & RowFlag.BACKFILL]
    old = [delay > STALE_NS and not flags & RowFlag.BACKFILL for _, delay, _, _, flags in batch]
    expected = (
        rows.tobytes(), at_ns, [price // TICK_E9 for _, _, price, _, _ in batch], [row[3] for row in batch],
        old if any(old) else None, min(live, default=None),
    )  # fmt: skip
    for each in (found, columns_of(rows, TICK_E9)):
        assert (each.data, each.at_ns, each.ticks, each.sizes, each.old, each.delay_ns) == expected


def test_logged_rows_between_two_ticks_are_rounded_down() -> None:
    """A log of an earlier version may have other ticks. Its rows are still applied."""
    for count in (1, FEW + 1):
        rows = rows_of([(1, 0, TICK_E9 + 1, 1, 0)] * count)
        assert columns_of(rows, TICK_E9).ticks == [1] * count


def test_a_usual_delay_makes_no_trade_old() -> None:
    rows = rows_of([(1, STALE_NS + 10, 0, 1, 0), (1, STALE_NS + 11, 0, 1, 0)])
    assert columns_of(rows, TICK_E9, lag_ns=10).old == [False, True]

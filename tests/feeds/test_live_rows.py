"""Rows of single values, as adapters build them from messages."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.feeds.live_rows import LiveValues, rows_of
from outcry.trades.feed import LIVE_TRADE

SIGNED, UNSIGNED = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**32 - 1)
VALUES = st.tuples(
    SIGNED, SIGNED, SIGNED, UNSIGNED, st.sampled_from([b"A", b"B", b"N"]), st.integers(0, 255), UNSIGNED,
    st.integers(0, 2**64 - 1),
)  # fmt: skip


@given(st.lists(VALUES, max_size=4))
def test_rows_equal_those_that_numpy_makes_of_the_values(values: list[LiveValues]) -> None:
    rows = rows_of(values)
    assert rows.dtype == LIVE_TRADE
    assert rows.tolist() == np.array(values, LIVE_TRADE).tolist()
    rows["flags"] |= 1  # rows can be changed


@pytest.mark.parametrize("price", [2**63, -(2**63) - 1])
@pytest.mark.parametrize("size", [0, -1, 2**32])
def test_a_value_out_of_range_is_an_overflow(price: int, size: int) -> None:
    with pytest.raises(OverflowError):
        rows_of([(0, 0, price, size, b"N", 0, 0, 0)])

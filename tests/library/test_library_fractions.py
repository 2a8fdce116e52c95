"""`outcry.profile` of an instrument that is traded in fractions: volumes are exact decimals."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import outcry
from outcry.library.errors import InvalidInput

WINDOW = ("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z")
NOON_NS = 1_795_176_000 * 10**9


def table(*sizes: Any) -> dict[str, Any]:
    """Return one trade a minute at 90000.1 and 90000.2 in turn."""
    prices = [90000.1 + 0.1 * (row % 2) for row in range(len(sizes))]
    times = [NOON_NS + 60 * 10**9 * row for row in range(len(sizes))]
    return {"ts": np.array(times), "price": np.round(prices, 1), "size": np.array(sizes)}


def volumes(data: Any, **more: Any) -> list[tuple[float, float]]:
    found = outcry.profile(data, tick_size=0.1, window=WINDOW, size_step="0.001", **more)
    return [(row.price, row.volume) for row in found.rows]


@pytest.mark.parametrize(
    "sizes",
    [(0.1, 0.25, 0.2), ("0.1", "0.25", "0.200"), (Decimal("0.1"), Decimal("0.25"), Decimal("0.2"))],
    ids=["floats", "text", "decimals"],
)
def test_volumes_are_exact_sums(sizes: tuple[Any, ...]) -> None:
    """0.1 + 0.2 is 0.3, which doubles do not give."""
    assert volumes(table(*sizes)) == [(90000.2, 0.25), (90000.1, 0.3)]
    assert volumes(table(*sizes), method="chart_patterns")


def test_deltas_are_exact_too() -> None:
    """Bought 0.1 and 0.2, sold 0.25 at the other price: 0.05 in all."""
    data = table(0.1, 0.25, 0.2) | {"side": np.array(["B", "A", "B"])}
    found = outcry.profile(data, tick_size=0.1, window=WINDOW, size_step=0.001)
    assert ([row.delta for row in found.rows], found.delta) == ([-0.25, 0.3], 0.05)


def test_whole_numbers_are_units_not_steps() -> None:
    assert volumes(table(2, 3)) == [(90000.2, 3.0), (90000.1, 2.0)]


def test_a_file_has_the_same_sizes(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text("ts,price,size\n2026-11-20T12:00:00Z,90000.1,0.1\n2026-11-20T12:01:00Z,90000.1,0.2\n")
    assert volumes(path) == [(90000.1, 0.3)]
    with pytest.raises(InvalidInput, match=r"'0\.1' is not a whole size"):
        outcry.profile(path, tick_size=0.1, window=WINDOW)


@pytest.mark.parametrize("size", [0.0005, "1.2345", -0.001, float("nan"), None, "many"])
def test_another_size_is_refused_with_its_row(size: Any) -> None:
    with pytest.raises(InvalidInput, match="size is") as refusal:
        volumes(table(0.5, 0.001, size) | {"size": np.array([0.5, 0.001, size], object)})
    assert (refusal.value.row, refusal.value.remedy) == (
        2,
        "Give multiples of the size step 0.001, 0 or more.",
    )


def test_a_step_is_positive_and_belongs_to_tick_size() -> None:
    with pytest.raises(InvalidInput, match="Invalid size_step 0"):
        outcry.profile(table(1), tick_size=0.1, window=WINDOW, size_step=0)
    with pytest.raises(InvalidInput, match="symbol decides the size step"):
        outcry.profile(table(1), symbol="ES", date="2026-11-20", size_step=0.1)

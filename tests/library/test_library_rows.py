"""Rows of several ticks, VWAP, nodes and volume delta of the library, against an independent count of the same data."""

import random
from collections import defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.market import profile_oracle as oracle

import outcry
from outcry.market.methods import PRESETS

OPEN_NS = 1_704_292_200_000_000_000  # 2024-01-03T14:30Z, the open of ES
MINUTE = 60 * 10**9


def trades(seed: int) -> dict[str, Any]:
    """Return 400 trades of a random walk in quarter points through the first six hours."""
    chance = random.Random(seed)
    ticks = np.cumsum([chance.randrange(-3, 4) for _ in range(400)]) + 19020
    at_ns = sorted(OPEN_NS + chance.randrange(360 * 60) * 10**9 for _ in range(400))
    sizes = [chance.randrange(1, 50) for _ in range(400)]
    sides = [chance.choice("BAN") for _ in range(400)]
    return {"ts": np.array(at_ns), "price": ticks / 4, "size": sizes, "side": sides}


@pytest.mark.parametrize(
    ("minutes", "rows", "method"), [(15, 4, "dalton"), (60, 3, "quantick"), (30, 10, "cbot_1row")]
)
def test_rows_equal_those_of_the_oracle(minutes: int, rows: int, method: str) -> None:
    data = trades(rows)
    found = outcry.profile(
        data, symbol="ES", date="2024-01-03", bracket_minutes=minutes, row_ticks=rows, method=method
    )
    ranges = [
        ((at - OPEN_NS) // (minutes * MINUTE), tick, tick, {tick: size})
        for at, tick, size in zip(
            data["ts"].tolist(), (data["price"] * 4).astype(int).tolist(), data["size"], strict=True
        )
    ]
    counted = oracle.of_ranges(ranges, rows)
    want = {name: ticks / 4 for name, ticks in oracle.levels(counted, PRESETS[method], rows).items()}
    assert (found.poc, found.val, found.vah) == (want["poc"], want["val"], want["vah"])
    assert (found.vpoc, found.volume_val, found.volume_vah) == (
        want["vpoc"],
        want["volume_val"],
        want["volume_vah"],
    )
    assert {row.price: row.tpos for row in found.rows} == {
        r * rows / 4: len(b) for r, b in counted.letters.items()
    }
    assert (found.high, found.low, found.row_ticks) == (data["price"].max(), data["price"].min(), rows)


def test_vwap_and_delta() -> None:
    data = trades(7)
    found = outcry.profile(data, symbol="ES", date="2024-01-03", row_ticks=5)
    deltas: dict[int, int] = defaultdict(int)
    for price, size, side in zip(data["price"].tolist(), data["size"], data["side"], strict=True):
        deltas[int(price * 4) // 5] += {"B": size, "A": -size, "N": 0}[side]
    assert {row.price: row.delta for row in found.rows if row.volume} == {
        r * 5 / 4: d for r, d in deltas.items()
    }
    assert found.delta == sum(deltas.values())
    lots = sum(data["size"])
    mean = sum(Fraction(p) * s for p, s in zip(data["price"].tolist(), data["size"], strict=True)) / lots
    variance = (
        sum(s * (Fraction(p) - mean) ** 2 for p, s in zip(data["price"].tolist(), data["size"], strict=True))
        / lots
    )
    assert found.vwap == pytest.approx(float(mean), abs=1e-9)
    assert found.vwap_deviation == pytest.approx(float(variance) ** 0.5, abs=2e-9)
    assert list(found.to_frame("pandas").columns) == ["price", "letters", "tpos", "volume", "delta"]


@pytest.mark.parametrize(
    ("sides", "want"),
    [
        (["buy", "Sell"], 3 - 5), (["b", "ask"], 3 - 5), (["S", None], -3), ([b"B", b"A"], 3 - 5),
        (["", "none"], None), ([1, -1], None),
    ],
)  # fmt: skip
def test_names_of_sides(sides: list[Any], want: int | None) -> None:
    data = {"ts": [OPEN_NS, OPEN_NS + 1], "price": [4755.0, 4755.0], "size": [3, 5], "side": np.array(sides)}
    found = outcry.profile(data, symbol="ES", date="2024-01-03")
    assert (found.delta, found.rows[0].delta) == (want, want)


def test_nodes_by_hand() -> None:
    """Nine rows with 1 9 1 0 0 0 2 8 2 lots: sums of three are 10 11 10 1 0 2 10 12 10.

    Peaks at rows 1 and 7; between them the volume falls to 0 at row 4.
    """
    prices = [4755 + 0.25 * row for row in range(9)]
    lots = [1, 9, 1, 0, 0, 0, 2, 8, 2]
    data = {"ts": [OPEN_NS + n for n in range(9)], "price": prices, "size": lots}
    found = outcry.profile(data, symbol="ES", date="2024-01-03")
    assert (found.high_volume_nodes, found.low_volume_nodes) == ([4755.25, 4756.75], [4756.0])
    assert found.delta is None


def test_closes_are_rounded_up_to_rows() -> None:
    """LEAN with rows of four ticks: 4755.25 and 4755.75 round up to 4756, 4756.25 to 4757. High and low stay exact."""
    data = {
        "ts": [OPEN_NS, OPEN_NS + 1, OPEN_NS + 2],
        "price": [4755.25, 4755.75, 4756.25],
        "size": [3, 4, 1],
    }
    found = outcry.profile(data, symbol="ES", date="2024-01-03", method="lean", row_ticks=4)
    assert [(row.price, row.volume) for row in found.rows] == [(4757.0, 1), (4756.0, 7)]
    assert (found.poc, found.high, found.low, found.open, found.close) == (
        4756.0,
        4756.25,
        4755.25,
        4755.25,
        4756.25,
    )
    assert found.vwap == 4755.625  # 3·0.25 + 4·0.75 + 1·1.25 over 8 lots


@pytest.mark.parametrize("rows", [0, -1, 401])
def test_impossible_rows_are_refused(rows: int) -> None:
    with pytest.raises(outcry.InvalidInput, match="row_ticks"):
        outcry.profile(
            {"ts": [OPEN_NS], "price": [4755], "size": [1]}, symbol="ES", date="2024-01-03", row_ticks=rows
        )

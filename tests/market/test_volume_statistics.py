"""VWAP, deviations and volume nodes: cases worked by hand, and any volumes against slow definitions with fractions."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from outcry.market.volume_statistics import VolumeNodes, VolumeSums, volume_nodes

TRADES = st.lists(st.tuples(st.integers(-500, 500), st.integers(1, 300)), min_size=1, max_size=30)


def sums(trades: list[tuple[int, int]]) -> VolumeSums:
    prices = [price for price, _ in trades]
    low = min(prices)
    volume = [0] * (max(prices) - low + 1)
    for price, lots in trades:
        volume[price - low] += lots
    return VolumeSums.of(volume, low)


def test_vwap_by_hand() -> None:
    """One lot at 100 and three at 104 ticks of 0.25: VWAP 103 ticks = 25.75, variance (9 + 3·1) / 4 = 3 ticks².

    The deviation is √3 ticks = 1.7320508075… · 0.25 = 0.43301270189…
    """
    found = sums([(100, 1), (104, 3)])
    assert found.vwap_e9(250_000_000) == 25_750_000_000
    assert found.deviation_e9(250_000_000) == 433_012_701
    assert VolumeSums().vwap_e9(1) is None
    assert VolumeSums().deviation_e9(1) is None


@given(TRADES, st.sampled_from([250_000_000, 500, 15_625_000]))
def test_vwap_is_the_rounded_fraction(trades: list[tuple[int, int]], tick_e9: int) -> None:
    lots = sum(size for _, size in trades)
    mean = Fraction(sum(price * size for price, size in trades), lots)
    variance = sum(size * (price - mean) ** 2 for price, size in trades) / lots
    found = sums(trades)
    vwap, deviation = found.vwap_e9(tick_e9), found.deviation_e9(tick_e9)
    assert vwap is not None
    assert deviation is not None
    assert abs(vwap - mean * tick_e9) <= Fraction(1, 2)
    assert deviation**2 <= variance * tick_e9**2 < (deviation + 1) ** 2


@given(TRADES, TRADES)
def test_sums_add_up(some: list[tuple[int, int]], more: list[tuple[int, int]]) -> None:
    assert sums(some) + sums(more) == sums(some + more)


def test_nodes_by_hand() -> None:
    """Sums of three rows: 3 11 19 19 11 4 4 11 18 18 9, in all 127 for 11 rows: the average is 11.5.

    The peaks are 19 (row 2, the lowest of two) and 18 (row 8). Between them the volume falls to 4 (rows 5 and 6), less
    than half of 18. So rows 2 and 8 are nodes, and row 5 is the valley.
    """
    assert volume_nodes([1, 2, 8, 9, 2, 0, 2, 2, 7, 9, 2][:0]) == VolumeNodes((), ())
    volume = [1, 2, 8, 9, 2, 0, 2, 2, 7, 9, 2]
    assert [sum(volume[max(0, i - 1) : i + 2]) for i in range(11)] == [
        3,
        11,
        19,
        19,
        11,
        4,
        4,
        11,
        18,
        18,
        11,
    ]
    assert volume_nodes(volume) == VolumeNodes((2, 8), (5,))


def test_a_shallow_valley_separates_no_nodes() -> None:
    """Sums of three rows: 20 24 19 23 19; the volume falls from 23 only to 19, so the smaller peak is no node."""
    assert volume_nodes([10, 10, 4, 5, 14]) == VolumeNodes((1,), ())


def slow_nodes(volume: list[int]) -> tuple[list[int], list[int]]:
    """Find nodes by flooding: remove the highest rows one by one; a row is a node if it starts a basin that survives.

    Rows are visited from the highest (the lower of equal ones first). A row next to no visited row starts an island.
    When two islands meet, the one with the smaller peak ends, and its peak is a node only if the row at which they
    meet has at most half of its volume. The island that never ends is a node too.
    """
    near = 1 if len(volume) < 80 else len(volume) // 40
    smooth = [sum(volume[max(0, row - near) : row + near + 1]) for row in range(len(volume))]
    if not sum(smooth):
        return [], []
    order = sorted(range(len(smooth)), key=lambda row: (-smooth[row], row))
    island: dict[int, int] = {}  # row → peak of its island
    nodes = [order[0]]
    for row in order:
        peaks = {island[near] for near in (row - 1, row + 1) if near in island}
        if len(peaks) == 2:
            ends, stays = sorted(peaks, key=lambda peak: (smooth[peak], -peak))
            if 2 * smooth[row] <= smooth[ends]:
                nodes.append(ends)
            island = {r: stays if peak == ends else peak for r, peak in island.items()}
        island[row] = next(iter({island[near] for near in (row - 1, row + 1) if near in island}), row)
    nodes = sorted(row for row in nodes if smooth[row] >= Fraction(sum(smooth), len(smooth)))
    valleys = [
        next(r for r in range(a + 1, b) if smooth[r] == min(smooth[a + 1 : b])) for a, b in pairwise(nodes)
    ]
    return nodes, valleys


@given(st.lists(st.integers(0, 12), max_size=24) | st.lists(st.integers(0, 9), min_size=75, max_size=170))
def test_nodes_equal_those_of_flooding(volume: list[int]) -> None:
    high, low = slow_nodes(volume)
    assert volume_nodes(volume) == VolumeNodes(tuple(high), tuple(low))

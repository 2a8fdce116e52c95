"""The fold of single trades, as from a live feed, compared with a minimal loop in Python."""

from collections.abc import Iterator

from bench.figures import Figure, at_least
from bench.market import MIDDLE_TICKS, ROWS, regular_session, trades
from bench.measurement import Size, in_turn, pinned

from outcry.market.fold import SessionFold
from outcry.market.ladder import bracket_windows


def goals(size: Size) -> Iterator[Figure]:
    """Measure the fold and a bare loop that only adds volume at price."""
    count = size.of(500_000, 200_000, 20_000)
    made = trades(count, regular_session()[0])
    events = list(zip(*(column.tolist() for column in made), strict=True))
    windows = bracket_windows(regular_session(), 30)
    base = MIDDLE_TICKS - ROWS

    def whole() -> None:
        fold = SessionFold(windows)
        fold.trades(events)
        fold.ladder()

    def single() -> None:
        fold = SessionFold(windows)
        apply = fold.trade
        for event in events:
            apply(*event)

    def bare() -> None:
        volume = [0] * (2 * ROWS)
        for _at_ns, price_ticks, size_lots in events:
            volume[price_ticks - base] += size_lots

    with pinned():
        costs = in_turn(size.rounds, whole=whole, single=single, bare=bare)
    for name, words, goal in (
        ("whole", "fold of an iterable of trades", 1.5),
        ("single", "fold by one call of `trade()` each", 0.8),
    ):
        note = f"{costs[name].rate(count / 1e6)} to {costs['bare'].rate(count / 1e6)} M trades/CPU-s"
        comparator = "a bare loop that only adds volume"
        yield Figure.ratio(words, costs["bare"], costs[name], comparator, at_least(goal), note)

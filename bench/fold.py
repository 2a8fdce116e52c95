"""The fold of single trades, as from a live feed, against a minimal loop in Python."""

from collections.abc import Iterator

from bench.market import MIDDLE_TICKS, ROWS, regular_session, trades
from bench.measurement import Figure, Size, in_turn, pinned

from outcry.market.fold import SessionFold
from outcry.market.ladder import bracket_windows


def run(size: Size) -> Iterator[Figure]:
    """Measure the fold and a bare loop that only adds volume at price."""
    count = size.of(1_000_000, 200_000, 20_000)
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
        times = in_turn(size.of(9, 3, 1), whole=whole, single=single, bare=bare)
    ours, one, least = times["whole"], times["single"], times["bare"]
    yield Figure(
        "fold of an iterable of trades", count / ours.best / 1e6, "M trades/s", ours.rates(count), 10
    )
    yield Figure("one call of trade() each", count / one.best / 1e6, "M trades/s", one.rates(count))
    yield Figure(
        "bare loop that only adds volume", count / least.best / 1e6, "M trades/s", least.rates(count)
    )
    yield Figure("share of the bare loop", 100 * least.best / ours.best, "%")

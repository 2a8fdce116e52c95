"""`outcry.profile` of a dataframe, compared with the bulk kernel on arrays that are ready for it."""

from collections.abc import Iterator

import numpy as np
from bench.figures import Figure, at_least
from bench.kernel import profile
from bench.market import TICK_E9, regular_session, trades
from bench.measurement import Size, in_turn, pinned

import outcry
from outcry.market.ladder import bracket_windows
from outcry.market.units import PRICE_SCALE


def goals(size: Size) -> Iterator[Figure]:
    """Measure a dataframe of trades with datetimes, prices as floats and whole sizes."""
    import pandas as pd  # noqa: PLC0415 - only this bench needs it

    count = size.of(10_000_000, 2_000_000, 50_000)
    window = regular_session()[0]
    made, windows = trades(count, window), bracket_windows((window,), 30)
    frame = pd.DataFrame(
        {
            "ts": pd.to_datetime(made.at_ns),
            "price": made.price_ticks * (TICK_E9 / PRICE_SCALE),
            "size": made.size_lots.astype(np.int64),
        }
    )

    def ours() -> None:
        outcry.profile(frame, tick_size=TICK_E9 / PRICE_SCALE, window=window)

    with pinned():
        costs = in_turn(size.rounds, library=ours, kernel=lambda: profile(made, windows))
    note = f"{costs['library'].rate(count / 1e6)} to {costs['kernel'].rate(count / 1e6)} M trades/CPU-s"
    name = f"`outcry.profile(df)`, {count / 1e6:g} M rows"
    yield Figure.ratio(
        name, costs["kernel"], costs["library"], "the bulk kernel on ready arrays", at_least(0.35), note
    )

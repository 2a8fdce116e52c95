"""A session's profile from trades in memory, compared with reading those trades once and with py-market-profile."""

from collections.abc import Iterator
from importlib.util import find_spec
from time import perf_counter

import numpy as np
from bench.market import TICK_E9, Trades, regular_session, trades
from bench.measurement import Figure, Size, Unavailable, in_turn, pinned

from outcry.market.kernels import BulkFold
from outcry.market.ladder import bracket_windows
from outcry.market.profile import SessionProfile, profile_of
from outcry.market.units import PRICE_SCALE


def run(size: Size) -> Iterator[Figure]:
    """Measure 1 M trades, which fit in the cache, and 20 M, which do not (1 M alone if quick)."""
    if find_spec("market_profile") is None:
        raise Unavailable("py-market-profile is not installed: make install")
    with pinned():
        yield from _measured(size.of(1_000_000, 1_000_000, 100_000), size.of(40, 3, 1), size.of(3, 1, 1))
        if size is Size.WHOLE:
            yield from _measured(20_000_000, 9, 1)


def _measured(count: int, rounds: int, peer_rounds: int) -> Iterator[Figure]:
    made = trades(count, regular_session()[0])
    windows = bracket_windows(regular_session(), 30)

    def profile() -> SessionProfile:
        fold = BulkFold(windows)
        fold.trades(*made)
        ladder = fold.ladder()
        assert ladder is not None
        return profile_of(ladder, 2)

    times = in_turn(rounds, profile=profile, read=lambda: [np.max(column) for column in made])
    ours, read = times["profile"], times["read"]
    millions = f"{count / 1_000_000:g} M"
    yield Figure(
        f"profile of {millions} trades", count / ours.best / 1e6, "M trades/s", ours.rates(count), 100
    )
    yield Figure(
        f"reading the same {millions} (numpy.max)", count / read.best / 1e6, "M trades/s", read.rates(count)
    )
    share = 100 * read.best / ours.best
    yield Figure(
        f"share of the read limit, {millions}",
        share,
        "%",
        f"of medians {100 * read.median / ours.median:.0f} %",
        30,
    )
    peer = _peer_s(made, peer_rounds, profile())
    yield Figure(
        f"py-market-profile on the same {millions}", count / peer / 1e6, "M trades/s", f"{peer_rounds} rounds"
    )
    yield Figure(f"outcry ÷ py-market-profile, {millions}", peer / ours.best, "times", "", 100)


def _peer_s(made: Trades, rounds: int, ours: SessionProfile) -> float:
    """Return the best round of py-market-profile's volume profile of the same trades (s); its result is checked."""
    import pandas as pd  # noqa: PLC0415 - only this bench needs it
    from market_profile import MarketProfile  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    tick = TICK_E9 / PRICE_SCALE
    price = made.price_ticks * tick
    frame = pd.DataFrame(
        {
            "Open": price,
            "High": price,
            "Low": price,
            "Close": price,
            "Volume": made.size_lots.astype(np.int64),
        },
        index=pd.to_datetime(made.at_ns),
    )
    taken: list[float] = []
    for _ in range(rounds):
        began = perf_counter()
        found = MarketProfile(frame, tick_size=tick)[frame.index[0] : frame.index[-1]].as_dict()
        taken.append(perf_counter() - began)
        if found["poc"] != ours.vpoc * tick:
            raise RuntimeError(
                f"two answers: py-market-profile's POC {found['poc']}, ours {ours.vpoc * tick}"
            )
    return min(taken)

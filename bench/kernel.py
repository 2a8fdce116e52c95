"""A session's profile from trades in memory, compared with reading those trades once and with py-market-profile."""

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from bench.figures import Figure, at_least
from bench.market import TICK_E9, Trades, regular_session, trades
from bench.measurement import Size, Unavailable, in_turn, pinned

from outcry.market.kernels import BulkFold
from outcry.market.ladder import bracket_windows
from outcry.market.profile import SessionProfile, profile_of, volume_area
from outcry.market.units import PRICE_SCALE

Windows = tuple[tuple[int, int], ...]


def goals(size: Size) -> Iterator[Figure]:
    """Compare profiles of 1 M trades, which fit in the cache, and 20 M, which do not, with reading them once."""
    windows = bracket_windows(regular_session(), 30)
    for count in size.of((1_000_000, 20_000_000), (1_000_000, 20_000_000), (100_000,)):
        made = trades(count, regular_session()[0])
        with pinned():
            costs = in_turn(
                3 * size.rounds,
                profile=lambda made=made: profile(made, windows),
                read=lambda made=made: read(made),
            )
        ours, least = costs["profile"], costs["read"]
        note = f"{ours.rate(count / 1e6)} to {least.rate(count / 1e6)} M trades/CPU-s"
        name, comparator = f"bulk profile, {count / 1_000_000:g} M trades", "numpy reading the columns once"
        yield Figure.ratio(name, least, ours, comparator, at_least(0.5), note)


def more(size: Size) -> Iterator[Figure]:
    """Compare with py-market-profile on the same trades; its result is checked."""
    if find_spec("market_profile") is None:
        raise Unavailable("py-market-profile is not installed: make install")
    count = size.of(1_000_000, 1_000_000, 100_000)
    made = trades(count, regular_session()[0])
    peer, windows = _Peer(made), bracket_windows(regular_session(), 30)
    with pinned():
        costs = in_turn(size.of(3, 1, 1), profile=lambda: profile(made, windows), peer=peer.profile)
    if peer.poc != profile(made, windows).vpoc * TICK_E9 / PRICE_SCALE:
        raise RuntimeError(
            f"two results: py-market-profile's POC {peer.poc}, ours {profile(made, windows).vpoc} ticks"
        )
    name = f"bulk profile, {count / 1_000_000:g} M trades, against a peer"
    note = f"{costs['peer'].rate(count / 1e6)} M trades/CPU-s there"
    yield Figure.ratio(name, costs["peer"], costs["profile"], "py-market-profile", at_least(100), note)


def profile(made: Trades, windows: Windows) -> SessionProfile:
    """Return the ladder and all levels of the trades of one session."""
    fold = BulkFold(windows)
    fold.trades(*made)
    ladder = fold.ladder()
    assert ladder is not None
    volume_area(ladder)
    return profile_of(ladder, 2)


def read(made: Trades) -> None:
    """Read every column once."""
    for column in made:
        np.max(column)


class _Peer:
    """py-market-profile with the same trades as a dataframe. `poc`: its last result."""

    def __init__(self, made: Trades) -> None:
        import pandas as pd  # noqa: PLC0415 - only this bench needs it

        price = made.price_ticks * (TICK_E9 / PRICE_SCALE)
        columns = dict.fromkeys(("Open", "High", "Low", "Close"), price) | {"Volume": made.size_lots}
        self._frame = pd.DataFrame(columns, index=pd.to_datetime(made.at_ns))
        self.poc = 0.0

    def profile(self) -> None:
        """Compute the volume profile."""
        from market_profile import MarketProfile  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

        found = MarketProfile(self._frame, tick_size=TICK_E9 / PRICE_SCALE)
        self.poc = found[self._frame.index[0] : self._frame.index[-1]].as_dict()["poc"]

"""A profile of 20 sessions from arrays, compared with the profiles of the single sessions by the same kernel."""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

import numpy as np
from bench.figures import Figure, at_least
from bench.kernel import profile
from bench.market import DAYS, Trades, regular_session, trades
from bench.measurement import Size, in_turn, pinned

from outcry.market.bar_columns import TradeColumns
from outcry.market.ladder import bracket_windows
from outcry.market.profile_kernels import window_ladder
from outcry.market.profile_settings import ProfileSettings, ladder_levels
from outcry.market.units import NANOS_PER_MINUTE
from outcry.market.windows import Segment

SESSIONS = 20


def goals(size: Size) -> Iterator[Figure]:
    """Compare a month, and a month in which every session is cut, with profiles of its sessions."""
    count = size.of(10_000_000, 10_000_000, 200_000) // SESSIONS
    segments = month()
    days = [trades(count, segment, seed) for seed, segment in enumerate(segments)]
    whole = TradeColumns(*map(np.concatenate, zip(*days, strict=True)))
    cut = [(start + 37 * NANOS_PER_MINUTE, end - 53 * NANOS_PER_MINUTE) for start, end in segments]
    with pinned():
        costs = in_turn(
            size.rounds,
            sessions=lambda: [
                profile(one, bracket_windows([segment], 30))
                for one, segment in zip(days, segments, strict=True)
            ],
            month=lambda: composite(whole, segments),
            parts=lambda: composite(whole, cut),
        )
    check(whole, segments, days)
    millions = count * SESSIONS / 1e6
    comparator = "the session kernel, session by session"
    for name, key in (("composite of 20 sessions", "month"), ("composite of 20 parts of sessions", "parts")):
        note = f"{costs[key].rate(millions)} to {costs['sessions'].rate(millions)} M trades/CPU-s"
        yield Figure.ratio(
            f"{name}, {millions:g} M trades", costs["sessions"], costs[key], comparator, at_least(0.8), note
        )


def month() -> list[Segment]:
    """Return the regular hours of 20 consecutive weekdays of ES (ns UTC, half-open)."""
    days = [DAYS[0] + timedelta(days=7 * week + day) for week in range(5) for day in range(5)]
    holidays = {date(2024, 1, 15)}
    return [regular_session(day)[0] for day in days if day not in holidays][:SESSIONS]


def composite(columns: TradeColumns, windows: Sequence[Segment]) -> None:
    """Compute the ladder of the trades inside the windows, and its levels."""
    ladder = window_ladder(columns, windows, 30)
    assert ladder is not None
    ladder_levels(ladder, ProfileSettings())


def check(columns: TradeColumns, segments: Sequence[Segment], days: Sequence[Trades]) -> None:
    """Raise an error if the composite lacks a trade, because a fast wrong result is no result."""
    ladder = window_ladder(columns, segments, 30)
    assert ladder is not None
    lots = sum(int(day.size_lots.sum(dtype=np.int64)) for day in days)
    if sum(ladder.volume) != lots:
        raise RuntimeError(f"the composite has {sum(ladder.volume)} lots, its sessions {lots}")

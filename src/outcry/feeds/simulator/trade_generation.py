"""Generate the trades of a planned session as arrays: times, prices, sizes and aggressors.

Trades cluster in bursts, and in the times that the plan marks as active. The plan's knots are points that the price
passes through. Between two knots the price is a Brownian bridge that moves with each trade, so it moves more in busy
minutes. The bridge lies between a bid and an offer one tick apart. The nearer it is to the offer, the more often a
trade is at the offer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.market.windows import Segment
from outcry.trades.feed import LIVE_TRADE
from outcry.trades.records import Rows

Floats = NDArray[np.float64]

#: Delay from event to receipt of every simulated trade.
DELAY_NS = 5 * NANOS_PER_MS
#: Limit of an exponential draw. Squared and halved, it bounds the gap between two trades in mean gaps.
_LONGEST_WAIT = 7.0
#: A poor extreme is cut off only if this removes at most this share of the range.
_CUT = 0.06


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """Plan of one session. Times are ns of trading since the open, without breaks; prices are ticks.

    `knots_ns` (ascending, from 0) and `knots_ticks` are the points the price passes through. `noise_ticks` is the
    standard deviation of an unguided walk over the whole session. `activity` is the trading rate at evenly spaced
    times from open to close. Until `floor_ns` the price stays on the `drive` side of the open (1 above, -1 below, 0
    either).
    """

    knots_ns: Sequence[float]
    knots_ticks: Sequence[float]
    noise_ticks: float
    count: int
    lots: float
    activity: Floats
    poor_high: bool = False
    poor_low: bool = False
    drive: int = 0
    floor_ns: float = 0


def generate_trades(
    rng: np.random.Generator, plan: SessionPlan, segments: Sequence[Segment], tick_e9: int, first_id: int
) -> Rows:
    """Return the session's trades, dtype `LIVE_TRADE`; `sequence` from 1, `id` from `first_id`."""
    length = sum(end - start for start, end in segments)
    waits = np.minimum(rng.standard_exponential(plan.count + 1), _LONGEST_WAIT)
    clock = np.cumsum(waits * waits)  # squared, because real trades come in bursts with long gaps between
    share = (clock[:-1] - clock[0]) / (clock[-1] - clock[0])
    at = _spread_over_session(share, plan.activity) * length
    walk = np.cumsum(rng.standard_normal(plan.count) * waits[:-1])
    walk *= plan.noise_ticks / float(np.sqrt(2.0 * plan.count))
    mid = np.interp(at, plan.knots_ns, plan.knots_ticks) + _brownian_bridge(
        at, walk, clock[:-1], plan.knots_ns
    )
    _apply_constraints(mid, at, plan)
    low = np.floor(mid)
    lifted = rng.random(plan.count) < mid - low
    rows = np.empty(plan.count, LIVE_TRADE)
    rows["ts_event"] = _timestamps(at, segments)
    rows["ts_recv"] = rows["ts_event"] + DELAY_NS
    rows["price"] = (low + lifted).astype(np.int64) * tick_e9
    rows["size"] = _sizes(rng, plan)
    rows["side"] = np.where(lifted, b"B", b"A")
    rows["flags"] = 0
    rows["sequence"] = np.arange(1, plan.count + 1)
    rows["id"] = np.arange(first_id, first_id + plan.count)
    return rows


def _spread_over_session(share: Floats, activity: Floats) -> Floats:
    """Map shares of a session's trades (0 to 1) to shares of its time, with more trades where `activity` is high."""
    total = np.concatenate(([0.0], np.cumsum((activity[1:] + activity[:-1]) / 2)))
    return np.interp(share, total / total[-1], np.linspace(0.0, 1.0, len(total)))


def _brownian_bridge(at: Floats, walk: Floats, clock: Floats, knots_ns: Sequence[float]) -> Floats:
    """Return a random walk that is 0 at each knot (a point that the price must pass through).

    The interpolation of the walk between the knots is subtracted from it.
    """
    places = np.minimum(np.searchsorted(at, knots_ns), len(at) - 1)
    places = np.unique(places)
    return walk - np.interp(clock, clock[places], walk[places])


def _apply_constraints(mid: Floats, at: Floats, plan: SessionPlan) -> None:
    """Limit the prices `mid` to what the plan requires for an open drive and for poor extremes.

    In an open drive, the price stays on its side of the open. A poor extreme is cut off at the extreme of the bracket
    that reached second furthest, so that two brackets share it.
    """
    if plan.drive:
        hour = mid[: int(np.searchsorted(at, plan.floor_ns))]
        bound = plan.knots_ticks[0]
        (np.maximum if plan.drive > 0 else np.minimum)(hour, bound, out=hour)
    if plan.poor_high or plan.poor_low:
        starts = np.arange(0.0, float(at[-1]), BRACKET_MINUTES * NANOS_PER_MINUTE)
        places = np.unique(np.searchsorted(at, starts))
        highs = np.sort(np.maximum.reduceat(mid, places))
        lows = np.sort(np.minimum.reduceat(mid, places))
        most = _CUT * (highs[-1] - lows[0])
        if plan.poor_high and len(places) > 1 and highs[-1] - highs[-2] < most:
            np.minimum(mid, np.floor(highs[-2]), out=mid)
        if plan.poor_low and len(places) > 1 and lows[1] - lows[0] < most:
            np.maximum(mid, np.ceil(lows[1]), out=mid)


def _timestamps(at: Floats, segments: Sequence[Segment]) -> NDArray[np.int64]:
    """Convert ns of trading time since the open to ns UTC, rounded down to milliseconds."""
    times = at.astype(np.int64)
    before, instants = 0, times + segments[0][0]
    for (start, end), (after, _) in pairwise(segments):
        before += end - start
        instants[int(np.searchsorted(times, before)) :] += after - end
    return instants // NANOS_PER_MS * NANOS_PER_MS


def _sizes(rng: np.random.Generator, plan: SessionPlan) -> NDArray[Any]:
    """Draw trade sizes from a stretched exponential: mostly small, sometimes very large."""
    drawn = rng.standard_exponential(plan.count)
    return 1 + ((plan.lots - 1) / 2 * drawn * drawn).astype(np.uint32)

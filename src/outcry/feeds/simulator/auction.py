"""From a plan to trades, whole arrays at a time: when they come, where the price goes between the knots, who hit whom.

Times lie denser where the plan is busy, and in bursts. Between two knots the price is a random walk that ends at the
second (a bridge), in the clock of trades, so that busy minutes move it more. Prices are whole ticks: the walk lies
between a bid and an offer, and a trade is at the offer as often as the walk is near it.
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

#: From an event to its receipt: every row of the simulated market takes this long.
DELAY_NS = 5 * NANOS_PER_MS
#: Squared and halved, how many mean waits pass between two trades at most: a market that is open is not silent.
_LONGEST_WAIT = 7.0
#: A poor extreme is cut from one that was at most this much of the range further out.
_CUT = 0.06


@dataclass(frozen=True, slots=True)
class Plan:
    """One session. Times in ns of trading since the open (breaks taken out), prices in ticks.

    knots_ns, knots_ticks: where the price is led, the first at 0, ascending. noise_ticks: standard deviation of what
    chance would add over the whole session if nothing led it. activity: trade at evenly spaced instants from open to
    close. floor_ns: until then the price does not go back behind its open, against `drive` (1, -1; 0: it may).
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


def trades(
    rng: np.random.Generator, plan: Plan, segments: Sequence[Segment], tick_e9: int, first_id: int
) -> Rows:
    """Return the session's trades, dtype `LIVE_TRADE`; `sequence` from 1, `id` from `first_id`."""
    length = sum(end - start for start, end in segments)
    waits = np.minimum(rng.standard_exponential(plan.count + 1), _LONGEST_WAIT)
    clock = np.cumsum(waits * waits)  # squared: long waits and bursts, as trades come
    share = (clock[:-1] - clock[0]) / (clock[-1] - clock[0])
    at = _spread(share, plan.activity) * length
    walk = np.cumsum(rng.standard_normal(plan.count) * waits[:-1])
    walk *= plan.noise_ticks / float(np.sqrt(2.0 * plan.count))
    mid = np.interp(at, plan.knots_ns, plan.knots_ticks) + _bridged(at, walk, clock[:-1], plan.knots_ns)
    _confine(mid, at, plan)
    low = np.floor(mid)
    lifted = rng.random(plan.count) < mid - low
    rows = np.empty(plan.count, LIVE_TRADE)
    rows["ts_event"] = _instants(at, segments)
    rows["ts_recv"] = rows["ts_event"] + DELAY_NS
    rows["price"] = (low + lifted).astype(np.int64) * tick_e9
    rows["size"] = _sizes(rng, plan)
    rows["side"] = np.where(lifted, b"B", b"A")
    rows["flags"] = 0
    rows["sequence"] = np.arange(1, plan.count + 1)
    rows["id"] = np.arange(first_id, first_id + plan.count)
    return rows


def _spread(share: Floats, activity: Floats) -> Floats:
    """Lay instants given as shares of all trade over the session, 0 to 1."""
    total = np.concatenate(([0.0], np.cumsum((activity[1:] + activity[:-1]) / 2)))
    return np.interp(share, total / total[-1], np.linspace(0.0, 1.0, len(total)))


def _bridged(at: Floats, walk: Floats, clock: Floats, knots_ns: Sequence[float]) -> Floats:
    """The walk less its own way from knot to knot."""
    places = np.minimum(np.searchsorted(at, knots_ns), len(at) - 1)
    places = np.unique(places)
    return walk - np.interp(clock, clock[places], walk[places])


def _confine(mid: Floats, at: Floats, plan: Plan) -> None:
    """Keep a drive from turning back behind its open, and cut a poor extreme flat where a second bracket reached, if
    that is near."""
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


def _instants(at: Floats, segments: Sequence[Segment]) -> NDArray[np.int64]:
    """Whole milliseconds UTC, in ns, from ns of trading since the open."""
    times = at.astype(np.int64)
    before, instants = 0, times + segments[0][0]
    for (start, end), (after, _) in pairwise(segments):
        before += end - start
        instants[int(np.searchsorted(times, before)) :] += after - end
    return instants // NANOS_PER_MS * NANOS_PER_MS


def _sizes(rng: np.random.Generator, plan: Plan) -> NDArray[Any]:
    """Mostly small, now and then very large: a stretched exponential about the mean."""
    drawn = rng.standard_exponential(plan.count)
    return 1 + ((plan.lots - 1) / 2 * drawn * drawn).astype(np.uint32)

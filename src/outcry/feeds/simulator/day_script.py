"""Scripts of regular hours: the open type, the day type and the news events of a day.

A script is a sequence of knots `(phase, offset)`, that is, points that the price passes through. Phases 0 to 1 are the
first hour, and phases 1 to 2 the remaining session. Offsets are from the open, in units of the product's usual range.
The package `outcry.market` later determines the day's types from the trades. The noise between the knots can lead to
other types than the script planned.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from outcry.market.day_type import OpenType

Knot = tuple[float, float]


class TargetDay(StrEnum):
    """The day type that a script is meant to produce."""

    BALANCE = "balance"
    NORMAL = "normal"
    VARIATION = "variation"
    TREND = "trend"
    DOUBLE = "double"
    NEUTRAL = "neutral"


_DAY_TYPES = (
    TargetDay.BALANCE,
    TargetDay.NORMAL,
    TargetDay.VARIATION,
    TargetDay.TREND,
    TargetDay.DOUBLE,
    TargetDay.NEUTRAL,
)
_DAY_TYPE_ODDS = (0.12, 0.27, 0.60, 0.73, 0.85, 1.0)  # cumulative
_OPENS = (
    OpenType.DRIVE, OpenType.TEST_DRIVE, OpenType.REJECTION_REVERSE, OpenType.AUCTION_IN, OpenType.AUCTION_OUT
)  # fmt: skip
_OPEN_ODDS = (0.10, 0.30, 0.50, 0.85, 1.0)
_TREND_OPEN_ODDS = (0.45, 0.80, 1.0, 1.0, 1.0)

#: Width of the initial balance by day type, in usual ranges, before the day is scaled.
_WIDTH = {
    TargetDay.BALANCE: 0.42, TargetDay.NORMAL: 0.85, TargetDay.VARIATION: 0.55, TargetDay.TREND: 0.30,
    TargetDay.DOUBLE: 0.32, TargetDay.NEUTRAL: 0.50,
}  # fmt: skip
#: The first hour by open type, in widths of the initial balance, for a first move upwards.
_FIRST_HOUR: dict[OpenType, Sequence[Knot]] = {
    OpenType.DRIVE: ((0.1, 0.35), (0.3, 0.55), (0.55, 0.95), (0.8, 0.8), (1.0, 0.9)),
    OpenType.TEST_DRIVE: ((0.15, -0.22), (0.4, 0.3), (0.7, 0.78), (1.0, 0.62)),
    OpenType.REJECTION_REVERSE: ((0.22, -0.48), (0.5, -0.2), (0.8, 0.35), (1.0, 0.5)),
    OpenType.AUCTION_IN: ((0.2, 0.48), (0.45, -0.45), (0.7, 0.4), (1.0, -0.1)),
    OpenType.AUCTION_OUT: ((0.2, -0.4), (0.45, 0.45), (0.7, -0.3), (1.0, 0.2)),
}


@dataclass(frozen=True, slots=True)
class DayScript:
    """Planned course of the price over one day of the simulated market.

    `early`: direction of the first move, 1 or -1. `noise`: standard deviation of the price's random walk, in usual
    ranges. `poor_high`, `poor_low`: whether several brackets touch a flat extreme. `news`: phases with news events.
    `busy`: number of trades relative to a usual day. `drift` scales the opening gap, in standard deviations.
    """

    day_type: TargetDay
    opens: OpenType
    early: int
    knots: tuple[Knot, ...]
    noise: float
    poor_high: bool
    poor_low: bool
    news: tuple[float, ...]
    busy: float
    drift: float

    @property
    def close(self) -> float:
        """Offset of the closing price from the open, in usual ranges."""
        return self.knots[-1][1]

    @property
    def high(self) -> float:
        """Offset of the script's highest price from the open, in usual ranges."""
        return max(offset for _, offset in self.knots)

    @property
    def low(self) -> float:
        """Offset of the script's lowest price from the open, in usual ranges."""
        return min(offset for _, offset in self.knots)


def draw(rng: np.random.Generator) -> DayScript:
    """Draw a random script of a day."""
    day_type = _DAY_TYPES[bisect(_DAY_TYPE_ODDS, rng.random())]
    opens = _OPENS[bisect(_TREND_OPEN_ODDS if day_type is TargetDay.TREND else _OPEN_ODDS, rng.random())]
    side = 1 if rng.random() < 0.5 else -1
    early = side if day_type is TargetDay.TREND or rng.random() < 0.6 else -side
    width = _WIDTH[day_type] * float(np.exp(0.15 * rng.standard_normal()))
    first = [(phase, early * width * offset) for phase, offset in _FIRST_HOUR[opens]]
    knots = [(0.0, 0.0), *first, *_after_first_hour(rng, day_type, side, first)]
    news: tuple[float, ...] = ()
    if rng.random() < 0.35:
        knots, at = _with_news(rng, knots)
        news = (at,)
    scale = float(np.exp(0.22 * rng.standard_normal()))
    poor = rng.random(2) < (0.12 if day_type is TargetDay.TREND else 0.6)
    return DayScript(
        day_type=day_type, opens=opens, early=early, knots=tuple((phase, scale * offset) for phase, offset in knots),
        noise=scale * (0.24 if day_type in {TargetDay.TREND, TargetDay.BALANCE} else 0.36), poor_high=bool(poor[0]),
        poor_low=bool(poor[1]), news=news, busy=float(np.exp(0.18 * rng.standard_normal())) * scale**0.5,
        drift=float(rng.standard_normal()),
    )  # fmt: skip


def gap(script: DayScript, before: DayScript) -> float:
    """Return the distance from the close of one session to the open of the next, in usual ranges.

    An open auction out of range starts beyond the extremes of the previous day. An open test drive starts where its
    first move reaches one of those extremes or the midpoint. Any other open is near the last close.
    """
    last = before.close
    if script.opens is OpenType.AUCTION_OUT:
        away = 0.05 + 0.08 * abs(script.drift)
        return before.high - last + away if script.early > 0 else before.low - last - away
    if script.opens is OpenType.TEST_DRIVE:
        adverse = min(script.early * offset for phase, offset in script.knots if phase <= 1)
        references = (before.high, before.low, (before.high + before.low) / 2)
        tested = min(references, key=lambda level: abs(level - last - 0.3 * script.drift))
        return max(-0.7, min(0.7, tested - script.early * adverse - last))
    return 0.18 * script.drift


def _after_first_hour(
    rng: np.random.Generator, day_type: TargetDay, side: int, first: Sequence[Knot]
) -> list[Knot]:
    """Draw the part of the script after the first hour, by day type.

    side: the direction of range extension, 1 or -1.
    """
    offsets = [0.0, *(offset for _, offset in first)]
    low, high, at = min(offsets), max(offsets), offsets[-1]
    edge, far = (high, low) if side > 0 else (low, high)
    middle, width = (low + high) / 2, high - low
    turn = rng.uniform(1.1, 1.4)
    if day_type is TargetDay.TREND:
        return _trend_steps(rng, at, side)
    if day_type is TargetDay.DOUBLE:
        second = edge + side * rng.uniform(0.4, 0.55)
        leap = [(turn + 0.07, second - side * 0.05)]
        return [
            *_oscillation(rng, 1.0, turn, middle, width * 0.25), *leap,
            *_oscillation(rng, turn + 0.12, 2.0, second, 0.1),
        ]  # fmt: skip
    if day_type is TargetDay.VARIATION:
        beyond = edge + side * rng.uniform(0.25, 0.42)
        return [
            *_oscillation(rng, 1.0, turn, middle, width * 0.3), (turn + 0.08, beyond),
            *_oscillation(rng, turn + 0.16, 2.0, edge, width * 0.25),
        ]  # fmt: skip
    if day_type is TargetDay.NEUTRAL:
        poke, fail = rng.uniform(0.12, 0.25, size=2).tolist()
        end = middle if rng.random() < 0.6 else far - side * 0.25
        return [
            (turn, edge + side * poke), *_oscillation(rng, turn + 0.05, 1.6, middle, width * 0.2),
            (1.7, far - side * fail), (1.85, (middle + far) / 2), (2.0, end),
        ]  # fmt: skip
    return _oscillation(rng, 1.0, 2.0, middle, width * 0.27)


def _oscillation(
    rng: np.random.Generator, first: float, last: float, centre: float, spread: float
) -> list[Knot]:
    """Draw points of a price that oscillates around a centre, about one every twenty minutes."""
    count = max(1, round((last - first) * 16))
    step = (last - first) / count
    offsets = centre + spread * np.clip(rng.standard_normal(count), -1.5, 1.5)
    return [(first + step * (n + 1), offset) for n, offset in enumerate(offsets.tolist())]


def _trend_steps(rng: np.random.Generator, at: float, side: int) -> list[Knot]:
    """Draw points of a trend that advances in steps with pauses and closes near its extreme."""
    count = 14
    climb = np.cumsum(rng.exponential(1.0, count))
    climb = climb / climb[-1] * rng.uniform(0.75, 1.05)
    pauses = rng.uniform(0.0, 0.06, count)
    pauses[-1] = 0.02
    offsets = (at + side * (climb - pauses)).tolist()
    return [(1 + (n + 1) / count, offset) for n, offset in enumerate(offsets)]


def _with_news(rng: np.random.Generator, knots: list[Knot]) -> tuple[list[Knot], float]:
    """Return the knots with a news event added, and the event's phase.

    The event is a jump within minutes that retraces by half or more.
    """
    at = rng.uniform(1.05, 1.8)
    before = float(np.interp(at, [p for p, _ in knots], [o for _, o in knots]))
    jump = rng.choice((-1.0, 1.0)) * rng.uniform(0.15, 0.3)
    kept = rng.uniform(0.0, 0.5)
    struck = [(at, before), (at + 0.008, before + jump), (at + 0.06, before + kept * jump)]
    others = [knot for knot in knots if not at <= knot[0] <= at + 0.06]
    return sorted(others + struck), at

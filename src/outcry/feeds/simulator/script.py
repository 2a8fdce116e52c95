"""The script of a day's regular hours: how it opens, what kind of day it becomes, where its news strikes.

A script is a row of knots `(phase, offset)` the price is led through. Phases 0 to 1 are the first hour, 1 to 2 the
rest of the session, however long. Offsets are from the open, in ordinary ranges of the product. The kinds are those of
rules §7, so that the session shows them; chance between the knots has the last word, as in a market.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from outcry.market.day_type import OpenType

Knot = tuple[float, float]


class Kind(StrEnum):
    """What kind of day it is to become."""

    BALANCE = "balance"
    NORMAL = "normal"
    VARIATION = "variation"
    TREND = "trend"
    DOUBLE = "double"
    NEUTRAL = "neutral"


_KINDS = (Kind.BALANCE, Kind.NORMAL, Kind.VARIATION, Kind.TREND, Kind.DOUBLE, Kind.NEUTRAL)
_KIND_ODDS = (0.12, 0.27, 0.60, 0.73, 0.85, 1.0)  # cumulative
_OPENS = (
    OpenType.DRIVE, OpenType.TEST_DRIVE, OpenType.REJECTION_REVERSE, OpenType.AUCTION_IN, OpenType.AUCTION_OUT
)  # fmt: skip
_OPEN_ODDS = (0.10, 0.30, 0.50, 0.85, 1.0)
_TREND_OPEN_ODDS = (0.45, 0.80, 1.0, 1.0, 1.0)

#: Width of the initial balance by kind of day, in ordinary ranges before the day's own scale.
_WIDTH = {
    Kind.BALANCE: 0.42, Kind.NORMAL: 0.85, Kind.VARIATION: 0.55, Kind.TREND: 0.30, Kind.DOUBLE: 0.32,
    Kind.NEUTRAL: 0.50,
}  # fmt: skip
#: The first hour of each open, in widths of the initial balance, for an early move upwards.
_FIRST_HOUR: dict[OpenType, Sequence[Knot]] = {
    OpenType.DRIVE: ((0.1, 0.35), (0.3, 0.55), (0.55, 0.95), (0.8, 0.8), (1.0, 0.9)),
    OpenType.TEST_DRIVE: ((0.15, -0.22), (0.4, 0.3), (0.7, 0.78), (1.0, 0.62)),
    OpenType.REJECTION_REVERSE: ((0.22, -0.48), (0.5, -0.2), (0.8, 0.35), (1.0, 0.5)),
    OpenType.AUCTION_IN: ((0.2, 0.48), (0.45, -0.45), (0.7, 0.4), (1.0, -0.1)),
    OpenType.AUCTION_OUT: ((0.2, -0.4), (0.45, 0.45), (0.7, -0.3), (1.0, 0.2)),
}


@dataclass(frozen=True, slots=True)
class Script:
    """One day's. early: the side of the first move, 1 or -1. noise: how far chance may stray, in ordinary ranges.

    poor_high, poor_low: that extreme is to end flat, met by several brackets, as an unfinished auction does. news:
    the phases at which news strikes. busy: trade against an ordinary day's. drift: of the night before, in standard
    deviations.
    """

    kind: Kind
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
        """Where the session ends, from its open."""
        return self.knots[-1][1]

    @property
    def high(self) -> float:
        """The highest knot, from the open."""
        return max(offset for _, offset in self.knots)

    @property
    def low(self) -> float:
        """The lowest knot, from the open."""
        return min(offset for _, offset in self.knots)


def draw(rng: np.random.Generator) -> Script:
    """Draw the script of a day."""
    kind = _KINDS[bisect(_KIND_ODDS, rng.random())]
    opens = _OPENS[bisect(_TREND_OPEN_ODDS if kind is Kind.TREND else _OPEN_ODDS, rng.random())]
    side = 1 if rng.random() < 0.5 else -1
    early = side if kind is Kind.TREND or rng.random() < 0.6 else -side
    width = _WIDTH[kind] * float(np.exp(0.15 * rng.standard_normal()))
    first = [(phase, early * width * offset) for phase, offset in _FIRST_HOUR[opens]]
    knots = [(0.0, 0.0), *first, *_rest(rng, kind, side, first)]
    news: tuple[float, ...] = ()
    if rng.random() < 0.35:
        knots, at = _with_news(rng, knots)
        news = (at,)
    scale = float(np.exp(0.22 * rng.standard_normal()))
    poor = rng.random(2) < (0.12 if kind is Kind.TREND else 0.6)
    return Script(
        kind=kind, opens=opens, early=early, knots=tuple((phase, scale * offset) for phase, offset in knots),
        noise=scale * (0.24 if kind in {Kind.TREND, Kind.BALANCE} else 0.36), poor_high=bool(poor[0]),
        poor_low=bool(poor[1]), news=news, busy=float(np.exp(0.18 * rng.standard_normal())) * scale**0.5,
        drift=float(rng.standard_normal()),
    )  # fmt: skip


def gap(script: Script, before: Script) -> float:
    """From the close of one session to the open of the next, in ordinary ranges.

    An auction out of range opens beyond the extremes of the day before; a test drive opens so that its first, adverse
    move meets one of them, or its middle; any other opens about where the last ended.
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


def _rest(rng: np.random.Generator, kind: Kind, side: int, first: Sequence[Knot]) -> list[Knot]:
    """The knots after the first hour, by kind of day; a day that extends does so on `side`."""
    offsets = [0.0, *(offset for _, offset in first)]
    low, high, at = min(offsets), max(offsets), offsets[-1]
    edge, far = (high, low) if side > 0 else (low, high)
    middle, width = (low + high) / 2, high - low
    turn = rng.uniform(1.1, 1.4)
    if kind is Kind.TREND:
        return _stairs(rng, at, side)
    if kind is Kind.DOUBLE:
        second = edge + side * rng.uniform(0.4, 0.55)
        leap = [(turn + 0.07, second - side * 0.05)]
        return [
            *_balance(rng, 1.0, turn, middle, width * 0.25), *leap, *_balance(rng, turn + 0.12, 2.0, second, 0.1)
        ]  # fmt: skip
    if kind is Kind.VARIATION:
        beyond = edge + side * rng.uniform(0.25, 0.42)
        return [
            *_balance(rng, 1.0, turn, middle, width * 0.3), (turn + 0.08, beyond),
            *_balance(rng, turn + 0.16, 2.0, edge, width * 0.25),
        ]  # fmt: skip
    if kind is Kind.NEUTRAL:
        poke, fail = rng.uniform(0.12, 0.25, size=2).tolist()
        end = middle if rng.random() < 0.6 else far - side * 0.25
        return [
            (turn, edge + side * poke), *_balance(rng, turn + 0.05, 1.6, middle, width * 0.2),
            (1.7, far - side * fail), (1.85, (middle + far) / 2), (2.0, end),
        ]  # fmt: skip
    return _balance(rng, 1.0, 2.0, middle, width * 0.27)


def _balance(rng: np.random.Generator, first: float, last: float, centre: float, spread: float) -> list[Knot]:
    """Back and forth about a centre: a knot about every twenty minutes."""
    count = max(1, round((last - first) * 16))
    step = (last - first) / count
    offsets = centre + spread * np.clip(rng.standard_normal(count), -1.5, 1.5)
    return [(first + step * (n + 1), offset) for n, offset in enumerate(offsets.tolist())]


def _stairs(rng: np.random.Generator, at: float, side: int) -> list[Knot]:
    """Step by step to one side, with pauses, to a close near the extreme."""
    count = 14
    climb = np.cumsum(rng.exponential(1.0, count))
    climb = climb / climb[-1] * rng.uniform(0.75, 1.05)
    pauses = rng.uniform(0.0, 0.06, count)
    pauses[-1] = 0.02
    offsets = (at + side * (climb - pauses)).tolist()
    return [(1 + (n + 1) / count, offset) for n, offset in enumerate(offsets)]


def _with_news(rng: np.random.Generator, knots: list[Knot]) -> tuple[list[Knot], float]:
    """A jump within minutes, of which half to nearly all is taken back."""
    at = rng.uniform(1.05, 1.8)
    before = float(np.interp(at, [p for p, _ in knots], [o for _, o in knots]))
    jump = rng.choice((-1.0, 1.0)) * rng.uniform(0.15, 0.3)
    kept = rng.uniform(0.0, 0.5)
    struck = [(at, before), (at + 0.008, before + jump), (at + 0.06, before + kept * jump)]
    others = [knot for knot in knots if not at <= knot[0] <= at + 0.06]
    return sorted(others + struck), at

"""The simulated market: which trades each session of each product has.

Rule kept: nothing is remembered that changes an answer. The close of a day is worked out from the scripts of its block
of twenty weekdays, whose first level is drawn by itself: no history has to be played to know where a day begins, and a
regular session ends where the night after it sets out. A drift of levels over the years is pulled back by the blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from outcry.feeds.simulator import auction, script
from outcry.feeds.simulator.auction import Floats, Plan
from outcry.feeds.simulator.traits import Trait, load_traits
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.day_type import OpenType
from outcry.market.instruments import Contract, Product
from outcry.market.units import NANOS_PER_HOUR
from outcry.market.windows import LONGEST_CLOSURE_DAYS
from outcry.trades.records import Rows

BLOCK = 20  # weekdays
#: How the streams of chance are told apart.
_OF_SCRIPT, _OF_LEVEL, _OF_NIGHT = 10, 11, 12
_OF_SESSION = {SessionKind.ETH: 0, SessionKind.RTH: 1}
#: A block's level strays from the product's by this many ranges, one standard deviation.
_STRAY = 2.5
#: The night's trades against an hour of the day's, its hours that count, and how far its chance strays (ranges).
_NIGHT_TRADES, _NIGHT_HOURS, _NIGHT_NOISE = 0.75, 17.0, 0.22
_GRID = 128


@dataclass(frozen=True, slots=True)
class _Block:
    """Twenty weekdays of one product: scripts, and open and close of the regular hours in ticks."""

    scripts: Sequence[script.Script]
    opens: Sequence[float]
    closes: Sequence[float]


class Market:
    """Implements the simulated trades. `seed`: 0 or more. Safe to call from several threads."""

    def __init__(self, seed: int, products: Mapping[str, Product], calendar: Calendar) -> None:
        self.seed = seed
        self._products, self._calendar = products, calendar
        self._traits = load_traits(products)
        self._blocks: dict[tuple[str, int], _Block] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The products it trades."""
        return tuple(self._traits)

    def trades(self, contract: Contract, session: Session) -> Rows:
        """Return all trades of a session in order of time, dtype `LIVE_TRADE`.

        Every contract of a product trades alike. Raises `KeyError` for a product it does not invent.
        """
        trait, day = self._traits[contract.root], session.trade_date
        plan = self._day(trait, session) if session.kind is SessionKind.RTH else self._night(trait, session)
        rng = self._chance(contract.root, day.toordinal(), _OF_SESSION[session.kind])
        # numbers grow with time: by day, the night of a trade date before its regular hours
        first_id = (day.toordinal() * 2 + _OF_SESSION[session.kind]) << 32 | 1
        return auction.trades(rng, plan, session.segments, self._products[contract.root].tick_e9, first_id)

    def script_of(self, root: str, day: date) -> script.Script:
        """The script of a trade date's regular hours."""
        block, at = self._placed(root, day)
        return block.scripts[at]

    def close_of(self, root: str, day: date) -> float:
        """Where the regular hours of a trade date end, in ticks."""
        block, at = self._placed(root, day)
        return block.closes[at]

    def _chance(self, root: str, number: int, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, int.from_bytes(root.encode()), number, stream])

    def _placed(self, root: str, day: date) -> tuple[_Block, int]:
        number, at = divmod(_weekdays(day), BLOCK)
        block = self._blocks.get((root, number))
        if block is None:
            block = self._blocks[root, number] = self._block(root, number)
        return block, at

    def _block(self, root: str, number: int) -> _Block:
        """Scripts in a row, and what they leave between one block's level and the next spread over the nights."""
        trait = self._traits[root]
        drawn = [script.draw(self._chance(root, number * BLOCK + at, _OF_SCRIPT)) for at in range(-1, BLOCK)]
        scripts = drawn[1:]
        gaps = [script.gap(after, before) for before, after in zip(drawn, scripts, strict=False)]
        start, end = self._level(root, number), self._level(root, number + 1)
        moved = sum(gaps) + sum(each.close for each in scripts)
        pull = (end - start) / BLOCK - moved * trait.range_ticks / BLOCK
        opens: list[float] = []
        closes: list[float] = []
        for each, jump in zip(scripts, gaps, strict=True):
            last = closes[-1] if closes else start
            opens.append(float(round(last + jump * trait.range_ticks + pull)))
            closes.append(opens[-1] + each.close * trait.range_ticks)
        return _Block(scripts, opens, closes)

    def _level(self, root: str, number: int) -> float:
        trait = self._traits[root]
        strayed = float(np.clip(self._chance(root, number, _OF_LEVEL).standard_normal(), -2, 2))
        return trait.level_ticks + strayed * _STRAY * trait.range_ticks

    def _day(self, trait: Trait, session: Session) -> Plan:
        block, at = self._placed(session.root, session.trade_date)
        told, opened = block.scripts[at], block.opens[at]
        length = sum(end - start for start, end in session.segments)
        hours = length / NANOS_PER_HOUR
        return Plan(
            knots_ns=[_instant(phase, length) for phase, _ in told.knots],
            knots_ticks=[opened + offset * trait.range_ticks for _, offset in told.knots],
            noise_ticks=told.noise * trait.range_ticks,
            count=max(50, round(trait.per_hour * hours * told.busy)),
            lots=trait.lots,
            activity=_by_day([_instant(phase, length) / length for phase in told.news]),
            poor_high=told.poor_high,
            poor_low=told.poor_low,
            drive=told.early if told.opens is OpenType.DRIVE else 0,
            floor_ns=NANOS_PER_HOUR,
        )

    def _night(self, trait: Trait, session: Session) -> Plan:
        """From the close of the regular hours before to the open of those that follow, by a way of its own."""
        block, at = self._placed(session.root, session.trade_date)
        opened = block.opens[at]
        before = self._regular_before(session)
        start = self.close_of(session.root, before) if before else opened
        rng = self._chance(session.root, session.trade_date.toordinal(), _OF_NIGHT)
        length = sum(end - start for start, end in session.segments)
        hours = length / NANOS_PER_HOUR
        count = max(2, round(hours / 1.5))
        shares = np.linspace(0.0, 1.0, count + 1)
        stray = 0.13 * trait.range_ticks * rng.standard_normal(count + 1)
        stray[0] = stray[-1] = 0.0
        busy = trait.per_hour * block.scripts[at].busy * _NIGHT_TRADES * min(1.3, hours / _NIGHT_HOURS)
        return Plan(
            knots_ns=(shares * length).tolist(),
            knots_ticks=(start + (opened - start) * shares**2 + stray).tolist(),
            noise_ticks=_NIGHT_NOISE * trait.range_ticks,
            count=max(30, round(busy)),
            lots=trait.lots,
            activity=_by_night(hours),
        )

    def _regular_before(self, session: Session) -> date | None:
        """The trade date of the regular hours before a night."""
        for back in range(1, LONGEST_CLOSURE_DAYS):
            day = session.trade_date - timedelta(days=back)
            if self._calendar.session(session.root, day, SessionKind.RTH):
                return day
        return None


def _weekdays(day: date) -> int:
    """Weekdays since the first of them; a weekend counts as its Friday."""
    weeks, weekday = divmod(day.toordinal() - 1, 7)
    return weeks * 5 + min(weekday, 4)


def _instant(phase: float, length_ns: int) -> float:
    """Phase 0 to 1 is the first hour, 1 to 2 the rest."""
    if phase <= 1:
        return phase * NANOS_PER_HOUR
    return NANOS_PER_HOUR + (phase - 1) * (length_ns - NANOS_PER_HOUR)


def _by_day(news: Sequence[float]) -> Floats:
    """Trade over a day: most at the open, much at the close, least at noon, and a rush at news."""
    at = np.linspace(0.0, 1.0, _GRID)
    busy = 0.5 + 0.7 * (2 * at - 1) ** 2 + 1.8 * np.exp(-at / 0.03) + 0.9 * np.exp((at - 1) / 0.04)
    for struck in news:
        busy += np.where(at >= struck, 2.5 * np.exp((struck - at) / 0.03), 0.0)
    return busy


def _by_night(hours: float) -> Floats:
    """Trade over a night: little, more from London's open six and a half hours before ours, most in the last one."""
    left = np.linspace(hours, 0.0, _GRID)
    return (
        0.25
        + np.where(left < 6.5, 0.6, 0.0)
        + 1.2 * np.exp(-left / 0.7)
        + 0.6 * np.exp(-(hours - left) / 0.5)
    )

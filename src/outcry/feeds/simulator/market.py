"""The simulated market: the trades of each session of each product.

Results depend on no earlier call. Twenty weekdays form a block (days, if the product trades on all of them), and the
price level at the start of each block is drawn independently. So a session can be computed without the sessions before
it, and prices do not drift over the years. An overnight session starts where the regular session before it closed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from outcry.feeds.simulator import day_script, trade_generation
from outcry.feeds.simulator.product_traits import ProductTraits, load_traits
from outcry.feeds.simulator.trade_generation import Floats, SessionPlan
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.day_type import OpenType
from outcry.market.instruments import Contract, Product
from outcry.market.units import NANOS_PER_HOUR
from outcry.market.windows import LONGEST_CLOSURE_DAYS
from outcry.trades.own_tables import PRODUCTS, SESSIONS
from outcry.trades.records import Rows

BLOCK = 20  # weekdays, or days
#: Identifiers of the random streams.
_STREAM_SCRIPT, _STREAM_LEVEL, _STREAM_OVERNIGHT = 10, 11, 12
_STREAM_SESSION = {SessionKind.ETH: 0, SessionKind.RTH: 1}
#: Standard deviation of a block's level from the product's, in ranges.
_LEVEL_SIGMA_RANGES = 2.5
#: Overnight trades in regular hours' worth, the usual overnight length in hours, and the overnight noise in ranges.
_OVERNIGHT_TRADES, _OVERNIGHT_HOURS, _OVERNIGHT_NOISE = 0.75, 17.0, 0.22
_GRID = 128


@dataclass(frozen=True, slots=True)
class _Block:
    """Twenty weekdays of one product: their scripts, and open and close of the regular hours in ticks."""

    scripts: Sequence[day_script.DayScript]
    opens: Sequence[float]
    closes: Sequence[float]


class SimulatedMarket:
    """Computes simulated trades. `seed` is 0 or more. Thread-safe."""

    def __init__(self, seed: int, products: Mapping[str, Product], calendar: Calendar) -> None:
        self.seed = seed
        self._products, self._calendar = products, calendar
        self._traits = load_traits(products)
        self._every_day = {root for root in self._traits if _trades_on_weekends(calendar, root)}
        self._blocks: dict[tuple[str, int], _Block] = {}

    @property
    def roots(self) -> tuple[str, ...]:
        """The product codes of all simulated products, such as `ES`."""
        return tuple(self._traits)

    @property
    def packaged_roots(self) -> tuple[str, ...]:
        """The product codes of the simulated products whose hours are ours."""
        return tuple(
            root for root in self._traits if not {PRODUCTS, SESSIONS} & {*self._products[root].own_tables}
        )

    def trades(self, contract: Contract, session: Session) -> Rows:
        """Return all trades of a session in order of time, dtype `LIVE_TRADE`.

        All contracts of a product have the same trades. Raises `KeyError` for a product that is not simulated.
        """
        trait, day = self._traits[contract.root], session.trade_date
        plan = (
            self._regular_plan(trait, session)
            if session.kind is SessionKind.RTH
            else self._overnight_plan(trait, session)
        )
        rng = self._generator(contract.root, day.toordinal(), _STREAM_SESSION[session.kind])
        # ids ascend in time: the overnight session of a trade date comes before its regular hours
        first_id = (day.toordinal() * 2 + _STREAM_SESSION[session.kind]) << 32 | 1
        return trade_generation.generate_trades(
            rng, plan, session.segments, self._products[contract.root].tick_e9, first_id
        )

    def script_of(self, root: str, day: date) -> day_script.DayScript:
        """Return the script of a trade date's regular hours."""
        block, at = self._block_of(root, day)
        return block.scripts[at]

    def close_of(self, root: str, day: date) -> float:
        """Return the closing price of a trade date's regular hours, in ticks."""
        block, at = self._block_of(root, day)
        return block.closes[at]

    def _generator(self, root: str, number: int, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, int.from_bytes(root.encode()), number, stream])

    def _block_of(self, root: str, day: date) -> tuple[_Block, int]:
        number, at = divmod(day.toordinal() if root in self._every_day else _weekdays(day), BLOCK)
        block = self._blocks.get((root, number))
        if block is None:
            block = self._blocks[root, number] = self._block(root, number)
        return block, at

    def _block(self, root: str, number: int) -> _Block:
        """Create the scripts and prices of twenty weekdays, which lead from one price level to the next.

        The distance to the next block's level is spread over the opening gaps.
        """
        trait = self._traits[root]
        drawn = [
            day_script.draw(self._generator(root, number * BLOCK + at, _STREAM_SCRIPT))
            for at in range(-1, BLOCK)
        ]
        scripts = drawn[1:]
        gaps = [day_script.gap(after, before) for before, after in zip(drawn, scripts, strict=False)]
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
        strayed = float(np.clip(self._generator(root, number, _STREAM_LEVEL).standard_normal(), -2, 2))
        return trait.level_ticks + strayed * _LEVEL_SIGMA_RANGES * trait.range_ticks

    def _regular_plan(self, trait: ProductTraits, session: Session) -> SessionPlan:
        block, at = self._block_of(session.root, session.trade_date)
        script, opened = block.scripts[at], block.opens[at]
        length = sum(end - start for start, end in session.segments)
        hours = length / NANOS_PER_HOUR
        return SessionPlan(
            knots_ns=[_elapsed_ns(phase, length) for phase, _ in script.knots],
            knots_ticks=[opened + offset * trait.range_ticks for _, offset in script.knots],
            noise_ticks=script.noise * trait.range_ticks,
            count=max(50, round(trait.per_hour * hours * script.busy)),
            lots=trait.lots,
            activity=_regular_activity([_elapsed_ns(phase, length) / length for phase in script.news]),
            poor_high=script.poor_high,
            poor_low=script.poor_low,
            drive=script.early if script.opens is OpenType.DRIVE else 0,
            floor_ns=_first_part_ns(length),
        )

    def _overnight_plan(self, trait: ProductTraits, session: Session) -> SessionPlan:
        """Plan an overnight session from the close of the regular hours before it to the open of those after it."""
        block, at = self._block_of(session.root, session.trade_date)
        opened = block.opens[at]
        before = self._regular_before(session)
        start = self.close_of(session.root, before) if before else opened
        rng = self._generator(session.root, session.trade_date.toordinal(), _STREAM_OVERNIGHT)
        length = sum(end - start for start, end in session.segments)
        hours = length / NANOS_PER_HOUR
        count = max(2, round(hours / 1.5))
        shares = np.linspace(0.0, 1.0, count + 1)
        stray = 0.13 * trait.range_ticks * rng.standard_normal(count + 1)
        stray[0] = stray[-1] = 0.0
        busy = (
            trait.per_hour * block.scripts[at].busy * _OVERNIGHT_TRADES * min(1.3, hours / _OVERNIGHT_HOURS)
        )
        return SessionPlan(
            knots_ns=(shares * length).tolist(),
            knots_ticks=(start + (opened - start) * shares**2 + stray).tolist(),
            noise_ticks=_OVERNIGHT_NOISE * trait.range_ticks,
            count=max(30, round(busy)),
            lots=trait.lots,
            activity=_overnight_activity(hours),
        )

    def _regular_before(self, session: Session) -> date | None:
        """Return the trade date of the regular hours before an overnight session."""
        for back in range(1, LONGEST_CLOSURE_DAYS):
            day = session.trade_date - timedelta(days=back)
            if self._calendar.session(session.root, day, SessionKind.RTH):
                return day
        return None


def _weekdays(day: date) -> int:
    """Return the number of weekdays from 0001-01-01 to a day; a weekend counts as its Friday."""
    weeks, weekday = divmod(day.toordinal() - 1, 7)
    return weeks * 5 + min(weekday, 4)


def _elapsed_ns(phase: float, length_ns: int) -> float:
    """Convert a phase of a day script to ns since the open: 0 to 1 is the first hour, 1 to 2 the remaining session."""
    first = _first_part_ns(length_ns)
    return phase * first if phase <= 1 else first + (phase - 1) * (length_ns - first)


def _first_part_ns(length_ns: int) -> int:
    """Return the first hour of a session; of one shorter than two hours, its first half."""
    return min(NANOS_PER_HOUR, length_ns // 2)


def _trades_on_weekends(calendar: Calendar, root: str) -> bool:
    """Return whether trade dates of a product are Saturdays or Sundays."""
    return bool(calendar.hours.weekdays(root) & {5, 6})


def _regular_activity(news: Sequence[float]) -> Floats:
    """Return the relative trading rate over regular hours: high at the open, the close and at news, low at noon."""
    at = np.linspace(0.0, 1.0, _GRID)
    busy = 0.5 + 0.7 * (2 * at - 1) ** 2 + 1.8 * np.exp(-at / 0.03) + 0.9 * np.exp((at - 1) / 0.04)
    for struck in news:
        busy += np.where(at >= struck, 2.5 * np.exp((struck - at) / 0.03), 0.0)
    return busy


def _overnight_activity(hours: float) -> Floats:
    """Return the relative trading rate overnight: low at first, highest at the end.

    It rises at London's open, 6.5 hours before the end.
    """
    left = np.linspace(hours, 0.0, _GRID)
    return (
        0.25
        + np.where(left < 6.5, 0.6, 0.0)
        + 1.2 * np.exp(-left / 0.7)
        + 0.6 * np.exp(-(hours - left) / 0.5)
    )

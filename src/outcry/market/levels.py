"""Levels carried forward to later sessions: naked POCs and poor extremes (rules §4–5).

Only RTH counts. A POC is tested by an RTH trade at its price; a gap over it does not test it. A poor extreme is
repaired by an RTH trade at least one tick beyond it. Every list of sessions here is of one contract, because prices of
another month belong to another auction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from outcry.market.ladder import Ladder
from outcry.market.profile import SessionProfile

POC_LOOKBACK_SESSIONS = 60
EXTREME_LOOKBACK_SESSIONS = 20
MAX_LISTED = 10


@dataclass(frozen=True, slots=True)
class CompletedSession:
    """A completed RTH session.

    whole: whether it is recorded completely. If not, it tests and repairs earlier levels but creates none.
    """

    trade_date: date
    ladder: Ladder
    profile: SessionProfile
    whole: bool = True


@dataclass(frozen=True, slots=True)
class CarriedLevel:
    """A level in ticks and the trade date of the session that created it.

    age_sessions: number of sessions since then, 1 for a level of the newest session. tpos: TPOs at the level's price.
    tail_rows: number of rows of single prints from the level inwards. Equality compares price and date only.
    """

    price_ticks: int
    made_on: date
    age_sessions: int = field(default=0, compare=False)
    tpos: int = field(default=0, compare=False)
    tail_rows: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class CarriedLevels:
    """The naked POCs and poor extremes at the close of a session: at most ten of each kind, newest first."""

    naked_pocs: tuple[CarriedLevel, ...]
    poor_highs: tuple[CarriedLevel, ...]
    poor_lows: tuple[CarriedLevel, ...]


def carried_levels(sessions: Sequence[CompletedSession]) -> CarriedLevels:
    """Return the naked POCs and poor extremes at the close of the last of `sessions`.

    The POC of the last session is naked by definition. sessions: of one contract, ascending by trade date.
    """
    pocs: list[CarriedLevel] = []
    highs: list[CarriedLevel] = []
    lows: list[CarriedLevel] = []
    beyond_high, beyond_low = -(2**62), 2**62
    age = 0
    for at in reversed(range(len(sessions))):
        session = sessions[at]
        profile = session.profile
        if age >= POC_LOOKBACK_SESSIONS:
            break
        if session.whole and not any(later.ladder.prints_at(profile.poc) for later in sessions[at + 1 :]):
            most = profile.tpos[profile.poc - profile.low]
            pocs.append(CarriedLevel(profile.poc, session.trade_date, age + 1, most))
        if session.whole and age < EXTREME_LOOKBACK_SESSIONS:
            if profile.poor_high and beyond_high <= profile.high:
                at_high = profile.tpos[-1], profile.upper_tail_rows
                highs.append(CarriedLevel(profile.high, session.trade_date, age + 1, *at_high))
            if profile.poor_low and beyond_low >= profile.low:
                at_low = profile.tpos[0], profile.lower_tail_rows
                lows.append(CarriedLevel(profile.low, session.trade_date, age + 1, *at_low))
        beyond_high, beyond_low = max(beyond_high, profile.high), min(beyond_low, profile.low)
        age += session.whole
    return CarriedLevels(tuple(pocs[:MAX_LISTED]), tuple(highs[:MAX_LISTED]), tuple(lows[:MAX_LISTED]))


def spent(levels: CarriedLevels, ladder: Ladder) -> CarriedLevels:
    """Return the levels that a later RTH session of the contract has tested (POCs) or repaired (poor extremes).

    levels: the levels before that session. ladder: its ladder so far.
    """
    return CarriedLevels(
        tuple(level for level in levels.naked_pocs if ladder.prints_at(level.price_ticks)),
        tuple(level for level in levels.poor_highs if ladder.high_ticks > level.price_ticks),
        tuple(level for level in levels.poor_lows if ladder.low_ticks < level.price_ticks),
    )

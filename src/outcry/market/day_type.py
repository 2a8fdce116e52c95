"""Day type and open type of a session (rules §7; trend days: decision 0044).

Ratios are compared as integers in ticks. The day type is final once the session closed. The open type is provisional
after bracket A and final after bracket B.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

from outcry.market.ladder import Ladder
from outcry.market.profile import SessionProfile

#: A profile at most this wide is thin, however short the session.
TREND_WIDTH_TPOS = 6


class DayType(StrEnum):
    """The types of days that Dalton defined, such as trend day; rules §7 states the thresholds."""

    NON_TREND = "non_trend"
    NORMAL = "normal"
    NORMAL_VARIATION = "normal_variation"
    TREND_UP = "trend_up"
    TREND_DOWN = "trend_down"
    DOUBLE_DISTRIBUTION = "double_distribution"
    NEUTRAL = "neutral"
    NEUTRAL_EXTREME = "neutral_extreme"


class OpenType(StrEnum):
    """How a session opened compared with levels of earlier sessions, such as open-drive or open-auction (Dalton)."""

    DRIVE = "open_drive"
    TEST_DRIVE = "open_test_drive"
    REJECTION_REVERSE = "open_rejection_reverse"
    AUCTION_IN = "open_auction_in"
    AUCTION_OUT = "open_auction_out"


def day_type(profile: SessionProfile, adr20_ticks: int | None) -> DayType:
    """Return the day type. adr20_ticks: average RTH range of up to 20 earlier sessions; None without any."""
    whole = profile.high - profile.low
    balance = profile.ib_high - profile.ib_low
    up, down = profile.high - profile.ib_high, profile.ib_low - profile.low
    above_low = profile.close - profile.low
    at_extreme = 5 * above_low >= 4 * whole or 5 * above_low <= whole
    if _double_distribution(profile, balance):
        return DayType.DOUBLE_DISTRIBUTION
    if up > 0 and down > 0:
        return DayType.NEUTRAL_EXTREME if at_extreme else DayType.NEUTRAL
    trend = _trend(profile, up, down)
    if trend:
        return trend
    if adr20_ticks is not None and 10 * whole <= 6 * adr20_ticks and 10 * max(up, down) <= balance:
        return DayType.NON_TREND
    if 20 * balance >= 17 * whole:
        return DayType.NORMAL
    return DayType.NORMAL_VARIATION if up > 0 or down > 0 else DayType.NORMAL


def _trend(profile: SessionProfile, up: int, down: int) -> DayType | None:
    """Return the type of trend day that a profile shows; None if it is no trend day (rules §7, decision 0044).

    A trend day extends the initial balance on one side only and covers more than twice the balance's range. It opens
    and closes near opposite ends, and most of the day is not balanced about one price.
    """
    whole = profile.high - profile.low
    if (up > 0) == (down > 0) or whole <= 2 * (profile.ib_high - profile.ib_low) or _balanced(profile):
        return None
    opened, closed = profile.open - profile.low, profile.close - profile.low
    if up > 0 and 5 * opened <= whole and 5 * closed >= 4 * whole:
        return DayType.TREND_UP
    if down > 0 and 5 * opened >= 4 * whole and 5 * closed <= whole:
        return DayType.TREND_DOWN
    return None


def _balanced(profile: SessionProfile) -> bool:
    """Return whether most brackets traded at one price: more than three quarters of them, and more than six.

    This test does not use the width of the profile in TPOs. Books call a trend day "usually" four or five TPOs wide,
    but that is no fixed limit, and the width grows with the number of half-hours.
    """
    widest = max(profile.tpos)
    return widest > TREND_WIDTH_TPOS and 4 * widest > 3 * profile.brackets


def _double_distribution(profile: SessionProfile, balance: int) -> bool:
    """Return whether single prints divide the profile into two bodies that each have a quarter of the TPOs.

    A body ends at the next zone of single prints. A trend that moves in steps has several bodies, all of them smaller.
    """
    whole = profile.high - profile.low
    if whole <= 2 * balance:
        return False
    zones = [(low, high) for low, high in profile.single_prints if 20 * (high - low + 1) >= whole]
    starts = [profile.low, *(high + 1 for _, high in zones)]
    ends = [*(low for low, _ in zones), profile.high + 1]
    bodies = [
        sum(profile.tpos[start - profile.low : end - profile.low])
        for start, end in zip(starts, ends, strict=True)
    ]
    total = sum(profile.tpos)
    return any(4 * below >= total and 4 * above >= total for below, above in pairwise(bodies))


def open_type(
    ladder: Ladder, references_ticks: Sequence[int], prior_range: tuple[int, int] | None
) -> OpenType | None:
    """Return the open type from brackets A and B; None until both have traded.

    `references_ticks`: levels that an opening may test (prior high, low, VAH, VAL; overnight high, low). `prior_range`:
    the prior RTH low and high.
    """
    opening = [bracket for bracket in ladder.brackets if bracket.index < 2]
    if [bracket.index for bracket in opening] != [0, 1]:
        return None
    first, second = opening
    opened = first.open_ticks
    high, low = max(first.high_ticks, second.high_ticks), min(first.low_ticks, second.low_ticks)
    whole, net = high - low, second.close_ticks - opened
    adverse = opened - low if net > 0 else high - opened
    if net and adverse <= 2 and 2 * abs(net) >= whole:
        return OpenType.DRIVE
    probe = low if net > 0 else high
    tested = any(abs(probe - level) <= 4 for level in references_ticks)
    if net and tested and 10 * adverse <= 3 * whole:
        return OpenType.TEST_DRIVE
    # the first move was against the close of B, and large enough to count as a reversal
    if net and 10 * adverse >= 3 * whole and (first.close_ticks - opened) * net < 0:
        return OpenType.REJECTION_REVERSE
    inside = prior_range is None or prior_range[0] <= opened <= prior_range[1]
    return OpenType.AUCTION_IN if inside else OpenType.AUCTION_OUT

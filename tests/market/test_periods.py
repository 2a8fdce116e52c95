"""Naked POCs of weeks and months: a case worked by hand, and any sessions against slow definitions with sets."""

from collections import Counter
from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from outcry.market.ladder import Bracket, Ladder
from outcry.market.levels import CompletedSession
from outcry.market.periods import CARRIED_PERIODS, PeriodPoc, naked_period_pocs
from outcry.market.profile import profile_of

#: The ranges of prices of a session's brackets.
Ranges = list[tuple[int, int]]


def session(day: date, ranges: Ranges, *, whole: bool = True) -> CompletedSession:
    brackets = tuple(Bracket(n, low, high, low, high, n, n) for n, (low, high) in enumerate(ranges))
    low, high = min(low for low, _ in ranges), max(high for _, high in ranges)
    touched = sorted({price for a, b in ranges for price in range(a, b + 1)})
    ladder = Ladder(
        brackets, low, (1,) * (high - low + 1), tuple((price, price) for price in touched), "trades"
    )
    return CompletedSession(day, ladder, profile_of(ladder, 2), whole)


def test_weeks_and_months_by_hand() -> None:
    """Two days of the week of 1 January 2024 and two of the next; then Monday the 15th, and in February the 1st.

    TPOs of the first week: 10 once, 11 three times (2 and 3 January), 12 twice: POC 11. The second week: 20 twice, 21
    once: POC 20. On the 15th prices from 11 to 13 trade, which tests 11 but not 20. The weeks of the 15th and of
    29 January have the POCs 12 (the centre of three equal rows) and 30; the last one has not ended. January has TPOs
    10:1, 11:4, 12:3, 13:1, 20:2, 21:1, so its POC is 11, which no session of February trades.
    """
    sessions = [
        session(date(2024, 1, 2), [(10, 12), (11, 11)]),
        session(date(2024, 1, 3), [(11, 12)]),
        session(date(2024, 1, 8), [(20, 20)]),
        session(date(2024, 1, 12), [(20, 21)]),
        session(date(2024, 1, 15), [(11, 13)]),
        session(date(2024, 2, 1), [(30, 30)]),
    ]
    assert naked_period_pocs(sessions, cut=False) == (
        PeriodPoc("week", 12, date(2024, 1, 15), date(2024, 1, 15), 1),
        PeriodPoc("week", 20, date(2024, 1, 8), date(2024, 1, 12), 2),
        PeriodPoc("month", 11, date(2024, 1, 2), date(2024, 1, 15), 5),
    )
    assert naked_period_pocs(sessions, cut=True)[-1].period == "week"  # January may lack sessions
    assert naked_period_pocs([], cut=False) == ()


def test_a_week_ends_with_its_friday() -> None:
    """On Thursday the week goes on; on Friday it has ended, and its own sessions do not test its POC."""
    days = [session(date(2024, 1, 8) + timedelta(days=n), [(10, 10)]) for n in range(5)]
    assert naked_period_pocs(days[:4], cut=False) == ()
    assert naked_period_pocs(days, cut=False) == (
        PeriodPoc("week", 10, date(2024, 1, 8), date(2024, 1, 12), 5),
    )


def test_an_incomplete_session_tests_but_is_no_part_of_a_period() -> None:
    first = session(date(2024, 1, 8), [(10, 10)])
    partial = session(date(2024, 1, 9), [(50, 50)], whole=False)
    later = session(date(2024, 1, 16), [(10, 10)], whole=False)
    assert naked_period_pocs([first, partial, later], cut=False) == ()
    found = naked_period_pocs([first, partial, session(date(2024, 1, 16), [(50, 50)])], cut=False)
    assert found == (PeriodPoc("week", 10, date(2024, 1, 8), date(2024, 1, 8), 1),)


RANGES = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 6)).map(lambda r: (r[0], sum(r))), min_size=1, max_size=4
)


def prices(ranges: Ranges) -> list[int]:
    return [price for low, high in ranges for price in range(low, high + 1)]


def key_of(day: date, period: str) -> tuple[int, int]:
    return day.isocalendar()[:2] if period == "week" else (day.year, day.month)


@given(st.dictionaries(st.integers(0, 60), st.tuples(RANGES, st.booleans()), min_size=1, max_size=25))
def test_naked_periods_against_sets(drawn: dict[int, tuple[Ranges, bool]]) -> None:
    """Compare with the rows of most TPOs: a period whose every such row is untested must be found, and no other row."""
    days = {date(2024, 1, 1) + timedelta(days=n): drawn[n] for n in sorted(drawn)}
    days = {day: one for day, one in days.items() if day.weekday() < 5}
    found = naked_period_pocs([session(day, r, whole=whole) for day, (r, whole) in days.items()], cut=False)
    untested: dict[tuple[str, date, date], set[int]] = {}
    certain: set[tuple[str, date, date]] = set()
    for period in CARRIED_PERIODS:
        following = max(days, default=date(2024, 1, 1)) + timedelta(days=1)
        while following.weekday() >= 5:
            following += timedelta(days=1)
        for key in {key_of(day, period) for day in days} - {key_of(following, period)}:
            own = [day for day in days if key_of(day, period) == key and days[day][1]]
            if own:
                tpos = Counter(price for day in own for price in prices(days[day][0]))
                most = {price for price, count in tpos.items() if count == max(tpos.values())}
                later = {price for day in days if day > max(own) for price in prices(days[day][0])}
                name = period, min(own), max(own)
                untested[name] = most - later
                certain |= {name} if not most & later else set()
    assert certain <= {(poc.period, poc.first, poc.last) for poc in found}
    assert all(poc.price_ticks in untested[poc.period, poc.first, poc.last] for poc in found)

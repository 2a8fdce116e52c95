"""Chart data of real sessions equals the other answers."""

from itertools import pairwise

from tests.golden.test_worked_sessions import EVERYTHING

from outcry.app.installation import Installation
from outcry.wire.chart import ChartAnswer, ChartSession

TICK = 0.25


def chart(installation: Installation, symbol: str = "ES", sessions: int = 60) -> ChartAnswer:
    return installation.query.chart(EVERYTHING, symbol, sessions, installation.clock.now_ns()).answer


def letters(session: ChartSession, price: float) -> str:
    """Return the letters of a row by the definition of a bracket: every tick from its low to its high."""
    return "".join(b.letter for b in session.brackets if b.low <= price <= b.high)


def test_chart_levels_equal_those_of_history(installation: Installation) -> None:
    found = chart(installation)
    history = installation.query.history(
        EVERYTHING, "ES", None, None, installation.clock.now_ns()
    ).answer.sessions
    assert [session.levels for session in found.sessions] == history
    assert len(history) == 3


def test_chart_brackets_and_volumes_equal_the_profile(installation: Installation) -> None:
    for session in chart(installation).sessions:
        rows = installation.query.profile(
            EVERYTHING, "ES", session.date, installation.clock.now_ns()
        ).answer.rows
        assert session.low is not None
        drawn = [
            (session.low + row * TICK, letters(session, session.low + row * TICK), lots)
            for row, lots in enumerate(session.volumes)
        ]
        assert drawn[::-1] == [(row.price, row.letters, row.volume) for row in rows]


def test_the_path_ends_at_the_levels_and_every_point_matches_its_brackets(installation: Installation) -> None:
    for session in chart(installation).sessions:
        assert session.levels is not None
        last = session.path[-1]
        assert (last.poc, last.vah, last.val) == (session.levels.poc, session.levels.vah, session.levels.val)
        assert [point.letter for point in session.path] == [b.letter for b in session.brackets]
        for count, point in enumerate(session.path, 1):
            so_far = session.brackets[:count]
            low, high = min(b.low for b in so_far), max(b.high for b in so_far)
            rows = [low + step * TICK for step in range(round((high - low) / TICK) + 1)]
            tpos = [sum(b.low <= price <= b.high for b in so_far) for price in rows]
            poc = tpos[rows.index(point.poc)]
            value = sum(tpos[rows.index(point.val) : rows.index(point.vah) + 1])
            assert poc == max(tpos)
            assert low <= point.val <= point.poc <= point.vah <= high
            assert value >= 0.7 * sum(tpos)


def test_brackets_begin_half_an_hour_apart(installation: Installation) -> None:
    for session in chart(installation, "GC").sessions:
        starts = [b.start for b in session.brackets]
        assert starts[0] == session.open  # gold opens at 8:20, which is not on the half-hour
        minutes = [int(start[11:13]) * 60 + int(start[14:16]) for start in starts]
        assert {b - a for a, b in pairwise(minutes)} == {30}


def test_a_limited_chart_has_the_newest_sessions(installation: Installation) -> None:
    assert [s.date for s in chart(installation, sessions=2).sessions] == [
        s.date for s in chart(installation).sessions
    ][-2:]


def test_a_poor_extreme_is_repaired_by_a_later_trade_beyond_it(installation: Installation) -> None:
    found = chart(installation)
    for place, session in enumerate(found.sessions):
        assert session.levels is not None
        later = [each.levels for each in found.sessions[place + 1 :] if each.levels is not None]
        beyond = any(each.high > session.levels.high for each in later)
        expected = None if not session.levels.poor_high else "repaired" if beyond else "open"
        assert session.poor_high == expected

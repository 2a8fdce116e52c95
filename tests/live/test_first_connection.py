"""A feed that first connects at any moment of a week then answers like one that ran all week.

Both play the same market with the same imported past through the same engine; only the moment of the first connection
differs. The feed that ran all week is the independent reference: it saw every session live.
"""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from tests.live.engine_harness import MINUTE, SECOND
from tests.live.first_connection_harness import (
    BEGIN,
    DAY_NS,
    END,
    Week,
    caps,
    differing,
    new_york,
    since,
    there,
)

HOUR = 60 * MINUTE
#: First connections while the market is closed, at edges of sessions, and around the holiday.
MOMENTS = {
    "a break on Monday": "2024-11-25T17:30:00",
    "the last second of a break": "2024-11-25T17:59:59",
    "the reopening": "2024-11-25T18:00:00",
    "a second after the reopening": "2024-11-25T18:00:01",
    "Saturday": "2024-11-23T12:00:00",
    "Sunday, a minute before the open": "2024-11-24T17:59:00",
    "Sunday, a second after the open": "2024-11-24T18:00:01",
    "a regular close": "2024-11-26T16:15:00",
    "between a close and its storing": "2024-11-26T16:17:00",
    "the middle of a regular session": "2024-11-27T11:11:11",
    "a regular open": "2024-11-27T09:30:00",
    "the night before the holiday": "2024-11-27T22:00:00",
    "the holiday after its early close": "2024-11-28T13:30:00",
    "an early close": "2024-11-29T13:20:00",
    "the end of the week": "2024-11-30T09:00:00",
}


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Week]:
    return Week(tmp_path_factory.mktemp("week"), seed=14)


def compared(week: Week, moment_ns: int, hours: int = 30) -> list[int]:
    """Return the times of comparison after a first connection, at least until the second open."""
    return [at for at in week.instants if moment_ns < at < moment_ns + hours * HOUR][:24]


def check(week: Week, moment_ns: int) -> None:
    at = compared(week, moment_ns, hours=72)
    found = week.answers(moment_ns, caps(10 * DAY_NS), at)
    for at_ns in at:
        mine, whole = found[at_ns], since(week.whole[at_ns], moment_ns)
        assert differing(mine, whole) == {}, f"connected {there(moment_ns)}, asked {there(at_ns)}"


def test_the_reference_feed_is_live_in_sessions_and_fires_alerts(week: Week) -> None:
    """Otherwise equal answers would prove nothing."""
    live = [seen.levels["live"] for seen in week.whole.values()]
    assert live.count(True) > len(live) // 2
    assert len(week.whole[week.instants[-1]].alerts) > 20
    assert {len(seen.levels["nakedPocs"]) for seen in week.whole.values()} != {0}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=list(MOMENTS))
def test_a_later_first_connection_gets_the_answers_of_the_reference_feed(week: Week, moment: str) -> None:
    check(week, new_york(moment))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(200))
def test_a_random_first_connection_gets_the_answers_of_the_reference_feed(week: Week, seed: int) -> None:
    """Times are exact to the second. Every other one lies within five minutes of an edge of a session or of a break."""
    chance = Random(seed)
    last_ns = END - 30 * HOUR
    edges = [at for at in week.instants if at < last_ns]
    anywhere = chance.randrange(BEGIN, last_ns, SECOND)
    check(week, chance.choice(edges) + chance.randint(-300, 300) * SECOND if seed % 2 else anywhere)


@pytest.mark.parametrize("from_cursor", [True, False], ids=["vendor", "program"])
@pytest.mark.parametrize("reach_hours", [0, 12, 30])
@pytest.mark.parametrize("moment", ["2024-11-25T17:30:00", "2024-11-25T18:00:01", "2024-11-26T11:00:00"])
def test_a_session_without_its_beginning_is_not_answered_live(
    week: Week, moment: str, reach_hours: int, from_cursor: bool
) -> None:
    """A feed that lacks the beginning of a session is delayed, reports `incomplete` and fires no alert.

    A session that it has from the opening gets the same answers as from the feed that ran all week, except for a prior
    or an overnight that is not stored. A vendor's feed reports what it lacks, a pushing program does not."""
    moment_ns = new_york(moment)
    whole_from_ns = moment_ns - reach_hours * HOUR
    at = compared(week, moment_ns)
    found = week.answers(moment_ns, replace(caps(reach_hours * HOUR), from_cursor=from_cursor), at)
    seen: set[str] = set()
    for at_ns in at:
        mine, whole = found[at_ns], week.whole[at_ns]
        session = week.calendar.session_at("ES", at_ns)
        if session is None or not whole.levels["live"]:
            continue
        if session.open_ns + 5 * MINUTE < whole_from_ns:
            assert (mine.levels["live"], mine.context["state"]) == (False, "incomplete"), there(at_ns)
            assert mine.alerts == ()
            seen.add("incomplete")
        else:
            assert (mine.levels["live"], mine.levels["developing"]) == (True, whole.levels["developing"])
            assert mine.levels["overnight"] in (None, whole.levels["overnight"])
            seen.add("live")
    assert "live" in seen
    under_way = week.calendar.session_or_next("ES", moment_ns)
    assert under_way is not None
    assert ("incomplete" in seen) == (under_way.open_ns + 5 * MINUTE < whole_from_ns)

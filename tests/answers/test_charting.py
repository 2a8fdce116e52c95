"""Chart data of the open session, and price formats of products."""

from dataclasses import replace
from datetime import date

import pytest
from tests.sample_live_session import (
    ANN,
    BOB,
    DAY,
    ESH26,
    LADDER,
    NOW_NS,
    PRIOR_DAY,
    REFERENCE,
    VIEW,
    MemorySessions,
    Shown,
    alert_row,
    completed,
    eth,
    query,
)

from outcry.access.licences import Grant, Scope
from outcry.answers.charting import notation_of
from outcry.answers.query import Query
from outcry.base.errors import NoLicensedSource
from outcry.live.registry import Registry
from outcry.market.alerts.machine import AlertType
from outcry.market.ladder import Bracket, Ladder
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.live_session import LiveView
from outcry.market.snapshot import dump, load
from outcry.wire.chart import ChartAnswer

DAY_NS = 86_400 * 10**9
NIGHT = Ladder((Bracket(0, 27600, 27601, 27599, 27600, 1, 2),), 27599, (5, 0, 7), (), "trades")


def chart(asked: Query, sessions: int | None = None) -> ChartAnswer:
    return asked.chart(ANN, "ES", sessions, NOW_NS).answer


def test_the_open_session_follows_those_completed() -> None:
    registry = Registry()
    Shown(registry)
    found = chart(query(registry))
    newest = found.sessions[-1]
    assert (found.live, found.data_source, found.as_of, found.last_price) == (True, "shared", None, 6913.0)
    assert (newest.date, newest.final, newest.levels and newest.levels.final) == (str(DAY), False, False)
    assert all(session.final for session in found.sessions[:-1])
    assert [(b.letter, b.start, b.open, b.high, b.low, b.close) for b in newest.brackets] == [
        ("A", "2026-01-06T14:30:00.000Z", 6910.0, 6911.0, 6909.5, 6910.5),
        ("B", "2026-01-06T15:00:00.000Z", 6910.5, 6913.25, 6910.25, 6913.0),
    ]
    assert (newest.low, newest.volumes) == (6909.5, list(LADDER.volume))
    assert found.average_range == 40.0  # 160 ticks


def test_the_path_by_hand() -> None:
    """Bracket A has seven rows of one TPO each, and the centre 27641 is the POC.

    Of 7 TPOs the area needs 4.9: the pair above (a tie goes up), then the pair below (two against one), so 27639 to
    27643."""
    registry = Registry()
    Shown(registry)
    first = chart(query(registry)).sessions[-1].path[0]
    assert (first.letter, first.poc, first.val, first.vah) == ("A", 6910.25, 6909.75, 6910.75)


def test_the_overnight_has_its_ladder_or_at_least_its_range() -> None:
    registry = Registry()
    shown = Shown(registry)
    known = chart(query(registry)).sessions[-1].overnight
    assert known is not None
    assert (known.high, known.low, known.brackets, known.volumes) == (6916.5, 6894.25, [], [])
    shown.view = replace(VIEW, overnight_ladder=NIGHT)
    shown.channel.version += 1
    folded = chart(query(registry)).sessions[-1].overnight
    assert folded is not None
    assert (folded.high, folded.low, folded.volumes) == (6900.25, 6899.75, [5, 0, 7])


def test_before_the_open_there_is_the_overnight_without_levels() -> None:
    registry = Registry()
    Shown(registry, view=eth())
    newest = chart(query(registry)).sessions[-1]
    assert (newest.levels, newest.brackets, newest.low) == (None, [], None)
    assert newest.open == "2026-01-06T14:30:00.000Z"
    assert newest.overnight is not None
    assert newest.overnight.volumes == list(LADDER.volume)


def used(view: LiveView) -> LiveView:
    """Return chart data with levels that the open session has traded.

    Naked POCs are at 6910 and 6890, a poor high at 6913 and a poor low at 6909.75. The session of 6909.5 to 6913.25 has
    traded at the first POC and beyond both extremes."""
    pocs = CarriedLevel(27640, PRIOR_DAY), CarriedLevel(27560, date(2025, 12, 30))
    extremes = (CarriedLevel(27652, PRIOR_DAY),), (CarriedLevel(27639, PRIOR_DAY),)
    return replace(view, opening=replace(view.opening, carried=CarriedLevels(pocs, *extremes)))


def test_levels_used_up_by_the_open_session_are_marked() -> None:
    registry = Registry()
    shown = Shown(registry, view=used(VIEW))
    found = chart(query(registry))
    assert [level.price for level in found.naked_pocs] == [6910.0, 6890.0]
    assert [(poc.price, poc.date, poc.at) for poc in found.touched_pocs] == [(6910.0, str(PRIOR_DAY), None)]
    assert [(level.price, level.date) for level in found.repaired_highs] == [(6913.0, str(PRIOR_DAY))]
    assert [(level.price, level.date) for level in found.repaired_lows] == [(6909.75, str(PRIOR_DAY))]
    fired = alert_row(7, type=AlertType.NAKED_POC, ref=str(PRIOR_DAY), price_e9=6910_000_000_000)
    registry.post([replace(fired, seq=6, ref="2025-12-30"), fired])
    assert chart(query(registry)).touched_pocs[0].at == "2026-01-06T14:30:07.000Z"
    scanned = {row.state.symbol: row.touched for row in query(registry).scan(ANN, NOW_NS)}
    assert [(level.price, level.date) for level in scanned["ES"]] == [(6910.0, str(PRIOR_DAY))]
    assert all(not touched for symbol, touched in scanned.items() if symbol != "ES")
    shown.view = eth(used(VIEW))  # trades of the overnight session test and repair no level
    shown.channel.version += 1
    night = chart(query(registry))
    assert (night.touched_pocs, night.repaired_highs, night.repaired_lows) == ([], [], [])


def test_without_a_live_feed_it_ends_with_the_newest_completed_session() -> None:
    found = query(Registry()).chart(BOB, "ES", None, NOW_NS).answer
    assert (found.live, found.data_source, found.last_price, found.updated_at) == (
        False,
        "delayed",
        None,
        None,
    )
    assert found.as_of == found.sessions[-1].date
    assert found.state == "no_connection"


def test_a_chart_without_data_is_refused_like_levels() -> None:
    asked = query(Registry(), MemorySessions())
    with pytest.raises(NoLicensedSource):
        asked.chart(BOB, "ES", None, NOW_NS)


@pytest.mark.parametrize(
    ("root", "kind", "decimals", "parts"),
    [
        ("ES", "decimal", 2, 1),
        ("ZB", "32nds", 5, 1),
        ("ZN", "32nds", 6, 2),
        ("ZF", "32nds", 7, 4),
        ("6J", "decimal", 7, 1),
        ("CL", "decimal", 2, 1),
    ],
)
def test_price_formats(root: str, kind: str, decimals: int, parts: int) -> None:
    found = notation_of(REFERENCE.universe.products[root])
    assert (found.kind, found.decimals, found.parts) == (kind, decimals, parts)


def test_the_answer_names_the_contract() -> None:
    registry = Registry()
    Shown(registry)
    assert chart(query(registry)).contract == ESH26.key


def test_an_idle_feed_has_the_time_of_its_last_data() -> None:
    registry = Registry()
    shown = Shown(registry)
    asked = query(registry)
    assert asked.last_data_at(ANN, "ES") is None
    shown.stop("stale_market")
    assert asked.last_data_at(ANN, "ES") == "2026-01-06T15:04:56.123Z"
    assert {row.state.symbol: row.last_data_at for row in asked.scan(ANN, NOW_NS)}[
        "ES"
    ] == "2026-01-06T15:04:56.123Z"
    assert asked.last_data_at(BOB, "ES") is None  # callers who cannot see the feed do not receive this
    shown.stop("closed")
    assert asked.last_data_at(ANN, "ES") is None


def test_prior_levels_depend_on_what_the_caller_sees() -> None:
    """Of two completed sessions, one caller sees both and the other only the newer one.

    Only the first caller receives the prior levels of the newer session, in any order of requests."""
    older = completed(0, "dbn")
    above = load(older.profile)
    brackets = tuple(
        Bracket(b.index, 27700, 27700, 27700, 27700, b.first_ns + DAY_NS, b.last_ns + DAY_NS)
        for b in above.brackets
    )
    profile = dump(Ladder(brackets, 27700, (28,), ((27700, 27700),), "trades"))
    times = {"open_ns": older.open_ns + DAY_NS, "close_ns": older.close_ns + DAY_NS}
    newer = replace(older, trade_date=DAY, profile=profile, **times)
    store = MemorySessions()
    store.rows = [older, newer]
    both, one = BOB, Scope(3, (Grant("everyone", "completed", (), DAY, None, 0),))
    for order in ((both, one), (one, both)):
        asked = query(Registry(), store)
        for scope in order:
            charted = asked.chart(scope, "ES", 5, NOW_NS + DAY_NS).answer.sessions
            history = asked.history(scope, "ES", None, None, NOW_NS + DAY_NS).answer.sessions
            assert [session.levels for session in charted] == history
    assert [s.open_type for s in asked.history(one, "ES", None, None, NOW_NS + DAY_NS).answer.sessions] != [
        s.open_type for s in asked.history(both, "ES", None, None, NOW_NS + DAY_NS).answer.sessions[-1:]
    ]

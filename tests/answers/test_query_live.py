"""Answers from a live feed: who receives them, when there is none, and how often one is computed.

Expected prices are those of `tests.sample_live_session`, times a tick of 0.25.
"""

import threading
from dataclasses import replace
from datetime import date
from typing import Any

import msgspec
import pytest
from tests.sample_live_session import (
    ANN,
    BOB,
    COMPLETED,
    ESM26,
    LAST_NS,
    LIVE,
    NOW_NS,
    NQH26,
    OPENING,
    PRIOR,
    REFERENCE,
    SHARED,
    VIEW,
    MemorySessions,
    Shown,
    eth,
    query,
)

from outcry.access.licences import Grant, Scope
from outcry.answers import wording
from outcry.answers.builder import levels_answer
from outcry.answers.live_answers import LiveAnswers
from outcry.answers.query import Query
from outcry.answers.streaming import SymbolEvents, live_events
from outcry.api.stream_reader import next_event
from outcry.base.errors import NoLicensedSource, UnknownSymbol
from outcry.live.registry import Registry, VisibleChannel
from outcry.market.bias import Bias
from outcry.market.levels import CarriedLevels
from outcry.market.live_session import LiveView
from outcry.wire.answers import LevelsAnswer

MIDNIGHT_NS = 1_767_744_000_000_000_000  # 2026-01-07T00:00Z


def levels(asked: Query, scope: Scope, symbol: str = "ES") -> LevelsAnswer:
    return asked.levels(scope, symbol, NOW_NS).answer


# -- levels


def test_a_live_answer_field_by_field() -> None:
    registry = Registry()
    Shown(registry)
    body = msgspec.json.decode(msgspec.json.encode(levels(query(registry), ANN)))
    assert body == {
        "symbol": "ES", "dataSource": "shared", "live": True, "asOf": None,
        "updatedAt": "2026-01-06T15:04:56.123Z", "lastPrice": 6913.0, "bias": "lean_up",
        "developing": {"poc": 6910.75, "vah": 6912.0, "val": 6910.25, "vpoc": 6912.75, "ibHigh": 6913.5,
                       "ibLow": 6909.25, "high": 6913.25, "low": 6909.5},
        "prior": {"poc": 6900.0, "vah": 6912.5, "val": 6889.75},
        "overnight": {"high": 6916.5, "low": 6894.25},
        "nakedPocs": [{"price": 6900.0, "date": "2026-01-05"}, {"price": 6850.0, "date": "2025-12-30"}],
        "poorHighs": [{"price": 6921.75, "date": "2026-01-05"}], "poorLows": [],
        "playbook": {
            "bias": "lean_up",
            "levels": [
                {"price": 6916.5, "label": "ONH", "kind": "on_high", "side": "above", "distanceTicks": 14},
                {"price": 6912.5, "label": "VAH", "kind": "prior_vah", "side": "below", "distanceTicks": 2},
            ],
            "scenarios": [{
                "id": "accept_above", "if": "trade > 6912.50",
                "then": "would be consistent with the auction going on to the prior high",
                "reference": "Prior high 6921.75", "confirm": "bracket_close > 6912.50 x2",
                "invalidate": "bracket_close <= 6912.50", "status": "pending",
            }],
        },
    }  # fmt: skip


def test_a_missing_overnight_range_is_null() -> None:
    registry = Registry()
    Shown(registry, view=replace(VIEW, overnight=None))
    assert levels(query(registry), ANN).overnight is None


def test_the_delayed_answer_has_no_live_field_and_a_date() -> None:
    registry = Registry()
    shown = Shown(registry)
    asked = query(registry)
    assert levels(asked, ANN).live
    shown.stop("stale_link")
    found = levels(asked, ANN)
    assert (found.data_source, found.live, found.as_of, found.prior.poc) == (
        "delayed",
        False,
        "2026-01-05",
        6900.0,
    )
    nulls = [
        found.updated_at,
        found.last_price,
        found.bias,
        found.developing,
        found.overnight,
        found.playbook,
    ]
    assert nulls == [None] * 6
    registry.set_availability(shown.channel, LIVE)
    assert levels(asked, ANN).live, "it returns by itself"


@pytest.mark.parametrize("view", [None, replace(VIEW, opening=replace(OPENING, prior=None))])
def test_without_a_view_or_prior_levels_it_is_delayed(view: Any) -> None:
    registry = Registry()
    Shown(registry, view=view)
    assert levels(query(registry), ANN).data_source == "delayed"
    with pytest.raises(NoLicensedSource):
        levels(query(registry, MemorySessions()), ANN)


def test_a_live_answer_needs_no_completed_session() -> None:
    registry = Registry()
    Shown(registry)
    assert levels(query(registry, MemorySessions()), ANN).live


def test_409_contains_the_reason_why_the_feed_does_not_answer() -> None:
    registry = Registry()
    Shown(registry).stop("catching_up")
    asked = query(registry, MemorySessions())
    with pytest.raises(NoLicensedSource) as caught:
        levels(asked, ANN)
    assert caught.value.details["reasons"] == ["catching_up", "no_completed_session"]
    with pytest.raises(NoLicensedSource) as caught:
        levels(asked, BOB)
    assert caught.value.details["reasons"] == ["no_connection", "no_completed_session"]


def test_who_sees_which_feed() -> None:
    registry = Registry()
    Shown(registry)
    asked = query(registry)
    assert levels(asked, ANN).data_source == "shared"
    assert levels(asked, BOB).data_source == "delayed", "no grant of the live feed"
    nq_only = Scope(3, (COMPLETED, Grant("everyone", "live", ("NQ",), None, None)))
    assert levels(asked, nq_only).data_source == "delayed"
    own = Shown(registry, owner=2, feed="mine", view=replace(VIEW, last_ticks=27000))
    assert (levels(asked, BOB).data_source, levels(asked, BOB).last_price) == ("personal", 6750.0)
    assert levels(asked, ANN).last_price == 6913.0, "another's feed is not hers"
    Shown(registry, owner=1, feed="hers", view=replace(VIEW, last_ticks=27100))
    assert (levels(asked, ANN).data_source, levels(asked, ANN).last_price) == ("personal", 6775.0)
    own.stop("disconnected")
    assert levels(asked, BOB).data_source == "delayed"


def test_the_users_feed_falls_back_to_the_shared_one() -> None:
    registry = Registry()
    Shown(registry)
    own = Shown(registry, owner=1, feed="hers", view=replace(VIEW, last_ticks=27100))
    asked = query(registry)
    assert levels(asked, ANN).data_source == "personal"
    own.stop("catching_up")
    assert levels(asked, ANN).data_source == "shared"


@pytest.mark.parametrize(
    ("symbol", "live"),
    [("ES", True), ("mes", True), ("ESH6", True), ("/ESH26", True), ("MESH2026", True), ("ESM6", False)],
)
def test_a_named_contract_is_answered_by_its_own_feed(symbol: str, *, live: bool) -> None:
    registry = Registry()
    Shown(registry)
    asked = query(registry, MemorySessions(0))
    if live:
        assert levels(asked, ANN, symbol).symbol == "ES"
        assert levels(asked, ANN, symbol).live
    else:
        with pytest.raises(NoLicensedSource):
            levels(asked, ANN, symbol)


def test_a_contract_that_is_not_front_answers_only_by_name() -> None:
    registry = Registry()
    back = Shown(registry, contract=ESM26, view=replace(VIEW, opening=replace(OPENING, front=False)))
    asked = query(registry)
    for availability in (LIVE, replace(LIVE, live=False, reason="not_front")):
        registry.set_availability(back.channel, availability)
        assert levels(asked, ANN).data_source == "delayed"
        assert levels(asked, ANN, "ESM6").live
        assert LiveAnswers(REFERENCE.universe).view(VisibleChannel(back.channel, "shared")) is not None
    Shown(registry)
    assert levels(asked, ANN).live
    assert asked.context(ANN, "ES", NOW_NS).answer.contract == "ESH2026"
    assert asked.context(ANN, "ESM6", NOW_NS).answer.contract == "ESM2026"


def test_a_replayed_contract_is_requested_by_its_symbol_of_that_time() -> None:
    """In 2026 ESZ3 means the contract of 2033; for a feed that replays 2013 it means the one of 2013."""
    registry = Registry()
    day = date(2013, 10, 8)
    contract = replace(ESM26, year=2013, month=12)
    opening = replace(OPENING, contract=contract.key, trade_date=day)
    availability = replace(LIVE, trade_date=day)
    Shown(registry, contract=contract, view=replace(VIEW, opening=opening), availability=availability)
    asked = query(registry)
    assert levels(asked, ANN, "ESZ3").live
    assert levels(asked, ANN, "ESZ2013").live
    with pytest.raises(NoLicensedSource):
        levels(asked, ANN, "ESZ2033")


def test_unknown_names_stay_unknown() -> None:
    registry = Registry()
    Shown(registry)
    with pytest.raises(UnknownSymbol):
        levels(query(registry), ANN, "ZZZ")


def test_an_answer_has_the_time_when_its_symbol_may_roll() -> None:
    registry = Registry()
    Shown(registry)
    assert query(registry).levels(ANN, "ES", NOW_NS).fresh_until_ns == MIDNIGHT_NS


# -- computed once


def test_callers_with_the_same_view_share_one_answer() -> None:
    registry = Registry()
    shown = Shown(registry)
    asked = query(registry)
    found = [
        asked.levels(Scope(user, (SHARED,)), symbol, NOW_NS)
        for user in range(1, 50)
        for symbol in ("ES", "mesh6")
    ]
    assert shown.peeks == 1
    assert len({id(one.live_answer) for one in found}) == 1
    assert len({id(one.answer) for one in found}) == 1


def test_an_answer_is_recomputed_once_a_version_and_not_within_two_milliseconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    monkeypatch.setattr("outcry.answers.live_answers.monotonic_ns", lambda: now[0])
    registry = Registry()
    shown = Shown(registry)
    live_answer = query(registry).levels(ANN, "ES", NOW_NS).live_answer
    assert live_answer is not None
    shown.trade(27000)
    now[0] = 1_999_999
    current = live_answer.current()
    assert current is not None
    assert (current.answer.last_price, shown.peeks) == (6913.0, 1)
    now[0] = 2_000_000
    assert live_answer.current() is None
    made = live_answer.render(0)
    assert made is not None
    assert (made.answer.last_price, made.version, shown.peeks) == (6750.0, shown.channel.version, 2)
    now[0] = 10**18
    assert live_answer.current() is made, "nothing has moved: however long"
    assert shown.peeks == 2


def test_an_answer_is_recomputed_if_the_version_changes_meanwhile() -> None:
    registry = Registry()
    shown = Shown(registry)
    view = VIEW

    def peek() -> Any:
        shown.channel.version += 1  # a trade arrives while the view is computed
        return view

    shown.channel._peek = peek  # pyright: ignore[reportPrivateUsage]
    made = (
        LiveAnswers(REFERENCE.universe).of(levels_answer, VisibleChannel(shown.channel, "shared")).render(0)
    )
    assert made is not None
    assert made.version < shown.channel.version


def test_many_threads_compute_an_answer_once() -> None:
    registry = Registry()
    shown = Shown(registry)
    asked = query(registry)
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        asked.levels(ANN, "ES", NOW_NS)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shown.peeks <= 2, "the view is looked at before the answer is made, by whoever comes first"


def test_the_stream_gets_the_same_bytes() -> None:
    registry = Registry()
    shown = Shown(registry)
    answers, seen = LiveAnswers(REFERENCE.universe), VisibleChannel(shown.channel, "shared")
    view = answers.view(seen)
    assert view is not None
    assert view.live is not None
    events = live_events(view, view.live, None)
    rendered = answers.of(levels_answer, seen).render(0)
    assert rendered is not None
    assert (events.source, events.answer) == ("shared", rendered.body)
    assert events.quote == (
        b'event: quote\ndata: {"symbol":"ES","lastPrice":6913.0,"updatedAt":"2026-01-06T15:04:56.123Z"}\n\n'
    )
    assert msgspec.json.decode(events.answer, type=LevelsAnswer) == levels(query(registry), ANN)
    assert query(registry).levels(ANN, "ES", NOW_NS).live_answer is answers.of(levels_answer, seen)
    shown.stop("closed")
    assert answers.view(seen) is None


def test_only_what_does_not_follow_from_the_price_makes_a_whole_event() -> None:
    """Each field of the view is changed alone. `levels` is sent exactly if another field of the answer differs."""
    registry = Registry()
    shown = Shown(registry)
    answers, seen = LiveAnswers(REFERENCE.universe), VisibleChannel(shown.channel, "shared")

    def events_of(view: LiveView, before: SymbolEvents | None) -> SymbolEvents:
        shown.view = view
        shown.channel.version += 1
        session = answers.view(seen)
        assert session is not None
        return live_events(session, view, before)

    def rest(events: SymbolEvents) -> Any:
        whole = msgspec.json.decode(events.answer)
        for line in whole["playbook"]["levels"]:
            del line["side"], line["distanceTicks"]
        return whole | {"lastPrice": None, "updatedAt": None}

    first = events_of(VIEW, None)
    for changed, name in (
        (replace(VIEW, last_ticks=27640, last_ns=LAST_NS + 10**9), "quote"),
        (replace(VIEW, last_ns=LAST_NS + 10**6), "quote"),
        (replace(VIEW, ladder=replace(VIEW.ladder, volume=(9,) * 16)), ""),
        (replace(VIEW, profile=replace(VIEW.profile, vpoc=27650)), "levels"),
        (replace(VIEW, profile=replace(VIEW.profile, ib_high=27655)), "levels"),
        (replace(VIEW, profile=replace(VIEW.profile, close=27640)), ""),
        (replace(VIEW, overnight=(27667, 27577)), "levels"),
        (replace(VIEW, bias=replace(VIEW.bias, bias=Bias.BALANCED)), "levels"),
        (replace(VIEW, levels=VIEW.levels[:1]), "levels"),
        (replace(VIEW, scenarios=()), "levels"),
        (replace(VIEW, opening=replace(VIEW.opening, prior=replace(PRIOR, poc=27601))), "levels"),
        (replace(VIEW, opening=replace(VIEW.opening, carried=CarriedLevels((), (), ()))), "levels"),
    ):
        now = events_of(changed, first)
        found = next_event(first, now)
        assert (found[0] if found else "") == name, changed
        assert (rest(now) != rest(first)) == (name == "levels"), changed
        assert (now is first) == (not name), changed


# -- context, profile, symbols


def test_context_of_a_live_session() -> None:
    registry = Registry()
    Shown(registry, invented=True, view=replace(VIEW, opening=replace(OPENING, rolled_from="ESZ2025")))
    found = query(registry).context(ANN, "ES", NOW_NS).answer
    assert (found.data_source, found.live, found.as_of, found.state, found.feed) == (
        "shared",
        True,
        None,
        "live",
        "demo",
    )
    assert (found.contract, found.rolled_from, found.invented) == ("ESH2026", "ESZ2025", True)
    assert found.updated_at == "2026-01-06T15:04:56.123Z"
    votes = found.bias_votes
    assert votes is not None
    assert (found.bias, votes.last, votes.poc, votes.value, votes.extension, votes.one_timeframing, votes.total) == (
        "lean_up", 1, 0, 0, 1, 1, 3)  # fmt: skip
    session = found.session
    assert (session.session, session.date, session.final, session.day_type_final) == (
        "rth",
        "2026-01-06",
        False,
        False,
    )
    assert (session.open, session.close) == ("2026-01-06T14:30:00.000Z", "2026-01-06T21:15:00.000Z")
    assert (session.ib_complete, session.open_price, session.close_price) == (False, 6910.0, 6913.0)
    data = session.data
    assert (data.source, data.quality, data.complete, data.volume, data.rows) == (
        "demo",
        "ticks",
        False,
        136,
        None,
    )
    assert (data.first, data.last) == ("2026-01-06T14:30:00.001Z", "2026-01-06T15:04:56.123Z")
    assert (found.method.vpoc_source, found.overnight and found.overnight.high) == ("trades", 6916.5)
    # IB 27637 to 27654 is 17 ticks; half of it is 8.5, rounded away to 9: 27663 is 6915.75, 27628 is 6907
    assert (found.ib_extensions[0].up, found.ib_extensions[0].down) == (6915.75, 6907.0)


@pytest.mark.parametrize(("hour_over", "final"), [(False, False), (True, True)])
def test_the_kind_of_open_is_final_once_the_second_half_hour_is_over(hour_over: bool, final: bool) -> None:
    """The open type exists from 15:00 UTC on, after trades in bracket B, and is final from 15:30 on."""
    registry = Registry()
    Shown(registry, view=replace(VIEW, ib_complete=hour_over))
    session = query(registry).context(ANN, "ES", NOW_NS).answer.session
    assert session.open_type is not None
    assert (session.open_type_final, session.final) == (final, False)


def test_an_overnight_session_has_no_kind_of_day_and_its_own_range() -> None:
    registry = Registry()
    Shown(registry, view=eth())
    found = query(registry).context(ANN, "ES", NOW_NS).answer
    assert (found.session.session, found.session.day_type, found.session.open_type) == ("eth", None, None)
    assert not found.session.open_type_final
    assert found.overnight is not None
    assert (found.overnight.high, found.overnight.low) == (6913.25, 6909.5)


def test_context_of_a_session_of_bars_has_that_quality() -> None:
    registry = Registry()
    Shown(registry, view=replace(VIEW, ladder=replace(VIEW.ladder, source="bars")))
    found = query(registry).context(ANN, "ES", NOW_NS).answer
    assert (found.session.data.quality, found.method.vpoc_source) == (None, "bars")


@pytest.mark.parametrize("reason", ["stale_link", "catching_up", "closed", "no_trades", "a_new_code"])
def test_a_delayed_context_contains_the_reason_why_it_is_not_live(reason: str) -> None:
    registry = Registry()
    Shown(registry).stop(reason)
    found = query(registry).context(ANN, "ES", NOW_NS).answer
    assert (found.state, found.live, found.feed, found.bias, found.bias_votes) == (
        reason,
        False,
        None,
        None,
        None,
    )
    assert found.reason == wording.STATES.get(reason, "The feed refused the connection (a_new_code).")
    assert (found.session.final, found.session.day_type_final, found.invented) == (True, True, False)
    assert found.session.open_type_final
    mine = query(registry).context(BOB, "ES", NOW_NS).answer
    assert mine.state == "no_connection", "of a feed he may not see he learns nothing"


def test_reasons_of_the_users_feed_precede_the_shared_one_and_a_back_month() -> None:
    registry = Registry()
    back = replace(VIEW, opening=replace(OPENING, front=False))
    Shown(registry, owner=1, feed="hers", contract=ESM26, view=back)
    asked = query(registry)
    assert asked.context(ANN, "ES", NOW_NS).answer.state == "not_front"
    Shown(registry).stop("closed")
    assert asked.context(ANN, "ES", NOW_NS).answer.state == "closed"
    Shown(registry, owner=1, feed="other").stop("stale_link")
    assert asked.context(ANN, "ES", NOW_NS).answer.state == "stale_link"


def test_a_completed_session_of_the_simulator_is_marked_as_simulated() -> None:
    asked = query(Registry(), MemorySessions(0, source="simulator"))
    assert asked.context(ANN, "ES", NOW_NS).answer.invented


def test_profile_without_a_date_is_of_the_open_session() -> None:
    registry = Registry()
    shown = Shown(registry)
    asked = query(registry)
    found = asked.profile(ANN, "ES", None, NOW_NS).answer
    assert (found.levels.final, len(found.rows), found.tick_size) == (False, 16, 0.25)
    # the highest row is 27653, in bracket B alone; 27642 is row 4 from below, in both
    assert (found.rows[0].price, found.rows[0].letters, found.rows[0].volume) == (6913.25, "B", 16)
    assert (found.rows[-5].price, found.rows[-5].letters, found.rows[-5].volume) == (6910.5, "AB", 5)
    dated = asked.profile(ANN, "ES", "2026-01-05", NOW_NS).answer
    assert (dated.levels.date, dated.levels.final) == ("2026-01-05", True)
    shown.stop("closed")
    assert asked.profile(ANN, "ES", None, NOW_NS).answer.levels.date == "2026-01-05"


def test_symbols_distinguish_live_delayed_and_no_data() -> None:
    registry = Registry()
    shown = Shown(
        registry, contract=NQH26, view=replace(VIEW, opening=replace(OPENING, contract="NQH2026", root="NQ"))
    )
    asked = query(registry)
    found = {state.symbol: state for state in asked.symbols(ANN, NOW_NS).answer.symbols}
    nq, es, gc = found["NQ"], found["ES"], found["GC"]
    assert (nq.live, nq.data_source, nq.contract, nq.as_of, nq.state) == (
        True,
        "shared",
        "NQH2026",
        None,
        "live",
    )
    assert (es.live, es.data_source, es.as_of, es.state) == (False, "delayed", "2026-01-05", "no_connection")
    assert (gc.live, gc.data_source, gc.contract, gc.state) == (False, None, None, "no_connection")
    shown.stop("closed")
    nq = next(state for state in asked.symbols(ANN, NOW_NS).answer.symbols if state.symbol == "NQ")
    assert (nq.live, nq.data_source, nq.state) == (False, None, "closed")


def test_history_contains_completed_sessions_only() -> None:
    registry = Registry()
    Shown(registry)
    found = query(registry).history(ANN, "ES", None, None, NOW_NS).answer
    assert [(session.date, session.final) for session in found.sessions] == [("2026-01-05", True)]

"""Tradovate's adapter with the fake vendor on loopback: the events equal the tape, and faults are reported."""

import asyncio
import logging

import numpy as np
import pytest
from tests.feeds.tradovate_harness import (
    ES,
    MINUTE,
    NOW_NS,
    SECOND,
    SPEEDUP,
    ZT,
    alike,
    open_harness,
    past,
    run,
)

from outcry.feeds.tradovate.adapter import REACH_NS
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import (
    CaughtUp,
    Cursor,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    RowFlag,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


# -- history and what follows


@pytest.mark.parametrize("shared_number", [False, True])
@pytest.mark.parametrize("page", [4096, 37])
def test_history_then_live_is_the_tape(universe: Universe, page: int, shared_number: bool) -> None:
    """Row for row, of two contracts over one socket; in pages of 37 history takes many, and is whole all the same."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.page, harness.peer.shared_number, harness.peer.echo = page, shared_number, 5
            since_ns = NOW_NS - 6000 * SECOND
            for contract in (ES, ZT):
                harness.read(contract, since_ns)
            for contract in (ES, ZT):
                await harness.caught_up(contract)
                expected = past(harness.tapes[contract], since_ns, NOW_NS)
                assert sorted(alike(harness.rows(contract))) == sorted(alike(expected))
                assert np.all(np.diff(harness.rows(contract)["ts_event"]) >= 0)
                assert set(harness.rows(contract)["flags"].tolist()) == {int(RowFlag.BACKFILL)}
                assert harness.events[contract][0] == Status(subscribed=True, code="subscribed")
                assert not harness.of(contract, Gap)
            for step in range(1, 31):
                await harness.peer.advance(NOW_NS + step * 20 * SECOND)
            for contract in (ES, ZT):
                whole = past(harness.tapes[contract], since_ns, NOW_NS + 600 * SECOND)
                await harness.until(lambda c=contract, rows=whole: len(harness.rows(c)) >= len(rows))
                assert sorted(alike(harness.rows(contract))) == sorted(alike(whole))
                live = harness.rows(contract)[harness.rows(contract)["ts_event"] >= NOW_NS]
                assert set(live["flags"].tolist()) == {0}
                assert live["ts_recv"].min() > NOW_NS
                assert len(np.unique(harness.rows(contract)["id"])) == len(whole)
                counted = harness.of(contract, VolumeCounter)[-1]
                traded = past(harness.tapes[contract], 0, counted.at_ns)
                assert counted.volume_lots == int(traded["size"].sum())
                beats = [beat.at_ns for beat in harness.of(contract, Heartbeat)]
                assert beats == sorted(beats)
                assert beats[-1] <= harness.peer.now_ns
                assert harness.of(contract, CaughtUp)[0].quality is Quality.TICKS
            assert (harness.peer.logins, harness.peer.sockets) == (1, 1)
            assert harness.peer.beats

    run(work)


def test_time_before_the_requested_history_is_a_gap(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS - REACH_NS - 3 * MINUTE)
            await harness.caught_up(ES)
            assert harness.of(ES, Gap) == [Gap(NOW_NS - REACH_NS - 3 * MINUTE, NOW_NS - REACH_NS, "not_kept")]
            assert sorted(alike(harness.rows(ES))) == sorted(alike(past(harness.tapes[ES], 0, NOW_NS)))

    run(work)


def test_after_a_drop_it_goes_on_from_the_cursor(universe: Universe) -> None:
    """Cut in the middle of a frame; what was traded meanwhile comes as history, what was sent before the cursor not."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS - MINUTE)
            await harness.caught_up(ES)
            await harness.peer.drop()
            assert (await harness.ended(ES)).code == "disconnected"
            await harness.peer.advance(NOW_NS + 3 * MINUTE)
            harness.peer.repeat(45)
            harness.read(ES, NOW_NS - MINUTE)
            await harness.caught_up(ES)
            expected = past(harness.tapes[ES], NOW_NS - MINUTE, NOW_NS + 3 * MINUTE)
            assert sorted(alike(harness.rows(ES))) == sorted(alike(expected))
            assert harness.peer.logins == 1, "a token that lives is used again"

    run(work)


def test_who_leaves_lets_go(universe: Universe) -> None:
    """Of every page of history when it has come, of a stream when its reader leaves; the other's stays."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.page = 50
            for contract in (ES, ZT):
                harness.read(contract, NOW_NS - 6000 * SECOND)
            for contract in (ES, ZT):
                await harness.caught_up(contract)
            # Each contract has a history and a live subscription.
            await harness.until(lambda: len(harness.peer.open_subscriptions) == 4)
            assert len(harness.peer.asked) > 20
            harness.tasks[0].cancel()
            await harness.until(lambda: len(harness.peer.open_subscriptions) == 2)
            assert harness.peer.watched == {"ZTZ6"}
            await harness.peer.advance(NOW_NS + MINUTE)
            await harness.until(lambda: len(past(harness.rows(ZT), NOW_NS, NOW_NS + MINUTE)))
            assert not len(past(harness.rows(ES), NOW_NS, NOW_NS + MINUTE))

    run(work)


def test_a_tick_that_comes_again_is_the_same(universe: Universe) -> None:
    """Though history has no bid and ask beside it, by which its side was known when it came live."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.bare = True
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            await harness.peer.advance(NOW_NS + 2 * MINUTE)
            truth = past(harness.tapes[ES], NOW_NS, NOW_NS + 2 * MINUTE)
            await harness.until(lambda: len(harness.rows(ES)) == len(truth))
            assert sorted(alike(harness.rows(ES))) == sorted(alike(truth))
            await harness.peer.drop()
            await harness.ended(ES)
            await harness.peer.advance(NOW_NS + 3 * MINUTE)
            harness.read(ES, NOW_NS + MINUTE)
            await harness.caught_up(ES)
            got = harness.rows(ES)
            again = past(got, NOW_NS + MINUTE, NOW_NS + 2 * MINUTE)
            assert sorted(alike(again)) == sorted(alike(past(truth, NOW_NS + MINUTE, NOW_NS + 2 * MINUTE)))
            assert set(past(got, NOW_NS + 2 * MINUTE, NOW_NS + 3 * MINUTE)["side"].tolist()) == {b"N"}

    run(work)


# -- what goes wrong


def test_a_link_that_says_nothing(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            harness.peer.freeze(on=True)
            beats = len(harness.of(ES, Heartbeat))
            assert (await harness.ended(ES)).code == "link_silent"
            assert len(harness.of(ES, Heartbeat)) <= beats + 1
            harness.peer.freeze(on=False)
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)

    run(work)


@pytest.mark.parametrize("wrong", ["password", "user", "secret", "cid", "app"])
def test_entries_that_are_wrong(universe: Universe, wrong: str) -> None:
    """The first refusal is tried once more, by whoever asks; the second is the last."""

    async def work() -> None:
        async with open_harness(universe, **{wrong: "815"}) as harness:
            codes: list[tuple[type, str]] = []
            for _ in range(4):
                harness.read(ES, NOW_NS)
                problem = await harness.ended(ES)
                codes.append((type(problem), problem.code))
            assert codes == [(FeedLost, "login_refused"), *[(LoginRefused, "login_refused")] * 3]
            assert harness.peer.logins == 2

    run(work)


def test_a_login_that_ends_and_a_token_taken_back(universe: Universe) -> None:
    """A token taken back is replaced by a new login without a word; entries that have ended need a person."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            harness.peer.revoke()
            await harness.peer.drop()
            await harness.ended(ES)
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            assert (harness.peer.logins, harness.peer.refusals) == (2, 0)
            await harness.peer.expire(on=True)
            assert (await harness.ended(ES)).code == "disconnected"
            for kind in (FeedLost, LoginRefused):
                harness.read(ES, NOW_NS)
                problem = await harness.ended(ES)
                assert (type(problem), problem.code) == (kind, "login_refused")
            assert harness.peer.refusals == 2

    run(work)


def test_the_token_is_renewed_while_the_socket_stays(universe: Universe) -> None:
    """At four fifths of eighty minutes, by one request, and no new login."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            harness.read(ZT, NOW_NS)
            await harness.caught_up(ES)
            await harness.caught_up(ZT)
            await harness.peer.advance(NOW_NS + 63 * MINUTE)
            await asyncio.sleep(0)
            assert harness.peer.renewals == 0
            await harness.peer.advance(NOW_NS + 65 * MINUTE)
            await harness.until(lambda: harness.peer.renewals)
            assert (harness.peer.logins, harness.peer.renewals, harness.peer.sockets) == (1, 1, 1)
            assert not harness.ends

    run(work)


def test_data_that_is_withheld_and_a_contract_there_is_not(universe: Universe) -> None:
    """Each ends its own stream; the other goes on."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.withheld.add("ZTZ6")
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            for contract, code in (
                (ZT, "not_entitled"),
                (Contract("NQ", 2026, 12), "unknown_contract"),
                (Contract("ES", 2046, 12), "unknown_contract"),
            ):
                harness.read(contract, NOW_NS)
                problem = await harness.ended(contract)
                assert isinstance(problem, FeedRefused)
                assert problem.code == code
            await harness.peer.advance(NOW_NS + MINUTE)
            await harness.until(lambda: len(harness.of(ES, Trades)))
            assert ES not in harness.ends

    run(work)


def test_another_session_of_the_user(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            await harness.peer.evict()
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "too_many_sessions")

    run(work)


def test_a_penalty_is_waited_for(universe: Universe) -> None:
    """The vendor names a time and a ticket: the next login comes after it and shows it."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.penalty_s = 20.0  # a second, in this hurry
            began_s = asyncio.get_running_loop().time()
            harness.read(ES, NOW_NS)
            assert (await harness.ended(ES)).code == "rate_limited"
            harness.read(ES, NOW_NS)
            assert (await harness.ended(ES)).code == "rate_limited"
            assert harness.peer.logins == 1
            while not harness.of(ES, CaughtUp):
                harness.read(ES, NOW_NS)
                await harness.until(lambda: ES in harness.ends or harness.of(ES, CaughtUp))
            assert asyncio.get_running_loop().time() - began_s >= 1.0
            assert harness.peer.logins == 2

    run(work)


@pytest.mark.parametrize(
    ("captcha", "status", "kind", "code"),
    [
        (True, 200, FeedRefused, "not_allowed"),
        (False, 423, FeedRefused, "not_allowed"),
        (False, 429, FeedLost, "rate_limited"),
        (False, 503, FeedLost, "vendor_error"),
    ],
)
def test_a_vendor_that_will_not(
    universe: Universe, captcha: bool, status: int, kind: type, code: str
) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.captcha, harness.peer.status = captcha, status
            harness.read(ES, NOW_NS)
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (kind, code)

    run(work)


def test_a_penalty_for_charts_is_waited_for(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.chart_penalty = {"p-ticket": "chart-ticket", "p-time": 10}
            began_s = asyncio.get_running_loop().time()
            harness.read(ES, NOW_NS - MINUTE)
            await harness.caught_up(ES)
            assert asyncio.get_running_loop().time() - began_s >= 10 / SPEEDUP
            assert [asked.get("p-ticket") for asked in harness.peer.asked] == [None, "chart-ticket"]

    run(work)


@pytest.mark.parametrize(
    ("status", "penalty", "kind", "code"),
    [
        (429, {}, FeedLost, "rate_limited"),
        (401, {}, FeedLost, "login_expired"),
        (403, {}, FeedRefused, "not_allowed"),
        (500, {}, FeedLost, "vendor_error"),
        (200, {"p-ticket": "t", "p-time": 1, "p-captcha": True}, FeedRefused, "not_allowed"),
        (
            200,
            {"p-ticket": "", "errorText": "Too many charts", "errorCode": "Other"},
            FeedLost,
            "vendor_error",
        ),
        (200, {"p-ticket": "", "mode": "Delayed", "realtimeId": 3}, FeedRefused, "not_entitled"),
    ],
)
def test_charts_that_are_not_given(
    universe: Universe, status: int, penalty: dict, kind: type, code: str
) -> None:
    """One stream's end, and not the session's; after 429 nothing is asked for an hour, a hurried one here."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.chart_status, harness.peer.chart_penalty = status, penalty
            harness.read(ES, NOW_NS)
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (kind, code)
            harness.read(ES, NOW_NS)
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (LoginRefused if status == 401 else kind, code)
            # a token that is not taken for charts is replaced once
            assert (harness.peer.sockets, harness.peer.logins) == ((2, 2) if status == 401 else (1, 1))
            assert len(harness.peer.asked) == (1 if status == 429 else 2)

    run(work)


def test_an_hour_of_rest_ends(universe: Universe, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked for meanwhile; of one contract's stream the other's goes on."""

    async def work() -> None:
        monkeypatch.setattr("outcry.feeds.tradovate.feed.RATE_LIMIT_PAUSE_S", 10.0)
        async with open_harness(universe) as harness:
            harness.read(ZT, NOW_NS)
            await harness.caught_up(ZT)
            harness.peer.chart_status = 429
            harness.read(ES, NOW_NS)
            assert (await harness.ended(ES)).code == "rate_limited"
            harness.peer.chart_status = 200
            began_s = asyncio.get_running_loop().time()
            while not harness.of(ES, CaughtUp):
                harness.read(ES, NOW_NS)
                await harness.until(lambda: ES in harness.ends or harness.of(ES, CaughtUp))
            assert asyncio.get_running_loop().time() - began_s > 0.4
            assert ZT not in harness.ends

    run(work)


def test_what_cannot_be_read_ends_one_stream(universe: Universe) -> None:
    """A trade of half a lot, of one contract; the other's stream goes on."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            for contract in (ES, ZT):
                harness.read(contract, NOW_NS)
                await harness.caught_up(contract)
            await harness.peer.garble("ZTZ6")
            assert (await harness.ended(ZT)).code == "protocol"
            await harness.peer.advance(NOW_NS + MINUTE)
            await harness.until(lambda: len(harness.rows(ES)))
            assert ES not in harness.ends

    run(work)


def test_a_renewal_that_is_refused_is_not_insisted_on(universe: Universe) -> None:
    """The stream goes on as long as the vendor lets it; the login is tried once, and once more when it has ended."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            harness.peer.expire_quietly()
            await harness.peer.advance(NOW_NS + 65 * MINUTE)
            await harness.until(lambda: harness.peer.refusals)
            await asyncio.sleep(1.5)  # three looks more
            assert harness.peer.logins == 2
            assert ES not in harness.ends
            await harness.peer.drop()
            await harness.ended(ES)
            harness.read(ES, NOW_NS)
            problem = await harness.ended(ES)
            assert (type(problem), problem.code) == (LoginRefused, "login_refused")
            assert harness.peer.logins == 3

    run(work)


def test_an_unavailable_vendor(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            await harness.peer.stop()
            harness.read(ES, NOW_NS)
            assert (await harness.ended(ES)).code == "unreachable"

    run(work)


def test_a_reader_who_is_slow_holds_up_no_other(universe: Universe, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr("outcry.feeds.tradovate.stream.BUFFER_LIMIT", 30)
        async with open_harness(universe) as harness:
            harness.read(ES, NOW_NS)
            await harness.caught_up(ES)
            slow = harness.feed.open(ZT, Cursor(NOW_NS))
            async for event in slow:
                if isinstance(event, CaughtUp):
                    break
            for step in range(1, 61):
                await harness.peer.advance(NOW_NS + step * 10 * SECOND)
                await harness.until(
                    lambda: len(harness.rows(ES)) >= len(past(harness.tapes[ES], NOW_NS, harness.peer.now_ns))
                )
            with pytest.raises(FeedLost) as caught:
                async for _ in slow:
                    pass
            assert caught.value.code == "seam_overflow"
            assert sorted(alike(harness.rows(ES))) == sorted(
                alike(past(harness.tapes[ES], NOW_NS, harness.peer.now_ns))
            )

    run(work)


def test_secrets_are_nowhere(universe: Universe, caplog: pytest.LogCaptureFixture) -> None:
    """Not in what is logged, raised or shown of any object, whatever goes wrong."""
    texts: list[str] = []

    async def work() -> None:
        for given in ({}, {"password": "hunter2-wrong"}):
            async with open_harness(universe, **given) as harness:
                harness.read(ES, NOW_NS)
                await harness.until(lambda: harness.ends or harness.of(ES, CaughtUp))
                await harness.peer.drop()
                harness.peer.status = 500
                harness.peer.revoke()
                texts.append(repr(await harness.ended(ES)))
                harness.read(ES, NOW_NS)
                problem = await harness.ended(ES)
                texts.extend((repr(problem), repr(problem.__cause__), repr(problem.__context__)))
                texts.extend(repr(part) for part in vars(harness.feed).values())

    with caplog.at_level(logging.DEBUG):
        run(work)
    text = "\n".join((*texts, caplog.text))
    assert "500" in text
    for secret in ("analytical engine", "hunter2-wrong", "f00d-cafe-sec", "secret-token"):
        assert secret not in text

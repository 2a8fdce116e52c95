"""Tradovate's adapter against the vendor on loopback: what it sends is the tape, and what goes wrong is said."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import TypeVar

import msgspec
import numpy as np
import pytest
from tests.brokers.tradovate_peer import TradovatePeer

from outcry.core.instruments import Contract, Universe
from outcry.feeds.tradovate import history, wire
from outcry.feeds.tradovate.adapter import ADAPTER, FIELDS, REACH_NS
from outcry.feeds.tradovate.symbols import contract_of, name_of
from outcry.ports.adapters import BadEntry, Kit
from outcry.ports.feed import (
    LIVE_TRADE,
    CaughtUp,
    Cursor,
    Event,
    Feed,
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
from outcry.ports.records import TRADE, Quality, Rows
from outcry.store.reference import load_reference

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES, ZT = Contract("ES", 2026, 12), Contract("ZT", 2026, 12)
#: 2026-11-18 15:00 UTC.
NOW_NS = 1_795_014_000 * SECOND
RUSH = 20.0
E = TypeVar("E", bound=Event)


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


def tape(
    contract: Contract, universe: Universe, *, before_s: int = 7200, after_s: int = 600, count: int = 900
) -> Rows:
    """Trades around the present, some alike in everything, some at the same instant; times are whole ms."""
    chance = np.random.default_rng(len(contract.root) + contract.month)
    rows = np.zeros(count, TRADE)
    drawn = (
        chance.integers(NOW_NS - before_s * SECOND, NOW_NS + after_s * SECOND, count) // 1_000_000 * 1_000_000
    )
    rows["ts_event"] = np.sort(drawn)
    rows["price"] = (4_000 + np.cumsum(chance.integers(-3, 4, count))) * universe.products[
        contract.root
    ].tick_e9
    rows["size"] = chance.integers(1, 30, count)
    rows["side"] = chance.choice([b"A", b"B", b"N"], count)
    rows[10], rows[500] = rows[9], rows[499]
    rows["ts_event"][20:24] = rows["ts_event"][20]
    return rows


@dataclass
class Stage:
    """A vendor, a feed of it, and everything that was read of each contract."""

    peer: TradovatePeer
    feed: Feed
    tapes: dict[Contract, Rows]
    events: dict[Contract, list[Event]] = field(default_factory=dict)
    ends: dict[Contract, BaseException] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def now_ns(self) -> int:
        return self.peer.now_ns

    def read(self, contract: Contract, since_ns: int) -> None:
        self.events[contract] = []
        self.ends.pop(contract, None)
        self.tasks.append(asyncio.create_task(self._read(contract, since_ns)))

    async def _read(self, contract: Contract, since_ns: int) -> None:
        try:
            async for event in self.feed.open(contract, Cursor(since_ns)):
                self.events[contract].append(event)
        except FeedLost as problem:
            self.ends[contract] = problem

    async def until(self, met: Callable[[], object], seconds: float = 10.0) -> None:
        end_s = asyncio.get_running_loop().time() + seconds
        while not met():
            assert asyncio.get_running_loop().time() < end_s, (
                self.ends,
                {c: e[-3:] for c, e in self.events.items()},
            )
            await asyncio.sleep(0.005)

    async def caught_up(self, contract: Contract) -> None:
        await self.until(lambda: self.of(contract, CaughtUp))

    async def ended(self, contract: Contract) -> FeedLost:
        await self.until(lambda: contract in self.ends)
        problem = self.ends[contract]
        assert isinstance(problem, FeedLost)
        return problem

    def of(self, contract: Contract, kind: type[E]) -> list[E]:
        return [event for event in self.events[contract] if isinstance(event, kind)]

    def rows(self, contract: Contract) -> Rows:
        return np.concatenate([np.zeros(0, LIVE_TRADE), *(event.rows for event in self.of(contract, Trades))])


@asynccontextmanager
async def staged(universe: Universe, **given: str) -> AsyncIterator[Stage]:
    """A vendor with two tapes and a feed; in the end nothing is left of either."""
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    peer = TradovatePeer()
    tapes = {contract: tape(contract, universe) for contract in (ES, ZT)}
    for contract, rows in tapes.items():
        peer.tape(contract, rows)
    peer.now_ns = NOW_NS
    await peer.start()
    stage = Stage(peer, None, tapes)  # type: ignore[arg-type]
    stage.feed = ADAPTER.feed(
        {**peer.given, **given}, Kit(universe, stage, lambda: [ES, ZT], peer.places, RUSH)
    )
    try:
        yield stage
    finally:
        for task in stage.tasks:
            task.cancel()
        await asyncio.gather(*stage.tasks, return_exceptions=True)
        await stage.feed.close()
        await peer.stop()
    assert len(asyncio.all_tasks()) == tasks
    assert threading.active_count() == threads


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(work(), 30)

    asyncio.run(bounded())


def alike(rows: Rows) -> list[tuple[int, int, int, bytes]]:
    return list(zip(*(rows[name].tolist() for name in ("ts_event", "price", "size", "side")), strict=True))


def past(rows: Rows, since_ns: int, before_ns: int) -> Rows:
    return rows[(rows["ts_event"] >= since_ns) & (rows["ts_event"] < before_ns)]


# -- names and entries


def test_every_product_has_a_name_that_means_it(universe: Universe) -> None:
    on = date(2026, 11, 18)
    for root in universe.products:
        contract = universe.front(root, on)
        name = name_of(universe, contract, on)
        assert name is not None
        assert contract_of(universe, name, on) == contract
    assert name_of(universe, ES, on) == "ESZ6"
    assert name_of(universe, Contract("SIL", 2027, 3), on) == "SILH7"
    assert contract_of(universe, "6EZ6", on) == Contract("6E", 2026, 12)


def test_a_digit_is_the_next_contract_to_end(universe: Universe) -> None:
    """ESZ6 is December 2026 until it has ended, on 18 December, and December 2036 from the next day on."""
    assert contract_of(universe, "ESZ6", date(2026, 12, 18)) == ES
    assert contract_of(universe, "ESZ6", date(2026, 12, 19)) == Contract("ES", 2036, 12)
    assert name_of(universe, ES, date(2026, 12, 19)) is None
    assert name_of(universe, Contract("ES", 2036, 12), date(2026, 11, 18)) is None
    for unknown in ("", "Z6", "ESY6", "XXZ6", "ESZX", "ESF6", "ES"):
        assert contract_of(universe, unknown, date(2026, 11, 18)) is None


def test_entries_that_cannot_be_right(universe: Universe) -> None:
    kit = Kit(universe, TradovatePeer, list)  # type: ignore[arg-type]
    good = TradovatePeer.given
    for name, text, code in (
        ("user", " ", "missing"), ("password", "", "missing"), ("secret", "", "missing"), ("cid", "", "missing"),
        ("cid", "4x", "rejected"), ("environment", "wss://evil", "rejected"),
    ):  # fmt: skip
        with pytest.raises(BadEntry) as caught:
            ADAPTER.feed({**good, name: text}, kit)
        assert (caught.value.code, caught.value.field) == (code, name)
        assert text.strip() == "" or text not in str(caught.value)
    assert {field.name for field in FIELDS if field.secret} == {"password", "secret"}
    ADAPTER.feed({name: text for name, text in good.items() if name not in {"app", "environment"}}, kit)


# -- what is read off the wire


def packet(text: str) -> wire.Packet:
    return msgspec.json.decode(text.encode(), type=wire.Packet)


def test_the_packet_of_the_documentation() -> None:
    """As documented: bp 11917 and ts 0.25 are 2979.25; a bid one step below and an ask at the price: a buyer. The
    second tick is one step lower, at the bid, 5 ms later; the third is between; the fourth has no quote."""
    rows = wire.rows_of(
        packet(
            '{"id":16335,"s":"db","td":20190718,"bp":11917,"bt":1563421179735,"ts":0.25,"tks":['
            '{"t":0,"p":0,"s":3,"b":-1,"a":0,"bs":122,"as":28,"id":11768401},'
            '{"t":5,"p":-1,"s":1,"b":-1,"a":0,"bs":122,"as":28,"id":11768402},'
            '{"t":5,"p":0,"s":2,"b":-1,"a":1,"id":11768403},'
            '{"t":6,"p":-20000,"s":1.0,"id":11768404}]}'
        ),
        77,
        1,
    )
    assert alike(rows) == [
        (1563421179735_000000, 2979_250000000, 3, b"B"),
        (1563421179740_000000, 2979_000000000, 1, b"A"),
        (1563421179740_000000, 2979_250000000, 2, b"N"),
        (1563421179741_000000, -2020_750000000, 1, b"N"),
    ]
    assert rows["id"].tolist() == [11768401, 11768402, 11768403, 11768404]
    assert set(rows["ts_recv"].tolist()) == {77}
    assert set(rows["flags"].tolist()) == {1}


@pytest.mark.parametrize(
    ("step", "expected"),
    [("0.00390625", 3906250), ("5e-7", 500), ("0.0000005", 500), ("0.1", 100_000_000), ("5", 5_000_000_000)],
)
def test_a_step_is_exact(step: str, expected: int) -> None:
    rows = wire.rows_of(
        packet(f'{{"id":1,"bp":3,"bt":1,"ts":{step},"tks":[{{"t":0,"p":4,"s":1,"id":1}}]}}'), 0, 0
    )
    assert rows["price"].tolist() == [7 * expected]


@pytest.mark.parametrize(
    "text",
    [
        '{"id":1,"bp":3,"bt":1,"ts":0.00000000001,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"ts":0.25,"tks":[{"t":0,"p":4,"s":1.5,"id":1}]}',
        '{"id":1,"bp":3,"bt":1,"ts":0.25,"tks":[{"t":0,"p":4,"s":-1,"id":1}]}',
        '{"id":1,"bp":3,"bt":9999999999999999,"ts":0.25,"tks":[{"t":0,"p":4,"s":1,"id":1}]}',
    ],
)
def test_what_cannot_be_is_no_trade(text: str) -> None:
    with pytest.raises(FeedLost) as caught:
        wire.rows_of(packet(text), 0, 0)
    assert caught.value.code == "protocol"


def test_requests_and_frames_are_as_documented() -> None:
    assert wire.request("authorize", 2, "token") == "authorize\n2\n\ntoken"
    assert (
        wire.request("md/subscribeQuote", 3, {"symbol": "ESM7"})
        == 'md/subscribeQuote\n3\n\n{"symbol":"ESM7"}'
    )
    (answer,) = wire.messages_of('a[{"s":200,"i":13,"d":{"historicalId":32,"realtimeId":31}}]')
    assert (answer.s, answer.i, wire.read(answer.d, wire.Answer).numbers) == (200, 13, {31, 32})
    refusal = msgspec.Raw(b'{"errorText":"Symbol is inaccessible","errorCode":"UnknownSymbol","mode":"None"}')
    assert wire.read(refusal, wire.Answer).withheld
    penalty = wire.read(msgspec.Raw(b'{"p-ticket":"t","p-time":15,"p-captcha":true}'), wire.Answer)
    assert (penalty.p_ticket, penalty.p_time, penalty.p_captcha) == ("t", 15, True)
    assert wire.stamp(1563421179735_999999) == "2019-07-18T03:39:39.735Z"
    assert wire.chart_of("ESU9", 1563421179735_000000, None)["timeRange"] == {
        "asFarAsTimestamp": "2019-07-18T03:39:39.735Z"
    }
    for broken in ("a[", 'a{"s":200}', 'a[{"s":"x"}]'):
        with pytest.raises(FeedLost):
            wire.messages_of(broken)
    assert Decimal("0.25") == packet('{"id":1,"ts":0.25}').ts


# -- history and what follows


@pytest.mark.parametrize("shared_number", [False, True])
@pytest.mark.parametrize("page", [4096, 37])
def test_history_then_live_is_the_tape(universe: Universe, page: int, shared_number: bool) -> None:
    """Row for row, of two contracts over one socket; in pages of 37 history takes many, and is whole all the same."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.peer.page, stage.peer.shared_number = page, shared_number
            since_ns = NOW_NS - 6000 * SECOND
            for contract in (ES, ZT):
                stage.read(contract, since_ns)
            for contract in (ES, ZT):
                await stage.caught_up(contract)
                expected = past(stage.tapes[contract], since_ns, NOW_NS)
                assert sorted(alike(stage.rows(contract))) == sorted(alike(expected))
                assert np.all(np.diff(stage.rows(contract)["ts_event"]) >= 0)
                assert set(stage.rows(contract)["flags"].tolist()) == {int(RowFlag.BACKFILL)}
                assert stage.events[contract][0] == Status(subscribed=True, code="subscribed")
                assert not stage.of(contract, Gap)
            for step in range(1, 31):
                await stage.peer.advance(NOW_NS + step * 20 * SECOND)
            for contract in (ES, ZT):
                whole = past(stage.tapes[contract], since_ns, NOW_NS + 600 * SECOND)
                await stage.until(lambda c=contract, rows=whole: len(stage.rows(c)) >= len(rows))
                assert sorted(alike(stage.rows(contract))) == sorted(alike(whole))
                live = stage.rows(contract)[stage.rows(contract)["ts_event"] >= NOW_NS]
                assert set(live["flags"].tolist()) == {0}
                assert live["ts_recv"].min() > NOW_NS
                assert len(np.unique(stage.rows(contract)["id"])) == len(whole)
                counted = stage.of(contract, VolumeCounter)[-1]
                traded = past(stage.tapes[contract], 0, counted.at_ns)
                assert counted.volume_lots == int(traded["size"].sum())
                beats = [beat.at_ns for beat in stage.of(contract, Heartbeat)]
                assert beats == sorted(beats)
                assert beats[-1] <= stage.peer.now_ns
                assert stage.of(contract, CaughtUp)[0].quality is Quality.TICKS
            assert (stage.peer.logins, stage.peer.sockets) == (1, 1)
            assert stage.peer.beats

    run(work)


def test_a_stretch_is_whole_before_it_is_sent(universe: Universe) -> None:
    """Pages of five, each in no order, of 400 ticks of which many are in one millisecond: nothing twice, none missing;
    stretches become shorter where there are many pages."""
    rows = np.zeros(400, LIVE_TRADE)
    chance = np.random.default_rng(3)
    rows["ts_event"] = (
        np.sort(chance.integers(0, 3 * history.FIRST_STRETCH_NS // 1_000_000, 400) // 50 * 50) * 1_000_000
    )
    rows["ts_event"][100:104] = rows["ts_event"][100]
    rows["id"] = np.arange(400)
    asked: list[tuple[int, int]] = []

    async def fetch(first_ns: int, last_ns: int) -> Rows:
        asked.append((first_ns, last_ns))
        found = past(rows, first_ns, last_ns)[-5:]
        return found[chance.permutation(len(found))]

    async def work() -> None:
        got = [piece async for piece in history.stretches(fetch, 7 * MINUTE, 150 * MINUTE)]
        assert np.concatenate(got)["id"].tolist() == past(rows, 7 * MINUTE, 150 * MINUTE)["id"].tolist()
        assert len(got) > 3

    run(work)


def test_a_pause_between_requests_for_pages() -> None:
    """Thirty at once, and then one in 0.8 s; here a hundred times as fast."""

    async def work() -> None:
        pace = history.Pace(100.0)
        began_s = asyncio.get_running_loop().time()
        for _ in range(30):
            await pace.turn()
        assert asyncio.get_running_loop().time() - began_s < 0.2
        for _ in range(50):
            await pace.turn()
        assert asyncio.get_running_loop().time() - began_s > 0.3

    run(work)


def test_what_is_older_than_is_asked_for_is_a_gap(universe: Universe) -> None:
    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS - REACH_NS - 3 * MINUTE)
            await stage.caught_up(ES)
            assert stage.of(ES, Gap) == [Gap(NOW_NS - REACH_NS - 3 * MINUTE, NOW_NS - REACH_NS, "not_kept")]
            assert sorted(alike(stage.rows(ES))) == sorted(alike(past(stage.tapes[ES], 0, NOW_NS)))

    run(work)


def test_after_a_drop_it_goes_on_from_the_cursor(universe: Universe) -> None:
    """Cut in the middle of a frame; what was traded meanwhile comes as history, what was sent before the cursor not."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS - MINUTE)
            await stage.caught_up(ES)
            await stage.peer.drop()
            assert (await stage.ended(ES)).code == "disconnected"
            await stage.peer.advance(NOW_NS + 3 * MINUTE)
            stage.peer.repeat(45)
            stage.read(ES, NOW_NS - MINUTE)
            await stage.caught_up(ES)
            expected = past(stage.tapes[ES], NOW_NS - MINUTE, NOW_NS + 3 * MINUTE)
            assert sorted(alike(stage.rows(ES))) == sorted(alike(expected))
            assert stage.peer.logins == 1, "a token that lives is used again"

    run(work)


def test_a_tick_that_comes_again_is_the_same(universe: Universe) -> None:
    """Though history has no bid and ask beside it, by which its side was known when it came live."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.peer.bare = True
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            await stage.peer.advance(NOW_NS + 2 * MINUTE)
            truth = past(stage.tapes[ES], NOW_NS, NOW_NS + 2 * MINUTE)
            await stage.until(lambda: len(stage.rows(ES)) == len(truth))
            assert sorted(alike(stage.rows(ES))) == sorted(alike(truth))
            await stage.peer.drop()
            await stage.ended(ES)
            await stage.peer.advance(NOW_NS + 3 * MINUTE)
            stage.read(ES, NOW_NS + MINUTE)
            await stage.caught_up(ES)
            got = stage.rows(ES)
            again = past(got, NOW_NS + MINUTE, NOW_NS + 2 * MINUTE)
            assert sorted(alike(again)) == sorted(alike(past(truth, NOW_NS + MINUTE, NOW_NS + 2 * MINUTE)))
            assert set(past(got, NOW_NS + 2 * MINUTE, NOW_NS + 3 * MINUTE)["side"].tolist()) == {b"N"}

    run(work)


# -- what goes wrong


def test_a_link_that_says_nothing(universe: Universe) -> None:
    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            stage.peer.freeze(on=True)
            beats = len(stage.of(ES, Heartbeat))
            assert (await stage.ended(ES)).code == "link_silent"
            assert len(stage.of(ES, Heartbeat)) <= beats + 1
            stage.peer.freeze(on=False)
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)

    run(work)


@pytest.mark.parametrize("wrong", ["password", "user", "secret", "cid", "app"])
def test_entries_that_are_wrong(universe: Universe, wrong: str) -> None:
    """The first refusal is tried once more, by whoever asks; the second is the last."""

    async def work() -> None:
        async with staged(universe, **{wrong: "815"}) as stage:
            codes: list[tuple[type, str]] = []
            for _ in range(4):
                stage.read(ES, NOW_NS)
                problem = await stage.ended(ES)
                codes.append((type(problem), problem.code))
            assert codes == [(FeedLost, "login_refused"), *[(LoginRefused, "login_refused")] * 3]
            assert stage.peer.logins == 2

    run(work)


def test_a_login_that_ends_and_a_token_taken_back(universe: Universe) -> None:
    """A token taken back is replaced by a new login without a word; entries that have ended need a person."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            stage.peer.revoke()
            await stage.peer.drop()
            await stage.ended(ES)
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            assert (stage.peer.logins, stage.peer.refusals) == (2, 0)
            await stage.peer.expire(on=True)
            assert (await stage.ended(ES)).code == "disconnected"
            for kind in (FeedLost, LoginRefused):
                stage.read(ES, NOW_NS)
                problem = await stage.ended(ES)
                assert (type(problem), problem.code) == (kind, "login_refused")
            assert stage.peer.refusals == 2

    run(work)


def test_the_token_is_renewed_while_the_socket_stays(universe: Universe) -> None:
    """At four fifths of eighty minutes, by one request, and no new login."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            stage.read(ZT, NOW_NS)
            await stage.caught_up(ES)
            await stage.caught_up(ZT)
            await stage.peer.advance(NOW_NS + 63 * MINUTE)
            await asyncio.sleep(0)
            assert stage.peer.renewals == 0
            await stage.peer.advance(NOW_NS + 65 * MINUTE)
            await stage.until(lambda: stage.peer.renewals)
            assert (stage.peer.logins, stage.peer.renewals, stage.peer.sockets) == (1, 1, 1)
            assert not stage.ends

    run(work)


def test_data_that_is_withheld_and_a_contract_there_is_not(universe: Universe) -> None:
    """Each ends its own stream; the other goes on."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.peer.withheld.add("ZTZ6")
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            for contract, code in (
                (ZT, "not_entitled"),
                (Contract("NQ", 2026, 12), "unknown_contract"),
                (Contract("ES", 2046, 12), "unknown_contract"),
            ):
                stage.read(contract, NOW_NS)
                problem = await stage.ended(contract)
                assert isinstance(problem, FeedRefused)
                assert problem.code == code
            await stage.peer.advance(NOW_NS + MINUTE)
            await stage.until(lambda: len(stage.of(ES, Trades)))
            assert ES not in stage.ends

    run(work)


def test_another_session_of_the_user(universe: Universe) -> None:
    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            await stage.peer.evict()
            problem = await stage.ended(ES)
            assert (type(problem), problem.code) == (FeedRefused, "too_many_sessions")

    run(work)


def test_a_penalty_is_waited_for(universe: Universe) -> None:
    """The vendor names a time and a ticket: the next login comes after it and shows it."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.peer.penalty_s = 20.0  # a second, in this hurry
            began_s = asyncio.get_running_loop().time()
            stage.read(ES, NOW_NS)
            assert (await stage.ended(ES)).code == "rate_limited"
            stage.read(ES, NOW_NS)
            assert (await stage.ended(ES)).code == "rate_limited"
            assert stage.peer.logins == 1
            while not stage.of(ES, CaughtUp):
                stage.read(ES, NOW_NS)
                await stage.until(lambda: ES in stage.ends or stage.of(ES, CaughtUp))
            assert asyncio.get_running_loop().time() - began_s >= 1.0
            assert stage.peer.logins == 2

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
        async with staged(universe) as stage:
            stage.peer.captcha, stage.peer.status = captcha, status
            stage.read(ES, NOW_NS)
            problem = await stage.ended(ES)
            assert (type(problem), problem.code) == (kind, code)

    run(work)


def test_a_penalty_for_charts_is_waited_for(universe: Universe) -> None:
    async def work() -> None:
        async with staged(universe) as stage:
            stage.peer.chart_penalty = {"p-ticket": "chart-ticket", "p-time": 10}
            began_s = asyncio.get_running_loop().time()
            stage.read(ES, NOW_NS - MINUTE)
            await stage.caught_up(ES)
            assert asyncio.get_running_loop().time() - began_s >= 10 / RUSH
            assert [asked.get("p-ticket") for asked in stage.peer.asked] == [None, "chart-ticket"]

    run(work)


@pytest.mark.parametrize(
    ("status", "penalty", "kind", "code"),
    [
        (429, {}, FeedLost, "rate_limited"),
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
        async with staged(universe) as stage:
            stage.peer.chart_status, stage.peer.chart_penalty = status, penalty
            for _ in range(2):
                stage.read(ES, NOW_NS)
                problem = await stage.ended(ES)
                assert (type(problem), problem.code) == (kind, code)
            assert stage.peer.sockets == 1
            assert len(stage.peer.asked) == (1 if status == 429 else 2)

    run(work)


def test_a_renewal_that_is_refused_is_not_insisted_on(universe: Universe) -> None:
    """The stream goes on as long as the vendor lets it; the login is tried once, and once more when it has ended."""

    async def work() -> None:
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            stage.peer.expire_quietly()
            await stage.peer.advance(NOW_NS + 65 * MINUTE)
            await stage.until(lambda: stage.peer.refusals)
            await asyncio.sleep(1.5)  # three looks more
            assert stage.peer.logins == 2
            assert ES not in stage.ends
            await stage.peer.drop()
            await stage.ended(ES)
            stage.read(ES, NOW_NS)
            problem = await stage.ended(ES)
            assert (type(problem), problem.code) == (LoginRefused, "login_refused")
            assert stage.peer.logins == 3

    run(work)


def test_nobody_there(universe: Universe) -> None:
    async def work() -> None:
        async with staged(universe) as stage:
            await stage.peer.stop()
            stage.read(ES, NOW_NS)
            assert (await stage.ended(ES)).code == "unreachable"

    run(work)


def test_a_reader_who_is_slow_holds_up_no_other(universe: Universe, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr("outcry.feeds.tradovate.stream.BUFFER_LIMIT", 30)
        async with staged(universe) as stage:
            stage.read(ES, NOW_NS)
            await stage.caught_up(ES)
            slow = stage.feed.open(ZT, Cursor(NOW_NS))
            async for event in slow:
                if isinstance(event, CaughtUp):
                    break
            for step in range(1, 61):
                await stage.peer.advance(NOW_NS + step * 10 * SECOND)
                await stage.until(
                    lambda: len(stage.rows(ES)) >= len(past(stage.tapes[ES], NOW_NS, stage.peer.now_ns))
                )
            with pytest.raises(FeedLost) as caught:
                async for _ in slow:
                    pass
            assert caught.value.code == "seam_overflow"
            assert sorted(alike(stage.rows(ES))) == sorted(
                alike(past(stage.tapes[ES], NOW_NS, stage.peer.now_ns))
            )

    run(work)


def test_secrets_are_nowhere(universe: Universe, caplog: pytest.LogCaptureFixture) -> None:
    """Not in what is logged, raised or shown of any object, whatever goes wrong."""
    said: list[str] = []

    async def work() -> None:
        for given in ({}, {"password": "hunter2-wrong"}):
            async with staged(universe, **given) as stage:
                stage.read(ES, NOW_NS)
                await stage.until(lambda: stage.ends or stage.of(ES, CaughtUp))
                await stage.peer.drop()
                stage.peer.status = 500
                stage.peer.revoke()
                said.append(repr(await stage.ended(ES)))
                stage.read(ES, NOW_NS)
                problem = await stage.ended(ES)
                said.extend((repr(problem), repr(problem.__cause__), repr(problem.__context__)))
                said.extend(repr(part) for part in vars(stage.feed).values())

    with caplog.at_level(logging.DEBUG):
        run(work)
    text = "\n".join((*said, caplog.text))
    assert "500" in text
    for secret in ("analytical engine", "hunter2-wrong", "f00d-cafe-sec", "secret-token"):
        assert secret not in text

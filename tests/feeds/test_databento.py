"""Databento's adapter with the fake vendor on loopback: the events equal the tape, and faults are reported."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import TypeVar

import numpy as np
import pytest
from databento_dbn import Action, ErrorCode, Side, TradeMsg
from support.vendors.databento_peer import KEY, DatabentoPeer
from tests.feeds.feed_harness import PeerClock
from tests.timeouts import no_more_threads_than, until, within

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.databento import vendor_session as sessions
from outcry.feeds.databento.adapter import ADAPTER
from outcry.feeds.databento.gateway import login_problem
from outcry.feeds.databento.rows import BAD_TS_RECV, FEW, NO_PRICE, RECORD, live_rows, received_until_ns
from outcry.feeds.databento.symbols import symbol_of
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import (
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
)
from outcry.trades.records import TRADE, Quality, Rows
from outcry.trades.reference_tables import load_reference

SECOND = 1_000_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
ES, NQ, ZT = Contract("ES", 2026, 12), Contract("NQ", 2026, 12), Contract("ZT", 2026, 12)
#: 2026-11-18 15:00 UTC.
NOW_NS = 1_795_014_000 * SECOND
DAY = date(2026, 11, 18)
SPEEDUP = 20.0
E = TypeVar("E", bound=Event)


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


def tape(contract: Contract, *, before_ns: int = 40 * HOUR, after_ns: int = 10 * MINUTE) -> Rows:
    """Generate trades around the current time, to the nanosecond, of every side, some identical."""
    chance = np.random.default_rng(len(contract.root) + ord(contract.root[0]))
    rows = np.zeros(1500, TRADE)
    times = [
        chance.integers(NOW_NS - before_ns, NOW_NS - 20 * HOUR, 600),
        chance.integers(NOW_NS - 20 * HOUR, NOW_NS, 500),
        chance.integers(NOW_NS, NOW_NS + after_ns, 400),
    ]
    rows["ts_event"] = np.sort(np.concatenate(times))
    tick = 3_906_250 if contract.root == "ZT" else 250_000_000  # an eighth of a 32nd
    rows["price"] = (30_000 + np.cumsum(chance.integers(-3, 4, len(rows)))) * tick
    rows["size"] = chance.integers(1, 300, len(rows))
    rows["side"] = chance.choice([b"A", b"B", b"N"], len(rows))
    rows["sequence"] = np.arange(7, 7 + len(rows))
    rows[101::100] = rows[100:-1:100]
    return rows


@dataclass
class Reading:
    """Events of one stream, and the error that ended it."""

    events: list[Event] = field(default_factory=list[Event])
    problem: FeedLost | None = None

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def rows(self) -> Rows:
        return np.concatenate([np.zeros(0, LIVE_TRADE), *(event.rows for event in self.of(Trades))])

    @property
    def current(self) -> bool:
        return bool(self.of(CaughtUp))


async def read(feed: Feed, contract: Contract, since_ns: int, into: Reading) -> None:
    stream = feed.open(contract, Cursor(since_ns))
    try:
        async with aclosing(stream) as events:  # pyright: ignore[reportArgumentType]
            async for event in events:
                into.events.append(event)
    except FeedLost as problem:
        into.problem = problem


@dataclass
class DatabentoHarness:
    """A vendor at `NOW_NS`, and one feed connected to it."""

    peer: DatabentoPeer
    feed: Feed
    tasks: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def read(self, contract: Contract, since_ns: int) -> Reading:
        reading = Reading()
        self.tasks.append(asyncio.create_task(read(self.feed, contract, since_ns, reading)))
        return reading

    async def advance_to(self, to_ns: int, step_ns: int = 5 * SECOND) -> None:
        while self.peer.now_ns < to_ns:
            await self.peer.advance(min(self.peer.now_ns + step_ns, to_ns))
            await asyncio.sleep(0.002)


@asynccontextmanager
async def open_harness(
    universe: Universe, wanted: Sequence[Contract] = (ES,), *, speedup: float = SPEEDUP, key: str = KEY
) -> AsyncIterator[DatabentoHarness]:
    before, threads = asyncio.all_tasks(), threading.active_count()
    peer = DatabentoPeer()
    peer.now_ns = NOW_NS
    for contract in wanted:
        peer.tape(contract, tape(contract))
    await peer.start()
    context = AdapterContext(universe, PeerClock(peer), lambda: wanted, peer.places, speedup)
    harness = DatabentoHarness(peer, ADAPTER.feed({"key": key}, context))
    beats = asyncio.create_task(beat(peer))
    try:
        yield harness
    finally:
        for task in harness.tasks:
            task.cancel()
        await asyncio.gather(*harness.tasks, return_exceptions=True)
        await harness.feed.close()
        beats.cancel()
        await asyncio.gather(beats, return_exceptions=True)
        await peer.stop()
        assert asyncio.all_tasks() == before
        assert not peer.callers
        await no_more_threads_than(threads)


async def beat(peer: DatabentoPeer) -> None:
    while True:
        await peer.advance(peer.now_ns)
        await asyncio.sleep(0.1)


def run(work: Awaitable[None]) -> None:
    async def whole() -> None:
        await within(work, 180)

    asyncio.run(whole())


def same(rows: Rows, truth: Rows) -> bool:
    names = ("ts_event", "price", "size", "side", "sequence")
    return all(rows[name].tolist() == truth[name].tolist() for name in names)


def window(rows: Rows, from_ns: int, to_ns: int = 2**63 - 1) -> Rows:
    return rows[(rows["ts_event"] >= from_ns) & (rows["ts_event"] < to_ns)]


# -- what it is told, and what contracts are called


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("", "missing"),
        ("  ", "missing"),
        ("db-short", "rejected"),
        ("xx" + KEY[2:], "rejected"),
        (KEY + "1", "rejected"),
    ],
)
def test_a_key_that_cannot_be_one_is_seen_at_once(universe: Universe, key: str, code: str) -> None:
    context = AdapterContext(universe, PeerClock(DatabentoPeer()), lambda: ())
    with pytest.raises(InvalidCredential) as caught:
        ADAPTER.feed({"key": key}, context)
    assert (caught.value.code, caught.value.field) == (code, "key")
    if key.strip():
        assert key not in str(caught.value)


def test_every_product_has_a_symbol_and_the_symbol_names_the_contract(universe: Universe) -> None:
    for root in universe.products:
        front = universe.front(root, DAY)
        symbol = symbol_of(universe, front, DAY)
        assert symbol == f"{root}{'FGHJKMNQUVXZ'[front.month - 1]}{front.year % 10}"


@pytest.mark.parametrize(
    ("key", "day", "contract"),
    [
        ("ESZ6", date(2026, 11, 18), Contract("ES", 2026, 12)),
        ("ESZ6", date(2026, 12, 24), Contract("ES", 2026, 12)),  # ended on the 18th
        ("ESZ6", date(2027, 1, 5), Contract("ES", 2036, 12)),
        ("ESH6", date(2026, 11, 18), Contract("ES", 2036, 3)),
    ],
)
def test_a_one_digit_year_names_one_contract_by_date(
    universe: Universe, key: str, day: date, contract: Contract
) -> None:
    assert symbol_of(universe, contract, day) == key
    for shift in (-10, 10):
        with pytest.raises(FeedRefused):
            symbol_of(universe, Contract(contract.root, contract.year + shift, contract.month), day)


@pytest.mark.parametrize(
    "contract",
    [Contract("ES", 2036, 12), Contract("ES", 2026, 3), Contract("XX", 2026, 12), Contract("ES", 2026, 11)],
)
def test_a_contract_the_vendor_has_no_symbol_for_is_refused(universe: Universe, contract: Contract) -> None:
    with pytest.raises(FeedRefused) as caught:
        symbol_of(universe, contract, DAY)
    assert caught.value.code == "unknown_contract"


# -- what records become


def records(*made: TradeMsg) -> Rows:
    return np.frombuffer(b"".join(map(bytes, made)), RECORD)


def trade(**other: object) -> TradeMsg:
    usual = {
        "publisher_id": 1, "instrument_id": 5, "ts_event": NOW_NS, "price": -37_630_000_000, "size": 3,
        "action": Action.TRADE, "side": Side.BID, "depth": 0, "ts_recv": NOW_NS + 9, "sequence": 4_000_000_000,
    }  # fmt: skip
    return TradeMsg(**{**usual, **other})  # pyright: ignore[reportArgumentType]


def test_the_vendor_lays_out_a_trade_as_we_read_it() -> None:
    assert [(name, np.dtype(kind)) for name, kind in TradeMsg._dtypes] == [
        (name, RECORD.fields[name][0]) for name in RECORD.names or () if RECORD.fields
    ]


def test_what_is_no_trade_is_left_out_and_values_are_exact() -> None:
    """A negative price, a size and a sequence beyond 31 bits, and a trade without a side are exact."""
    rows = live_rows(
        records(
            trade(),
            trade(action=Action.FILL),
            trade(action=Action.CANCEL),
            trade(price=NO_PRICE),
            trade(size=0),
            trade(side=Side.NONE, size=4_000_000_000),
        ),
        NOW_NS + SECOND,
        int(RowFlag.BACKFILL),
    )
    values = rows[["ts_event", "price", "size", "side", "sequence", "ts_recv", "flags"]].tolist()
    assert values == [
        (NOW_NS, -37_630_000_000, 3, b"B", 4_000_000_000, NOW_NS + SECOND, 1),
        (NOW_NS, -37_630_000_000, 4_000_000_000, b"N", 4_000_000_000, NOW_NS + SECOND, 1),
    ]


def test_many_records_become_the_same_rows_as_few() -> None:
    """Few records are converted one by one and many by numpy."""
    sides, actions = (Side.ASK, Side.BID, Side.NONE), (Action.TRADE, Action.TRADE, Action.CANCEL)
    made = [
        trade(
            ts_event=NOW_NS + at, price=NO_PRICE if at % 5 == 4 else at - 9, size=at % 4, side=sides[at % 3],
            action=actions[at // 3 % 3], ts_recv=NOW_NS + at, flags=BAD_TS_RECV if at % 2 else 0, sequence=at,
        )
        for at in range(4 * FEW)
    ]  # fmt: skip
    many = live_rows(records(*made), NOW_NS, 1)
    parts = [records(*made[at : at + FEW]) for at in range(0, len(made), FEW)]
    few = np.concatenate([live_rows(part, NOW_NS, 1) for part in parts])
    assert 0 < len(many) < len(made)
    assert many.dtype == few.dtype
    assert many.tolist() == few.tolist()
    assert received_until_ns(records(*made)) == max(map(received_until_ns, parts)) == NOW_NS + 4 * FEW - 2


def test_a_time_of_receipt_that_is_off_tells_nothing() -> None:
    assert received_until_ns(records(trade(), trade(ts_recv=NOW_NS + HOUR, flags=BAD_TS_RECV))) == NOW_NS + 9
    assert received_until_ns(records(trade(flags=BAD_TS_RECV))) == 0


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("Authentication failed.", "CredentialsRejected", "login_refused"),
        ("API key deactivated.", "CredentialsRejected", "login_expired"),
        ("User does not have a live data license for GLBX.MDP3", "FeedRefused", "not_entitled"),
        ("Open connection limit exceeded", "FeedLost", "too_many_sessions"),
        ("Internal error", "FeedLost", "vendor_error"),
    ],
)
def test_what_the_gateway_says_of_a_login(text: str, kind: str, code: str) -> None:
    problem = login_problem(text)
    assert (type(problem).__name__, problem.code) == (kind, code)


# -- history, replay, live


def test_history_replay_and_live_are_the_tape(universe: Universe) -> None:
    """History of two days, the replay of the last day and live events equal the tape, row for row."""

    async def work() -> None:
        async with open_harness(universe, (ES, ZT)) as harness:
            since_ns = NOW_NS - 39 * HOUR
            readings = {contract: harness.read(contract, since_ns) for contract in (ES, ZT)}
            await until(lambda: all(one.current for one in readings.values()), "caught up")
            await harness.advance_to(NOW_NS + 5 * MINUTE)
            for contract, reading in readings.items():
                truth = window(tape(contract), since_ns, NOW_NS + 5 * MINUTE)
                await until(lambda r=reading, t=truth: len(r.rows) >= len(t), "all rows")
                assert same(reading.rows, truth)
                flags = reading.rows["flags"] & RowFlag.BACKFILL
                assert (flags == (reading.rows["ts_event"] < NOW_NS)).all()
                assert reading.of(Status)[0] == Status(subscribed=True, code="subscribed")
                assert [event.quality for event in reading.of(CaughtUp)] == [Quality.TICKS]
                assert not reading.of(Gap)
            assert harness.peer.logins == 1
            (session,) = harness.peer.sessions
            assert {ask.symbols for ask in session} == {"ESZ6", "ZTZ6"}

    run(work())


def test_only_what_the_replay_does_not_have_is_paid_for(universe: Universe) -> None:
    """The request to the historical service starts at the cursor and ends where the replay begins."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            recent = harness.read(ES, NOW_NS - 20 * HOUR)
            await until(lambda: recent.current, "caught up")
            assert harness.peer.fetched == []
            old = harness.read(ES, NOW_NS - 39 * HOUR)
            await until(lambda: old.current, "caught up")
            ((symbol, start_ns, end_ns),) = harness.peer.fetched
            assert symbol == "ESZ6"
            assert NOW_NS - 39 * HOUR - 2 * SECOND <= start_ns <= NOW_NS - 39 * HOUR
            assert NOW_NS - 24 * HOUR < end_ns < NOW_NS - 23 * HOUR

    run(work())


def test_more_than_five_days_is_a_gap(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - 7 * 24 * HOUR)
            await until(lambda: reading.current, "caught up")
            assert reading.events[0] == Gap(NOW_NS - 7 * 24 * HOUR, NOW_NS - 5 * 24 * HOUR, "not_kept")
            assert same(reading.rows, window(tape(ES), 0, NOW_NS))

    run(work())


def test_history_the_account_has_no_right_to_is_a_gap_and_the_rest_comes(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.history_error = (403, "license_not_found")
            since_ns = NOW_NS - 39 * HOUR
            reading = harness.read(ES, since_ns)
            await until(lambda: reading.current, "caught up")
            (gap,) = reading.of(Gap)
            assert (gap.from_ns, gap.why) == (since_ns, "not_kept")
            assert same(reading.rows, window(tape(ES), gap.to_ns, NOW_NS))

    run(work())


@pytest.mark.parametrize(("status", "code"), [(429, "rate_limited"), (503, "vendor_error")])
def test_history_that_cannot_be_had_now_is_tried_again(universe: Universe, status: int, code: str) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.history_error = (status, "busy")
            reading = harness.read(ES, NOW_NS - 39 * HOUR)
            await until(lambda: reading.problem is not None, "lost")
            assert reading.problem is not None
            assert (reading.problem.code, reading.problem.retry) == (code, True)

    run(work())


def test_a_replay_that_keeps_less_is_made_up_for_by_history(universe: Universe) -> None:
    """After a weekend the gateway stores five hours: requests shrink until it accepts, and nothing is missing."""

    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.replay_keeps_ns, harness.peer.ages_out = 5 * HOUR, True
            since_ns = NOW_NS - 30 * HOUR
            for _ in range(6):
                reading = harness.read(ES, since_ns)
                await until(lambda r=reading: r.current or r.problem is not None, "an end")
                if reading.current:
                    break
            assert reading.current
            assert same(reading.rows, window(tape(ES), since_ns, NOW_NS))

    run(work())


def test_heartbeats_never_pass_what_is_to_come(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            readings = [harness.read(contract, NOW_NS - HOUR) for contract in (ES, NQ)]
            await until(lambda: all(one.current for one in readings), "caught up")
            await harness.advance_to(NOW_NS + 3 * MINUTE, SECOND)
            await until(lambda: all(len(one.rows) > 20 for one in readings), "rows")
            for reading in readings:
                assert reading.of(Heartbeat)[-1].at_ns > NOW_NS + 2 * MINUTE
                newest_ns = 0
                for event in reading.events:
                    if isinstance(event, Heartbeat):
                        newest_ns = max(newest_ns, event.at_ns)
                    elif isinstance(event, Trades):
                        assert int(event.rows["ts_event"].min()) >= newest_ns - SECOND

    run(work())


# -- faults


def test_a_wrong_key_is_refused_twice_and_not_tried_again(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe, key=KEY[:-1] + "x") as harness:
            codes: list[tuple[str, type]] = []
            for _ in range(4):
                reading = harness.read(ES, NOW_NS - HOUR)
                await until(lambda r=reading: r.problem is not None, "refused")
                codes.append((str(reading.problem and reading.problem.code), type(reading.problem)))
            assert codes == [("login_refused", FeedLost), *[("login_refused", LoginRefused)] * 3]
            assert harness.peer.refusals == 2

    run(work())


def test_an_account_without_a_licence_is_refused(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.login_error = "A live data license is required for GLBX.MDP3"
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: reading.problem is not None, "refused")
            assert isinstance(reading.problem, FeedRefused)
            assert reading.problem.code == "not_entitled"

    run(work())


def test_too_many_connections_are_tried_once_more(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            harness.peer.login_error = "Open connection limit exceeded"
            first = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: first.problem is not None, "lost")
            second = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: second.problem is not None, "refused")
            assert first.problem
            assert second.problem
            assert (first.problem.code, first.problem.retry) == ("rate_limited", True)
            assert (second.problem.code, second.problem.retry) == ("too_many_sessions", False)

    run(work())


def test_a_contract_the_gateway_does_not_know_is_refused_alone(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            del harness.peer._tapes["NQZ6"]
            readings = [harness.read(contract, NOW_NS - HOUR) for contract in (ES, NQ)]
            await until(lambda: readings[0].current and readings[1].problem is not None, "both")
            assert isinstance(readings[1].problem, FeedRefused)
            assert readings[1].problem.code == "unknown_contract"
            await harness.advance_to(NOW_NS + MINUTE)
            truth = window(tape(ES), NOW_NS - HOUR, NOW_NS + MINUTE)
            await until(lambda: len(readings[0].rows) >= len(truth), "all rows")
            assert same(readings[0].rows, truth)

    run(work())


def test_after_a_break_all_find_their_place_on_one_connection(universe: Universe) -> None:
    """Readers reconnect one after another; trades in between are queued for them."""

    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            readings = {contract: harness.read(contract, NOW_NS - HOUR) for contract in (ES, NQ)}
            await until(lambda: all(one.current for one in readings.values()), "caught up")
            await harness.advance_to(NOW_NS + MINUTE)
            await harness.peer.drop()
            await until(lambda: all(one.problem is not None for one in readings.values()), "lost")
            assert {one.problem and one.problem.code for one in readings.values()} == {"disconnected"}
            await harness.advance_to(NOW_NS + 2 * MINUTE)
            for contract in (ES, NQ):
                since_ns = int(readings[contract].rows["ts_event"][-1]) - 2 * SECOND
                again = harness.read(contract, since_ns)
                await until(lambda r=again: r.current, "caught up")
                await harness.advance_to(harness.peer.now_ns + MINUTE)
                truth = window(tape(contract), since_ns, harness.peer.now_ns)
                await until(lambda r=again, t=truth: len(r.rows) >= len(t), "all rows")
                assert same(again.rows, truth)
            assert (harness.peer.logins, len(harness.peer.callers)) == (2, 1)

    run(work())


def test_a_connection_that_breaks_before_it_began_is_made_anew(universe: Universe) -> None:
    """The connection is cut while it waits for a second contract."""

    async def work() -> None:
        async with open_harness(universe, (ES, NQ), speedup=1.0) as harness:
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: harness.peer.logins == 1, "signed in")
            await harness.peer.drop()
            await until(lambda: reading.problem is not None, "lost")
            assert reading.problem is not None
            assert reading.problem.code == "disconnected"
            again = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: again.current, "caught up")
            assert len(harness.peer.sessions) == 1

    run(work())


def test_a_place_nobody_comes_back_to_is_given_up(
    universe: Universe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events queued for an absent reader do not delay the others."""
    monkeypatch.setattr(sessions, "MAX_WAITING_ROWS", 100)

    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            readings = [harness.read(contract, NOW_NS - HOUR) for contract in (ES, NQ)]
            await until(lambda: all(one.current for one in readings), "caught up")
            await harness.peer.drop()
            await until(lambda: all(one.problem is not None for one in readings), "lost")
            again = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: again.current, "caught up")
            await harness.advance_to(NOW_NS + 8 * MINUTE)
            truth = window(tape(ES), NOW_NS - HOUR, NOW_NS + 8 * MINUTE)
            await until(lambda: len(again.rows) >= len(truth), "all rows of who is back")
            assert same(again.rows, truth)
            late = harness.read(NQ, NOW_NS - HOUR)
            await until(lambda: late.current, "caught up")
            assert same(late.rows, window(tape(NQ), NOW_NS - HOUR, NOW_NS + 8 * MINUTE))
            assert len(harness.peer.callers) == 2

    run(work())


def test_a_contract_opened_later_has_a_connection_of_its_own_and_ends_it(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            first = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: first.current, "caught up")
            await harness.advance_to(NOW_NS + MINUTE)
            late = harness.read(NQ, NOW_NS - HOUR)
            await until(lambda: late.current, "caught up")
            await harness.advance_to(NOW_NS + 2 * MINUTE)
            for contract, reading in ((ES, first), (NQ, late)):
                truth = window(tape(contract), NOW_NS - HOUR, NOW_NS + 2 * MINUTE)
                await until(lambda r=reading, t=truth: len(r.rows) >= len(t), "all rows")
                assert same(reading.rows, truth)
            assert len(harness.peer.callers) == 2
            harness.tasks[-1].cancel()
            await until(lambda: len(harness.peer.callers) == 1, "hung up")
            assert first.problem is None

    run(work())


def test_a_gateway_that_says_nothing_is_given_up(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: reading.current, "caught up")
            harness.peer.freeze(on=True)
            beats = len(reading.of(Heartbeat))
            await until(lambda: reading.problem is not None, "given up")
            assert reading.problem is not None
            assert reading.problem.code == "link_silent"
            assert len(reading.of(Heartbeat)) - beats <= sessions.HEARTBEAT_S / sessions.PULSE_S + 1

    run(work())


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ErrorCode.API_KEY_DEACTIVATED, "login_expired"),
        (ErrorCode.INTERNAL_ERROR, "vendor_error"),
        (ErrorCode.SKIPPED_RECORDS_AFTER_SLOW_READING, "disconnected"),
        (ErrorCode.CONNECTION_LIMIT_EXCEEDED, "rate_limited"),
    ],
)
def test_a_fault_that_ends_a_session_is_told_by_its_code(
    universe: Universe, fault: ErrorCode, code: str
) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: reading.current, "caught up")
            harness.peer.fault(fault, "a fault")
            await until(lambda: reading.problem is not None, "lost")
            assert reading.problem is not None
            assert (reading.problem.code, reading.problem.retry) == (code, True)

    run(work())


def test_unreadable_data_ends_the_connection(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: reading.current, "caught up")
            for caller in harness.peer.callers:
                caller.writer.write(b"\x00" * 64)
            await until(lambda: reading.problem is not None, "lost")
            assert reading.problem is not None
            assert reading.problem.code == "protocol"

    run(work())


def test_a_reader_that_stalls_is_dropped_and_others_continue(
    universe: Universe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_WAITING_ROWS", 300)

    async def work() -> None:
        async with open_harness(universe, (ES, NQ)) as harness:
            reading = harness.read(ES, NOW_NS - 19 * HOUR)
            idle = harness.feed.open(NQ, Cursor(NOW_NS - 19 * HOUR))
            first = await anext(idle)
            assert isinstance(first, Status)
            await until(lambda: len(reading.rows) > 0, "the vendor waits for who does not read")
            await harness.advance_to(NOW_NS + MINUTE)
            truth = window(tape(ES), NOW_NS - 19 * HOUR, NOW_NS + MINUTE)
            await until(lambda: len(reading.rows) >= len(truth), "all rows of who reads")
            assert same(reading.rows, truth)
            with pytest.raises(FeedLost) as caught:
                async for _ in idle:
                    pass
            assert caught.value.code == "seam_overflow"
            assert reading.problem is None

    run(work())


def test_closing_ends_streams(universe: Universe) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - HOUR)
            await until(lambda: reading.current, "caught up")
            await harness.feed.close()
            await until(lambda: reading.problem is not None, "ended")
            assert reading.problem is not None
            assert reading.problem.code == "closed"

    run(work())


def test_a_secret_is_nowhere(universe: Universe, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        async with open_harness(universe) as harness:
            reading = harness.read(ES, NOW_NS - 39 * HOUR)
            await until(lambda: reading.current, "caught up")
            harness.peer.login_error = f"Authentication failed for {KEY}"
            await harness.peer.drop()
            await until(lambda: reading.problem is not None, "lost")
            refused = harness.read(ES, NOW_NS - 39 * HOUR)
            await until(lambda: refused.problem is not None, "refused")
            for message in (
                repr(harness.feed),
                str(reading.problem),
                str(refused.problem),
                repr(refused.problem),
            ):
                assert KEY not in message
                assert KEY[-5:] not in message

    with caplog.at_level(logging.DEBUG):
        run(work())
    assert KEY not in caplog.text
    assert KEY[-5:] not in caplog.text
    assert "Basic" not in caplog.text

"""Massive's adapter with the vendor's own client and the fake vendor on loopback."""

import asyncio
from collections.abc import Callable
from datetime import date

import numpy as np
import pytest
from aiohttp import web
from support.vendors.massive_peer import KEY, MassivePeer
from tests.feeds.feed_harness import (
    ES,
    MS,
    NOW_NS,
    NQ,
    SECOND,
    FeedHarness,
    all_logs,
    columns,
    error_text,
    open_feed,
    run,
    tape,
)
from tests.timeouts import until

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.massive import feed
from outcry.feeds.massive.adapter import ADAPTER
from outcry.feeds.massive.duplicate_filter import DuplicateFilter
from outcry.feeds.massive.protocol import (
    Answer,
    Message,
    complaint,
    history_rows,
    live_rows,
    next_page,
    read_answer,
    read_frame,
)
from outcry.feeds.massive.symbols import ticker_of
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.stream_channel import ChannelRegistry, DeliveryLag, StreamChannel
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    CaughtUp,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    RowFlag,
    Status,
    Trades,
)
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

HOUR = 3600 * SECOND
SINCE_NS = NOW_NS - HOUR
WHAT = ("ts_event", "price", "size", "side", "sequence")


def peer() -> MassivePeer:
    made = MassivePeer()
    made.now_ns = NOW_NS
    for seed, contract in enumerate((ES, NQ)):
        made.tape(contract, tape(seed, 2 * SECOND, first_ns=NOW_NS - 2 * HOUR, end_ns=NOW_NS + HOUR))
    return made


def traded(made: MassivePeer, contract: Contract, first_ns: int = SINCE_NS) -> list[tuple[object, ...]]:
    """What the tape has up to the present, as this vendor can tell it: nobody's side."""
    rows = made.tapes[made.name_of(contract)]
    rows = rows[(rows["ts_event"] >= first_ns) & (rows["ts_event"] < made.now_ns)].copy()
    rows["side"] = b"N"
    return columns(rows, *WHAT)


async def caught_up(harness: FeedHarness, contract: Contract = ES, since_ns: int = SINCE_NS):
    reader = harness.follow(contract, since_ns)
    await until(lambda: bool(reader.of(CaughtUp)) or reader.problem is not None, "caught up")
    assert reader.problem is None, reader.problem
    return reader


# -- names


def test_symbols_resolve_to_the_nearest_contract_that_has_not_expired() -> None:
    universe = load_reference().universe
    on = date(2026, 11, 18)
    assert ticker_of(universe, ES, on) == "ESZ6"
    assert ticker_of(universe, Contract("ES", 2026, 9), on) is None  # September's has ended
    assert ticker_of(universe, Contract("ES", 2036, 9), on) == "ESU6"
    assert ticker_of(universe, Contract("6E", 2027, 3), on) == "6EH7"
    assert ticker_of(universe, Contract("ES", 2016, 12), on) is None  # would mean another
    assert ticker_of(universe, Contract("XX", 2026, 12), on) is None


def test_every_product_has_an_unambiguous_symbol() -> None:
    universe = load_reference().universe
    on = date(2026, 11, 18)
    for root in universe.products:
        front = universe.front(root, on)
        assert ticker_of(universe, front, on) == f"{root}{'FGHJKMNQUVXZ'[front.month - 1]}{front.year % 10}"


# -- entries


@pytest.mark.parametrize(
    ("given", "code"), [({}, "missing"), ({"key": "  "}, "missing"), ({"key": "a b"}, "rejected")]
)
def test_an_invalid_credential(given: dict[str, str], code: str) -> None:
    made = peer()
    context = AdapterContext(load_reference().universe, _Clock(), tuple, made.places)
    with pytest.raises(InvalidCredential) as found:
        ADAPTER.feed(given, context)
    assert (found.value.code, found.value.field) == (code, "key")


class _Clock:
    def now_ns(self) -> int:
        return NOW_NS


def test_what_is_said_of_it_without_its_library() -> None:
    broker = ADAPTER.broker
    assert (broker.id, broker.hosted, broker.extra, ADAPTER.library) == (
        "massive",
        True,
        "massive",
        "massive",
    )
    assert [(one.name, one.secret) for one in broker.fields] == [("key", True)]


# -- reading


def test_prices_are_read_from_their_digits() -> None:
    frame = read_frame('[{"ev":"T","sym":"ZTZ6","p":104.00390625,"s":3,"t":1795014000123,"q":4294967299}]')
    (row,) = live_rows(frame, 7)
    assert (row["price"], row["size"], row["ts_event"], row["ts_recv"], row["sequence"]) == (
        104_003_906_250, 3, 1795014000123 * MS, 7, 3,
    )  # fmt: skip
    answer = read_answer(
        '{"results":[{"timestamp":1795014000123456789,"price":0.0000065,"size":2.0,"sequence_number":5},'
        '{"timestamp":1795014000123456790,"price":-37.63,"size":0}]}'
    )
    rows = history_rows(answer.results, 9)
    assert columns(rows, "ts_event", "price", "size", "flags") == [
        (1795014000123 * MS, 6_500, 2, int(RowFlag.BACKFILL))
    ]


def test_nanosecond_timestamps_of_the_socket() -> None:
    (row,) = live_rows([Message(ev="T", sym="ESZ6", p=np_decimal("1"), s=np_decimal("1"), t=NOW_NS + 5)], 0)
    assert row["ts_event"] == NOW_NS


def np_decimal(text: str):
    from decimal import Decimal

    return Decimal(text)


@pytest.mark.parametrize("text", ["", "{", '{"ev":"T"}', '[{"ev":"T","p":"x"}]', "[1]"])
def test_a_frame_that_cannot_be_read(text: str) -> None:
    with pytest.raises(FeedLost) as found:
        read_frame(text)
    assert found.value.code == "protocol"


def test_the_next_page_is_asked_of_our_own_host_and_without_a_key() -> None:
    answer = Answer(next_url="https://elsewhere.example/futures/v1/trades/ESZ6?cursor=abc%3D&apiKey=secret")
    assert next_page(answer) == {"cursor": "abc="}
    assert next_page(Answer()) is None


@pytest.mark.parametrize(
    ("status", "text", "kind", "code"),
    [
        ("auth_failed", "authentication failed", CredentialsRejected, "login_refused"),
        ("auth_failed", "Your plan doesn't include websocket access.", FeedRefused, "not_entitled"),
        ("max_connections", "Maximum number of websocket connections exceeded.", FeedRefused, "too_many_sessions"),
        ("NOT_AUTHORIZED", "You are not entitled to this data. Please upgrade", FeedRefused, "not_entitled"),
        ("ERROR", "Unknown API Key", CredentialsRejected, "login_refused"),
        ("ERROR", "You've exceeded the maximum requests per minute, please wait or upgrade", FeedLost, "rate_limited"),
        ("NOT_FOUND", "ticker", FeedRefused, "unknown_contract"),
        ("slow_consumer", "", FeedLost, "seam_overflow"),
        ("whatever", "else", FeedLost, "vendor_error"),
    ],
)  # fmt: skip
def test_meaning_of_a_complaint(status: str, text: str, kind: type[Exception], code: str) -> None:
    found = complaint(status, text)
    assert (type(found), found.code) == (kind, code)


# -- history and live


def test_history_and_live_are_the_tape_row_for_row() -> None:
    async def work() -> None:
        made = peer()
        made.page_rows = 97
        async with open_feed(made) as harness:
            es, nq = await caught_up(harness, ES), await caught_up(harness, NQ)
            assert es.events[0] == Status(subscribed=True, code="subscribed")
            assert es.of(CaughtUp)[0].quality is Quality.TICKS
            before = len(es.trades())
            assert columns(es.trades(), *WHAT) == traded(made, ES)
            for step in range(1, 31):
                await made.advance(NOW_NS + step * 10 * SECOND)
            for contract, one in ((ES, es), (NQ, nq)):
                await until(lambda c=contract, o=one: len(o.trades()) == len(traded(made, c)), "all of it")
                assert columns(one.trades(), *WHAT) == traded(made, contract)
            flags = es.trades()["flags"]
            assert (flags[:before] == int(RowFlag.BACKFILL)).all()
            assert (flags[before:] == 0).all()
            assert made.logins == 1
            assert any("cursor" in path for path in made.requests), "history came in one page"
            assert len([p for p in made.requests if p == "/futures"]) == 1, "more than one connection"

    run(work)


def test_a_message_in_several_frames_is_one_message() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness, ES)
            before = len(es.trades())
            text = f'[{{"ev":"T","sym":"{made.name_of(ES)}","p":6700.25,"s":3,"t":{NOW_NS // MS},"q":7}}]'.encode()
            transport = made.lines[0].request.transport
            assert transport is not None
            for head, part in ((0x01, text[:20]), (0x00, text[20:40]), (0x80, text[40:])):
                transport.write(bytes((head, len(part))) + part)
                await asyncio.sleep(0.01)
            await until(lambda: len(es.trades()) > before, "the trade")
            assert columns(es.trades()[before:], "price", "size", "sequence") == [(6_700_250_000_000, 3, 7)]

    run(work)


def test_a_message_that_cannot_be_read_ends_the_connection() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es, nq = await caught_up(harness, ES), await caught_up(harness, NQ)
            await made.lines[0].send('[{"ev":"T","p":')
            await until(lambda: es.problem is not None and nq.problem is not None, "the end of both")
            assert isinstance(es.problem, FeedLost)
            assert (es.problem.code, es.problem.retry) == ("protocol", True)
            await until(lambda: not made.lines, "the end of the connection")

    run(work)


def test_trades_during_the_read_of_history_are_reported_once() -> None:
    """The present moves between two pages: the same trades come by the socket and in later pages."""

    async def work() -> None:
        made = peer()
        made.page_rows = 60
        async with open_feed(made) as harness:
            es = harness.follow(ES, SINCE_NS)
            for step in range(1, 25):
                await made.advance(NOW_NS + step * 5 * SECOND)
                await asyncio.sleep(0.01)
            await until(lambda: bool(es.of(CaughtUp)), "caught up")
            await made.advance(made.now_ns + 20 * SECOND)
            await until(lambda: len(es.trades()) >= len(traded(made, ES)), "all of it")
            await asyncio.sleep(0.2)
            assert sorted(columns(es.trades(), *WHAT)) == sorted(traded(made, ES))

    run(work)


def test_a_stream_resumes_where_it_broke() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await made.advance(NOW_NS + 30 * SECOND)
            await until(lambda: len(es.trades()) == len(traded(made, ES)), "all of it")
            newest_ns = int(es.trades()["ts_event"].max())
            await made.drop()
            await until(lambda: es.problem is not None, "the loss told")
            assert isinstance(es.problem, FeedLost)
            assert (es.problem.code, es.problem.retry) == ("disconnected", True)
            await made.advance(NOW_NS + 200 * SECOND)  # nobody listens
            since_ns = newest_ns - 2 * SECOND
            again = await caught_up(harness, ES, since_ns)
            assert columns(again.trades(), *WHAT) == traded(made, ES, since_ns)
            assert made.logins == 2

    run(work)


def test_time_before_the_stored_history_is_a_gap() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            since_ns = NOW_NS - ADAPTER.caps.reach_ns - HOUR
            es = await caught_up(harness, ES, since_ns)
            assert es.of(Gap) == [Gap(since_ns, NOW_NS - ADAPTER.caps.reach_ns, "not_kept")]

    run(work)


def test_heartbeats_continue_without_trades_and_stop_without_data() -> None:
    async def work() -> None:
        made = peer()
        made.tapes.clear()
        made.tape(ES, np.zeros(0, tape(0, SECOND, first_ns=0, end_ns=10 * SECOND).dtype))
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await until(lambda: len(es.of(Heartbeat)) >= 3, "heartbeats")
            assert all(beat.at_ns <= NOW_NS - SECOND for beat in es.of(Heartbeat))
            made.freeze(on=True)
            await asyncio.sleep(0.15)
            count = len(es.of(Heartbeat))
            await until(lambda: es.problem is not None, "silence told")
            assert isinstance(es.problem, FeedLost)
            assert es.problem.code == "link_silent"
            assert len(es.of(Heartbeat)) == count
            made.freeze(on=False)

    run(work)


class EndlessPagesPeer(MassivePeer):
    """Each page of history is one trade, and there is always another. `step_ns`: between two; `cursors`: so many."""

    def __init__(self, step_ns: int, cursors: int) -> None:
        super().__init__()
        self.now_ns, self.step_ns, self.cursors, self.pages = NOW_NS, step_ns, cursors, 0

    async def trades(self, request: web.Request) -> web.Response:
        at_ns = SINCE_NS + self.pages * self.step_ns
        self.pages += 1
        trade = {"timestamp": at_ns, "price": 6800.25, "size": 1, "sequence_number": self.pages}
        address = f"{request.url.origin()}{request.path}?cursor=c{self.pages % self.cursors}"
        return web.json_response({"status": "OK", "results": [trade], "next_url": address})


@pytest.mark.parametrize(
    ("step_ns", "cursors", "pages"),
    [(SECOND, 1, 2), (0, 10**9, 2), (-SECOND, 10**9, 2), (SECOND, 10**9, 20)],
    ids=["one cursor twice", "one time", "backwards", "ever more"],
)
def test_endless_history_is_aborted(
    step_ns: int, cursors: int, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_PAGES", 20)

    async def work() -> None:
        made = EndlessPagesPeer(step_ns, cursors)
        made.tape(ES, tape(0, SECOND, first_ns=SINCE_NS, end_ns=NOW_NS))
        async with open_feed(made) as harness:
            problem = await harness.ended(since_ns=SINCE_NS)
            assert (type(problem), problem.code) == (FeedLost, "protocol")
            assert made.pages == pages

    run(work)


class FutureTradePeer(MassivePeer):
    """Its history has one trade, of a year to come."""

    async def trades(self, request: web.Request) -> web.Response:
        trade = {"timestamp": NOW_NS + 9000 * HOUR, "price": 6800.25, "size": 1, "sequence_number": 1}
        return web.json_response({"status": "OK", "results": [trade]})


def test_a_timestamp_far_ahead_is_not_the_current_time() -> None:
    async def work() -> None:
        made = FutureTradePeer()
        made.now_ns = NOW_NS
        made.tape(ES, tape(0, SECOND, first_ns=SINCE_NS, end_ns=NOW_NS))
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            assert [event.at_ns for event in es.of(CaughtUp)] == [NOW_NS + HOUR]

    run(work)


# -- refusals


def test_an_invalid_key_is_tried_twice() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made, {"key": "not_the_key"}) as harness:
            first = await harness.ended()
            assert (type(first), first.code) == (FeedLost, "login_refused")
            second = await harness.ended()
            assert (type(second), second.code) == (LoginRefused, "login_refused")
            assert type(await harness.ended()) is LoginRefused
            assert (made.logins, made.refusals) == (2, 2)

    run(work)


def test_a_key_that_has_ended_while_history_is_read() -> None:
    async def work() -> None:
        made = peer()
        made.failures = [(401, {"status": "ERROR", "error": "Unknown API Key"})]
        async with open_feed(made) as harness:
            problem = await harness.ended(since_ns=SINCE_NS)
            assert (type(problem), problem.code) == (FeedLost, "login_refused")

    run(work)


def test_a_plan_without_futures_is_not_entitled() -> None:
    async def work() -> None:
        made = peer()
        made.entitled = False
        async with open_feed(made) as harness:
            for contract in (ES, NQ):  # the second is refused before anybody asks for it
                problem = await harness.ended(contract)
                assert (type(problem), problem.code) == (FeedRefused, "not_entitled")
            assert made.logins == 1

    run(work)


def test_a_temporary_fault_is_not_a_refusal() -> None:
    """Who comes after it subscribes anew, on the same connection."""

    async def work() -> None:
        made = peer()
        async with open_feed(made, wanted=(ES,)) as harness:
            await caught_up(harness, ES)
            made.stumbles = 1
            problem = await harness.ended(NQ)
            assert (type(problem), problem.code) == (FeedLost, "vendor_error")
            nq = await caught_up(harness, NQ)
            assert columns(nq.trades(), *WHAT) == traded(made, NQ)
            assert made.logins == 1

    run(work)


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (403, {"status": "NOT_AUTHORIZED", "message": "You are not entitled to this data."}, "not_entitled"),
        (429, {"status": "ERROR", "error": "You've exceeded the maximum requests"}, "rate_limited"),
        (503, {"status": "ERROR"}, "vendor_error"),
        (404, {"status": "NOT_FOUND", "message": "no such ticker"}, "unknown_contract"),
    ],
)
def test_history_that_is_refused(status: int, body: dict[str, str], code: str) -> None:
    async def work() -> None:
        made = peer()
        made.failures = [(status, body)]
        async with open_feed(made) as harness:
            assert (await harness.ended(since_ns=SINCE_NS)).code == code

    run(work)


def test_an_unavailable_contract_is_refused_alone() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            problem = await harness.ended(Contract("ES", 2049, 12))
            assert (type(problem), problem.code) == (FeedRefused, "unknown_contract")
            await made.advance(NOW_NS + 30 * SECOND)
            await until(lambda: len(es.trades()) == len(traded(made, ES)), "the other goes on")

    run(work)


def test_another_program_with_the_same_key() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await made.evict()
            await until(lambda: es.problem is not None, "the end told")
            assert isinstance(es.problem, FeedRefused)
            assert es.problem.code == "too_many_sessions"

    run(work)


def test_an_unavailable_vendor() -> None:
    async def work() -> None:
        made = peer()
        nowhere = {"socket": "ws://127.0.0.1:9", "rest": "http://127.0.0.1:9"}
        async with open_feed(made, places=nowhere) as harness:
            assert (await harness.ended()).code == "unreachable"

    run(work)


def test_the_key_is_never_printed(capsys: pytest.CaptureFixture[str]) -> None:
    async def work(given: str, misbehave: Callable[[MassivePeer], None]) -> list[str]:
        made = peer()
        texts: list[str] = []
        async with open_feed(made, {"key": given}) as harness:
            es = harness.follow(ES, SINCE_NS)
            await until(lambda: bool(es.of(CaughtUp)) or es.problem is not None, "something")
            misbehave(made)
            texts += [repr(harness.feed), str(harness.feed), repr(vars(harness.feed)["_link"])]
            await made.drop()
            await until(lambda: es.problem is not None, "the end")
            assert es.problem is not None
            texts.append(error_text(es.problem))
            texts.append(error_text(await harness.ended(Contract("ES", 2049, 12))))
        return texts

    for given in (KEY, "another_k3y_that_is_wrong"):
        with all_logs() as logged:
            found: list[str] = []
            run(lambda g=given, f=found: _collect(f, work(g, lambda _made: None)))
        out = capsys.readouterr()
        for text in [*found, *logged, out.out, out.err]:
            assert given not in text


async def _collect(into: list[str], work) -> None:
    into += await work


# -- parts


def test_a_slow_reader_loses_its_own_stream_only() -> None:
    async def work() -> None:
        board = ChannelRegistry()
        with board.channel("A") as slow, board.channel("B") as other:
            slow._limit = 10
            rows = live_rows([Message(ev="T", p=np_decimal("1"), s=np_decimal("1"), t=1)] * 6, 0)
            board.put("A", Trades(rows))
            board.put("B", Trades(rows))
            board.put("A", Trades(rows))
            board.put("A", Trades(rows))
            with pytest.raises(FeedLost) as found:
                await anext(slow.events())
            assert found.value.code == "seam_overflow"
            assert len((await anext(other.events())).rows) == 6  # type: ignore[union-attr]

    asyncio.run(work())


def test_events_before_a_loss_are_delivered_first() -> None:
    async def work() -> None:
        channel = StreamChannel()
        channel.put(Heartbeat(1))
        channel.put(Heartbeat(2))
        channel.fail(FeedLost("disconnected"))
        channel.fail(FeedLost("closed"))
        events = channel.events()
        assert await anext(events) == Heartbeat(2)
        with pytest.raises(FeedLost) as found:
            await anext(events)
        assert found.value.code == "disconnected"
        with pytest.raises(FeedLost):
            await channel.beside(asyncio.sleep(60))

    asyncio.run(work())


def test_a_heartbeat_lags_as_trades_do() -> None:
    lag = DeliveryLag()
    assert lag.before(NOW_NS) == NOW_NS - SECOND
    lag.record(NOW_NS, NOW_NS - 3 * SECOND)  # our clock is ahead, or the vendor late
    assert lag.before(NOW_NS) == NOW_NS - 3_500_000_000
    lag.record(NOW_NS, NOW_NS - 600 * SECOND)  # one trade, very late
    assert lag.before(NOW_NS) == NOW_NS - 10 * SECOND


def test_a_trade_from_two_sources_counts_once_and_identical_trades_count_twice() -> None:
    """History has a, b, b; live has b, b, b, c: one b is new."""

    def rows(*trades: tuple[int, str]):
        return live_rows([Message(ev="T", p=np_decimal(p), s=np_decimal("1"), t=t) for t, p in trades], 0)

    duplicates = DuplicateFilter(0)
    duplicates.record(rows((1000, "1"), (1001, "2"), (1001, "2")), ())
    live = rows((1001, "2"), (1001, "2"), (1001, "2"), (1002, "3"))
    assert duplicates.gap_end_ns([Trades(live)]) is None
    assert duplicates.gap_end_ns([Trades(live[3:])]) == 1002 * MS
    assert columns(duplicates.new_rows(live), "ts_event", "price") == [
        (1001 * MS, 2_000_000_000),
        (1002 * MS, 3_000_000_000),
    ]
    assert len(duplicates.new_rows(live[:1])) == 1  # used up

"""ProjectX's adapter with a SignalR client and the fake vendor on loopback."""

import asyncio
from decimal import Decimal

import pytest
from support.vendors.bars import bars_by_hand
from support.vendors.projectx_peer import KEY, USER, ProjectXPeer
from tests.feeds.feed_harness import (
    ES,
    NOW_NS,
    NQ,
    SECOND,
    FeedHarness,
    StreamReader,
    all_logs,
    columns,
    error_text,
    open_feed,
    run,
    tape,
)
from tests.timeouts import until

from outcry.connections.broker_adapter import AdapterContext, InvalidCredential
from outcry.feeds.clock_skew import VendorClock
from outcry.feeds.projectx import rest
from outcry.feeds.projectx.adapter import ADAPTER
from outcry.feeds.projectx.firms import FIRMS
from outcry.feeds.projectx.protocol import (
    Answer,
    ListedContract,
    bar_rows,
    login_problem,
    parse_time_ns,
    parse_volume_counter,
    read_answer,
    trade_rows,
)
from outcry.feeds.projectx.symbols import contract_id, find_listed, same_quote_unit
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    CaughtUp,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    Status,
    VolumeCounter,
)
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import load_reference

HOUR = 3600 * SECOND
SINCE_NS = NOW_NS - HOUR


def peer() -> ProjectXPeer:
    made = ProjectXPeer()
    made.now_ns = NOW_NS
    for seed, contract in enumerate((ES, NQ)):
        rows = tape(seed, SECOND, first_ns=NOW_NS - 2 * HOUR, end_ns=NOW_NS + HOUR // 4)
        made.tape(contract, rows)
    return made


def traded(made: ProjectXPeer, contract: Contract, first_ns: int, end_ns: int) -> Rows:
    rows = made.tapes[made.name_of(contract)]
    return rows[(rows["ts_event"] >= first_ns) & (rows["ts_event"] < end_ns)]


async def caught_up(harness: FeedHarness, contract: Contract = ES, since_ns: int = SINCE_NS) -> StreamReader:
    reader = harness.follow(contract, since_ns)
    await until(lambda: bool(reader.of(CaughtUp)) or reader.problem is not None, "caught up")
    assert reader.problem is None, reader.problem
    return reader


async def play(made: ProjectXPeer, seconds: int, step: int = 1) -> None:
    for _ in range(0, seconds, step):
        await made.advance(made.now_ns + step * SECOND)
        await asyncio.sleep(0.005)


def equals_the_tape(
    made: ProjectXPeer, contract: Contract, one: StreamReader, since_ns: int = SINCE_NS
) -> int:
    """Bars up to a whole second and trades from it on are the tape; give that second."""
    rows = one.trades()
    bars = one.bars()
    cut_ns = bars[-1][0] + SECOND
    assert bars == bars_by_hand(traded(made, contract, since_ns, cut_ns), SECOND)
    names = ("ts_event", "price", "size", "side")
    assert columns(rows, *names) == columns(traded(made, contract, cut_ns, made.now_ns), *names)
    return cut_ns


# -- names


def test_every_product_has_a_name_of_its_own() -> None:
    universe = load_reference().universe
    assert contract_id(universe, ES) == "CON.F.US.EP.Z26"
    assert contract_id(universe, NQ) == "CON.F.US.ENQ.Z26"
    assert contract_id(universe, Contract("GC", 2027, 2)) == "CON.F.US.GCE.G27"
    assert contract_id(universe, Contract("ES", 2102, 3)) == "CON.F.US.EP.H02"
    assert contract_id(universe, Contract("XX", 2026, 12)) is None
    names = {contract_id(universe, Contract(root, 2026, 12)) for root in universe.products}
    assert None not in names
    assert len(names) == len(universe.products)


def test_the_vendors_own_list_decides() -> None:
    universe = load_reference().universe
    ours, micro = ListedContract("CON.F.US.EP.Z26", "ESZ6"), ListedContract("CON.F.US.MES.Z26", "MESZ6")
    renamed = ListedContract("CON.F.US.EPX.Z26", "ESZ6")
    assert find_listed(universe, ES, [micro, renamed, ours]) is ours
    assert find_listed(universe, ES, [micro, renamed]) is renamed
    assert find_listed(universe, ES, [ListedContract("CON.F.US.EPX.Z36", "ESZ6")]) is None  # ten years later
    assert find_listed(universe, ES, [ListedContract("CON.F.US.EPX.Z26/../..", "ESZ6")]) is None
    assert find_listed(universe, ES, []) is None


@pytest.mark.parametrize(
    ("name", "id_", "tick"),
    [
        ("6BU5", "CON.F.US.BP6.U25", "0.0001"), ("6CU5", "CON.F.US.CA6.U25", "0.00005"),
        ("6AU5", "CON.F.US.DA6.U25", "0.00005"), ("NQU5", "CON.F.US.ENQ.U25", "0.25"),
        ("ESU5", "CON.F.US.EP.U25", "0.25"), ("6EU5", "CON.F.US.EU6.U25", "0.00005"),
        ("GFQ5", "CON.F.US.GF.Q25", "0.025"), ("LEQ5", "CON.F.US.GLE.Q25", "0.025"),
        ("METN5", "CON.F.US.GMET.N25", "0.5"), ("HEQ5", "CON.F.US.HE.Q25", "0.025"),
        ("6JU5", "CON.F.US.JY6.U25", "0.0000005"), ("M2KU5", "CON.F.US.M2K.U25", "0.1"),
        ("M6EU5", "CON.F.US.M6E.U25", "0.0001"), ("MBTN5", "CON.F.US.MBT.N25", "5"),
        ("RTYU5", "CON.F.US.RTY.U25", "0.1"), ("6SU5", "CON.F.US.SF6.U25", "0.00005"),
    ],
)  # fmt: skip
def test_names_and_ticks_are_as_the_vendors_documentation_has_them(name: str, id_: str, tick: str) -> None:
    universe = load_reference().universe
    contract = Contract(name[:-2], 2025, "FGHJKMNQUVXZ".index(name[-2]) + 1)
    assert contract_id(universe, contract) == id_
    assert same_quote_unit(universe, contract, ListedContract(id_, name, Decimal(tick)))
    assert Decimal(tick).scaleb(9) == universe.products[contract.root].tick_e9


def test_a_product_quoted_in_another_unit_is_refused() -> None:
    universe = load_reference().universe
    corn = Contract("ZC", 2026, 12)
    assert same_quote_unit(universe, corn, ListedContract("", "", Decimal("0.25")))
    assert same_quote_unit(universe, corn, ListedContract("", "", Decimal("0.125")))
    assert same_quote_unit(universe, corn, ListedContract("", ""))  # it does not say
    assert not same_quote_unit(universe, corn, ListedContract("", "", Decimal("0.0025")))
    assert not same_quote_unit(universe, corn, ListedContract("", "", Decimal(25)))


# -- entries


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"user": "a", "key": "b", "firm": "nobody.example"}, "rejected", "firm"),
        ({"user": "", "key": "b"}, "missing", "user"),
        ({"user": "a"}, "missing", "key"),
        ({"user": "a", "key": "b\n"}, "", ""),
        ({"user": "a", "key": "b\x00c"}, "rejected", "key"),
    ],
)
def test_entries_that_cannot_be_right(given: dict[str, str], code: str, field: str) -> None:
    class Clock:
        def now_ns(self) -> int:
            return NOW_NS

    context = AdapterContext(load_reference().universe, Clock(), tuple, {}, 1.0)
    if not code:
        assert ADAPTER.feed(given, context).name == "projectx"
        return
    with pytest.raises(InvalidCredential) as found:
        ADAPTER.feed(given, context)
    assert (found.value.code, found.value.field) == (code, field)


def test_what_is_said_of_it_without_its_library() -> None:
    broker = ADAPTER.broker
    assert (broker.id, broker.hosted) == ("projectx", False)
    assert [(one.name, one.secret) for one in broker.fields] == [
        ("firm", False), ("user", False), ("key", True),
    ]  # fmt: skip
    assert broker.fields[0].options == tuple(FIRMS)
    assert all(firm.api.startswith("https://") and firm.hub.startswith("https://") for firm in FIRMS.values())


# -- reading


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-11-18T15:00:00Z", NOW_NS),
        ("2026-11-18T15:00:00", NOW_NS),
        ("2026-11-18T15:00:00.1234567+00:00", NOW_NS + 123_456_700),
        ("2026-11-18T10:00:00.5-05:00", NOW_NS + SECOND // 2),
        ("2026-11-18T20:30:00.000000001+05:30", NOW_NS + 1),
    ],
)
def test_times_are_read_to_their_last_digit(text: str, ns: int) -> None:
    assert parse_time_ns(text) == ns


@pytest.mark.parametrize("text", ["", "now", "2026-11-18", "2026-11-18T15:00:00.12345678901Z"])
def test_a_time_that_cannot_be_read(text: str) -> None:
    with pytest.raises(FeedLost) as found:
        parse_time_ns(text)
    assert found.value.code == "protocol"


def test_bars_are_put_in_order_and_empty_ones_left_out() -> None:
    answer = read_answer(
        b'{"bars":[{"t":"2026-11-18T15:00:02+00:00","o":104.00390625,"h":1,"l":-37.63,"c":0.0000065,"v":3},'
        b'{"t":"2026-11-18T15:00:01+00:00","o":1,"h":1,"l":1,"c":1,"v":0},'
        b'{"t":"2026-11-18T15:00:00+00:00","o":1,"h":2,"l":1,"c":2,"v":4.0}],"success":true,"errorCode":0}'
    )
    assert bar_rows(answer.bars or []).tolist() == [
        (NOW_NS, 10**9, 2 * 10**9, 10**9, 2 * 10**9, 4),
        (NOW_NS + 2 * SECOND, 104_003_906_250, 10**9, -37_630_000_000, 6_500, 3),
    ]


def test_one_trade_or_several_and_who_was_the_aggressor() -> None:
    one = {
        "symbolId": "F.US.EP",
        "price": 6057.25,
        "timestamp": "2026-11-18T15:00:00Z",
        "type": 0,
        "volume": 2,
    }
    assert columns(trade_rows(one, 9), "ts_event", "ts_recv", "price", "size", "side") == [
        (NOW_NS, 9, 6_057_250_000_000, 2, b"B")
    ]
    rows = trade_rows([one, one | {"type": 1}, one | {"type": 7}, one | {"volume": 0}], 9)
    assert rows["side"].tolist() == [b"B", b"A", b"N"]


@pytest.mark.parametrize(
    "data", [None, 5, {}, {"price": "x", "timestamp": "2026-11-18T15:00:00Z", "volume": 1}, [[]], "text"]
)
def test_a_trade_that_cannot_be_read(data: object) -> None:
    with pytest.raises(FeedLost) as found:
        trade_rows(data, 0)
    assert found.value.code == "protocol"


def test_a_quote_without_a_count_counts_nothing() -> None:
    quote = {"volume": 5, "timestamp": "2026-11-18T15:00:00Z"}
    assert parse_volume_counter(quote) == VolumeCounter(NOW_NS, 5)
    for partial in ({"lastPrice": 1.0, "timestamp": "2026-11-18T15:00:00Z"}, {"volume": 5}, None, []):
        assert parse_volume_counter(partial) is None


@pytest.mark.parametrize(
    ("number", "code"),
    [(1, "login_refused"), (3, "login_refused"), (7, "not_allowed"), (8, "vendor_error"), (9, "not_entitled"),
     (10, "not_allowed")],
)  # fmt: skip
def test_why_a_login_is_refused(number: int, code: str) -> None:
    assert login_problem(Answer(errorCode=number)).code == code


# -- history and live


def test_bars_then_trades_are_the_tape() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es, nq = await caught_up(harness, ES), await caught_up(harness, NQ)
            assert es.events[0] == Status(subscribed=True, code="subscribed")
            (caught,) = es.of(CaughtUp)
            assert (caught.at_ns, caught.quality) == (NOW_NS - 10 * SECOND, Quality.BARS_1S)
            await play(made, 60)
            for contract, one in ((ES, es), (NQ, nq)):
                last = traded(made, contract, 0, made.now_ns)[-1]["ts_event"]
                await until(lambda o=one, n=last: len(o.trades()) and o.trades()["ts_event"][-1] == n, "all")
                assert NOW_NS - 5 * SECOND < equals_the_tape(made, contract, one) <= NOW_NS + 5 * SECOND
                beats = [beat.at_ns for beat in one.of(Heartbeat)]
                assert beats
                assert max(beats) <= made.now_ns - SECOND
            assert made.logins == 1
            assert len([p for p in made.requests if p.startswith("/hubs/market?")]) == 1
            counts = es.of(VolumeCounter)
            assert counts
            lots = int(traded(made, ES, 0, counts[-1].at_ns)["size"].sum())
            assert counts[-1].volume_lots == lots

    run(work)


def test_no_heartbeat_passes_a_bar_that_is_still_to_come() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await until(lambda: len(es.of(Heartbeat)) > 3, "heartbeats")
            assert {beat.at_ns for beat in es.of(Heartbeat)} == {NOW_NS - 10 * SECOND}
            assert not es.of(VolumeCounter)

    run(work)


def test_bars_that_come_late_are_waited_for() -> None:
    """The vendor's last bars are five seconds behind: what live showed of the last second tells that one is missing."""

    async def work() -> None:
        made = peer()
        made.behind_s = 5
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await play(made, 12)
            last = traded(made, ES, 0, made.now_ns)[-1]["ts_event"]
            await until(lambda: len(es.trades()) and es.trades()["ts_event"][-1] == last, "all")
            equals_the_tape(made, ES, es)
            assert not es.of(Gap)

    run(work)


def test_bars_that_are_kept_back_are_a_gap_from_where_they_end() -> None:
    """Of some accounts history is fifteen minutes late: the last bar tells since when something is missing."""

    async def work() -> None:
        made = peer()
        made.behind_s = 900
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await play(made, 20)
            await until(lambda: bool(es.of(Gap)), "the gap")
            last = traded(made, ES, 0, NOW_NS - 900 * SECOND)[-1]["ts_event"] // SECOND * SECOND
            assert es.of(Gap) == [Gap(int(last) + SECOND, NOW_NS + 5 * SECOND, "not_kept")]
            await until(lambda: len(es.trades()) > 0, "trades")
            assert es.trades()["ts_event"].min() >= NOW_NS + 5 * SECOND

    run(work)


@pytest.mark.parametrize("off_s", [-30, 30])
def test_the_vendors_clock_counts_and_not_ours(off_s: int) -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            harness.clock.off_ns = off_s * SECOND
            es = await caught_up(harness)
            await play(made, 20)
            last = traded(made, ES, 0, made.now_ns)[-1]["ts_event"]
            await until(lambda: len(es.trades()) and es.trades()["ts_event"][-1] == last, "all")
            assert NOW_NS - 5 * SECOND < equals_the_tape(made, ES, es) <= NOW_NS + 5 * SECOND

    run(work)


def test_a_cursor_ahead_of_the_vendors_clock_leaves_nothing_out() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness, ES, NOW_NS + 60 * SECOND)
            await play(made, 20)
            last = traded(made, ES, 0, made.now_ns)[-1]["ts_event"]
            await until(lambda: len(es.trades()) and es.trades()["ts_event"][-1] == last, "all")
            equals_the_tape(made, ES, es, NOW_NS)
            assert not es.of(Gap)

    run(work)


@pytest.mark.parametrize("oldest_first", [False, True])
def test_full_pages_are_asked_for_until_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, *, oldest_first: bool
) -> None:
    monkeypatch.setattr(rest, "PAGE_BARS", 100)

    async def work() -> None:
        made = peer()
        made.oldest_first = oldest_first
        async with open_feed(made) as harness:
            es = await caught_up(harness, ES, NOW_NS - 600 * SECOND)
            edge_ns = es.of(CaughtUp)[0].at_ns
            truth = bars_by_hand(traded(made, ES, NOW_NS - 600 * SECOND, edge_ns), SECOND)
            assert 300 < len(truth) < 400
            assert es.bars() == truth
            # what time it is; the pages; once, whether there is anything beyond the first
            assert len(made.bar_requests) <= 1 + 4 + 1

    run(work)


def test_requests_for_bars_are_spaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four may be asked for in a second of this clock: twelve take two seconds at least, here a tenth."""
    monkeypatch.setattr(rest, "PAGE_BARS", 50)
    monkeypatch.setattr(rest, "PERIOD_S", 4.0)

    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            harness.feed._rest._request_times = type(harness.feed._rest._request_times)(maxlen=4)  # type: ignore[attr-defined]
            monkeypatch.setattr(rest, "MAX_REQUESTS", 4)
            began_s = asyncio.get_running_loop().time()
            await caught_up(harness, ES, NOW_NS - 600 * SECOND)
            asked = len(made.bar_requests)
            assert asked > 8
            took_s = asyncio.get_running_loop().time() - began_s
            assert took_s >= (asked - 1) // 4 * 4.0 / 20.0

    run(work)


def test_after_an_interruption_bars_tell_of_what_was_missed() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await play(made, 30)
            last = int(traded(made, ES, 0, made.now_ns)[-1]["ts_event"])
            await until(lambda: len(es.trades()) and es.trades()["ts_event"][-1] == last, "all")
            await made.drop()
            await until(lambda: es.problem is not None, "the loss told")
            assert isinstance(es.problem, FeedLost)
            assert es.problem.code == "disconnected"
            await made.advance(made.now_ns + 100 * SECOND)  # nobody listens
            since_ns = last - 2 * SECOND
            again = await caught_up(harness, ES, since_ns)
            await play(made, 10)
            last = int(traded(made, ES, 0, made.now_ns)[-1]["ts_event"])
            await until(lambda: len(again.trades()) and again.trades()["ts_event"][-1] == last, "all")
            equals_the_tape(made, ES, again, since_ns // SECOND * SECOND)
            assert made.logins == 1, "a token that holds was asked for again"

    run(work)


def test_time_before_the_stored_history_is_a_gap() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            earliest_ns = NOW_NS - ADAPTER.caps.reach_ns
            es = await caught_up(harness, ES, earliest_ns - HOUR)
            assert es.of(Gap) == [Gap(earliest_ns - HOUR, earliest_ns, "not_kept")]

    run(work)


def test_a_link_that_is_silent_is_given_up() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            made.freeze(on=True)
            await until(lambda: es.problem is not None, "silence told")
            assert isinstance(es.problem, FeedLost)
            assert es.problem.code == "link_silent"
            made.freeze(on=False)

    run(work)


# -- refusals


def test_an_invalid_key_is_tried_twice() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made, {"user": USER, "key": "not_the_key"}) as harness:
            first, second = await harness.ended(), await harness.ended()
            assert (type(first), first.code) == (FeedLost, "login_refused")
            assert (type(second), second.code) == (LoginRefused, "login_refused")
            assert type(await harness.ended()) is LoginRefused
            assert (made.logins, made.refusals) == (2, 2)

    run(work)


@pytest.mark.parametrize(("number", "code"), [(7, "not_allowed"), (9, "not_entitled")])
def test_an_account_that_may_not(number: int, code: str) -> None:
    async def work() -> None:
        made = peer()
        made.login_error = number
        async with open_feed(made) as harness:
            problem = await harness.ended()
            assert (type(problem), problem.code) == (FeedRefused, code)

    run(work)


def test_a_token_that_has_ended_is_renewed() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            await caught_up(harness)
            made.tokens.clear()  # the hub goes on, the API does not
            await caught_up(harness, NQ)
            assert made.logins == 2
            made.tokens.clear()
            await made.drop()
            await caught_up(harness)  # the hub does not take the old one either
            assert made.logins == 3

    run(work)


def test_a_token_is_renewed_at_four_fifths_of_its_day() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            await caught_up(harness)
            harness.clock.off_ns = 19 * HOUR
            await caught_up(harness, NQ)
            assert made.logins == 1
            harness.clock.off_ns = 20 * HOUR
            await caught_up(harness, NQ)
            assert made.logins == 2

    run(work)


def test_market_data_that_the_account_has_not() -> None:
    async def work() -> None:
        made = peer()
        made.entitled = False
        async with open_feed(made) as harness:
            problem = await harness.ended()
            assert (type(problem), problem.code) == (FeedRefused, "not_entitled")

    run(work)


def test_a_contract_that_is_not_listed_is_refused_alone() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            problem = await harness.ended(Contract("GC", 2027, 2))
            assert (type(problem), problem.code) == (FeedRefused, "unknown_contract")
            await play(made, 10)
            await until(lambda: len(es.trades()) > 0, "the other goes on")

    run(work)


def test_a_user_who_is_signed_out() -> None:
    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            await made.sign_out()
            await until(lambda: es.problem is not None, "the loss told")
            assert isinstance(es.problem, FeedLost)
            assert (es.problem.code, es.problem.retry) == ("disconnected", True)

    run(work)


def test_an_unavailable_vendor() -> None:
    async def work() -> None:
        nowhere = {"api": "http://127.0.0.1:9", "hub": "http://127.0.0.1:9"}
        async with open_feed(peer(), places=nowhere) as harness:
            assert (await harness.ended()).code == "unreachable"

    run(work)


def test_without_a_date_the_clock_is_ours() -> None:
    async def work() -> None:
        made = peer()
        made.dated = False
        async with open_feed(made) as harness:
            clock = VendorClock(harness.clock)
            for header in (None, "", "some day"):
                clock.note(header)
                assert clock.now_ns() == NOW_NS
            clock.note("Wed, 18 Nov 2026 14:59:58 GMT")
            assert clock.now_ns() == NOW_NS - 2 * SECOND

    run(work)


def test_nothing_says_the_key_or_the_token(capsys: pytest.CaptureFixture[str]) -> None:
    texts: list[str] = []

    async def work() -> None:
        made = peer()
        async with open_feed(made) as harness:
            es = await caught_up(harness)
            texts.extend(
                [repr(harness.feed), repr(vars(harness.feed)), repr(vars(harness.feed._rest.tokens))]
            )  # type: ignore[attr-defined]
            await made.drop()
            await until(lambda: es.problem is not None, "the end")
            assert es.problem is not None
            texts.append(error_text(es.problem))
            texts.append(error_text(await harness.ended(Contract("GC", 2027, 2))))
            await made.expire(on=True)
            texts.extend([error_text(await harness.ended()) for _ in range(3)])
        async with open_feed(
            peer(), places={"api": made.places["api"], "hub": made.places["hub"]}
        ) as harness:
            texts.append(error_text(await harness.ended()))

    with all_logs() as logged:
        run(work)
    out = capsys.readouterr()
    for text in [*texts, *logged, out.out, out.err]:
        assert KEY not in text
        assert "eyJ.token" not in text

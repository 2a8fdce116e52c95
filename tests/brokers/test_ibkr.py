"""Interactive Brokers: the real library against a TWS on loopback, and what is ours apart from any socket."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pytest
from tests.brokers import ibkr_frames as frames
from tests.brokers.ibkr_peer import IbkrPeer

from outcry.core.instruments import Contract, Universe
from outcry.feeds.ibkr import channel, contracts, faults, pace
from outcry.feeds.ibkr.adapter import ADAPTER
from outcry.feeds.ibkr.history import planned
from outcry.feeds.ibkr.tws import price_e9
from outcry.ports.adapters import BadEntry, Kit
from outcry.ports.feed import (
    Bars,
    CaughtUp,
    Cursor,
    Event,
    Feed,
    FeedLost,
    FeedRefused,
    Gap,
    Heartbeat,
    LoginRefused,
    Replaced,
    RowFlag,
    Status,
    Trades,
)
from outcry.ports.records import TRADE, Quality, Rows
from outcry.store.reference import load_reference

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
ES, NQ = Contract("ES", 2026, 12), Contract("NQ", 2026, 12)
RUSH = 20.0
Row = tuple[int, int, int]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND


NOW = at("2026-11-18 15:00:00")


@pytest.fixture(scope="module")
def universe() -> Universe:
    return load_reference().universe


def tape_of(*trades: Row) -> Rows:
    """Trades of (ns, price, lots)."""
    rows = np.zeros(len(trades), TRADE)
    for at_row, (when, price, lots) in enumerate(trades):
        rows[at_row] = (when, price, lots, b"B", 0, at_row + 1)
    return rows


def walk(from_ns: int, to_ns: int, step_s: int, seed: int = 1) -> list[Row]:
    """A random walk on the tick, several trades to a second at times, some alike in everything."""
    chance = np.random.default_rng(seed)
    found: list[Row] = []
    price = 26_800
    for when in range(from_ns, to_ns, step_s * SECOND):
        price += int(chance.integers(-2, 3))
        found += [(when, price * 250_000_000, int(chance.integers(1, 9)))] * int(chance.integers(1, 4))
    return found


def told(rows: Rows) -> list[Row]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size"))
    return list(zip(*columns, strict=True))


@dataclass
class Reader:
    """Reads one stream until it ends."""

    events: list[Event] = field(default_factory=list[Event])
    problem: Exception | None = None
    task: asyncio.Task[None] | None = None

    async def read(self, stream: AsyncIterator[Event]) -> None:
        try:
            async for event in stream:
                self.events.append(event)
        except FeedLost as problem:
            self.problem = problem
        finally:
            await stream.aclose()

    def of(self, *kinds: type[Event]) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    @property
    def caught(self) -> CaughtUp | None:
        found = self.of(CaughtUp)
        return found[0] if found else None

    def rows(self) -> list[Row]:
        """All trades, those in the place of bars among them, in order of time."""
        found = [row for event in self.of(Trades, Replaced) for row in told(event.rows)]
        return sorted(found, key=lambda row: row[0])


class Play:
    """A TWS, a feed of it, and the readers of its streams."""

    def __init__(self, peer: IbkrPeer, universe: Universe) -> None:
        self.peer, self.universe = peer, universe
        self.feeds: list[Feed] = []
        self.readers: list[Reader] = []

    def now_ns(self) -> int:
        return self.peer.now_ns

    def feed(self, **entries: str) -> Feed:
        kit = Kit(self.universe, self, lambda: [ES, NQ], {}, RUSH)
        feed = ADAPTER.feed({**self.peer.given, **entries}, kit)
        self.feeds.append(feed)
        return feed

    def open(self, feed: Feed, contract: Contract, since_ns: int, barred_ns: tuple[int, ...] = ()) -> Reader:
        reader = Reader()
        cursor = Cursor(since_ns, barred_ns=barred_ns)
        reader.task = asyncio.create_task(reader.read(feed.open(contract, cursor)))
        self.readers.append(reader)
        return reader

    async def until(self, met: Callable[[], object], what: str) -> None:
        """Wait for something to be so, while time passes."""
        async with asyncio.timeout(20):
            while not met():
                await self.peer.advance(self.peer.now_ns)
                await asyncio.sleep(0.01)
        assert met(), what

    async def leave(self, reader: Reader) -> None:
        assert reader.task is not None
        reader.task.cancel()
        with suppress(asyncio.CancelledError):
            await reader.task


@asynccontextmanager
async def playing(universe: Universe) -> AsyncIterator[Play]:
    """A TWS at `NOW`. What is left over in the end is seen."""
    before = asyncio.all_tasks()
    threads = threading.active_count()
    peer = IbkrPeer()
    peer.now_ns = NOW
    await peer.start()
    play = Play(peer, universe)
    try:
        yield play
    finally:
        for reader in play.readers:
            await play.leave(reader)
        for feed in play.feeds:
            await feed.close()
        await peer.stop()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert threading.active_count() == threads


def run(universe: Universe, work: Callable[[Play], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with playing(universe) as play:
            await asyncio.wait_for(work(play), 40)

    asyncio.run(whole())


# -- names


def _listed(root: str, con_id: int, month: str = "202612") -> contracts.Found:
    one = frames.LISTED[root]
    point = Decimal(one.size) / one.magnifier
    return contracts.Found(con_id, one.symbol, one.exchange, one.trading_class, month, point, "", "")


def test_every_product_is_found_by_its_name_there_and_back(universe: Universe) -> None:
    """Among all that Interactive Brokers lists under the same symbol, in two months."""
    listed = [_listed(root, number, month) for number, (root, month) in enumerate(
        (root, month) for root in frames.LISTED for month in ("202612", "202703"))]  # fmt: skip
    assert frames.LISTED.keys() == universe.products.keys()
    for root in universe.products:
        contract = Contract(root, 2026, 12)
        query = contracts.query_of(contract, universe)
        same = [one for one in listed if (one.symbol, one.exchange) == (query.symbol, query.exchange)]
        found = contracts.chosen(contract, universe, same)
        assert found is not None, root
        assert (found.trading_class, found.month) == (frames.LISTED[root].trading_class, query.month)
        assert contracts.contract_of(found, universe) == contract


def test_a_contract_that_fits_twice_or_not_at_all_is_not_guessed_at(universe: Universe) -> None:
    assert contracts.chosen(ES, universe, [_listed("ES", 1, "202703")]) is None
    assert contracts.chosen(Contract("SI", 2026, 12), universe, [_listed("SIL", 1)]) is None
    with pytest.raises(FeedRefused) as refused:
        contracts.chosen(ES, universe, [_listed("ES", 1), _listed("ES", 2)])
    assert refused.value.code == "unknown_contract"
    with pytest.raises(FeedRefused):
        contracts.query_of(Contract("XX", 2026, 12), universe)


def test_the_trade_date_under_way_is_read_from_the_hours() -> None:
    """17:00 in Chicago is 23:00 UTC in winter; where nothing can be read it is a day."""
    now = at("2026-11-18 15:00:00")
    hours = "20261117:1700-20261118:1600;20261118:1700-20261119:1600;20261121:CLOSED"
    found = contracts.Found(1, "ES", "CME", "ES", "202612", Decimal(50), hours, "US/Central")
    assert contracts.began_ns(found, now) == at("2026-11-17 23:00:00")
    other = contracts.Found(1, "ES", "CME", "ES", "202612", Decimal(50), hours, "Nowhere")
    assert contracts.began_ns(other, now) == at("2026-11-17 15:00:00")


def test_prices_are_those_that_were_sent() -> None:
    """As `float` reads the text of the message."""
    for text, e9 in (
        ("0.0067445", 6_744_500),
        ("110.0234375", 110_023_437_500),
        ("-37.63", -37_630_000_000),
        ("26800.1", 26_800_100_000_000),
        ("5e-07", 500),
    ):
        assert price_e9(float(text)) == e9
    for text in ("nan", "inf", "1.7976931348623157E308", "0.00000000001"):
        with pytest.raises(ValueError):  # noqa: PT011 - any
            price_e9(float(text))


# -- entries


def test_what_cannot_be_entered(universe: Universe) -> None:
    class Never:
        def now_ns(self) -> int:
            return 0

    kit = Kit(universe, Never(), list)
    for name, text in (
        ("host", "127.0.0.1/x"), ("host", "a b"), ("port", "0"), ("port", "65536"), ("port", "4001x"),
        ("client_id", "0"), ("client_id", "-1"), ("client_id", "99999999999999"),
    ):  # fmt: skip
        with pytest.raises(BadEntry) as bad:
            ADAPTER.feed({name: text}, kit)
        assert (bad.value.code, bad.value.field) == ("rejected", name)
    assert ADAPTER.feed({}, kit).name == "ibkr"
    assert not ADAPTER.broker.hosted
    assert not any(entry.secret for entry in ADAPTER.broker.fields)


# -- history, then live


def test_bars_come_first_and_trades_take_their_place(universe: Universe) -> None:
    """Opened at 15:00 from 13:00 on: bars to the last minute, trades from there, live ones, and at last all of it as
    trades; of the first minute too, which might be known."""

    async def work(play: Play) -> None:
        trades = walk(at("2026-11-18 12:30:00"), NOW + 10 * MINUTE, 2)
        play.peer.tape(ES, tape_of(*trades))
        since = at("2026-11-18 13:00:00")
        reader = play.open(play.feed(), ES, since)
        await play.until(lambda: reader.caught, "caught up")
        assert reader.caught is not None
        assert reader.caught.quality is Quality.BARS_1M
        kinds = [type(event) for event in reader.events if not isinstance(event, Heartbeat)]
        assert kinds[:2] == [Trades, Bars]
        (bars,) = reader.of(Bars)
        assert isinstance(bars, Bars)
        first = since + MINUTE
        assert bars.rows["ts_event"][0] == first
        volume = sum(row[2] for row in trades if first <= row[0] < first + MINUTE)
        assert bars.rows["volume"][0] == volume
        last = int(bars.rows["ts_event"][-1]) + MINUTE
        assert last <= reader.caught.at_ns < last + 2 * MINUTE
        await play.until(lambda: reader.of(Replaced) and reader.of(Replaced)[-1].to_ns == last, "trades")
        assert next(piece.from_ns for piece in reader.of(Replaced)) == first
        await play.until(lambda: play.peer.now_ns > NOW + 2 * MINUTE, "two minutes")
        end = reader.rows()[-1][0]
        assert end > reader.caught.at_ns
        assert reader.rows() == [row for row in trades if since <= row[0] <= end]

    run(universe, work)


def test_rows_say_what_they_are(universe: Universe) -> None:
    """Backfill before the cut and not after it; no side, for none is told; received by our clock."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - 5 * MINUTE, NOW + 5 * MINUTE, 1)))
        reader = play.open(play.feed(), ES, NOW - 5 * MINUTE)
        await play.until(lambda: play.peer.now_ns > NOW + MINUTE, "a minute")
        assert reader.caught is not None
        assert reader.caught.quality is Quality.TICKS
        assert reader.caught.at_ns % SECOND == 0
        for event in reader.of(Trades):
            assert isinstance(event, Trades)
            before = event.rows["ts_event"] < reader.caught.at_ns
            assert ((event.rows["flags"] == int(RowFlag.BACKFILL)) == before).all()
            assert set(event.rows["side"].tolist()) == {b"N"}
            assert (event.rows["ts_recv"] >= event.rows["ts_event"]).all()
        beats = [event.at_ns for event in reader.of(Heartbeat)]
        assert beats == sorted(beats)
        assert beats[-1] <= play.peer.now_ns - SECOND

    run(universe, work)


def test_a_page_holds_its_last_second_whole(universe: Universe) -> None:
    """2,600 trades in nine seconds, pages of a thousand and the rest of a second: none twice, none left out."""

    async def work(play: Play) -> None:
        busy = NOW - 2 * MINUTE
        trades = [
            (busy + at_row // 300 * SECOND, (26_800 + at_row % 7) * 250_000_000, 1) for at_row in range(2_600)
        ]
        play.peer.tape(ES, tape_of(*trades))
        reader = play.open(play.feed(), ES, NOW - 3 * MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        assert reader.rows() == trades
        assert [len(event.rows) for event in reader.of(Trades)] == [1_200, 1_200, 200]

    run(universe, work)


def test_after_a_short_loss_no_bars_are_asked_for(universe: Universe) -> None:
    async def work(play: Play) -> None:
        trades = walk(NOW - 20 * MINUTE, NOW + 10 * MINUTE, 3)
        play.peer.tape(ES, tape_of(*trades))
        feed = play.feed()
        reader = play.open(feed, ES, NOW - 2 * MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        await play.peer.drop()
        await play.until(lambda: reader.problem, "the loss")
        assert isinstance(reader.problem, FeedLost)
        assert reader.problem.code == "disconnected"
        known = reader.rows()
        since = known[-1][0] - 2 * SECOND
        again = play.open(feed, ES, since)
        await play.until(lambda: again.caught, "caught up again")
        assert again.caught is not None
        assert again.caught.quality is Quality.TICKS
        assert all(kind != 20 for kind, _ in play.peer.asked)
        together = [row for row in known if row[0] < since] + again.rows()
        assert together == [row for row in trades if NOW - 2 * MINUTE <= row[0] <= together[-1][0]]

    run(universe, work)


def test_what_is_older_than_is_asked_for_is_a_gap(universe: Universe) -> None:
    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - 5 * MINUTE, NOW, 5)))
        since = NOW - 20 * 86_400 * SECOND
        reader = play.open(play.feed(), ES, since)
        await play.until(lambda: reader.caught, "caught up")
        gap = reader.events[0]
        assert isinstance(gap, Gap)
        assert (gap.from_ns, gap.why) == (since, "not_kept")
        assert 0 <= gap.to_ns - (NOW - ADAPTER.caps.reach_ns) < 10 * SECOND

    run(universe, work)


def test_a_stretch_of_time_is_brought_without_a_minute_told_twice() -> None:
    """Trades up to the first minute that cannot be known, bars, trades from the last minute on."""
    plan = planned(at("2026-11-18 14:00:59"), at("2026-11-18 15:00:42"))
    assert plan.bars_from_ns == at("2026-11-18 14:02:00")
    assert plan.bars_to_ns == at("2026-11-18 15:00:00")
    short = planned(at("2026-11-18 14:51:00"), at("2026-11-18 15:00:42"))
    assert (short.bars_from_ns, short.quality) == (short.bars_to_ns, Quality.TICKS)


def test_trades_that_are_slow_to_come_are_asked_for_again(universe: Universe) -> None:
    """History asked for too fast while trades take the place of bars: it rests, and goes on, after a lost link too; and
    another feed goes on from what it is told."""

    async def work(play: Play) -> None:
        since = at("2026-11-18 14:00:00")
        trades = walk(since, NOW + 10 * MINUTE, 2)
        play.peer.tape(ES, tape_of(*trades))
        play.peer.hurried = (since + MINUTE, NOW - 2 * MINUTE)
        feed = play.feed()
        reader = play.open(feed, ES, since)
        await play.until(lambda: reader.caught, "caught up")
        await play.peer.drop()
        await play.until(lambda: reader.problem, "lost")
        assert not reader.of(Replaced)
        (bars,) = reader.of(Bars)
        barred = tuple(bars.rows["ts_event"].tolist())
        play.peer.hurried = (0, 0)
        for other, told_of in ((feed, ()), (play.feed(client_id="42"), barred)):
            again = play.open(other, ES, NOW - 2 * SECOND, told_of)
            await play.until(lambda again=again: _replaced(again) == len(barred), "trades for all bars")

    run(universe, work)


def _replaced(reader: Reader) -> int:
    """Minutes of bars that trades have taken the place of."""
    return sum((piece.to_ns - piece.from_ns) // MINUTE for piece in reader.of(Replaced))


# -- refused


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (354, "not_entitled"), (10090, "not_entitled"), (10168, "not_entitled"), (10186, "not_entitled"),
        (10189, "not_entitled"), (10197, "too_many_sessions"), (200, "unknown_contract"),
    ],
)  # fmt: skip
def test_a_contract_that_is_refused_ends_no_other(universe: Universe, code: int, kind: str) -> None:
    async def work(play: Play) -> None:
        for contract in (ES, NQ):
            play.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        play.peer.refused["NQ"] = code
        feed = play.feed()
        readers = [play.open(feed, contract, NOW - MINUTE) for contract in (ES, NQ)]
        await play.until(lambda: readers[0].caught and readers[1].problem, "one caught up, one refused")
        assert isinstance(readers[1].problem, FeedRefused)
        assert readers[1].problem.code == kind
        assert not readers[1].events
        assert readers[0].problem is None
        assert play.peer.logins == 1

    run(universe, work)


def test_what_interactive_brokers_does_not_have(universe: Universe) -> None:
    async def work(play: Play) -> None:
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.problem, "refused")
        assert isinstance(reader.problem, FeedRefused)
        assert reader.problem.code == "unknown_contract"

    run(universe, work)


def test_more_contracts_than_lines(universe: Universe) -> None:
    """The one too many says so, and is live as soon as another is let go."""

    async def work(play: Play) -> None:
        for contract in (ES, NQ):
            play.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        play.peer.lines = 1
        feed = play.feed()
        first = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: first.caught, "caught up")
        second = play.open(feed, NQ, NOW - MINUTE)
        await play.until(lambda: second.events, "an event")
        assert isinstance(second.events[0], Status)
        assert (second.events[0].subscribed, second.events[0].code) == (False, "not_entitled")
        await play.leave(first)
        await play.until(lambda: second.caught, "caught up")
        assert second.of(Status)[-1].subscribed

    run(universe, work)


def test_a_client_id_that_is_in_use(universe: Universe) -> None:
    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW, 5)))
        first = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: first.caught, "caught up")
        second = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: second.problem, "refused")
        assert isinstance(second.problem, FeedRefused)
        assert second.problem.code == "wrong_entry"
        third = play.open(play.feed(client_id="42"), ES, NOW - MINUTE)
        await play.until(lambda: third.caught, "caught up")

    run(universe, work)


def test_a_tws_that_hangs_up_is_asked_twice(universe: Universe) -> None:
    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of())
        await play.peer.expire(on=True)
        feed = play.feed()
        for kind in (FeedLost, LoginRefused, LoginRefused):
            reader = play.open(feed, ES, NOW - MINUTE)
            await play.until(lambda reader=reader: reader.problem, "refused")
            assert type(reader.problem) is kind
            assert reader.problem.code == "login_refused"
        assert play.peer.logins == play.peer.refusals == 2

    run(universe, work)


def test_a_tws_that_is_not_there(universe: Universe) -> None:
    async def work(play: Play) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        reader = play.open(play.feed(port=str(port)), ES, NOW - MINUTE)
        await play.until(lambda: reader.problem, "lost")
        assert isinstance(reader.problem, FeedLost)
        assert (reader.problem.code, reader.problem.retry) == ("unreachable", True)

    run(universe, work)


# -- while it runs


def test_tws_without_its_own_connection(universe: Universe) -> None:
    """It is said at once and nothing beats; when it stands again the stream is opened anew, for what was missed."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        await play.peer.note(2103, "Market data farm connection is broken:usopt")
        await play.peer.note(2105, "HMDS data farm connection is broken:ushmds")
        await play.peer.note(1100, "Connectivity between IB and Trader Workstation has been lost.")
        await play.until(lambda: len(reader.of(Status)) == 2, "said")
        status = reader.of(Status)[1]
        assert isinstance(status, Status)
        assert (status.subscribed, status.code) == (False, "unsubscribed")
        beats = len(reader.of(Heartbeat))
        asked = play.peer.now_ns + 30 * SECOND
        await play.until(lambda: play.peer.now_ns > asked, "a while")
        assert len(reader.of(Heartbeat)) == beats
        assert reader.problem is None
        await play.peer.note(1102, "Connectivity has been restored - data maintained.")
        await play.until(lambda: reader.problem, "opened anew")
        assert reader.problem.code == "disconnected"

    run(universe, work)


@pytest.mark.parametrize(
    "raw",
    [
        frames.frame(99, 9, 2, "soon", "1", "1", 0, "CME", ""),
        frames.frame(98, 9, 1, 1_763_478_000, 0, "a price", "1", "CME", "", 1),
        frames.frame(4, 2, "x"),
        frames.frame("what"),
    ],
    ids=["trade", "page", "note", "number"],
)
def test_what_cannot_be_read_ends_the_connection(universe: Universe, raw: bytes) -> None:
    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        await play.peer.say(raw)
        await play.until(lambda: reader.problem, "lost")
        assert reader.problem.code == "protocol"

    run(universe, work)


def test_a_link_that_is_silent(universe: Universe) -> None:
    """No beat while nothing is heard, and then it is given up."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        play.peer.freeze(on=True)
        await asyncio.sleep(0.05)
        beats = len(reader.of(Heartbeat))
        await play.until(lambda: reader.problem, "given up")
        assert reader.problem.code == "link_silent"
        assert len(reader.of(Heartbeat)) == beats
        play.peer.freeze(on=False)

    run(universe, work)


def test_a_slow_reader_holds_up_no_other(universe: Universe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "MOST_ROWS", 200)

    async def work(play: Play) -> None:
        for contract in (ES, NQ):
            play.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + 30 * MINUTE, 1)))
        feed = play.feed()
        slow = feed.open(ES, Cursor(NOW - MINUTE))
        other = play.open(feed, NQ, NOW - MINUTE)
        first = asyncio.ensure_future(_caught(slow))
        await play.until(lambda: first.done() and other.caught, "both caught up")
        until = play.peer.now_ns + 5 * MINUTE
        await play.until(lambda: play.peer.now_ns > until, "much traded")
        with pytest.raises(FeedLost) as lost:
            async for _ in slow:
                pass
        assert lost.value.code == "seam_overflow"
        assert other.problem is None
        assert other.rows()[-1][0] > until - MINUTE

    run(universe, work)


async def _caught(stream: AsyncIterator[Event]) -> None:
    """Read until live events come; what the seam holds back is out of the way then."""
    async for event in stream:
        if isinstance(event, Heartbeat):
            return


def test_closing_ends_streams_and_nothing_of_the_account_is_told(
    universe: Universe, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        feed = play.feed()
        reader = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        await feed.close()
        await play.until(lambda: reader.problem, "ended")
        assert reader.problem.code == "closed"
        await feed.close()
        assert {kind for kind, _ in play.peer.asked} == {9, 96, 97}  # no position, no order, no account

    run(universe, work)
    assert "DU1234567" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("ib_async", "eventkit"))]
    assert not hasattr(asyncio, "_nest_patched")


def test_history_is_asked_for_sixty_times_in_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a hundredth of the time: the first sixty at once, but for what lies between two; what is not urgent leaves
    room."""
    monkeypatch.setattr(pace, "APART_S", 0.0)

    async def work() -> None:
        loop, paced = asyncio.get_running_loop(), pace.Pace(rush=1000.0)
        began_s = loop.time()
        for _ in range(pace.MOST_UNHURRIED):
            await paced.turn(urgent=False)
        for _ in range(pace.MOST - pace.MOST_UNHURRIED):
            await paced.turn(urgent=True)
        at_once_s = loop.time() - began_s
        await paced.turn(urgent=False)
        assert at_once_s < 0.5
        assert loop.time() - began_s >= 0.6

    asyncio.run(work())


def test_messages_are_errors_a_person_can_act_on() -> None:
    """The one number for all of history's faults is told apart by its text."""
    said = faults.read_fault(162, "HMDS query returned no data: ESZ6@CME Trades")
    assert said is faults.Reply.NOTHING_THERE
    for code, text, kind in (
        (162, "API historical data query pacing violation", "rate_limited"),
        (162, "Trading TWS session is connected from a different IP address", "too_many_sessions"),
        (162, "No market data permissions for CME FUT", "not_entitled"),
        (162, "something else", "vendor_error"),
        (420, "", "rate_limited"),
        (504, "", "disconnected"),
        (9999, "", "vendor_error"),
    ):
        fault = faults.read_fault(code, text)
        assert isinstance(fault, FeedLost)
        assert fault.code == kind

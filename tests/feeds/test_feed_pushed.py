"""Pushed feed between a pusher and a reader: order, acknowledgement, backpressure, repeats, idle times, other runs.

Trades are distinguished by their price: the `n`-th has price `n` and happens `n` seconds after the start.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.timeouts import within
from tests.virtual_time import run_in_virtual_time

from outcry.base.errors import InvalidRequest, Occupied, StoreUnavailable
from outcry.feeds import push_queue, pushed
from outcry.feeds.pushed import PushedFeed, PushedFeeds
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    FeedCaps,
    FeedLost,
    FeedRefused,
    Heartbeat,
    Resume,
    Trades,
)
from outcry.trades.push_format import Again, Push
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

UNIVERSE = load_reference().universe
ES, NQ = Contract("ES", 2013, 12), Contract("NQ", 2013, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)
START_NS = 1_381_239_000_000_000_000
SECOND = 1_000_000_000
RUN, OTHER = "a" * 20, "b" * 20


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of seconds are tenths of them, by the clock of the loop."""
    for module in (pushed, push_queue):
        monkeypatch.setattr(module, "monotonic", lambda: asyncio.get_running_loop().time())
    monkeypatch.setattr(pushed, "WAIT_S", 0.3)
    monkeypatch.setattr(push_queue, "SILENCE_S", 0.4)
    monkeypatch.setattr(push_queue, "EXPIRY_S", 2.0)


def trades(*numbers: int) -> Trades:
    rows = np.zeros(len(numbers), LIVE_TRADE)
    rows["price"], rows["size"], rows["side"] = numbers, 1, b"N"
    rows["ts_event"] = rows["ts_recv"] = START_NS + np.array(numbers) * SECOND
    return Trades(rows)


def numbers(events: list[Event]) -> list[int]:
    return [n for event in events if isinstance(event, Trades) for n in event.rows["price"].tolist()]


def push(first: int, *events: Event, session: str = RUN, contract: Contract = ES, **more: Any) -> Push:
    return Push(session, contract, more.pop("caps", CAPS), first, events, **more)


def feeds() -> tuple[PushedFeeds, list[tuple[int, PushedFeed, Contract]]]:
    made = PushedFeeds(UNIVERSE)
    seen: list[tuple[int, PushedFeed, Contract]] = []
    made.subscribe(lambda *found: seen.append(found))
    return made, seen


async def read(stream: AsyncIterator[Event], until: int, into: list[Event]) -> None:
    """Read until that many events have arrived, and request the next, as a service that has processed them does."""
    async for event in stream:
        into.append(event)
        if len(into) == until + 1:
            return


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(within(test(), 60))


async def refusal(pushing: Awaitable[int]) -> str:
    with pytest.raises(InvalidRequest) as caught:
        await pushing
    return str(caught.value.details["reason"])


def test_events_are_ordered_and_acknowledged_after_the_reader_processed_them() -> None:
    async def test() -> None:
        service, seen = feeds()
        one = asyncio.create_task(
            service.take(7, "replay", push(0, CaughtUp(START_NS, Quality.TICKS), trades(1, 2)))
        )
        await asyncio.sleep(0.01)
        ((owner, feed, contract),) = seen
        assert (owner, feed.name, feed.run, contract) == (7, "replay", RUN, ES)
        assert feed.caps == replace(CAPS, from_cursor=False)  # a pusher never sees the cursor
        assert await feed.contracts() == [ES]
        stream = feed.open(ES, Cursor(0))
        assert await anext(stream) == CaughtUp(START_NS, Quality.TICKS)
        assert numbers([await anext(stream)]) == [1, 2]
        await asyncio.sleep(0.01)
        assert not one.done()  # delivered does not mean processed
        following = asyncio.ensure_future(anext(stream))
        assert await one == 2
        assert await service.take(7, "replay", push(2)) == 2  # nothing to say is fine
        two = asyncio.create_task(service.take(7, "replay", push(2, Heartbeat(START_NS), Ended(START_NS))))
        assert await following == Heartbeat(START_NS)
        assert await anext(stream) == Ended(START_NS)
        assert await two == 4
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        # the answer to the last push was lost: it comes again, and is told the same
        assert await service.take(7, "replay", push(2, Heartbeat(START_NS), Ended(START_NS))) == 4
        assert await refusal(service.take(7, "replay", push(4, trades(9)))) == "after_the_end"

    run(test)


def test_a_push_waits_for_its_reader_and_returns_its_position() -> None:
    """Without a reader, a push times out unaccepted, and the queue never exceeds one push."""

    async def test() -> None:
        service, seen = feeds()
        began = asyncio.get_running_loop().time()
        assert await service.take(0, "replay", push(0, trades(1), trades(2))) == 0
        assert asyncio.get_running_loop().time() - began >= 0.3
        for _ in range(3):  # the second push finds the first one still there: it is not added
            assert await service.take(0, "replay", push(2, trades(3))) == 0
        assert len(seen[0][1].inlets[ES].pending) == 2
        got: list[Event] = []
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(0)), 3, got))
        assert await service.take(0, "replay", push(1, trades(2), trades(3))) == 3
        assert numbers(got) == [1, 2, 3]
        reading.cancel()

    run(test)


def test_repeats_of_any_length_are_recognised_and_gaps_refused() -> None:
    async def test() -> None:
        service, seen = feeds()
        got: list[Event] = []
        pending = asyncio.create_task(service.take(1, "replay", push(0, trades(1), trades(2))))
        await asyncio.sleep(0)
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(0)), 9, got))
        assert await pending == 2
        for repeat in (push(0, trades(1)), push(1, trades(2)), push(0, trades(1), trades(2))):
            assert await service.take(1, "replay", repeat) == 2
        assert await service.take(1, "replay", push(1, trades(2), trades(3))) == 3
        with pytest.raises(InvalidRequest) as caught:
            await service.take(1, "replay", push(4, trades(5)))
        assert caught.value.details == {"reason": "hole", "next": 3}
        assert await refusal(service.take(1, "replay", push(5, trades(6), contract=NQ))) == "hole"
        assert numbers(got) == [1, 2, 3]
        assert len(seen) == 1
        reading.cancel()

    run(test)


def test_one_push_per_contract_at_a_time_and_contracts_concurrently() -> None:
    async def test() -> None:
        service, seen = feeds()
        first = asyncio.create_task(service.take(1, "replay", push(0, trades(1))))
        await asyncio.sleep(0)
        with pytest.raises(Occupied):
            await service.take(1, "replay", push(0, trades(1)))
        for owner, name, contract in ((2, "replay", ES), (1, "other", ES), (1, "replay", NQ)):
            assert await service.take(owner, name, push(0, contract=contract)) == 0
        assert await first == 0
        assert len(seen) == 4
        assert len({id(feed) for _, feed, _ in seen}) == 3  # contracts of one run are one feed

    run(test)


def test_an_idle_link_is_lost_and_resumes_at_its_position() -> None:
    """The reader comes back with a cursor while the link is silent: it is told nothing, not even that history is
    complete, until there is a push. Then it is told the last seconds again, for it knows rows that are alike by their
    count, and that history is complete up to where it was: another run may have brought more."""

    async def test() -> None:
        service, seen = feeds()
        got: list[Event] = []
        first = asyncio.create_task(
            service.take(1, "replay", push(0, CaughtUp(START_NS, Quality.TICKS), trades(1)))
        )
        await asyncio.sleep(0)
        feed = seen[0][1]
        with pytest.raises(FeedLost) as lost:
            await read(feed.open(ES, Cursor(0)), 9, got)
        assert (lost.value.code, lost.value.retry, await first) == ("stale_link", True, 2)
        again: list[Event] = []
        since = START_NS + SECOND
        reading = asyncio.create_task(read(feed.open(ES, Cursor(since)), 3, again))
        await asyncio.sleep(0.2)
        assert (again, reading.done()) == ([], False)
        assert await service.take(1, "replay", push(2, trades(2))) == 3
        assert again[1] == CaughtUp(START_NS, Quality.TICKS)
        assert numbers(again) == [1, 2]
        reading.cancel()

    run(test)


def test_idle_time_counts_from_the_last_push_not_from_the_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader comes 1.5 s after the last word, of 2 s that a link may be silent: it is lost 0.5 s later."""
    monkeypatch.setattr(push_queue, "SILENCE_S", 2.0)
    monkeypatch.setattr(push_queue, "EXPIRY_S", 20.0)

    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0))
        await asyncio.sleep(1.5)
        loop = asyncio.get_running_loop()
        came_s = loop.time()
        with pytest.raises(FeedLost, match="stale_link"):
            await anext(seen[0][1].open(ES, Cursor(0)))
        assert loop.time() - came_s == pytest.approx(0.5)

    run(test)


def test_an_idle_link_yields_nothing_until_an_empty_push() -> None:
    """Nobody read when trade 1 was pushed. A reader that comes after the silence gets it with the next word."""

    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0, trades(1)))  # waits 0.3 s
        await asyncio.sleep(0.15)
        got: list[Event] = []
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(0)), 2, got))
        await asyncio.sleep(0.1)
        assert not got
        assert await service.take(1, "replay", push(1)) == 1
        assert numbers(got) == [1]
        reading.cancel()

    run(test)


def test_an_ended_run_is_read_to_its_end_after_any_time() -> None:
    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0, trades(1), Ended(START_NS + SECOND)))  # waits 0.3 s
        await asyncio.sleep(0.15)
        got = [event async for event in seen[0][1].open(ES, Cursor(0))]
        assert (numbers(got), got[-1]) == ([1], Ended(START_NS + SECOND))

    run(test)


def test_a_reader_of_an_idle_link_ends_when_the_run_is_dropped_or_closed() -> None:
    """Given up 1 s after the last word."""

    async def test() -> None:
        service, seen = feeds()
        for owner in (1, 2):
            await service.take(owner, "replay", push(0))
        await asyncio.sleep(0.45)
        given_up, closed = (
            asyncio.ensure_future(anext(feed.open(ES, Cursor(0)), None)) for _, feed, _ in seen
        )
        await asyncio.sleep(0.05)
        await seen[1][1].close()
        assert await closed is None
        with pytest.raises(FeedRefused, match="disconnected"):
            await given_up

    run(test)


def test_an_event_lost_by_its_reader_is_repeated_with_the_seconds_before_it() -> None:
    """The reader broke while it had the second event: it is given again, after the trades of the last five seconds
    from its cursor on, and only then is history said to be complete. Trades 1 to 9; the cursor is at 7."""

    async def test() -> None:
        service, seen = feeds()
        early = tuple(trades(n) for n in range(1, 9))
        first = asyncio.create_task(
            service.take(
                1, "replay", push(0, CaughtUp(START_NS, Quality.TICKS), *early, trades(9), trades(10))
            )
        )
        await asyncio.sleep(0)
        feed = seen[0][1]
        async with aclosing(feed.open(ES, Cursor(0))) as stream:  # type: ignore[type-var]
            async for event in stream:
                if numbers([event]) == [9]:
                    break
        again: list[Event] = []
        reading = asyncio.create_task(read(feed.open(ES, Cursor(START_NS + 7 * SECOND)), 5, again))
        assert await first == 11
        assert numbers(again) == [7, 8, 9, 10]
        assert [type(event).__name__ for event in again] == ["Trades"] * 3 + ["CaughtUp", "Trades"]
        reading.cancel()

    run(test)


def test_a_restarted_service_accepts_the_run_at_the_pushers_position() -> None:
    """Events 5 and 6 are sent again, 7 is new: history is complete before 7."""

    async def test() -> None:
        service, seen = feeds()
        again = Again(7, CaughtUp(START_NS, Quality.TICKS))
        pending = asyncio.create_task(
            service.take(1, "replay", push(5, trades(5), trades(6), trades(7), again=again))
        )
        await asyncio.sleep(0)
        got: list[Event] = []
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(0)), 4, got))
        assert await pending == 8
        assert numbers(got) == [5, 6, 7]
        assert [type(event).__name__ for event in got] == ["Trades", "Trades", "CaughtUp", "Trades"]
        reading.cancel()

    run(test)


def test_a_run_with_nothing_to_repeat_is_caught_up_at_its_position() -> None:
    """A pusher all of whose events were taken, and none is recent (bars, a quiet market), begins where it left off with
    a service that forgot it: nothing may be known already, and it is as caught up as it was."""

    async def test() -> None:
        service, seen = feeds()
        again = Again(7, CaughtUp(START_NS, Quality.TICKS))
        pending = asyncio.create_task(service.take(1, "replay", push(7, trades(7), again=again)))
        await asyncio.sleep(0)
        got: list[Event] = []
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(0)), 2, got))
        assert await pending == 8
        assert [type(event).__name__ for event in got] == ["CaughtUp", "Trades"]
        reading.cancel()

    run(test)


def test_rows_before_the_cursor_are_omitted() -> None:
    async def test() -> None:
        service, seen = feeds()
        pending = asyncio.create_task(service.take(1, "replay", push(0, trades(1, 2), trades(3, 4, 5))))
        await asyncio.sleep(0)
        got: list[Event] = []
        reading = asyncio.create_task(read(seen[0][1].open(ES, Cursor(START_NS + 4 * SECOND)), 1, got))
        assert await pending == 2
        assert numbers(got) == [4, 5]
        reading.cancel()

    run(test)


def test_another_run_waits_until_the_first_is_finished_or_idle() -> None:
    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0))
        assert await refusal(service.take(1, "replay", push(0, session=OTHER))) == "occupied"
        await asyncio.sleep(0.45)
        assert await service.take(1, "replay", push(0, session=OTHER)) == 0
        assert [feed.run for _, feed, _ in seen] == [RUN, OTHER]
        with pytest.raises(FeedRefused) as refused:
            await anext(seen[0][1].open(ES, Cursor(0)))
        assert refused.value.code == "replaced"
        # The first run comes back too late.
        assert await refusal(service.take(1, "replay", push(0))) == "occupied"
        # one that has ended makes room at once
        ended = asyncio.create_task(service.take(1, "replay", push(0, Ended(START_NS), session=OTHER)))
        assert await anext(seen[1][1].open(ES, Cursor(0))) == Ended(START_NS)
        assert await ended == 1
        assert await service.take(1, "replay", push(0)) == 0

    run(test)


def test_an_idle_run_is_dropped_and_may_begin_again() -> None:
    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0))
        await asyncio.sleep(2.05)
        with pytest.raises(FeedRefused) as refused:
            await anext(seen[0][1].open(ES, Cursor(0)))
        assert refused.value.code == "disconnected"
        assert await service.take(1, "replay", push(0)) == 0
        assert len(seen) == 2

    run(test)


def test_closing_ends_streams_and_pushes() -> None:
    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0))
        reading = asyncio.ensure_future(anext(seen[0][1].open(ES, Cursor(0)), None))
        await asyncio.sleep(0)
        await seen[0][1].close()
        assert await reading is None
        assert await refusal(service.take(1, "replay", push(0))) == "closed"
        pending = asyncio.create_task(service.take(2, "replay", push(0, trades(1))))
        await asyncio.sleep(0.01)
        service.close()
        with pytest.raises(StoreUnavailable):  # worth trying again: somebody comes after us
            await pending
        with pytest.raises(StoreUnavailable):
            await service.take(2, "replay", push(0))

    run(test)


def test_the_newest_reader_replaces_others() -> None:
    async def test() -> None:
        service, seen = feeds()
        await service.take(1, "replay", push(0))
        older = asyncio.ensure_future(anext(seen[0][1].open(ES, Cursor(0))))
        await asyncio.sleep(0.01)
        newer = asyncio.ensure_future(anext(seen[0][1].open(ES, Cursor(0))))
        with pytest.raises(FeedLost, match="superseded"):
            await older
        newer.cancel()
        with pytest.raises(FeedRefused):
            await anext(seen[0][1].open(NQ, Cursor(0)))

    run(test)


@pytest.mark.parametrize("name", ["", "simulator", "Replay", "../x", "a b", "x" * 25, "ünï", "a\n"])
def test_a_feed_has_a_plain_name_that_is_not_the_services_own(name: str) -> None:
    async def test() -> None:
        service, seen = feeds()
        assert await refusal(service.take(1, name, push(0))) == "feed"
        assert not seen

    run(test)


def test_a_run_keeps_its_capabilities_and_runs_per_owner_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed, "MAX_PUSH_QUEUES", 3)

    async def test() -> None:
        service, _ = feeds()
        await service.take(1, "replay", push(0))
        invented = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, invented=True)
        assert await refusal(service.take(1, "replay", push(0, contract=NQ, caps=invented))) == "caps"
        for name in ("b", "c"):
            await service.take(1, name, push(0))
        assert await refusal(service.take(1, "d", push(0))) == "too_many"
        assert await service.take(2, "d", push(0)) == 0

    run(test)


def test_names_of_the_services_own_feeds_are_refused() -> None:
    async def test() -> None:
        service = PushedFeeds(UNIVERSE, reserved=["sierra"])
        for owner in (0, 1):
            for name in ("sierra", "simulator"):
                assert await refusal(service.take(owner, name, push(0))) == "feed"
        assert await service.take(0, "mine", push(0)) == 0

    run(test)


def test_a_user_cannot_push_a_feed_that_the_service_runs_for_them() -> None:
    """For as long as it does, and by nobody else's account."""
    connected = {"ibkr"}

    async def test() -> None:
        service = PushedFeeds(UNIVERSE, reserved_of=lambda owner: connected if owner == 1 else ())
        assert await refusal(service.take(1, "ibkr", push(0))) == "connected"
        assert await service.take(1, "mine", push(0)) == 0
        assert await service.take(2, "ibkr", push(0)) == 0
        connected.clear()
        assert await service.take(1, "ibkr", push(0)) == 0

    asyncio.run(within(test(), 60))  # threads do not follow virtual time


def test_a_run_that_continues_another_does_not_wait_for_it() -> None:
    """Its pusher was killed a moment ago. One that does not say whose run it goes on from waits for the silence."""

    async def test() -> None:
        service, _ = feeds()
        assert await service.take(7, "replay", push(0)) == 0
        assert await refusal(service.take(7, "replay", push(3, session=OTHER, again=Again(3)))) == "occupied"
        strange = Again(3, after="c" * 20)
        assert await refusal(service.take(7, "replay", push(3, session=OTHER, again=strange))) == "occupied"
        assert await service.take(7, "replay", push(3, session=OTHER, again=Again(3, after=RUN))) == 3
        assert await refusal(service.take(7, "replay", push(0))) == "occupied"

    run(test)


def test_streams_per_user_are_limited_whether_active_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four, two were there; one of them is pushed again, and two new ones: then there is room for none that is new.
    The operator may have any number."""
    monkeypatch.setattr(pushed, "MAX_STREAMS", 4)
    before = {("old", ES), ("old", NQ)}

    async def test() -> None:
        service = PushedFeeds(UNIVERSE, streams_of=lambda _owner: before)
        for name in ("old", "new", "newer"):
            assert await service.take(1, name, push(0)) == 0
        assert await refusal(service.take(1, "newest", push(0))) == "streams"
        assert await refusal(service.take(1, "new", push(0, contract=NQ))) == "streams"
        assert await service.take(1, "old", push(0, contract=NQ)) == 0
        assert await service.take(2, "newest", push(0)) == 0
        for number in range(5):
            assert await service.take(0, f"feed{number}", push(0)) == 0

    run(test)


def test_reader_and_pusher_may_be_on_different_threads() -> None:
    """The pusher's loop runs here, the reader's in a thread of its own; 500 pushes arrive whole and in order."""
    service = PushedFeeds(UNIVERSE)
    got: list[Event] = []
    readers: list[threading.Thread] = []

    def start(_owner: int, feed: PushedFeed, contract: Contract) -> None:
        async def all_of_it() -> None:
            got.extend([event async for event in feed.open(contract, Cursor(0))])

        readers.append(threading.Thread(target=lambda: asyncio.run(all_of_it())))
        readers[-1].start()

    service.subscribe(start)

    async def test() -> None:
        for first in range(0, 1000, 2):
            assert await service.take(0, "replay", push(first, trades(first), trades(first + 1))) == first + 2
        assert await service.take(0, "replay", push(1000, Ended(START_NS))) == 1001

    asyncio.run(within(test(), 60))  # threads do not follow virtual time
    readers[0].join(10)
    assert numbers(got) == list(range(1000))

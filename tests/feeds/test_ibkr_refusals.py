"""Interactive Brokers: refusals and faults during operation, through the real library."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from support.vendors import ibkr_frames as frames
from tests.feeds.ibkr_harness import ES, MINUTE, NOW, NQ, SECOND, IbkrHarness, run, tape_of, walk

from outcry.feeds.ibkr import tick_subscription
from outcry.trades.feed import Cursor, Event, FeedLost, FeedRefused, Heartbeat, Status


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (354, "not_entitled"), (10090, "not_entitled"), (10168, "not_entitled"), (10186, "not_entitled"),
        (10189, "not_entitled"), (10197, "too_many_sessions"), (200, "unknown_contract"),
    ],
)  # fmt: skip
def test_a_contract_that_is_refused_ends_no_other(code: int, kind: str) -> None:
    async def work(harness: IbkrHarness) -> None:
        for contract in (ES, NQ):
            harness.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        harness.peer.refused["NQ"] = code
        feed = harness.feed()
        readers = [harness.open(feed, contract, NOW - MINUTE) for contract in (ES, NQ)]
        await harness.until(lambda: readers[0].caught and readers[1].problem, "one caught up, one refused")
        assert isinstance(readers[1].problem, FeedRefused)
        assert readers[1].problem.code == kind
        assert not readers[1].events
        assert readers[0].problem is None
        assert harness.peer.logins == 1

    run(work)


def test_contracts_without_data_at_interactive_brokers() -> None:
    async def work(harness: IbkrHarness) -> None:
        reader = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: reader.problem, "refused")
        assert isinstance(reader.problem, FeedRefused)
        assert reader.problem.code == "unknown_contract"

    run(work)


def test_more_contracts_than_lines() -> None:
    """The one too many says so, and is live as soon as another is let go."""

    async def work(harness: IbkrHarness) -> None:
        for contract in (ES, NQ):
            harness.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        harness.peer.lines = 1
        feed = harness.feed()
        first = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: first.caught, "caught up")
        second = harness.open(feed, NQ, NOW - MINUTE)
        await harness.until(lambda: second.events, "an event")
        assert isinstance(second.events[0], Status)
        assert (second.events[0].subscribed, second.events[0].code) == (False, "not_entitled")
        await harness.leave(first)
        await harness.until(lambda: second.caught, "caught up")
        assert second.of(Status)[-1].subscribed

    run(work)


def test_a_client_id_that_is_in_use() -> None:
    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW, 5)))
        first = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: first.caught, "caught up")
        second = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: second.problem, "refused")
        assert isinstance(second.problem, FeedRefused)
        assert second.problem.code == "wrong_entry"
        third = harness.open(harness.feed(client_id="42"), ES, NOW - MINUTE)
        await harness.until(lambda: third.caught, "caught up")

    run(work)


def test_a_client_id_that_tws_still_considers_in_use() -> None:
    """By a connection of ours that is gone: tried again, as it comes free by itself."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 5 * MINUTE, 5)))
        feed = harness.feed()
        first = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: first.caught, "caught up")
        harness.peer.undetected_closed = {41}
        await harness.peer.drop()
        await harness.until(lambda: first.problem, "lost")
        second = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: second.problem, "not let in")
        assert type(second.problem) is FeedLost
        harness.peer.undetected_closed = set()
        third = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: third.caught, "caught up")

    run(work)


def test_a_tws_that_closes_connections_is_retried() -> None:
    """As it does while it restarts: nobody is locked out by asking."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of())
        await harness.peer.expire(on=True)
        feed = harness.feed()
        for _ in range(3):
            reader = harness.open(feed, ES, NOW - MINUTE)
            await harness.until(lambda reader=reader: reader.problem, "lost")
            assert type(reader.problem) is FeedLost
            assert reader.problem.code == "disconnected"
        assert harness.peer.refusals == 3
        await harness.peer.expire(on=False)
        reader = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: reader.caught, "caught up")

    run(work)


def test_an_unavailable_tws() -> None:
    async def work(harness: IbkrHarness) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        reader = harness.open(harness.feed(port=str(port)), ES, NOW - MINUTE)
        await harness.until(lambda: reader.problem, "lost")
        assert isinstance(reader.problem, FeedLost)
        assert (reader.problem.code, reader.problem.retry) == ("unreachable", True)

    run(work)


def test_tws_without_its_own_connection() -> None:
    """It is said at once and nothing beats; when it stands again the stream is opened anew, for what was missed."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        reader = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        await harness.peer.note(2103, "Market data farm connection is broken:usopt")
        await harness.peer.note(2105, "HMDS data farm connection is broken:ushmds")
        await harness.peer.note(1100, "Connectivity between IB and Trader Workstation has been lost.")
        await harness.until(lambda: len(reader.of(Status)) == 2, "said")
        status = reader.of(Status)[1]
        assert isinstance(status, Status)
        assert (status.subscribed, status.code) == (False, "unsubscribed")
        beats = len(reader.of(Heartbeat))
        asked = harness.peer.now_ns + 30 * SECOND
        await harness.until(lambda: harness.peer.now_ns > asked, "a while")
        assert len(reader.of(Heartbeat)) == beats
        assert reader.problem is None
        await harness.peer.note(1102, "Connectivity has been restored - data maintained.")
        await harness.until(lambda: reader.problem, "opened anew")
        assert reader.problem.code == "disconnected"

    run(work)


def test_an_unavailable_server_of_futures() -> None:
    """Said until it is reached again, whatever is said of others; or until trades come from another one."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        harness.peer.tape(NQ, tape_of(*walk(NOW - MINUTE, NOW - SECOND, 5)))
        feed = harness.feed()
        readers = [harness.open(feed, contract, NOW - MINUTE) for contract in (ES, NQ)]
        await harness.until(lambda: all(reader.caught for reader in readers), "caught up")
        await harness.peer.note(2103, "Market data farm connection is broken:usfuture")
        await harness.peer.note(2104, "Market data farm connection is OK:usfarm")
        await harness.until(lambda: readers[0].problem, "a trade came all the same")
        quiet = readers[1]
        assert quiet.problem is None
        assert not quiet.of(Status)[-1].subscribed
        await harness.peer.note(2104, "Market data farm connection is OK:usfuture")
        await harness.until(lambda: quiet.problem, "opened anew")
        assert quiet.problem.code == "disconnected"

    run(work)


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
def test_unreadable_data_ends_the_connection(raw: bytes) -> None:
    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        reader = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        await harness.peer.say(raw)
        await harness.until(lambda: reader.problem, "lost")
        assert reader.problem.code == "protocol"

    run(work)


def test_an_idle_link() -> None:
    """No beat while nothing is heard, and then it is given up."""

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        reader = harness.open(harness.feed(), ES, NOW - MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        harness.peer.freeze(on=True)
        await asyncio.sleep(0.05)
        beats = len(reader.of(Heartbeat))
        await harness.until(lambda: reader.problem, "given up")
        assert reader.problem.code == "link_silent"
        assert len(reader.of(Heartbeat)) == beats
        harness.peer.freeze(on=False)

    run(work)


def test_a_slow_reader_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_subscription, "MAX_ROWS", 200)

    async def work(harness: IbkrHarness) -> None:
        for contract in (ES, NQ):
            harness.peer.tape(contract, tape_of(*walk(NOW - MINUTE, NOW + 30 * MINUTE, 1)))
        feed = harness.feed()
        slow = feed.open(ES, Cursor(NOW - MINUTE))
        other = harness.open(feed, NQ, NOW - MINUTE)
        first = asyncio.ensure_future(_caught(slow))
        await harness.until(lambda: first.done() and other.caught, "both caught up")
        until = harness.peer.now_ns + 5 * MINUTE
        await harness.until(lambda: harness.peer.now_ns > until, "much traded")
        with pytest.raises(FeedLost) as lost:
            async for _ in slow:
                pass
        assert lost.value.code == "seam_overflow"
        assert other.problem is None
        assert other.rows()[-1][0] > until - MINUTE

    run(work)


async def _caught(stream: AsyncIterator[Event]) -> None:
    """Read until live events come; what the seam holds back is out of the way then."""
    async for event in stream:
        if isinstance(event, Heartbeat):
            return


def test_closing_ends_streams_and_nothing_of_the_account_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def work(harness: IbkrHarness) -> None:
        harness.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        feed = harness.feed()
        reader = harness.open(feed, ES, NOW - MINUTE)
        await harness.until(lambda: reader.caught, "caught up")
        await feed.close()
        await harness.until(lambda: reader.problem, "ended")
        assert reader.problem.code == "closed"
        await feed.close()
        assert {kind for kind, _ in harness.peer.asked} == {9, 96, 97}  # no position, no order, no account

    run(work)
    assert "DU1234567" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("ib_async", "eventkit"))]
    assert not hasattr(asyncio, "_nest_patched")

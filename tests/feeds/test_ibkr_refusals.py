"""Interactive Brokers: what is refused, and what goes wrong while it runs, by the real library."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
from support.vendors import ibkr_frames as frames
from tests.feeds.ibkr_harness import ES, MINUTE, NOW, NQ, SECOND, Play, run, tape_of, walk

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

    run(work)


def test_what_interactive_brokers_does_not_have() -> None:
    async def work(play: Play) -> None:
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.problem, "refused")
        assert isinstance(reader.problem, FeedRefused)
        assert reader.problem.code == "unknown_contract"

    run(work)


def test_more_contracts_than_lines() -> None:
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

    run(work)


def test_a_client_id_that_is_in_use() -> None:
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

    run(work)


def test_a_client_id_that_tws_still_takes_for_in_use() -> None:
    """By a connection of ours that is gone: tried again, as it comes free by itself."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 5 * MINUTE, 5)))
        feed = play.feed()
        first = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: first.caught, "caught up")
        play.peer.held = {41}
        await play.peer.drop()
        await play.until(lambda: first.problem, "lost")
        second = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: second.problem, "not let in")
        assert type(second.problem) is FeedLost
        play.peer.held = set()
        third = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: third.caught, "caught up")

    run(work)


def test_a_tws_that_hangs_up_is_asked_until_it_greets() -> None:
    """As it does while it restarts: nobody is locked out by asking."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of())
        await play.peer.expire(on=True)
        feed = play.feed()
        for _ in range(3):
            reader = play.open(feed, ES, NOW - MINUTE)
            await play.until(lambda reader=reader: reader.problem, "lost")
            assert type(reader.problem) is FeedLost
            assert reader.problem.code == "disconnected"
        assert play.peer.refusals == 3
        await play.peer.expire(on=False)
        reader = play.open(feed, ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")

    run(work)


def test_a_tws_that_is_not_there() -> None:
    async def work(play: Play) -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        reader = play.open(play.feed(port=str(port)), ES, NOW - MINUTE)
        await play.until(lambda: reader.problem, "lost")
        assert isinstance(reader.problem, FeedLost)
        assert (reader.problem.code, reader.problem.retry) == ("unreachable", True)

    run(work)


def test_tws_without_its_own_connection() -> None:
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

    run(work)


def test_a_server_of_futures_that_is_out_of_reach() -> None:
    """Said until it is reached again, whatever is said of others; or until trades come from another one."""

    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + 20 * MINUTE, 5)))
        play.peer.tape(NQ, tape_of(*walk(NOW - MINUTE, NOW - SECOND, 5)))
        feed = play.feed()
        readers = [play.open(feed, contract, NOW - MINUTE) for contract in (ES, NQ)]
        await play.until(lambda: all(reader.caught for reader in readers), "caught up")
        await play.peer.note(2103, "Market data farm connection is broken:usfuture")
        await play.peer.note(2104, "Market data farm connection is OK:usfarm")
        await play.until(lambda: readers[0].problem, "a trade came all the same")
        quiet = readers[1]
        assert quiet.problem is None
        assert not quiet.of(Status)[-1].subscribed
        await play.peer.note(2104, "Market data farm connection is OK:usfuture")
        await play.until(lambda: quiet.problem, "opened anew")
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
def test_what_cannot_be_read_ends_the_connection(raw: bytes) -> None:
    async def work(play: Play) -> None:
        play.peer.tape(ES, tape_of(*walk(NOW - MINUTE, NOW + MINUTE, 5)))
        reader = play.open(play.feed(), ES, NOW - MINUTE)
        await play.until(lambda: reader.caught, "caught up")
        await play.peer.say(raw)
        await play.until(lambda: reader.problem, "lost")
        assert reader.problem.code == "protocol"

    run(work)


def test_a_link_that_is_silent() -> None:
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

    run(work)


def test_a_slow_reader_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick_subscription, "MAX_ROWS", 200)

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

    run(work)


async def _caught(stream: AsyncIterator[Event]) -> None:
    """Read until live events come; what the seam holds back is out of the way then."""
    async for event in stream:
        if isinstance(event, Heartbeat):
            return


def test_closing_ends_streams_and_nothing_of_the_account_is_told(caplog: pytest.LogCaptureFixture) -> None:
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

    run(work)
    assert "DU1234567" not in caplog.text
    assert not [record for record in caplog.records if record.name.startswith(("ib_async", "eventkit"))]
    assert not hasattr(asyncio, "_nest_patched")

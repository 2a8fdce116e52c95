"""Queue of one stream's reader: its limit, its order, and how it reports losses."""

import asyncio

import numpy as np
import pytest

from outcry.feeds.inbox import Inbox
from outcry.trades.feed import (
    LIVE_TRADE,
    Event,
    FeedLost,
    FeedRefused,
    Heartbeat,
    LoginRefused,
    Trades,
)


def rows(count: int) -> Trades:
    return Trades(np.zeros(count, LIVE_TRADE))


def test_only_queued_events_count_for_the_limit() -> None:
    """Six rows at a time go through an inbox of ten for ever; of twelve nothing is kept."""

    async def work() -> None:
        inbox = Inbox[Event](10)
        for _ in range(5):
            inbox.put(rows(6))
            inbox.put(Heartbeat(1))
            inbox.put(Heartbeat(2))
            assert inbox.weight == 7
            assert isinstance(await inbox.take(), Trades)
            assert await inbox.take() == Heartbeat(2)
            assert inbox.weight == 0
        inbox.put(rows(6))
        inbox.put(rows(6))
        inbox.put(Heartbeat(3))
        with pytest.raises(FeedLost) as caught:
            await inbox.take()
        assert caught.value.code == "seam_overflow"

    asyncio.run(work())


def test_a_loss_is_raised_to_each_reader_after_the_queued_events() -> None:
    """As what it is, the first reason only, and to each as an exception of its own: tracebacks do not pile up."""
    problem = LoginRefused("login_expired", "sign in anew")

    async def work() -> None:
        problems: list[Exception] = []
        for inbox in (Inbox[Event](), Inbox[Event]()):
            inbox.put(Heartbeat(1))
            inbox.fail(problem)
            inbox.fail(FeedLost("closed"))
            inbox.put(Heartbeat(2))
            inbox.check()
            assert await inbox.take() == Heartbeat(1)
            with pytest.raises(FeedRefused) as caught:
                inbox.check()
            with pytest.raises(FeedRefused):
                await inbox.take()
            problems.append(caught.value)
        assert [(type(one), str(one)) for one in problems] == [(LoginRefused, "sign in anew")] * 2
        assert problems[0] is not problems[1] is not problem

    asyncio.run(work())


def test_a_reader_that_waits_is_woken_by_what_comes_and_by_the_loss() -> None:
    async def work() -> None:
        inbox = Inbox[Event]()
        reading = asyncio.ensure_future(inbox.take())
        await asyncio.sleep(0)
        inbox.put(Heartbeat(1))
        async with asyncio.timeout(60):
            assert await reading == Heartbeat(1)
        reading = asyncio.ensure_future(inbox.take())
        await asyncio.sleep(0)
        inbox.fail(FeedLost("disconnected"))
        with pytest.raises(FeedLost):
            async with asyncio.timeout(60):
                await reading

    asyncio.run(work())

"""Cancelled tasks end even if the code they run swallows the cancellation."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.live.engine_harness import ES, OWN_CLOCK, EngineHarness, run
from tests.timeouts import within

from outcry.app.installation import Installation
from outcry.live import feed_supervisor
from outcry.market.instruments import Contract
from outcry.trades.feed import Cursor, Event, Status


class Deaf:
    """A feed that ignores its first cancellation."""

    name, caps, run = "deaf", OWN_CLOCK, ""

    def __init__(self) -> None:
        self.reading, self.cancellations, self.closed = asyncio.Event(), 0, False

    async def contracts(self) -> list[Contract]:
        return [ES]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        yield Status(subscribed=True, code="subscribed")
        self.reading.set()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancellations += 1
                if self.cancellations > 1:
                    raise

    async def close(self) -> None:
        self.closed = True


def test_a_feed_that_swallows_its_cancellation_still_ends(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_supervisor, "CANCEL_AGAIN_S", 0.05)

    async def work(harness: EngineHarness) -> None:
        feed = Deaf()
        task = harness.engine.attach(0, feed)
        await feed.reading.wait()
        task.cancel()
        await within(asyncio.wait([task]), 60)
        assert (feed.cancellations, feed.closed) == (2, True)

    run(installation, work)

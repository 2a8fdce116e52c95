"""A pushed feed whose sender stops: the stream is not live until data arrives again."""

import asyncio

import pytest
from tests.live.engine_harness import ES, MINUTE, OWN_CLOCK, SECOND, EngineHarness, rows, run
from tests.live.test_engine import CAUGHT, CLOSE, OPEN, day

from outcry.app.installation import Installation
from outcry.feeds import push_queue
from outcry.feeds.pushed import PushedFeed, PushedFeeds
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.instruments import Contract
from outcry.trades.feed import Event, Heartbeat, Trades
from outcry.trades.push_format import Push

NEXT = OPEN + 24 * 60 * MINUTE
FEED = "pushed"


class Noting(Registry):
    """A registry that records each change of the availability's reason."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def set_availability(self, channel: Channel, availability: Availability) -> None:
        if self.reasons[-1:] != [availability.reason]:
            self.reasons.append(availability.reason)
        super().set_availability(channel, availability)


def test_an_idle_pushed_feed_is_not_live_until_the_next_push(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session and the next one's first trade are pushed, so the stream is live. Then pushes stop.

    The pause is four times the maximum silence of a link, while the engine retries within milliseconds. The stream
    stays disconnected throughout. An empty push brings it back: it replays the last seconds and is live."""
    monkeypatch.setattr(push_queue, "SILENCE_S", 1.0)
    registry = Noting()

    async def work(harness: EngineHarness) -> None:
        pushes = PushedFeeds(installation.reference.universe)

        def follow(owner: int, feed: PushedFeed, contract: Contract) -> None:
            harness.engine.attach_contract(owner, feed, contract)

        pushes.subscribe(follow)
        events: list[Event] = [
            CAUGHT, *day(), Heartbeat(CLOSE + 5 * MINUTE), Trades(rows((NEXT + SECOND, 22_003))),
        ]  # fmt: skip
        assert await pushes.take(0, FEED, Push("a" * 20, ES, OWN_CLOCK, 0, tuple(events))) == len(events)
        assert harness.channel(feed=FEED).availability.live
        at = len(registry.reasons)
        await asyncio.sleep(4.0)
        assert registry.reasons[at:] == ["disconnected"]
        assert await pushes.take(0, FEED, Push("a" * 20, ES, OWN_CLOCK, len(events), ())) == len(events)
        await asyncio.sleep(0.1)
        assert registry.reasons[at:] == ["disconnected", "catching_up", "live"]

    run(installation, work, registry)

"""A pushed feed whose sender stops: the stream is not live until data arrives again."""

import asyncio

import pytest
from tests.live.engine_harness import ES, MINUTE, OWN_CLOCK, SECOND, EngineHarness, rows, run
from tests.live.test_engine import CAUGHT, CLOSE, OPEN, day
from tests.timeouts import until

from outcry.app.installation import Installation
from outcry.feeds import push_queue, pushed
from outcry.feeds.pushed import PushedFeed, PushedFeeds
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.instruments import Contract
from outcry.trades.feed import Event, Heartbeat, Trades
from outcry.trades.push_format import SILENCE_S, Push

NEXT = OPEN + 24 * 60 * MINUTE
FEED = "pushed"


class RecordingRegistry(Registry):
    """A registry that records each change of the availability's reason."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: list[str] = []

    def set_availability(self, channel: Channel, availability: Availability) -> None:
        if self.reasons[-1:] != [availability.reason]:
            self.reasons.append(availability.reason)
        super().set_availability(channel, availability)


class PushClock:
    """The monotonic clock of pushed feeds, which the test moves (s)."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now_s = 0.0
        for module in (pushed, push_queue):
            monkeypatch.setattr(module, "monotonic", lambda: self._now_s)

    def pass_without_push(self, feed: PushedFeed, seconds: float) -> None:
        """Move the clock and wake the streams, as their own timers would."""
        self._now_s += seconds
        for queue in feed.inlets.values():
            queue.bell.ring()


def test_an_idle_pushed_feed_is_not_live_until_the_next_push(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session and the next one's first trade are pushed, so the stream is live. Then pushes stop.

    The pause is four times the maximum silence of a link, while the engine retries within milliseconds. The stream
    stays disconnected throughout. An empty push brings it back: it replays the last seconds and is live."""
    clock, registry, feeds = PushClock(monkeypatch), RecordingRegistry(), list[PushedFeed]()

    async def work(harness: EngineHarness) -> None:
        pushes = PushedFeeds(installation.reference.universe)

        def follow(owner: int, feed: PushedFeed, contract: Contract) -> None:
            feeds.append(feed)
            harness.engine.attach_contract(owner, feed, contract)

        pushes.subscribe(follow)
        events: list[Event] = [
            CAUGHT, *day(), Heartbeat(CLOSE + 5 * MINUTE), Trades(rows((NEXT + SECOND, 22_003))),
        ]  # fmt: skip
        assert await pushes.take(0, FEED, Push("a" * 20, ES, OWN_CLOCK, 0, tuple(events))) == len(events)
        assert harness.channel(feed=FEED).availability.live
        at, (feed,) = len(registry.reasons), feeds
        live_reader = feed.inlets[ES].reader
        clock.pass_without_push(feed, SILENCE_S)
        await until(lambda: feed.inlets[ES].reader is not live_reader)  # the engine has opened the feed again
        for _ in range(3):
            clock.pass_without_push(feed, SILENCE_S)
            await asyncio.sleep(0.05)  # the engine would retry about ten times
        assert registry.reasons[at:] == ["disconnected"]
        assert await pushes.take(0, FEED, Push("a" * 20, ES, OWN_CLOCK, len(events), ())) == len(events)
        await until(lambda: harness.channel(feed=FEED).availability.live)
        assert registry.reasons[at:] == ["disconnected", "catching_up", "live"]

    run(installation, work, registry)

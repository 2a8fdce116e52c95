"""Two processes follow one feed of the operator and push to owners that die: each trade counts once."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.live.engine_harness import ES, MINUTE, OWN_CLOCK, SECOND, EngineHarness, rows, run

from outcry.agent.spool import Spool
from outcry.agent.spool_sender import SpoolSender
from outcry.agent.spooled_queue import SpooledQueue
from outcry.app.installation import Installation
from outcry.cluster.bus_transport import BusTransport
from outcry.feeds.pushed import PushedFeeds
from outcry.live.file_log import FileLog
from outcry.live.model import StreamKey
from outcry.trades.feed import CaughtUp, Event, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
KEY = StreamKey(0, "sierra", ES)
CAPS = replace(OWN_CLOCK, own_clock=False)


class Noon:
    """Clock fixed at noon. Implements `Clock`."""

    def now_ns(self) -> int:
        return OPEN + 150 * MINUTE


def second(number: int) -> Trades:
    """Return ten trades of one lot, a tenth of a second apart."""
    return Trades(rows(*((OPEN + number * SECOND + n * SECOND // 10, 22_000 + n % 4, 1) for n in range(10))))


class Follower:
    """A process that follows the feed."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        log = FileLog(folder)
        stack.enter_context(log.exclusively())
        self.queue: SpooledQueue = Spool(log, folder, 1 << 30).queue(KEY, CAPS)
        self._sender = SpoolSender(BusTransport(self), lambda: None)  # type: ignore[arg-type]
        self.owner: PushedFeeds | None = None

    async def push(self, owner, feed, push, origin):
        """Push through the owners of the stream, as in `test_agents_random`."""
        assert self.owner is not None
        return await self.owner.take(owner, feed, push, origin)

    async def send(self) -> bool:
        return await self._sender.send(KEY, self.queue) is None


def test_who_had_to_wait_at_a_new_owner_tells_nothing_twice(
    installation: Installation, tmp_path: Path
) -> None:
    installation = replace(installation, clock=Noon())

    async def work(harness: EngineHarness) -> int:
        def owned() -> PushedFeeds:
            pushes = PushedFeeds(installation.reference.universe, wait_s=2.0)
            pushes.subscribe(harness.engine.attach_contract)
            return pushes

        with ExitStack() as stack:
            one, two = (Follower(tmp_path / name, stack) for name in ("one", "two"))

            def both(*events: Event) -> None:
                for follower in (one, two):
                    for event in events:
                        follower.queue.add(event)

            one.owner = two.owner = owned()
            both(CaughtUp(OPEN, Quality.TICKS), *map(second, range(10)))
            assert await one.send()
            assert not await two.send()
            one.owner.close()  # the process dies
            one.owner = two.owner = owned()
            both(second(10))
            assert await one.send()  # a gap: the follower steps back
            assert await two.send()
            assert not await one.send()
            both(*map(second, range(11, 14)))
            assert await two.send()
            assert two.owner.leave(KEY, "between")
            both(second(14))
            assert await one.send()
            await harness.engine.drained()
            found = harness.channel(feed="sierra").view()
            assert found is not None
            return sum(found.ladder.volume)

    assert run(installation, work) == 150

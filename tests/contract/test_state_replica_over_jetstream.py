"""Stream states replicated over a real JetStream server that is killed and restarts empty."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from support.engines.jetstream import JetStream
from tests.cluster.test_state_replica import FIRST, KEY, PARTITION, Clock, every, key_of, running
from tests.live.engine_harness import EngineHarness, ScriptFeed, Trades, rows, run
from tests.live.test_engine import CAUGHT, OPEN
from tests.timeouts import until, within

from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.log_events import discard
from outcry.cluster.nats.calls import NatsCalls
from outcry.cluster.nats.latest import JetStreamLatest
from outcry.cluster.nats.link import Link
from outcry.cluster.replica import StateReplica
from outcry.cluster.state_publisher import StatePublisher
from outcry.live.registry import Registry


@asynccontextmanager
async def engine(server: JetStream, harness: EngineHarness, name: str) -> AsyncIterator[None]:
    """Publisher of an engine's process; it ends without a message."""
    async with Link(server.urls, discard) as link:
        await within(link.up(), 60)
        latest, calls = JetStreamLatest(link), NatsCalls(link, discard)
        out = StatePublisher(harness.registry, harness.engine.runners, harness.log, latest, calls, name)
        await out.take_up(PARTITION)
        async with running(out.run()):
            for runner in harness.engine.runners.values():
                harness.registry.put(runner.channel)
            yield


@asynccontextmanager
async def answering(server: JetStream) -> AsyncIterator[Registry]:
    """Create the registry of an answering process."""
    registry = Registry()
    async with Link(server.urls, discard) as link:
        calls = NatsCalls(link, discard)
        async with running(StateReplica(registry, JetStreamLatest(link), calls, key_of, Clock(OPEN)).run()):
            yield registry


def test_a_mirror_shows_what_runs_elsewhere_and_never_as_live_what_it_cannot_know(
    jetstream: JetStream, tmp_path: Path
) -> None:
    server = jetstream

    def reason(registry: Registry) -> str:
        return "".join(channel.availability.reason for channel in every(registry))

    def last_ticks(registry: Registry) -> int:
        (channel,) = every(registry)
        view = channel.view()
        return view.last_ticks if view else 0

    async def work(harness: EngineHarness) -> None:
        more = asyncio.Event()

        class Feed(ScriptFeed):
            async def open(self, contract, since):
                yield FIRST
                yield CAUGHT
                for n in range(10**9):
                    await more.wait()
                    more.clear()
                    yield Trades(rows((OPEN + n + 2, 22_100 + n, 1)))

        harness.engine.attach(0, Feed([]))
        await until(lambda: reason(harness.registry) == "no_prior", "the stream runs")
        async with answering(server) as registry:
            async with engine(server, harness, "one"):
                await until(lambda: reason(registry) == "no_prior", "it is shown elsewhere")
                assert last_ticks(registry) == 22_004

                server.kill(0)
                await until(lambda: reason(registry) == "stale_link", "it is not believed without the bus", 6)
                more.set()
                await until(lambda: last_ticks(harness.registry) == 22_100, "it traded meanwhile")
                assert last_ticks(registry) == 22_004
                server.start(0)
                await asyncio.to_thread(server.ready)
                await until(lambda: last_ticks(registry) == 22_100, "what was traded is shown", 10)
                await until(lambda: reason(registry) == "no_prior", "it is believed again", 3)

            await until(lambda: reason(registry) == "stale_link", "it is not believed without its engine", 6)
            harness.engine.runners[KEY.text].channel.acquired_at = 10**6
            async with engine(server, harness, "two"), answering(server) as late:
                await until(lambda: reason(registry) == "no_prior", "whoever took it up is believed", 3)
                await until(lambda: reason(late) == "no_prior", "and by a process that begins", 3)
                more.set()
                await until(lambda: last_ticks(registry) == last_ticks(late) == 22_101, "it goes on")

    with open_installation(Settings(data=str(tmp_path / "data"))) as installation:
        run(installation, work)

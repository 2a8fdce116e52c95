"""Random changes of stream owners while the bus comes and goes: replicas end equal to the owner's state.

Meanwhile they show nothing older than before, unless a log was started anew.
"""

import asyncio
import random
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster.test_state_replica import Clock, every, key_of, running
from tests.memory_bus import Bus
from tests.sample_live_session import ESH26, NOW_NS
from tests.timeouts import until

from outcry.cluster import replica as mirror
from outcry.cluster import state_publisher
from outcry.cluster.replica import StateReplica
from outcry.cluster.state_publisher import StatePublisher
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.partitions import PARTITIONS
from outcry.live.registry import Availability, Channel, Registry

KEYS = [StreamKey(owner, "feed", ESH26) for owner in range(6)]
LIVE = Availability(live=True, reason="live", market_ns=5, trade_date=None)


class Log:
    """Log with the owner and the position of each stream."""

    def __init__(self) -> None:
        self.owner: dict[str, str] = {}
        self.position: dict[str, int] = {}
        #: Newest state of each life of a stream, in order: `<life>.<count>`.
        self.latest: dict[str, tuple[int, int]] = {}


class Stream:
    """State of a stream as published by a runner."""

    own_clock = amended = False

    def __init__(self, log: Log, text: str, process: str) -> None:
        self._log, self._text, self._process = log, text, process

    @property
    def position(self) -> int:
        return self._log.position[self._text]

    def capture(self) -> None:
        return None

    async def persisted(self) -> None:
        await asyncio.sleep(0)
        if self._log.owner[self._text] != self._process:
            raise LogTakenOver(self._text)


class Runner:
    """Stream in one process, as the publisher sees it, over a log from which others may acquire it."""

    def __init__(self, process: "Process", key: StreamKey) -> None:
        self.process, self.key = process, key
        self.stream = Stream(process.log, key.text, process.name)
        self.channel = Channel(key, simulated=False, peek=lambda: None)
        self.channel.availability = LIVE

    def log(self, _entry: object) -> None:
        if self.process.log.owner[self.key.text] != self.process.name:
            raise LogTakenOver(self.key.text)
        self.process.log.position[self.key.text] += 1


class Process:
    """Simulated process of an engine."""

    def __init__(self, name: str, log: Log, bus: Bus, chance: random.Random) -> None:
        self.name, self.log, self.chance = name, log, chance
        self.registry = Registry()
        self.runners: dict[str, Any] = {}
        self.out = StatePublisher(self.registry, self.runners, self, bus, bus, name, self.lost)  # type: ignore[arg-type]

    def pending_write(self, text: str) -> Awaitable[None] | None:
        """Return the pending write, as `TradeLog` does."""
        if self.chance.random() < 0.5 and self.log.owner[text] == self.name:
            return None
        return self._keeping(text)

    async def _keeping(self, text: str) -> None:
        await asyncio.sleep(self.chance.uniform(0, 0.01))
        if self.log.owner[text] != self.name:
            raise LogTakenOver(text)

    def lost(self, text: str) -> None:
        runner = self.runners.pop(text, None)
        if runner is not None:
            self.registry.drop(runner.key)

    def take_up(self, key: StreamKey, *, restarted: bool) -> None:
        text, log = key.text, self.log
        if restarted:  # the log starts again
            log.position[text] = 0
        life = log.latest.get(text, (0, 0))[0] + 1
        log.owner[text], log.latest[text] = self.name, (life, 0)
        runner = self.runners[text] = Runner(self, key)
        runner.channel.acquired_at = log.position.setdefault(text, 0)
        log.position[text] += 1
        runner.channel.feed_code = f"{life}.0"
        self.registry.put(runner.channel)

    def trade(self, key: StreamKey) -> None:
        """Publish another state; a process that lost the stream without noticing publishes its old state again."""
        text, runner = key.text, self.runners.get(key.text)
        if runner is None:
            return
        if self.log.owner[text] == self.name:
            life, count = self.log.latest[text]
            self.log.latest[text] = (life, count + 1)
            self.log.position[text] += 1
            runner.channel.feed_code = f"{life}.{count + 1}"
        runner.channel.version += 1


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_whoever_owns_a_stream_is_shown_in_the_end(
    seed: int, restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replicas finally show the state of the current owner.

    After a log started again, a process that lost the stream earlier may publish its old state once more. The owner
    notices when it publishes its own state again, whether or not that changed.
    """
    monkeypatch.setattr(state_publisher, "AGAIN_S", 1.0)
    monkeypatch.setattr(state_publisher, "HEARTBEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(mirror, "SILENT_S", 1.0)
    chance = random.Random(seed)

    async def main() -> None:
        log, bus, registry = Log(), Bus(), Registry()
        processes = [Process(name, log, bus, chance) for name in ("a", "b", "c")]
        into = StateReplica(registry, bus, bus, key_of, Clock(NOW_NS))
        shown: dict[StreamKey, list[tuple[int, int]]] = {key: [] for key in KEYS}

        def note() -> None:
            for channel in every(registry):
                life, _, count = channel.feed_code.partition(".")
                found = (int(life), int(count))
                seen = shown[channel.key]
                if not seen or seen[-1] != found:
                    seen.append(found)

        async with AsyncExitStack() as stack:
            for process in processes:
                for partition in range(PARTITIONS):
                    await process.out.take_up(partition)
                await stack.enter_async_context(running(process.out.run()))
            await stack.enter_async_context(running(into.run()))
            for key in KEYS:
                chance.choice(processes).take_up(key, restarted=True)
            for _ in range(400):
                key, process = chance.choice(KEYS), chance.choice(processes)
                match chance.randrange(20):
                    case 0:
                        process.take_up(key, restarted=False)
                    case 1:
                        process.take_up(key, restarted=restarted)
                    case 2:
                        bus.down = not bus.down
                    case 3:
                        if log.owner[key.text] != process.name:
                            process.lost(key.text)
                    case _:
                        process.trade(key)
                note()
                await asyncio.sleep(chance.choice([0, 0, 0.001, 0.02]))
                note()
            bus.down = False
            for process in processes:
                for key in KEYS:
                    process.trade(key)
            wanted = {key: "{}.{}".format(*log.latest[key.text]) for key in KEYS}
            await until(lambda: {one.key: one.feed_code for one in every(registry)} == wanted)
            await until(
                lambda: all(one.availability == replace(LIVE, market_ns=NOW_NS) for one in every(registry))
            )
            note()
        assert sum(len(seen) for seen in shown.values()) > len(KEYS)
        if not restarted:
            for seen in shown.values():
                assert seen == sorted(seen)

    asyncio.run(main())

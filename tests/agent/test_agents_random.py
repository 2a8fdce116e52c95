"""Random faults of processes that follow one feed, with owners that die, stall or lose answers: trades count once.

A seed determines the events. Many trades are identical and share a timestamp, processes have read to different
positions, and pushes are small, so that faults interrupt them.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.live.engine_harness import ES, MINUTE, OWN_CLOCK, SECOND, EngineHarness, rows, run

from outcry.agent import pusher
from outcry.agent.contract_follower import ContractFollower
from outcry.agent.spool import Spool
from outcry.agent.spool_sender import SpoolSender
from outcry.app.installation import Installation
from outcry.base.errors import StoreUnavailable
from outcry.client.errors import ApiError
from outcry.cluster.bus_transport import BusTransport
from outcry.feeds.pushed import PushedFeeds
from outcry.live.file_log import FileLog
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.trades.contract_lifetime import lifetime_ns
from outcry.trades.feed import CaughtUp, Cursor, Event, Heartbeat, Trades
from outcry.trades.push_format import SILENCE_S, Origin, Push
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
KEY = StreamKey(0, "tape", ES)
CAPS = replace(OWN_CLOCK, own_clock=False)
TRADES, STEPS = 600, 60


class Noon:
    """Clock fixed at noon. Implements `Clock`."""

    def now_ns(self) -> int:
        return OPEN + 150 * MINUTE


@pytest.fixture
def small_batch_installation(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setattr(pusher, "BATCH_EVENTS", 4)
    return replace(installation, clock=Noon())


class Tape:
    """Market data and the part written so far: at most twelve seconds without a trade, and trades of two prices."""

    def __init__(self, chance: random.Random) -> None:
        at_ns, made = OPEN, []
        for _ in range(TRADES):
            at_ns += chance.choice([0, 0, 0, SECOND // 10, SECOND // 2, SECOND])
            at_ns += 12 * SECOND if chance.random() < 0.01 else 0
            made.append((at_ns, 22_000 + chance.randrange(2), 1))
        self.rows, self.written = rows(*made), chance.randrange(100)

    def since(self, number: int) -> Iterator[Trades]:
        """Return the rows written from a trade on, in batches."""
        for first in range(number, self.written, 7):
            yield Trades(self.rows[first : min(first + 7, self.written)])

    @property
    def settled_ns(self) -> int:
        """Return the time (ns) before which nothing will be written any more."""
        return int(self.rows["ts_event"][self.written - 1]) - 1 if self.written else OPEN


class TapeFeed:
    """Feed of the tape. It polls the tape when it is opened and when a test requests it."""

    name, run, caps = "tape", "", CAPS

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._look, self._seen = asyncio.Event(), asyncio.Event()

    async def contracts(self) -> list[Contract]:
        return [ES]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        tape, number = self._tape, int(np.searchsorted(self._tape.rows["ts_event"], since.since_ns))
        live = False
        while True:
            for some in tape.since(number):
                yield some
            number = max(number, tape.written)
            yield Heartbeat(tape.settled_ns) if live else CaughtUp(tape.settled_ns, Quality.TICKS)
            live = True
            self._seen.set()
            await self._look.wait()
            self._look.clear()

    async def close(self) -> None:
        pass

    async def look(self) -> None:
        """Yield the rows written so far."""
        self._seen.clear()
        self._look.set()
        await self.looked()

    async def looked(self) -> None:
        await self._seen.wait()


class Owners:
    """Successive owners of the stream; `trusty`: no more faults happen to them."""

    def __init__(self, installation: Installation, harness: EngineHarness, chance: random.Random) -> None:
        self._universe, self._engine, self._chance = installation.reference.universe, harness.engine, chance
        self.trusty = False
        self._begin()

    def _begin(self) -> None:
        self.pushes = PushedFeeds(self._universe, wait_s=2.0)
        self.pushes.subscribe(self._engine.attach_contract)

    def _die(self) -> None:
        self.pushes.close()
        self._begin()

    async def move(self) -> None:
        """Transfer the stream to another process, which has read the log."""
        self.pushes.close()
        await self._engine.release([KEY.text])
        await self._engine.acquire([KEY.text])
        self._begin()

    async def push(self, owner: int, feed: str, push: Push, origin: Origin) -> int:
        """Push through the current owner, with the faults of `Owners`."""
        fates = ["well"] * 6 + ["away", "dies", "dies after", "answer lost"]
        fate = "well" if self.trusty else self._chance.choice(fates)
        if fate == "away":
            self._die()
            raise StoreUnavailable("upstream_unavailable")
        taking = asyncio.ensure_future(self.pushes.take(owner, feed, push, origin))
        if fate == "dies":
            for _ in range(self._chance.randrange(60)):
                await asyncio.sleep(0)
            self._die()
        taken = await taking
        if fate == "dies after":
            self._die()
        if fate in {"dies after", "answer lost"}:
            raise StoreUnavailable("upstream_unavailable")
        return taken

    async def fall_silent(self) -> None:
        """Mark the pusher as idle: its link is stale, and another may take its place."""
        for inlet in self.pushes._inlets.values():
            with inlet.lock:
                inlet.received_at_s -= SILENCE_S + 1
                inlet.bell.ring()
        await asyncio.sleep(0.002)


class Process:
    """A process that follows the feed."""

    def __init__(
        self, installation: Installation, harness: EngineHarness, folder: Path, tape: Tape, owners: Owners
    ) -> None:
        self._reference, self._engine = installation.reference, harness.engine
        self._folder, self._tape, self._owners = folder, tape, owners
        self._sender = SpoolSender(BusTransport(owners), lambda: None)  # type: ignore[arg-type]
        self._resources = ExitStack()
        self._starts = 0

    async def begin(self, *, from_owner: bool) -> None:
        """Begin; anew: with an empty disk, from the position that the owner reports."""
        self._starts += from_owner
        folder = self._folder / str(self._starts)
        log = FileLog(folder)
        self._resources.enter_context(log.exclusively())
        self.queue = Spool(log, folder, 1 << 30).queue(KEY, CAPS)
        self.feed = TapeFeed(self._tape)
        follower = ContractFollower(
            self.feed, self.queue, self._reference.calendar, Noon(), lifetime_ns(self._reference.universe, ES),
            await self._engine.progress(KEY) if from_owner else None, added=lambda: None, changed=lambda: None,
        )  # fmt: skip
        self._following = asyncio.create_task(follower.follow())
        await self.feed.looked()

    async def die(self) -> None:
        self._following.cancel()
        await asyncio.wait([self._following])
        self._resources.close()

    async def leave(self) -> None:
        """Stop cleanly: send the remaining events and end the run."""
        await self.send(8)
        self._owners.pushes.leave(KEY, "disconnected", self.queue.session)
        await self.die()

    async def send(self, most: int) -> None:
        for _ in range(most):
            await self._sender.send(KEY, self.queue)
            if not self.queue.waiting:
                return


async def happens(what: str, process: Process, owners: Owners, chance: random.Random) -> None:
    match what:
        case "send":
            await process.send(chance.randrange(1, 4))
        case "silence":
            await owners.fall_silent()
        case "move":
            await owners.move()
        case "restart":
            await process.die()
            await process.begin(from_owner=False)
        case _:
            await (process.leave() if what == "leave" else process.die())
            await process.begin(from_owner=True)


def volume(harness: EngineHarness) -> int:
    found = harness.channel(feed=KEY.feed).view()
    assert found is not None
    return sum(found.ladder.volume)


@pytest.mark.parametrize("seed", range(12))
def test_each_trade_counts_once_whichever_process_dies(
    small_batch_installation: Installation, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    tape = Tape(chance)

    async def work(harness: EngineHarness) -> int:
        owners = Owners(small_batch_installation, harness, chance)
        names = "abc"[: 1 + seed % 3]
        processes = [
            Process(small_batch_installation, harness, tmp_path / name, tape, owners) for name in names
        ]
        for process in processes:
            await process.begin(from_owner=True)
        for _ in range(STEPS):
            tape.written = min(tape.written + chance.choice([0, 1, 3, 10, 30]), TRADES)
            for _ in range(chance.randrange(3)):
                await chance.choice(processes).feed.look()
            whats = ["send"] * 20 + ["silence"] * 2 + ["move", "restart", "leave", "die"]
            await happens(chance.choice(whats), chance.choice(processes), owners, chance)
        tape.written, owners.trusty = TRADES, True
        for process in processes:
            await process.feed.look()
            await owners.fall_silent()
            await process.send(TRADES)
            assert not process.queue.waiting
        for process in processes:
            await process.die()
        return volume(harness)

    assert run(small_batch_installation, work) == TRADES


@pytest.mark.parametrize("seed", range(6))
def test_a_program_that_pushes_itself_tells_each_trade_once(
    small_batch_installation: Installation, seed: int
) -> None:
    """A pusher without a disk, such as `outcry replay` over HTTP, stores only in memory what it may have to resend."""
    chance = random.Random(seed)
    tape = Tape(chance)
    tape.written = TRADES

    async def work(harness: EngineHarness) -> int:
        owners = Owners(small_batch_installation, harness, chance)
        transport = BusTransport(owners)  # type: ignore[arg-type]
        queue = pusher._MemoryQueue("a" * 20, ES, CAPS)
        queue.pending.append(CaughtUp(OPEN, Quality.TICKS))
        for some in tape.since(0):
            queue.pending.append(some)
            queue.pending.extend([Heartbeat(int(some.rows["ts_event"].max()))] * (chance.random() < 0.2))
        while queue.pending:
            with suppress(ApiError):
                await transport.attempt(KEY, queue)
            if chance.random() < 0.1:
                await (owners.move() if chance.random() < 0.5 else owners.fall_silent())
        return volume(harness)

    assert run(small_batch_installation, work) == TRADES

"""Interactive Brokers through the agent, while agent and TWS are restarted.

History arrives as minute bars and is replaced by its trades later, so the stored session must equal the tape trade by
trade, whatever was interrupted.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from support.vendors.ibkr_peer import IbkrPeer
from tests.feeds.broker_harness import (
    BEGIN_NS,
    CLOSE_NS,
    DAY,
    ES,
    MINUTE,
    OPEN_NS,
    SECOND,
    SPEEDUP,
    PeerClock,
    in_window,
    tape_of,
)

from outcry.agent.agent import Agent, Source
from outcry.agent.feed_runner import MarketContext
from outcry.agent.http_transport import HttpTransport, ServiceEndpoint
from outcry.agent.spool import Spool
from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import Settings
from outcry.connections.broker_adapter import AdapterContext
from outcry.http.server import Binding, build_server
from outcry.live.file_log import FileLog
from outcry.live.model import StreamKey
from outcry.market.calendar import SessionKind
from outcry.recordings.tape_errors import TapeDamaged
from outcry.trades.records import TRADE, Rows
from outcry.trades.reference_tables import load_reference


@contextmanager
def served(folder: Path, clock: PeerClock) -> Iterator[tuple[Installation, str]]:
    """A whole service with a clock of its own; yields its address."""
    up, found = threading.Event(), [0]

    def started(_host: str, port: int) -> None:
        found[0] = port
        up.set()

    with open_installation(Settings(data=str(folder)), clock) as installation, installation.log.exclusively():
        server = build_server(
            build_application(installation).application, Binding(port=0, shutdown_s=2), started
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        assert up.wait(20)
        try:
            yield installation, f"http://127.0.0.1:{found[0]}"
        finally:
            server.stop()
            thread.join(20)


class Harness:
    """TWS and an agent beside it."""

    def __init__(self, folder: Path, url: str, key: str, peer: IbkrPeer, clock: PeerClock) -> None:
        self.folder, self.url, self.key, self.peer, self.clock = folder, url, key, peer, clock
        self.agent: Agent | None = None

    async def run(self, meanwhile: Callable[[Agent], Awaitable[None]]) -> None:
        """An agent for as long as something goes on."""
        reference, log = load_reference(), FileLog(self.folder)
        context = AdapterContext(
            reference.universe, self.clock, lambda: [ES], self.peer.places, speedup=SPEEDUP
        )
        with log.exclusively():
            agent = Agent(
                [Source("ibkr", self.peer.adapter.feed(self.peer.given, context))], Spool(log, self.folder, 1 << 30),
                HttpTransport(ServiceEndpoint(self.url, self.key)),
                MarketContext(reference.universe, reference.calendar, self.clock),
                lambda *_said, **_more: None, speedup=SPEEDUP,
            )  # fmt: skip
            running = asyncio.create_task(agent.run())
            try:
                await meanwhile(agent)
            finally:
                running.cancel()
                with suppress(asyncio.CancelledError):
                    await running

    async def advance(self, to_ns: int, step_ns: int) -> None:
        while self.peer.now_ns < to_ns:
            await self.peer.advance(min(self.peer.now_ns + step_ns, to_ns))
            await asyncio.sleep(0.01)

    async def live(self, agent: Agent) -> None:
        """Let time pass until the feed is up to date, and the service has all of it."""
        async with asyncio.timeout(60):
            while True:
                await self.advance(self.peer.now_ns + SECOND // 2, SECOND // 2)
                follower = agent.followers.get(StreamKey(0, "ibkr", ES))
                if follower and follower.status.phase == "live" and follower.queue.waiting < 3:
                    return
                await asyncio.sleep(0.05)


def counted(rows: Rows) -> Counter[tuple[int, int, int]]:
    columns = (rows[name].tolist() for name in ("ts_event", "price", "size"))
    return Counter(zip(*columns, strict=True))


def stored(installation: Installation) -> Rows:
    """Return the stored trades of the regular session; none while a file is being replaced."""
    try:
        found = [
            rows
            for row in installation.store.all_recordings()
            for rows in installation.tape.read(row.file, row.quality)
            if rows.dtype == TRADE
        ]
    except TapeDamaged:
        return np.zeros(0, TRADE)
    return in_window(np.concatenate(found), OPEN_NS, CLOSE_NS) if found else np.zeros(0, TRADE)


def test_what_is_stored_in_the_end_is_the_tape(tmp_path: Path) -> None:
    rows = tape_of(ES, IbkrPeer.resolution_ns, 7)

    async def work() -> None:
        peer = IbkrPeer()
        peer.now_ns = BEGIN_NS
        clock = PeerClock(peer)  # pyright: ignore[reportArgumentType]
        peer.tape(ES, rows)
        await peer.start()
        try:
            await harness(peer, clock)
        finally:
            await peer.stop()

    async def harness(peer: IbkrPeer, clock: PeerClock) -> None:
        with served(tmp_path / "data", clock) as (installation, url):
            key = installation.keys.create("ann@example.com", "free", 0, role="ingest")
            harness = Harness(tmp_path / "spool", url, key, peer, clock)

            async def morning(agent: Agent) -> None:
                await harness.live(agent)
                await harness.advance(BEGIN_NS + 5 * MINUTE, 5 * SECOND)
                await peer.drop()
                await harness.advance(BEGIN_NS + 8 * MINUTE, 5 * SECOND)
                await harness.live(agent)

            async def afternoon(agent: Agent) -> None:
                await harness.live(agent)
                await harness.advance(BEGIN_NS + 20 * MINUTE, 5 * SECOND)
                await harness.advance(CLOSE_NS + 60 * MINUTE, 5 * MINUTE)
                async with asyncio.timeout(90):
                    while counted(stored(installation)) != counted(in_window(rows, OPEN_NS, CLOSE_NS)):
                        await harness.advance(peer.now_ns + SECOND, SECOND)
                        await asyncio.sleep(0.2)

            await harness.run(morning)
            await peer.advance(BEGIN_NS + 12 * MINUTE)  # nobody reads meanwhile
            await harness.run(afternoon)
            sessions = [row for row in installation.store.sessions([1], "ES") if row.trade_date == DAY]
            assert [row.complete for row in sessions if row.kind is SessionKind.RTH] == [True]

    asyncio.run(work())

"""Kill an agent and its service repeatedly while a tape is traded, then compare what was stored.

Run as `python -m tests.e2e.agent_kills FOLDER KILLS SEED`. It prints its steps; exit status 1 if the stored trades
differ from the tape. Both clocks run some hundred times as fast as real time. Processes are forks, because they start
faster.
"""

import asyncio
import mmap
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from support.engines.ports import free_ports
from tests.e2e.kill_worker import Worker, say

from outcry.agent.agent import Agent, Source
from outcry.agent.feed_runner import MarketContext
from outcry.agent.http_transport import HttpTransport, ServiceEndpoint
from outcry.agent.spool import Spool
from outcry.app.application import build_application
from outcry.app.installation import open_installation
from outcry.app.settings import Settings
from outcry.base.clock import SystemClock
from outcry.feeds.live_rows import as_live
from outcry.http.server import Binding, build_server
from outcry.live.file_log import FileLog
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedLost,
    Heartbeat,
    Resume,
    RowFlag,
    Status,
    Trades,
)
from outcry.trades.records import TRADE, Quality, Rows
from outcry.trades.reference_tables import load_reference

ES = Contract("ES", 2026, 12)
MINUTE, SECOND = 60_000_000_000, 1_000_000_000
#: Thursday 2026-11-19 14:30 UTC, where the regular session before begins; then the present, 20:15 UTC on Friday; the
#: end of that day's trading, 22:00 UTC; and when all of it is stored.
FIRST_NS = 1_795_098_600_000_000_000
PRESENT_NS = FIRST_NS + (29 * 60 + 45) * MINUTE
#: An hour in which nothing trades, from 22:00 UTC on Thursday.
BREAK_NS = FIRST_NS + 450 * MINUTE
LAST_NS = PRESENT_NS + 105 * MINUTE
DONE_NS = LAST_NS + 7 * MINUTE
#: Bytes of the service's journal when it has what was traded until the present.
JOURNALLED = 60_000
SPEED, UNDISTURBED_SPEED = 300, 1200
#: A connection of the feed lasts about so long, in seconds of ours.
LASTS_S = 1.5


class FastClock:
    """Stands at `PRESENT_NS` until it is started, for every process; from there on it is `speed` times as fast."""

    def __init__(self, speed: int) -> None:
        self._speed = speed
        self._began = mmap.mmap(-1, 8)  # shared with forks

    def start(self) -> None:
        self._began[:] = SystemClock().now_ns().to_bytes(8, "little")

    def now_ns(self) -> int:
        began_ns = int.from_bytes(self._began[:], "little")
        return PRESENT_NS + ((SystemClock().now_ns() - began_ns) * self._speed if began_ns else 0)


def tape(seed: int) -> Rows:
    """A trade a minute until the present, then some five a second, of which one in eight is like the one before."""
    chance = np.random.default_rng(seed)
    old = np.arange(FIRST_NS, PRESENT_NS, MINUTE)
    old = old[(old < BREAK_NS) | (old >= BREAK_NS + 60 * MINUTE)]
    new = np.sort(chance.integers(PRESENT_NS // 10**6, LAST_NS // 10**6, 30_000)) * 10**6
    alike = np.flatnonzero(chance.random(len(new) - 1) < 0.125) + 1
    new[alike] = new[alike - 1]
    rows = np.zeros(len(old) + len(new), TRADE)
    rows["ts_event"] = np.concatenate([old, new])
    steps = chance.integers(-1, 2, len(rows))
    rows["size"], rows["side"] = chance.integers(1, 9, len(rows)), b"B"
    same = alike + len(old)
    steps[same] = 0
    rows["size"][same] = rows["size"][same - 1]
    rows["price"] = (26_000 + np.cumsum(steps)) * 250_000_000
    return rows


class TapeFeed:
    """A vendor with the whole tape, that hangs up now and then. Implements `Feed`."""

    caps = FeedCaps(10**6, False, True, Backfill.TICKS, 2**62, Resume.BY_TIME, False)
    name, run = "tape", ""

    def __init__(self, rows: Rows, clock: FastClock, chance: random.Random) -> None:
        self._rows, self._clock, self._chance = rows, clock, chance

    async def contracts(self) -> list[Contract]:
        return [ES]

    async def close(self) -> None:
        pass

    def _between(self, first_ns: int, last_ns: int, flags: RowFlag) -> list[Event]:
        first, last = np.searchsorted(self._rows["ts_event"], [first_ns, last_ns])
        found = as_live(self._rows[first:last], self._clock.now_ns(), flags)
        return [Trades(found)] if len(found) else []

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        yield Status(subscribed=True, code="subscribed")
        at_ns = self._clock.now_ns()
        for event in self._between(since.since_ns, at_ns, RowFlag.BACKFILL):
            yield event
        yield CaughtUp(at_ns, Quality.TICKS)
        ends_s = time.monotonic() + self._chance.uniform(0.2, 2 * LASTS_S)
        while time.monotonic() < ends_s:
            await asyncio.sleep(0.01)
            before_ns, at_ns = at_ns, self._clock.now_ns()
            for event in self._between(before_ns, at_ns, RowFlag(0)):
                yield event
            yield Heartbeat(at_ns)
        raise FeedLost("disconnected")


def serve(folder: Path, port: int, clock: FastClock) -> None:
    """A service until it is killed or told to stop."""
    with open_installation(Settings(data=str(folder)), clock) as installation, installation.log.exclusively():
        server = build_server(
            build_application(installation).application,
            Binding(port=port, shutdown_s=2),
            lambda _host, _port: None,
        )
        signal.signal(signal.SIGTERM, lambda *_: server.stop())
        server.run()


def push(spool: Path, url: str, key: str, rows: Rows, clock: FastClock, seed: int) -> None:
    """An agent until the day is over and everything was taken."""

    async def work() -> None:
        reference = load_reference()
        market = MarketContext(reference.universe, reference.calendar, clock)
        log = FileLog(spool)
        with log.exclusively():
            source = Source("tape", TapeFeed(rows, clock, random.Random(seed)))
            agent = Agent(
                [source], Spool(log, spool, 1 << 30), HttpTransport(ServiceEndpoint(url, key)), market,
                lambda event, **details: sys.stderr.write(f"{event} {details}\n"), speedup=4.0,
            )  # fmt: skip
            running = asyncio.create_task(agent.run())
            while True:
                await asyncio.sleep(0.05)
                queues = list(agent.spool.queues.values())
                if queues and all(
                    queue.position.time_ns > DONE_NS and queue.waiting <= 3 for queue in queues
                ):
                    break
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    asyncio.run(work())


def stored(folder: Path) -> tuple[list[Any], Rows]:
    """Sessions, and trades of the dense hours as the service has them, in order of all their columns."""
    with open_installation(Settings(data=str(folder))) as installation:
        sessions = [replace(row, received_ns=0) for row in installation.store.sessions([1], "ES")]
        parts = [
            rows
            for row in installation.store.all_recordings()
            for rows in installation.tape.read(row.file, row.quality)
        ]
    rows = np.concatenate(parts) if parts else np.zeros(0, TRADE)
    return sessions, np.sort(rows, order=["ts_event", "price", "size", "side"])


class Campaign:
    """One day of trading, with kills or without."""

    def __init__(self, folder: Path, kills: int, seed: int) -> None:
        self.folder, self.wanted, self.chance = folder, kills, random.Random(seed)
        self.rows = tape(seed)
        folder.mkdir(parents=True, exist_ok=True)
        with open_installation(Settings(data=str(folder / "data"))) as installation:
            self.key = installation.keys.create("ann@example.com", "free", 0, role="ingest")
        self.port, self.starts = free_ports(1)[0], 0
        self.clock = FastClock(SPEED if kills else UNDISTURBED_SPEED)
        self.service, self.agent = self.start_service(), self.start_agent()
        self.kills = {"agent": 0, "service": 0}

    def start_service(self) -> Worker:
        return Worker(lambda: serve(self.folder / "data", self.port, self.clock), self.folder / "service.log")

    def start_agent(self) -> Worker:
        self.starts += 1
        url, spool, seed = f"http://127.0.0.1:{self.port}", self.folder / "spool", self.starts
        return Worker(
            lambda: push(spool, url, self.key, self.rows, self.clock, seed), self.folder / "agent.log"
        )

    def run(self) -> None:
        """Kill both at any moment until it was often enough; then let the day end."""
        journal = self.folder / "data" / "live" / "1" / "tape" / ES.key
        while sum(path.stat().st_size for path in journal.glob("*.log")) < JOURNALLED:
            time.sleep(0.02)
        self.clock.start()
        while sum(self.kills.values()) < self.wanted and self.clock.now_ns() < DONE_NS - 3 * MINUTE:
            time.sleep(self.chance.uniform(0.05, 1.0))
            which = self.chance.choice(["agent", "service", "both"])
            if which in {"agent", "both"}:
                self.agent.kill()
                self.kills["agent"] += 1
            if which in {"service", "both"}:
                self.service.kill()
                self.kills["service"] += 1
                if self.chance.random() < 0.3:
                    time.sleep(self.chance.uniform(0.0, 1.0))  # it is away for a while
                self.service = self.start_service()
            if which in {"agent", "both"}:
                self.agent = self.start_agent()
        self.agent.finish()
        os.kill(self.service.pid, signal.SIGTERM)
        self.service.finish()


def differences(found: Rows, rows: Rows) -> str:
    """How what was stored differs from the tape; empty where it does not."""
    wanted = np.sort(rows, order=["ts_event", "price", "size", "side"])
    columns: list[str] = ["ts_event", "price", "size", "side"]
    if len(found) == len(wanted) and all((found[name] == wanted[name]).all() for name in columns):
        return ""
    have, want = (Counter(map(tuple, some[columns].tolist())) for some in (found, wanted))
    more, less = list((have - want).items())[:5], list((want - have).items())[:5]
    return f"{len(found)} rows of {len(wanted)}; too much: {more}; missing: {less}"


def main(folder: str, kills: str, seed: str) -> int:
    """Run a campaign, and one without kills; 0 where both have stored the tape, and the same sessions."""
    wrong, expected = "", []
    for name, wanted in (("undisturbed", 0), ("killed", int(kills))):
        campaign = Campaign(Path(folder) / name, wanted, int(seed))
        campaign.run()
        sessions, rows = stored(campaign.folder / "data")
        wrong = wrong or differences(rows, campaign.rows)
        say(
            f"{name}: {campaign.kills['agent']} kills of the agent, {campaign.kills['service']} of the service"
        )
        say(f"complete: {sum(row.complete for row in sessions)} of {len(sessions)} sessions")
        if expected and sessions != expected:
            wrong = wrong or f"sessions differ: {sessions} where {expected} were expected"
        expected = sessions
    say(wrong or "what was stored is the tape")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

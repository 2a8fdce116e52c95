"""A week of the simulated market through the engine, at full speed, to detect growing memory.

Runs in a separate process, `python -m bench.week FOLDER DAYS PRODUCTS`. After each stored trade date it prints a JSON
line with the resident memory, the size of the log and the number of open files. All streams advance in step, so that
nothing waits in between.
"""

import asyncio
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import uvloop
from bench.figures import Figure, at_most
from bench.measurement import Size, within
from bench.tape import SEED

from outcry.app.installation import Installation, open_installation
from outcry.app.live import stores_of
from outcry.app.settings import read_settings
from outcry.feeds.simulator.feed import SimulatorFeed
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.live.engine import Engine, Market
from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND

ROOTS = ("ES", "NQ", "CL", "GC", "ZN", "6E", "ZC", "LE")
#: No product's front contract changes in these weeks.
FIRST, DAYS = date(2024, 7, 29), 7
STEP_NS = 20 * NANOS_PER_SECOND
LIMIT_S = 300.0
#: The engine's pauses are divided by this factor, because a day passes in seconds.
SPEEDUP = 50.0
_GRACE_NS = 10 * NANOS_PER_MINUTE
_MB = 1e6


def run(size: Size) -> Iterator[Figure]:
    """Play seven trade dates (three if quick); the first two are a warm-up, in which modules load and caches fill."""
    days, products = size.of((DAYS, len(ROOTS)), (3, len(ROOTS)), (2, 1))
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        command = [sys.executable, "-m", "bench.week", place, str(days), str(products)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"the week broke off:\n{done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    rss, logs = ([each[name] / _MB for each in found] for name in ("rss", "log"))
    files = [each["files"] for each in found]
    end = found[-1]
    more = f"{products} products, {end['trades']:,} trades, {end['sessions']} sessions stored, "
    more += f"{end['seconds']:.0f} s; MB after each: {_list(rss)}"
    growth, log = 100 * (rss[-1] / rss[1] - 1), logs[-1] / logs[0]
    yield Figure(f"memory after {days} trade dates", rss[-1], "MB", more)
    yield Figure("memory: growth from the second to the last", growth, "%", goal=at_most(5))
    more = f"MB after each: {_list(logs)}"
    yield Figure("log after a trade date: last ÷ first", log, "×", more, goal=at_most(1.3))
    more = f"after each: {_list(files)}"
    yield Figure("open files: last less second", files[-1] - files[1], "files", more, goal=at_most(0))


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.3g}" for value in values)


@dataclass
class Stepped:
    """A clock that advances by a step once every stream waits for it. Implements `Clock`."""

    at_ns: int
    streams: int
    waiting: int = 0
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    all_wait: asyncio.Event = field(default_factory=asyncio.Event)

    def now_ns(self) -> int:
        """Return the current step's time (ns UTC)."""
        return self.at_ns

    async def sleep(self, _seconds: float) -> None:
        """Wait for the next step, regardless of the length requested."""
        self.waiting += 1
        if self.waiting >= self.streams:
            self.all_wait.set()
        await self.turn.wait()

    async def step(self, until_ns: int) -> None:
        """Once all streams wait, advance by a step, or to an earlier time."""
        await self.all_wait.wait()
        self.at_ns = min(self.at_ns + STEP_NS, until_ns)
        self.waiting = 0
        self.all_wait.clear()
        turn, self.turn = self.turn, asyncio.Event()
        turn.set()


def main(folder: Path, days: int, roots: Sequence[str]) -> None:
    """Play, and print a line after each trade date."""
    with (
        open_installation(read_settings({}, data=str(folder))) as installation,
        installation.log.exclusively(),
    ):
        uvloop.run(within(_played(installation, days, roots), LIMIT_S))


async def _played(installation: Installation, days: int, roots: Sequence[str]) -> None:
    universe, calendar = installation.reference.universe, installation.reference.calendar
    whole = SimulatedMarket(SEED, {root: universe.products[root] for root in universe.products}, calendar)
    found = calendar.trading_days("ES", FIRST, date(FIRST.year, 12, 31))[:days]
    opens = [calendar.session(root, found[0].trade_date, SessionKind.ETH) for root in roots]
    clock = Stepped(max(session.open_ns for session in opens if session) + NANOS_PER_MINUTE, len(roots))
    engine = Engine(
        stores_of(installation, installation.log, installation.alerts),
        Market(universe, calendar, clock, installation.licences.of_user),
        installation.registry,
        speedup=SPEEDUP,
    )
    said: list[str] = []

    def report(event: str, **details: object) -> None:
        said.append(f"{event} {details}")

    engine.report = report
    await engine.start()
    feed = SimulatorFeed(whole, universe, calendar, clock, sleep=clock.sleep)
    for root in roots:
        engine.attach_contract(0, feed, universe.front(root, FIRST))
    began = perf_counter()
    for day in found:
        until_ns = day.close_ns + _GRACE_NS
        while clock.now_ns() < until_ns:
            await clock.step(until_ns)
        await clock.all_wait.wait()
        # a snapshot is taken meanwhile, after which stored entries are removed from the log
        await asyncio.sleep(1.0)
        _report(installation, engine, perf_counter() - began)
    if said:
        raise RuntimeError(f"the engine complained: {said[:3]}")
    await engine.stop()


def _report(installation: Installation, engine: Engine, seconds: float) -> None:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    log = sum(path.stat().st_size for path in (installation.settings.folder / "live").rglob("*.log"))
    stored = sum(len(installation.store.sessions([0], root)) for root in ROOTS)
    trades = sum(runner.intake.counts.rows for runner in engine.runners.values())
    files = sum(1 for _ in Path("/proc/self/fd").iterdir())
    line = {"rss": pages * os.sysconf("SC_PAGE_SIZE"), "log": log, "files": files,
            "sessions": stored, "trades": trades, "seconds": seconds}  # fmt: skip
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), ROOTS[: int(sys.argv[3])])

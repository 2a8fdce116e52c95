"""Faults of a simulation, injected one after another, chosen by a seed.

At most one of the three JetStream nodes is unavailable at a time, which is the most a cluster of three tolerates. Every
killed, stopped or stalled process runs again at the end.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sim.processes import NODE, NODES, STORE, Processes, Worker

#: Relative frequencies of kills by role.
KILLS: Mapping[str, int] = {"engine": 8, "feeds": 3, "api": 3, "deliver": 3, "node": 3}
OTHERS: Mapping[str, int] = {
    "stop an engine": 10,
    "restart a process": 8,
    "restart the store": 4,
    "stall the store": 3,
    "stall a node": 3,
}
#: Share of kills among all faults.
_KILLS_SHARE = 0.75
#: Range of a pause (s), longer than the lease of a partition.
STOPPED_S = (2.5, 5.0)
#: Time (s) after a fault of the store or the bus within which replicas may be out of date.
_AFTER_S = 5.0


@dataclass
class Pace:
    """Number of kills, average seconds between two faults, and length of a stall."""

    kills: int
    every_s: float = 1.5
    stall_s: float = 30.0


@dataclass
class Faults:
    """Injects the faults.

    `say`: reports each fault. `done`: number of faults by type. `delivery_s`: times at which deliveries were disturbed.
    `replica_s`: times at which a replica was killed.
    """

    processes: Processes
    pace: Pace
    chance: random.Random
    say: Callable[[str], object]
    done: Counter[str] = field(default_factory=Counter[str])
    kills: int = 0
    delivery_s: list[float] = field(default_factory=list[float])
    replica_s: list[float] = field(default_factory=list[float])
    _under_way: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _troubled_s: float = 0.0
    _trouble: int = 0
    _node: asyncio.Lock = field(default_factory=asyncio.Lock)
    _store: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def steady(self) -> bool:
        """Return whether neither the store nor the bus has a fault, now or a moment ago."""
        return not self._trouble and time.monotonic() - self._troubled_s > _AFTER_S

    @contextmanager
    def _in_trouble(self) -> Generator[None]:
        """Mark a span in which the store or the bus has a fault."""
        self._trouble += 1
        self.delivery_s.append(time.monotonic())
        try:
            yield
        finally:
            self._trouble -= 1
            self._troubled_s = time.monotonic()
            self.delivery_s.append(time.monotonic())

    async def run(self) -> None:
        """Inject faults until the number of kills is reached and every process runs again."""
        stalls = 0
        while self.kills < self.pace.kills:
            await asyncio.sleep(self.chance.expovariate(1 / self.pace.every_s))
            table = KILLS if self.chance.random() < _KILLS_SHARE else OTHERS
            what = self.chance.choices(list(table), list(table.values()))[0]
            if what.startswith("stall"):
                if stalls > self.kills // 20:
                    continue
                stalls += 1
            work = self._work(what)
            if work is None:
                continue
            self.done[f"kill {what}" if what in KILLS else what] += 1
            self.kills += what in KILLS
            task = asyncio.create_task(work)
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await asyncio.gather(*self._under_way)

    def _work(self, what: str) -> Coroutine[Any, Any, None] | None:
        match what:
            case "node" | "stall a node":
                if self._node.locked():
                    return None
                at = self.chance.randrange(NODES)
                return self._kill_node(at) if what == "node" else self._stall(NODE.format(at), self._node)
            case "restart the store" | "stall the store":
                if self._store.locked():
                    return None
                return (
                    self._restart_store() if what.startswith("restart") else self._stall(STORE, self._store)
                )
            case "restart a process":
                worker = self._one_of(self.chance.choice([role for role in KILLS if role != "node"]))
                return self._restart(worker) if worker else None
            case "stop an engine":
                worker = self._one_of("engine")
                return self._stop(worker) if worker else None
            case _:
                worker = self._one_of(what)
                return self._kill(worker) if worker else None

    def _one_of(self, role: str) -> Worker | None:
        """Return a ready process of a role; None if it is the only one left of several.

        One must continue the role's work, because work that stops shows no wrong results.
        """
        ready = [worker for worker in self.processes.of(role) if worker.ready]
        fewest = 1 if len(self.processes.of(role)) == 1 else 2
        return self.chance.choice(ready) if len(ready) >= fewest else None

    async def _kill(self, worker: Worker) -> None:
        number = worker.kill()
        self.say(f"kill -9 of {worker.name} ({number})")
        self._note_disturbance(worker)
        await asyncio.sleep(self.chance.uniform(0.0, 2.0))
        worker.start()

    async def _restart(self, worker: Worker) -> None:
        """Restart a process as for an upgrade: it transfers its work and ends."""
        took_s = await asyncio.to_thread(worker.end)
        self.say(f"{worker.name} was asked to end, which took {took_s:.1f} s")
        self._note_disturbance(worker)
        worker.start()

    def _note_disturbance(self, worker: Worker) -> None:
        if worker.role == "deliver":
            self.delivery_s.append(time.monotonic())
        if worker.role == "api":
            self.replica_s.append(time.monotonic())

    async def _stop(self, worker: Worker) -> None:
        seconds = self.chance.uniform(*STOPPED_S)
        self.say(f"{worker.name} is stopped for {seconds:.1f} s")
        worker.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        if worker.paused:
            worker.signal(signal.SIGCONT)

    async def _kill_node(self, at: int) -> None:
        async with self._node:
            self.say(f"kill -9 of JetStream node {at}")
            with self._in_trouble():
                await asyncio.to_thread(self.processes.nodes.kill, at)
                await asyncio.sleep(self.chance.uniform(0.2, 3.0))
                self.processes.nodes.start(at)
                await asyncio.to_thread(self.processes.nodes.ready)

    async def _restart_store(self) -> None:
        async with self._store:
            how = self.chance.choice((signal.SIGINT, signal.SIGQUIT))
            self.say(f"PostgreSQL is restarted by {how.name}")
            with self._in_trouble():
                await asyncio.to_thread(self.processes.postgres.restart, how)

    async def _stall(self, line: str, lock: asyncio.Lock) -> None:
        async with lock:
            seconds = self.pace.stall_s * self.chance.uniform(0.5, 1.0)
            self.say(f"the line to {line} stalls for {seconds:.0f} s")
            with self._in_trouble():
                self.processes.proxy.stall(line)
                await asyncio.sleep(seconds)
                if self.chance.random() < 0.5:
                    self.processes.proxy.cut(line)
                self.processes.proxy.go(line)

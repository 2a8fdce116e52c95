"""Runs connections: a feed for each that is to be tried, attached to the engine, and its phase as its streams stand.

Rules kept: the store says what is to run, so a process that begins anew runs the same; a phase is moved by the table
alone, and written only where nobody has moved it meanwhile; entries are opened when a feed is made, and kept nowhere.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from outcry.core.instruments import Universe
from outcry.ports.adapters import Adapter, BadEntry, Kit
from outcry.ports.clock import Clock
from outcry.ports.connections import ConnectionRow, ConnectionStore
from outcry.ports.feed import Feed
from outcry.ports.live import StreamKey
from outcry.ports.store import StoreBusy
from outcry.services.connections.judging import judged, told_by
from outcry.services.connections.lifecycle import RESTING, RUNNING, Sign, moved
from outcry.services.connections.wanted import wanted_by
from outcry.services.live.engine import Engine
from outcry.services.live.runner import Runner
from outcry.services.vault import Vault, VaultBroken

#: How often streams are looked at, and how often the store is, where nobody says that it has changed.
LOOK_S, READ_S = 0.25, 5.0
#: A feed that met a fault of ours is made anew after so long, and twice as long each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """What connections are run with. `places`: of each broker, see `Kit.places`; `rush`: see `Kit`."""

    engine: Engine
    store: ConnectionStore
    vault: Vault
    adapters: Mapping[str, Adapter]
    universe: Universe
    clock: Clock
    places: Mapping[str, Mapping[str, str]]
    rush: float = 1.0

    def kit(self, row: ConnectionRow) -> Kit:
        """What an adapter is given for a connection."""
        wanted = wanted_by(self.universe, row.symbols, self.clock)
        return Kit(self.universe, self.clock, wanted, self.places.get(row.broker, {}), self.rush)

    def feed(self, row: ConnectionRow) -> Feed:
        """A connection's feed. Blocks. Raises `BadEntry`, `ImportError`, `VaultBroken`, `StoreBusy`."""
        kept = self.store.entries(row.id)
        if kept is None:
            raise VaultBroken(f"connection {row.id} has no entries")
        return self.adapters[row.broker].feed(self.vault.open(row, kept), self.kit(row))

    def runners(self, row: ConnectionRow) -> Sequence[Runner]:
        """The streams of what a connection is to bring now, as far as they have begun."""
        brought = self.engine.brought(row.user_id, row.broker)
        keys = (StreamKey(row.user_id, row.broker, contract).text for contract in sorted(brought))
        return [runner for key in keys if (runner := self.engine.runners.get(key)) is not None]


@dataclass(slots=True)
class _Run:
    """A connection that is tried. `row`: as it was begun with."""

    row: ConnectionRow
    task: asyncio.Task[None]
    pause_s: float


class Supervisor:
    """Runs all connections on the running event loop; `wake` and `renew` may be called on any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rows: dict[int, ConnectionRow] = {}
        self._runs: dict[int, _Run] = {}
        self._pauses: dict[int, tuple[float, float]] = {}
        self._renewed: set[int] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(2, "outcry-connections")

    # -- life

    async def start(self) -> None:
        """Begin with what the store says."""
        self._loop = asyncio.get_running_loop()
        self._changed.set()
        self._task = self._loop.create_task(self._run(), name="connections")

    async def stop(self) -> None:
        """End every feed; phases stay as they are."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await asyncio.gather(*(self._end(number) for number in list(self._runs)))
        self._thread.shutdown()

    def wake(self) -> None:
        """The store has changed."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    def renew(self, connection_id: int) -> None:
        """A connection has other entries, or is to bring other products: its feed is made anew."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._renew, connection_id)

    def _renew(self, connection_id: int) -> None:
        self._renewed.add(connection_id)
        self._changed.set()

    def running(self, connection_id: int) -> ConnectionRow | None:
        """A connection that is tried now, as it stands."""
        return self._rows.get(connection_id) if connection_id in self._runs else None

    async def _run(self) -> None:
        loop, read_s = asyncio.get_running_loop(), 0.0
        while True:
            try:
                if self._changed.is_set() or loop.time() >= read_s:
                    self._changed.clear()
                    read_s = loop.time() + READ_S / self._parts.rush
                    await self._reconcile({row.id: row for row in await self.ask(self._parts.store.rows)})
                await self._judge()
            except StoreBusy as problem:
                self._changed.set()
                self._parts.engine.tell("connections cannot be read", problem=str(problem))
            except Exception as problem:  # noqa: BLE001 - a supervisor: one fault does not end all connections
                self._parts.engine.tell("connections met a fault", problem=type(problem).__name__)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    LOOK_S / self._parts.rush
                ):  # `wait_for` may lose that we are to stop
                    await self._changed.wait()

    async def ask(self, work: Callable[[], T]) -> T:
        """Do something that blocks, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- what runs is what is to run

    async def _reconcile(self, rows: Mapping[int, ConnectionRow]) -> None:
        self._rows = dict(rows)
        renewed, self._renewed = self._renewed, set[int]()
        for number, run in list(self._runs.items()):
            row = rows.get(number)
            if row is None or row.phase in RESTING or number in renewed or row.symbols != run.row.symbols:
                await self._end(number)
        now_s = asyncio.get_running_loop().time()
        for number, row in rows.items():
            if row.phase in RUNNING and number not in self._runs:
                if now_s >= self._pauses.get(number, (0.0, 0.0))[0] or number in renewed:
                    await self._begin(row)
            elif row.phase in RESTING:
                self._rest(row)
        self._retire_others()

    async def _begin(self, row: ConnectionRow) -> None:
        parts = self._parts
        try:
            feed = await self.ask(lambda: parts.feed(row))
        except (BadEntry, ImportError, KeyError) as problem:
            code = "wrong_entry" if isinstance(problem, BadEntry) else "not_installed"
            await self._move(row, Sign.REFUSED, code)
            return
        except VaultBroken as problem:
            parts.engine.tell("entries cannot be opened", connection=row.id, problem=str(problem))
            await self._move(row, Sign.LOGIN_REFUSED, "entries_lost")
            return
        pause_s = self._pauses.pop(row.id, (0.0, FIRST_PAUSE_S))[1]
        self._runs[row.id] = _Run(row, parts.engine.attach(row.user_id, feed), pause_s)

    async def _end(self, number: int) -> None:
        run = self._runs.pop(number)
        run.task.cancel()
        await asyncio.wait([run.task])

    def _rest(self, row: ConnectionRow) -> None:
        """Streams of a connection that rests say why."""
        for runner in self._parts.engine.runners.values():
            if (runner.key.owner, runner.key.feed) == (row.user_id, row.broker):
                self._parts.engine.refuse(runner.key, row.code)

    def _retire_others(self) -> None:
        """Streams that no connection is to bring any more are not shown; nor are those of one that was ended."""
        wanted = {(row.user_id, row.broker): set(row.symbols) for row in self._rows.values()}
        for runner in list(self._parts.engine.runners.values()):
            key = runner.key
            ours = key.owner and key.feed in self._parts.adapters
            if ours and key.contract.root not in wanted.get((key.owner, key.feed), ()):
                self._parts.engine.retire(key)

    # -- how it stands

    async def _judge(self) -> None:
        for number, run in list(self._runs.items()):
            row = self._rows.get(number)
            if row is None:
                continue
            sign, code = judged([told_by(runner) for runner in self._parts.runners(row)])
            if run.task.done() and sign not in {Sign.LOGIN_REFUSED, Sign.REFUSED}:
                del self._runs[number]  # a fault of ours, which the engine has told
                now_s = asyncio.get_running_loop().time()
                again_s = now_s + run.pause_s / self._parts.rush
                self._pauses[number] = (again_s, min(2 * run.pause_s, LONGEST_PAUSE_S))
            await self._move(row, sign, code)

    async def _move(self, row: ConnectionRow, sign: Sign, code: str) -> None:
        """Move a connection on, in the store and here; whoever moved it meanwhile is heard first."""
        phase = moved(row.phase, sign)
        if (phase, code) == (row.phase, row.code):
            return
        now_ns = self._parts.clock.now_ns()
        done = await self.ask(lambda: self._parts.store.move(row.id, row.phase, phase, code, now_ns))
        if not done:
            self._changed.set()
            return
        self._rows[row.id] = replace(row, phase=phase, code=code, since_ns=now_ns)
        if phase in RESTING:
            if row.id in self._runs:
                await self._end(row.id)
            self._rest(self._rows[row.id])

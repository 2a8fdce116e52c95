"""Runs connections: a feed for each that is to be tried, attached to the engine, and its phase as its streams stand.

Rules kept: the store says what is to run, so a process that begins anew runs the same; a phase is moved by the table
alone, and written only where nobody has moved it meanwhile; entries are opened when a feed is made, and kept nowhere.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from outcry.core.instruments import Contract, Universe
from outcry.ports.adapters import Adapter, BadEntry, Kit
from outcry.ports.clock import Clock
from outcry.ports.connections import Broker, ConnectionRow, ConnectionStore
from outcry.ports.feed import Feed
from outcry.ports.live import StreamKey
from outcry.ports.store import StoreBusy
from outcry.services.connections.judging import FAULTY, UNBORN, judged, told_by
from outcry.services.connections.lifecycle import RESTING, Sign, moved
from outcry.services.connections.wanted import wanted_by
from outcry.services.live.engine import Engine
from outcry.services.live.runner import Runner
from outcry.services.vault import Vault, VaultBroken

#: How often streams are looked at, and how often the store is, where nobody says that it has changed.
LOOK_S, READ_S = 0.25, 5.0
#: Of each broker so many connections are begun at a look: vendors count how many come from one address.
STARTS_A_LOOK = 1
#: A contract whose stream is not there by then has met a fault.
BORN_S = 5.0
#: A feed that met a fault of ours is made anew after so long, and twice as long each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0

T = TypeVar("T")


class NotHere(Exception):
    """A broker cannot be connected by this service; `code` says why, as `ConnectionRefused` does."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Rules:
    """What may be connected here. `local`: this service runs on the users' own machine; `closed`: nothing at all, for
    its market is an invented one."""

    local: bool = False
    closed: bool = False

    def refusal(self, broker: Broker) -> str:
        """Why a broker cannot be connected by this service; empty where it can."""
        if self.closed:
            return "invented"
        if not (broker.hosted or self.local):
            return "not_hosted"
        return "" if broker.installed else "not_installed"


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
    rules: Rules = Rules()
    rush: float = 1.0

    def kit(self, row: ConnectionRow) -> Kit:
        """What an adapter is given for a connection."""
        wanted = wanted_by(self.universe, row.symbols, self.clock)
        return Kit(self.universe, self.clock, wanted, self.places.get(row.broker, {}), self.rush)

    def feed(self, row: ConnectionRow) -> Feed:
        """A connection's feed: the one way to one, whoever asks. Blocks. Raises `NotHere`, `BadEntry`, `ImportError`,
        `VaultBroken`, `StoreBusy`."""
        adapter = self.adapters.get(row.broker)
        refusal = self.rules.refusal(adapter.broker) if adapter else "unknown_broker"
        if adapter is None or refusal:
            raise NotHere(refusal)
        kept = self.store.entries(row.id)
        if kept is None:
            raise VaultBroken(f"connection {row.id} has no entries")
        return adapter.feed(self.vault.open(row, kept), self.kit(row))

    def streams(self, row: ConnectionRow) -> Mapping[Contract, Runner | None]:
        """The contracts that a connection brings now, and their streams; None for one that has not begun."""
        brought = sorted(self.engine.brought(row.user_id, row.broker))
        keys = {contract: StreamKey(row.user_id, row.broker, contract).text for contract in brought}
        return {contract: self.engine.runners.get(key) for contract, key in keys.items()}


@dataclass(slots=True)
class _Run:
    """A connection that is tried. `row`: as it was begun with."""

    row: ConnectionRow
    task: asyncio.Task[None]
    pause_s: float
    begun_s: float


class Supervisor:
    """Runs all connections on the running event loop; `wake` and `renew` may be called on any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rows: dict[int, ConnectionRow] = {}
        self._runs: dict[int, _Run] = {}
        self._pauses: dict[int, tuple[float, float]] = {}
        self._renewed: set[int] = set()
        self._known = False
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

    def held(self, user_id: int) -> set[str]:
        """Brokers whose streams of a user are this one's still, though the connection may just have ended."""
        return {row.broker for row in list(self._rows.values()) if row.user_id == user_id}

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
                read_s = 0.0  # at the next look
                self._parts.engine.tell("connections cannot be read", problem=str(problem))
            except Exception as problem:  # noqa: BLE001 - a supervisor: one fault does not end all connections
                self._parts.engine.tell("connections met a fault", problem=type(problem).__name__)
            with suppress(TimeoutError):
                # not `wait_for`, which may lose that we are to stop
                async with asyncio.timeout(LOOK_S / self._parts.rush):
                    await self._changed.wait()

    async def ask(self, work: Callable[[], T]) -> T:
        """Do something that blocks, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- what runs is what is to run

    async def _reconcile(self, rows: Mapping[int, ConnectionRow]) -> None:
        before, self._rows = self._rows, dict(rows)
        renewed, self._renewed = self._renewed, set[int]()
        for number, run in list(self._runs.items()):
            row = rows.get(number)
            if row is None or row.phase in RESTING or number in renewed or row.symbols != run.row.symbols:
                await self._end(number)
        self._retire(before)
        now_s = asyncio.get_running_loop().time()
        starts: Counter[str] = Counter()
        for number, row in rows.items():
            if row.phase in RESTING:
                self._rest(row)
            elif number not in self._runs and now_s >= self._pauses.get(number, (0.0, 0.0))[0]:
                starts[row.broker] += 1
                if starts[row.broker] <= STARTS_A_LOOK:
                    await self._begin_or_wait(row)
                else:
                    self._changed.set()

    async def _begin_or_wait(self, row: ConnectionRow) -> None:
        """Begin a connection; a fault of ours costs it a pause, and the others nothing."""
        try:
            await self._begin(row)
        except Exception as problem:  # noqa: BLE001 - a supervisor: see above; what the problem says may hold a secret
            self._parts.engine.tell(
                "a connection cannot be begun", connection=row.id, problem=type(problem).__name__
            )
            self._wait(row.id, self._pauses.get(row.id, (0.0, FIRST_PAUSE_S))[1])

    def _wait(self, number: int, pause_s: float) -> None:
        again_s = asyncio.get_running_loop().time() + pause_s / self._parts.rush
        self._pauses[number] = (again_s, min(2 * pause_s, LONGEST_PAUSE_S))

    async def _begin(self, row: ConnectionRow) -> None:
        parts = self._parts
        try:
            feed = await self.ask(lambda: parts.feed(row))
        except NotHere as problem:
            await self._move(row, Sign.REFUSED, problem.code)
            return
        except (BadEntry, ImportError) as problem:
            code = "wrong_entry" if isinstance(problem, BadEntry) else "not_installed"
            await self._move(row, Sign.REFUSED, code)
            return
        except VaultBroken as problem:
            parts.engine.tell("entries cannot be opened", connection=row.id, problem=str(problem))
            await self._move(row, Sign.LOGIN_REFUSED, "entries_lost")
            return
        pause_s = self._pauses.pop(row.id, (0.0, FIRST_PAUSE_S))[1]
        now_s = asyncio.get_running_loop().time()
        self._runs[row.id] = _Run(row, parts.engine.attach(row.user_id, feed), pause_s, now_s)

    async def _end(self, number: int) -> None:
        run = self._runs.pop(number)
        run.task.cancel()  # once: it sees to the end of its streams itself, and is not to be disturbed in that
        await asyncio.wait([run.task])

    def _rest(self, row: ConnectionRow) -> None:
        """Streams of a connection that rests say why."""
        for runner in self._parts.engine.runners.values():
            if (runner.key.owner, runner.key.feed) == (row.user_id, row.broker):
                self._parts.engine.refuse(runner.key, row.code)

    def _retire(self, before: Mapping[int, ConnectionRow]) -> None:
        """Streams that a connection is to bring no more are not shown, nor are those of one that was ended; nor, when
        we begin, those that a connection ended before may have left. What an agent pushes under a broker's name comes
        back with its next push."""
        wanted = {(row.user_id, row.broker): set(row.symbols) for row in self._rows.values()}
        ours = {(row.user_id, row.broker) for row in before.values()}
        for runner in list(self._parts.engine.runners.values()):
            key = runner.key
            feed = key.owner, key.feed
            left = feed in ours or (not self._known and key.owner and key.feed in self._parts.adapters)
            if left and key.contract.root not in wanted.get(feed, ()):
                self._parts.engine.retire(key)
        self._known = True

    # -- how it stands

    async def _judge(self) -> None:
        for number, run in list(self._runs.items()):
            row = self._rows.get(number)
            if row is None:
                continue
            late = asyncio.get_running_loop().time() - run.begun_s > BORN_S / self._parts.rush
            unborn = FAULTY if late else UNBORN
            streams = self._parts.streams(row).values()
            sign, code = judged([told_by(runner) if runner else unborn for runner in streams])
            if run.task.done() and sign not in {Sign.LOGIN_REFUSED, Sign.REFUSED}:
                del self._runs[number]  # a fault of ours, which the engine has told
                self._wait(number, run.pause_s)
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

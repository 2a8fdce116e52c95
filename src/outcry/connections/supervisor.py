"""Runs connections: attaches a feed for each active connection, and derives its phase from its streams.

The database defines which connections run, so a restarted process runs the same ones. A phase changes only by the
transition table in `lifecycle`, and only if no other process changed the phase meanwhile. Credentials are decrypted
when a feed is created, and are not cached.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from outcry.base.backoff import Backoff
from outcry.base.log_events import LogEvent
from outcry.base.tasks import BackgroundTasks, end, is_set_within
from outcry.connections.broker_adapter import InvalidCredential
from outcry.connections.connection_check import check_feed, check_running, sign_in_failed
from outcry.connections.feed_factory import ConnectionNotAllowed, FeedFactory, partition_of_feed
from outcry.connections.lifecycle import RESTING, Sign, moved
from outcry.connections.model import ConnectionPhase, ConnectionRow, Finding
from outcry.connections.stream_summary import NOT_STARTED, START_OVERDUE, summarize_streams
from outcry.connections.streams import ConnectionStreams
from outcry.connections.vault import VaultBroken
from outcry.database.errors import StoreBusy
from outcry.live.model import StreamKey
from outcry.live.partitions import PARTITIONS
from outcry.live.stream_status import StreamStatus

#: Intervals between two checks of the streams, and between two reads of the store if no change is reported.
CHECK_INTERVAL_S, STORE_READ_INTERVAL_S = 0.25, 5.0
#: Connections started per broker and check: vendors limit connections from one IP address.
MAX_STARTS_PER_BROKER = 1
#: A stream that does not exist after this time has failed to start.
START_TIMEOUT_S = 5.0
#: First and longest pause before a feed is recreated after an internal error; the pause doubles each time.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0

T = TypeVar("T")


@dataclass(slots=True)
class _Run:
    """A connection that runs in this process. `row`: its stored row when it was started."""

    row: ConnectionRow
    task: asyncio.Task[None]
    backoff: Backoff
    begun_s: float


class ConnectionSupervisor:
    """Runs connections on the running event loop. Implements `ConnectionRunner`.

    streams: runs the connections' feeds. several: whether several processes run connections. Each process then runs
    only those of the partitions that it owns; otherwise this process runs all.
    """

    def __init__(self, streams: ConnectionStreams, parts: FeedFactory, *, several: bool = False) -> None:
        self._streams, self._parts = streams, parts
        #: Partitions this process owns; None: all.
        self._owned: set[int] | None = set() if several else None
        self._rows: dict[int, ConnectionRow] = {}
        self._runs: dict[int, _Run] = {}
        #: Earliest restart of a connection (loop time), and its further pauses.
        self._resting: dict[int, tuple[float, Backoff]] = {}
        #: Partitions not yet searched for streams left by a removed connection.
        self._unswept: set[int] = set() if several else set(range(PARTITIONS))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = BackgroundTasks()
        #: Time of the next read of the store (loop time).
        self._read_s = 0.0
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(2, "outcry-connections")

    # -- life

    async def start(self) -> None:
        """Start the connections that are active in the store."""
        self._loop = asyncio.get_running_loop()
        self._changed.set()
        self._tasks.every(0.0, "connections", self._run, self._failed)

    async def stop(self) -> None:
        """Close every feed. The stored phases stay unchanged, so the next start runs the same connections."""
        await self._tasks.stop()
        await asyncio.gather(*(self._end(number) for number in list(self._runs)))
        self._thread.shutdown()

    async def gained(self, partition: int) -> None:
        """Run the connections of a partition that this process acquired."""
        if self._owned is not None:
            self._owned.add(partition)
            self._unswept.add(partition)
            self._changed.set()

    async def lost(self, partition: int) -> None:
        """Stop the connections of a partition that another process acquires. Returns after they have stopped."""
        if self._owned is not None:
            self._owned.discard(partition)
            self._unswept.discard(partition)
            gone = [number for number, run in self._runs.items() if not self._is_ours(run.row)]
            await asyncio.gather(*(self._end(number) for number in gone))

    def _is_ours(self, row: ConnectionRow) -> bool:
        return self._owned is None or partition_of_feed(row.user_id, row.broker) in self._owned

    def wake(self) -> None:
        """Read changed connections from the database at once, not at the next interval. Thread-safe."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed.set)

    def connected_brokers(self, user_id: int) -> set[str]:
        """Return the brokers of a user whose streams still belong to a connection, even one just removed."""
        return {row.broker for row in list(self._rows.values()) if row.user_id == user_id}

    async def check(self, row: ConnectionRow) -> Sequence[Finding]:
        """Check which parts of a connection work, within 30 s; return the findings. May raise `StoreBusy`."""
        parts = self._parts
        if row.id in self._runs:
            return check_running(self._statuses(row), self._streams.history)
        # Known, and another refused login may block the account.
        if row.phase is ConnectionPhase.NEEDS_SIGN_IN:
            return sign_in_failed(row.code)
        try:
            feed = await self._ask(lambda: parts.feed(row))
        except ConnectionNotAllowed as problem:
            return sign_in_failed(problem.code)
        except InvalidCredential:
            return sign_in_failed("wrong_entry")
        except ImportError:
            return sign_in_failed("not_installed")
        except VaultBroken:
            return sign_in_failed("entries_lost")
        return await check_feed(feed, parts.context(row).select_contracts(), parts.clock.now_ns())

    async def _run(self) -> None:
        """Wait for a change or the next check, then start and stop feeds and derive the phases."""
        loop = asyncio.get_running_loop()
        await is_set_within(self._changed, CHECK_INTERVAL_S / self._parts.speedup)
        try:
            if self._changed.is_set() or loop.time() >= self._read_s:
                self._changed.clear()
                self._read_s = loop.time() + STORE_READ_INTERVAL_S / self._parts.speedup
                rows = await self._ask(self._parts.store.rows)
                await self._reconcile({row.id: row for row in rows if self._is_ours(row)})
            await self._judge()
        except StoreBusy as problem:
            self._read_s = 0.0  # read it at the next check
            self._streams.report(LogEvent.CONNECTIONS_UNREADABLE, problem=str(problem))

    def _failed(self, problem: Exception) -> None:
        """Log only the type of an unexpected error, because the error's text may contain a secret."""
        self._streams.report(LogEvent.CONNECTIONS_FAILED, problem=type(problem).__name__)

    async def _ask(self, work: Callable[[], T]) -> T:
        """Run a blocking function on a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- start and stop feeds as the store requires

    async def _reconcile(self, rows: Mapping[int, ConnectionRow]) -> None:
        before, self._rows = self._rows, dict(rows)
        unswept, self._unswept = self._unswept, set[int]()  # of the partitions that `rows` covers
        for number, run in list(self._runs.items()):
            row = rows.get(number)
            if (
                row is None
                or row.phase in RESTING
                or row.symbols != run.row.symbols
                or _needs_restart(before.get(number), row)
            ):
                await self._end(number)
        self._retire(before, unswept)
        now_s = asyncio.get_running_loop().time()
        starts: Counter[str] = Counter()
        for number, row in rows.items():
            if not self._is_ours(row):
                continue  # lost meanwhile
            if row.phase in RESTING:
                self._rest(row)
            elif number not in self._runs and (
                number not in self._resting or now_s >= self._resting[number][0]
            ):
                starts[row.broker] += 1
                if starts[row.broker] <= MAX_STARTS_PER_BROKER:
                    await self._begin_or_wait(row)
                else:
                    self._changed.set()

    async def _begin_or_wait(self, row: ConnectionRow) -> None:
        """Start a connection. After an internal error retry later, without affecting the other connections."""
        try:
            await self._begin(row)
        except Exception as problem:  # noqa: BLE001 - a supervisor: see above; what the problem says may hold a secret
            self._streams.report(
                LogEvent.CONNECTION_START_FAILED, connection_id=row.id, problem=type(problem).__name__
            )
            self._wait(row.id, self._backoff(row.id))

    def _wait(self, number: int, backoff: Backoff) -> None:
        self._resting[number] = (asyncio.get_running_loop().time() + backoff.next_s(), backoff)

    def _backoff(self, number: int) -> Backoff:
        """Return the `Backoff` with the growing pauses between a connection's starts; create it if needed."""
        resting = self._resting.pop(number, None)
        return resting[1] if resting else Backoff(self._parts.speedup, FIRST_PAUSE_S, LONGEST_PAUSE_S)

    async def _begin(self, row: ConnectionRow) -> None:
        parts = self._parts
        try:
            feed = await self._ask(lambda: parts.feed(row))
        except ConnectionNotAllowed as problem:
            await self._move(row, Sign.REFUSED, problem.code)
            return
        except (InvalidCredential, ImportError) as problem:
            code = "wrong_entry" if isinstance(problem, InvalidCredential) else "not_installed"
            await self._move(row, Sign.REFUSED, code)
            return
        except VaultBroken as problem:
            self._streams.report(
                LogEvent.CREDENTIALS_NOT_DECRYPTED, connection_id=row.id, problem=str(problem)
            )
            await self._move(row, Sign.LOGIN_REFUSED, "entries_lost")
            return
        if not self._is_ours(row):
            await feed.close()
            return
        now_s = asyncio.get_running_loop().time()
        task = self._streams.attach(row.user_id, feed)
        self._runs[row.id] = _Run(row, task, self._backoff(row.id), now_s)

    async def _end(self, number: int) -> None:
        run = self._runs.pop(number, None)
        if run is not None:
            await end([run.task])  # it closes its streams

    def _rest(self, row: ConnectionRow) -> None:
        """Show on the streams of a stopped connection why the connection is stopped."""
        for key in self._streams.streams(row.user_id, row.broker):
            self._streams.refuse(key, row.code)

    def _retire(self, before: Mapping[int, ConnectionRow], unswept: set[int]) -> None:
        """Hide streams of removed connections and of products no longer chosen.

        After a start this includes streams of connections that were removed earlier (`unswept`). If an agent pushes a
        stream under a broker's name, the stream appears again with its next push.
        """
        wanted = {(row.user_id, row.broker): set(row.symbols) for row in self._rows.values()}
        looked_at = {(row.user_id, row.broker) for row in before.values() if self._is_ours(row)}
        if unswept:
            feeds = self._streams.feeds()
            if feeds is None:
                self._unswept |= unswept if self._owned is None else unswept & self._owned
            looked_at |= {
                (owner, feed)
                for owner, feed in feeds or ()
                if owner and feed in self._parts.adapters and partition_of_feed(owner, feed) in unswept
            }
        for feed in looked_at:
            for key in self._streams.streams(*feed):
                if key.contract.root not in wanted.get(feed, ()):
                    self._streams.retire(key)

    # -- phases

    def _statuses(self, row: ConnectionRow) -> Mapping[StreamKey, StreamStatus | None]:
        """Return the status of each stream of a connection; None for one that has not started."""
        contracts = sorted(self._streams.contracts_of(row.user_id, row.broker))
        keys = [StreamKey(row.user_id, row.broker, contract) for contract in contracts]
        return {key: self._streams.status(key) for key in keys}

    async def _judge(self) -> None:
        for number, run in list(self._runs.items()):
            row = self._rows.get(number)
            if row is None or not self._is_ours(row):
                continue
            late = asyncio.get_running_loop().time() - run.begun_s > START_TIMEOUT_S / self._parts.speedup
            missing = START_OVERDUE if late else NOT_STARTED
            sign, code = summarize_streams([status or missing for status in self._statuses(row).values()])
            if run.task.done() and sign not in {Sign.LOGIN_REFUSED, Sign.REFUSED}:
                del self._runs[number]  # an internal error, which the engine has logged
                self._wait(number, run.backoff)
            await self._move(row, sign, code)

    async def _move(self, row: ConnectionRow, sign: Sign, code: str) -> None:
        """Change a connection's phase, in the database and in memory.

        If another process changed the phase meanwhile, only schedule to read the database again.
        """
        phase = moved(row.phase, sign)
        if (phase, code) == (row.phase, row.code):
            return
        now_ns = self._parts.clock.now_ns()
        done = await self._ask(lambda: self._parts.store.move(row.id, row.phase, phase, code, now_ns))
        if not done:
            self._changed.set()
            return
        self._rows[row.id] = replace(row, phase=phase, code=code, since_ns=now_ns)
        if phase in RESTING:
            if row.id in self._runs:
                await self._end(row.id)
            self._rest(self._rows[row.id])


def _needs_restart(before: ConnectionRow | None, row: ConnectionRow) -> bool:
    """Return whether the user asked to restart a running connection, by comparing its earlier row with the new one."""
    return (
        before is not None
        and (row.phase, row.code) == (ConnectionPhase.CONNECTING, "connecting")
        and row.since_ns != before.since_ns
    )

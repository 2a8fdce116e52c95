"""Push a replayed feed to a running service and show the progress.

The queue of events to push is bounded, so the reader is never more than a few batches ahead of the service.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from outcry.agent.pusher import Pusher
from outcry.base.tasks import BackgroundTasks
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Bars, CaughtUp, Cursor, Ended, Event, FeedLost, Heartbeat, Trades
from outcry.trades.push_format import KEEP_ALIVE_S

if TYPE_CHECKING:
    from outcry.feeds.recording import Recording
    from outcry.feeds.replay import ReplayFeed

#: Maximum number of events in the queue, over all contracts.
MOST_WAITING = 64


@dataclass(slots=True)
class Played:
    """Counts of the rows that the service has accepted, and the range of their times (ns UTC)."""

    rows: int = 0
    first_ns: int = 0
    last_ns: int = 0
    contracts: set[Contract] = field(default_factory=set[Contract])

    def add(self, contract: Contract, event: Event) -> None:
        """Count an accepted event."""
        if isinstance(event, Trades | Bars):
            at_ns = event.rows["ts_event"]
            first_ns, last_ns = int(at_ns.min()), int(at_ns.max())
            self.rows += len(event.rows)
            self.first_ns = min(self.first_ns or first_ns, first_ns)
            self.last_ns = max(self.last_ns, last_ns)
            self.contracts.add(contract)


class Player:
    """Pushes one replayed feed to a service, once. `played`: what the service has accepted, also after an error."""

    def __init__(self, feed: "ReplayFeed") -> None:
        self._feed = feed
        self.played = Played()
        self._waiting: asyncio.Queue[tuple[Contract, Event | FeedLost]] = asyncio.Queue(MOST_WAITING)
        self._last_push_s: dict[Contract, float] = {}

    async def run(self, url: str, key: str) -> None:
        """Push the whole feed. Raises `ApiError`, `Unreachable`, `FeedLost`, and `ValueError` for an invalid URL."""
        feed = self._feed
        readers = BackgroundTasks()
        try:
            with Console(stderr=True).status("Reading files …"):
                recording = await feed.recording()
            pusher = Pusher(url, key, feed.name, feed.caps)
            contracts = await feed.contracts()
            for contract in contracts:
                readers.start(contract.key, self._read(contract))
            self._last_push_s = dict.fromkeys(contracts, time.monotonic())
            with _progress(recording) as shown, ThreadPoolExecutor(1, "outcry-push") as thread:
                await self._push(pusher, thread, shown)
        finally:
            await readers.stop()
            await feed.close()

    async def _read(self, contract: Contract) -> None:
        """Read the stream of one contract to its end, into the queue of events to push."""
        try:
            async for event in self._feed.open(contract, Cursor(0)):
                await self._waiting.put((contract, event))
        except FeedLost as problem:
            await self._waiting.put((contract, problem))

    async def _push(self, pusher: Pusher, thread: ThreadPoolExecutor, shown: Callable[[int], None]) -> None:
        """Push events until every contract has ended.

        On an error, tell the service that the feed has stopped. `shown`: called with the replayed time (ns UTC) to show
        progress.
        """
        loop = asyncio.get_running_loop()
        try:
            while self._last_push_s:
                for contract, events in (await self._gathered()).items():
                    if events:
                        await loop.run_in_executor(thread, pusher.push, contract, events)
                        self._note(contract, events, shown)
                    else:
                        await loop.run_in_executor(thread, pusher.beat, contract)
                        self._last_push_s[contract] = time.monotonic()
        except BaseException:
            pusher.stop()
            thread.submit(pusher.bye)  # runs after the current push, which stops now
            raise
        finally:
            thread.submit(pusher.close)

    async def _gathered(self) -> dict[Contract, list[Event]]:
        """Wait for events; return them by contract, with an empty list for each contract that needs a keep-alive."""
        found: dict[Contract, list[Event]] = {}
        due_s = min(self._last_push_s.values()) + KEEP_ALIVE_S - time.monotonic()
        try:
            # not `wait_for`, which may lose a cancellation before Python 3.12
            async with asyncio.timeout(max(due_s, 0.01)):
                item = await self._waiting.get()
        except TimeoutError:
            pass
        else:
            _file(item, found)
            while not self._waiting.empty():
                _file(self._waiting.get_nowait(), found)
        silent_s = time.monotonic() - KEEP_ALIVE_S
        return found | {c: [] for c, at_s in self._last_push_s.items() if at_s <= silent_s and c not in found}

    def _note(self, contract: Contract, events: list[Event], shown: Callable[[int], None]) -> None:
        self._last_push_s[contract] = time.monotonic()
        for event in events:
            self.played.add(contract, event)
            if isinstance(event, Heartbeat | CaughtUp):
                shown(event.at_ns)
        shown(self.played.last_ns)
        if isinstance(events[-1], Ended):
            del self._last_push_s[contract]


def _file(item: tuple[Contract, Event | FeedLost], found: dict[Contract, list[Event]]) -> None:
    contract, event = item
    if isinstance(event, FeedLost):
        raise event
    found.setdefault(contract, []).append(event)


@contextmanager
def _progress(recording: "Recording") -> Generator[Callable[[int], None]]:
    """Show a progress bar of replayed time on a terminal. Yields a function that takes the time reached (ns UTC)."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn()
    timeline = recording.timeline
    end_ns = max(recording.end_ns(contract.root) for contract in recording.contracts)
    bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
    with bar:
        task = bar.add_task("", total=max(timeline.played(end_ns), 1))
        furthest = 0

        def show(at_ns: int) -> None:
            nonlocal furthest
            if at_ns > furthest:
                furthest = at_ns
                time_text = f"{datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"
                bar.update(task, completed=max(timeline.played(at_ns), 0), description=time_text)

        yield show

"""One contract of a session: what has come for it and was not taken yet.

Rule kept: what came before a session broke is handed out before the break is told.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable

from outcry.core.instruments import Contract
from outcry.ports.feed import CaughtUp, Event, FeedLost, Heartbeat, RowFlag, Status, Trades
from outcry.ports.records import Rows

#: Told with each event handed out: rows are waiting for somebody no more.
Taken = Callable[[], None]


class Line:
    """Events of one contract from an instant on. A line with no reader keeps a place for one expected back."""

    def __init__(self, contract: Contract, symbol: str, since_ns: int, taken: Taken) -> None:
        self.contract, self.symbol = contract, symbol
        self.begin_ns = self.since_ns = since_ns
        self.newest_ns = since_ns
        self.has_reader = False
        self.mapped = False
        self.rows = 0
        self.read_s = 0.0
        self._taken = taken
        self._waiting: deque[Event] = deque()
        self._bell = asyncio.Event()
        self._problem: FeedLost | None = None

    def put(self, event: Event) -> None:
        """Have an event wait; of two heartbeats running the newer says it all."""
        if self._problem is not None:
            return
        if isinstance(event, Heartbeat) and self._waiting and isinstance(self._waiting[-1], Heartbeat):
            self._waiting.pop()
        self._waiting.append(event)
        self._bell.set()

    def put_rows(self, rows: Rows) -> None:
        """Have trades wait."""
        if not len(rows) or self._problem is not None:
            return
        self.newest_ns = max(self.newest_ns, int(rows["ts_event"].max()))
        self.rows += len(rows)
        self.put(Trades(rows))

    def stands(self) -> None:
        """The gateway has named the instrument."""
        if not self.mapped:
            self.mapped = True
            self.put(Status(subscribed=True, code="subscribed"))

    def caught_up(self, at_ns: int, event: CaughtUp) -> None:
        """The replay has reached the present."""
        if not self.mapped:
            text = f"the gateway has named no instrument {self.symbol}"
            self.put(Status(subscribed=False, code="unsubscribed", text=text))
        self.put(event)
        self.put(Heartbeat(at_ns))

    def fail(self, problem: FeedLost) -> None:
        """Nothing more will come, and why."""
        self._problem = self._problem or problem
        self._bell.set()

    def drop(self, problem: FeedLost) -> None:
        """Let go of what waits, too."""
        self._waiting.clear()
        self.rows = 0
        self.fail(problem)

    async def events(self) -> AsyncGenerator[Event, None]:
        """What has come, then what comes. Raises what the line failed with."""
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                self.read_s = asyncio.get_running_loop().time()
                if isinstance(event, Trades):
                    self.rows -= len(event.rows)
                    self._taken()
                    event = self._wanted(event)
                if event is not None:
                    yield event
            if self._problem is not None:
                raise type(self._problem)(self._problem.code, str(self._problem))
            self._bell.clear()
            await self._bell.wait()

    def _wanted(self, event: Trades) -> Trades | None:
        """The rows from the cursor on: a replay begins a little before it."""
        if self.begin_ns >= self.since_ns and event.rows["flags"][-1] & RowFlag.BACKFILL == 0:
            return event
        rows = event.rows[event.rows["ts_event"] >= self.since_ns]
        return Trades(rows) if len(rows) else None

"""Queue of one contract's events in a session with Databento's gateway.

It works like the queue in `feeds.inbox`, except that the session limits the waiting rows of all its contracts together.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from outcry.feeds.inbox import Inbox
from outcry.market.instruments import Contract
from outcry.trades.feed import CaughtUp, Event, Heartbeat, RowFlag, Status, Trades
from outcry.trades.records import Rows

#: Called after each batch of trades the reader took.
RowsTaken = Callable[[], None]


class ContractQueue(Inbox[Event]):
    """Queue of one contract's events from `since_ns` on (ns UTC).

    The queue also collects events while its reader is still reconnecting.
    """

    def __init__(self, contract: Contract, symbol: str, since_ns: int, taken: RowsTaken) -> None:
        super().__init__()
        self.contract, self.symbol = contract, symbol
        self.begin_ns = self.since_ns = since_ns
        self.newest_ns = since_ns
        self.has_reader = False
        self.mapped = False
        self.rows = 0
        self.read_s = 0.0
        self._taken = taken

    def put_rows(self, rows: Rows) -> None:
        """Queue rows of trades for the reader."""
        if not len(rows) or self.problem is not None:
            return
        self.newest_ns = max(self.newest_ns, int(rows["ts_event"].max()))
        self.rows += len(rows)
        self.put(Trades(rows))

    def confirm(self) -> None:
        """Queue the status event that tells the reader that the gateway has confirmed the subscription."""
        if not self.mapped:
            self.mapped = True
            self.put(Status(subscribed=True, code="subscribed"))

    def caught_up(self, at_ns: int, event: CaughtUp) -> None:
        """Queue `event`, which tells the reader that the replay has reached the present, `at_ns` (ns UTC)."""
        if not self.mapped:
            text = f"the gateway sent no instrument for {self.symbol}"
            self.put(Status(subscribed=False, code="unsubscribed", text=text))
        self.put(event)
        self.put(Heartbeat(at_ns))

    def drop(self, problem: Exception) -> None:
        """Discard waiting events and end the stream with an error."""
        super().drop(problem)
        self.rows = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield waiting and new events. Raises the error that ended the queue."""
        while True:
            event = await self.take()
            self.read_s = asyncio.get_running_loop().time()
            if isinstance(event, Trades):
                self.rows -= len(event.rows)
                self._taken()
                event = self._wanted(event)
            if event is not None:
                yield event

    def _wanted(self, event: Trades) -> Trades | None:
        """Return an event with only its rows at or after the cursor; None if no rows are left.

        The cursor is the time from which the reader requested trades. The gateway's replay begins a little earlier.
        """
        if self.begin_ns >= self.since_ns and event.rows["flags"][-1] & RowFlag.BACKFILL == 0:
            return event
        rows = event.rows[event.rows["ts_event"] >= self.since_ns]
        return Trades(rows) if len(rows) else None

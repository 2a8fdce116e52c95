"""Live feed of the simulated market.

It sends exactly the rows of `SimulatedMarket.trades`, each when the clock reaches its time, and continues from session
to session. A new stream counts as caught up at the opening of its trade date. It sends the trades since then as live
trades, so that the alerts of the day so far exist. It reports `catching_up` until it reaches the present. A stream
opened from a cursor catches up first, like any other feed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from outcry.base.clock import Clock
from outcry.feeds.simulator.faults import FaultInjector, Faults
from outcry.feeds.simulator.market import SimulatedMarket
from outcry.feeds.simulator.trade_generation import DELAY_NS
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS, NANOS_PER_SECOND
from outcry.market.windows import LONGEST_CLOSURE_DAYS
from outcry.trades.feed import (
    CATCHING_UP,
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    FeedRefused,
    Gap,
    Heartbeat,
    Resume,
    Status,
)
from outcry.trades.records import Quality

NAME = "simulator"
REACH_NS = 30 * NANOS_PER_DAY
#: Intervals between reads of the clock and between heartbeats.
_POLL_S = 0.1
_HEARTBEAT_NS = NANOS_PER_SECOND
#: Days whose sessions are computed at a time. No closure is longer, so a product without any has ended.
_DAYS = 2 * LONGEST_CLOSURE_DAYS
_CAPS = FeedCaps(
    resolution_ns=NANOS_PER_MS, has_id=True, has_side=True, backfill=Backfill.TICKS, reach_ns=REACH_NS,
    resume=Resume.BY_TIME, has_volume_counter=False, own_clock=True, invented=True,
)  # fmt: skip


class SimulatorFeed:
    """Live feed of the simulated market. Implements `Feed`.

    `run`: id of this execution. It is new each time the simulated clock starts again instead of continuing.
    """

    def __init__(
        self, market: SimulatedMarket, universe: Universe, calendar: Calendar, clock: Clock, *,
        run: str = "", faults: Faults | None = None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self.name, self.caps, self.run = NAME, _CAPS, run
        self._market, self._universe, self._calendar, self._clock = market, universe, calendar, clock
        self._faults, self._sleep = faults or Faults(), sleep
        self._closed = False

    async def contracts(self) -> list[Contract]:
        """Return the front contract, by calendar, of every simulated product."""
        now_ns = self._received_until_ns()
        return [
            self._universe.front(root, session.trade_date)
            for root in self._market.roots
            if (session := next(self._sessions(root, now_ns), None))
        ]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract; a cursor at 0 starts with the overnight session of the current trade date.

        Raises `FeedRefused` for a product that is not simulated, and `FeedLost` only as a configured fault.
        """
        if contract.root not in self._market.roots:
            raise FeedRefused("unsubscribed", f"{contract.key} is not in the simulated market")
        begun_ns = heartbeat_ns = self._received_until_ns()
        start_ns = (
            max(since.since_ns, begun_ns - REACH_NS) if since.since_ns > 0 else self._day_open(contract)
        )
        caught_up = since.since_ns <= 0
        behind = caught_up and start_ns < begun_ns
        if behind:
            yield Status(subscribed=True, code=CATCHING_UP)
        if caught_up:
            yield CaughtUp(min(start_ns, begun_ns), Quality.TICKS)
        elif start_ns > since.since_ns:
            yield Gap(since.since_ns, start_ns, "history too short")
        injector = FaultInjector(self._faults)
        for session in self._sessions(contract.root, start_ns):
            rows = await asyncio.to_thread(self._market.trades, contract, session)
            times = rows["ts_event"]
            sent, due_ns = int(np.searchsorted(times, start_ns)), 0
            while due_ns < session.close_ns and not self._closed:
                if due_ns:
                    await self._sleep(_POLL_S)
                due_ns = self._received_until_ns()
                due = int(np.searchsorted(times, due_ns, "right"))
                for event in injector.inject(rows[sent:due], due_ns):
                    yield event
                sent = max(sent, due)
                if not caught_up and due_ns < session.close_ns:
                    caught_up = True
                    yield CaughtUp(due_ns, Quality.TICKS)
                if behind and due_ns < session.close_ns:
                    behind = False
                    yield Status(subscribed=True, code="subscribed")
                if due_ns >= heartbeat_ns + _HEARTBEAT_NS and due_ns < session.close_ns:
                    heartbeat_ns = due_ns
                    yield Heartbeat(due_ns)
            if self._closed:
                return

    async def close(self) -> None:
        """End the feed. Every stream ends when it next reads the clock."""
        self._closed = True

    def _received_until_ns(self) -> int:
        """Return the time (ns UTC) up to which all simulated trades count as received."""
        return self._clock.now_ns() - DELAY_NS

    def _day_open(self, contract: Contract) -> int:
        """Return when the current or next trade date opens (ns UTC), with its overnight session if it has one."""
        session = next(self._sessions(contract.root, self._received_until_ns()))
        night = self._calendar.session(contract.root, session.trade_date, SessionKind.ETH)
        return night.open_ns if night else session.open_ns

    def _sessions(self, root: str, from_ns: int) -> Iterator[Session]:
        """Yield the sessions that close after `from_ns` (ns UTC), in order, until the product has no more hours."""
        first = datetime.fromtimestamp(from_ns // NANOS_PER_SECOND, UTC).date() - timedelta(days=2)
        while sessions := self._calendar.sessions(root, first, first + timedelta(days=_DAYS - 1)):
            for session in sessions:
                if session.close_ns > from_ns:
                    yield session
            first += timedelta(days=_DAYS)

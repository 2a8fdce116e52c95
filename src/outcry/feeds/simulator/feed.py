"""The simulated market as a live feed.

Rules kept: it sends exactly the rows of `market.Market.trades`, each when its time has come by the clock given, and
goes from session to session by itself. A stream that begins has caught up at once, at the opening of its trade date:
what was traded since then is sent as news, so that the alerts of the day so far exist; until it reaches the present, it
says that it is behind. A stream that goes on from a cursor catches up first, as any feed does.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from outcry.base.clock import Clock
from outcry.feeds.simulator.auction import DELAY_NS
from outcry.feeds.simulator.faults import Faults, Telling
from outcry.feeds.simulator.market import Market
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.instruments import Contract, Universe
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_MS, NANOS_PER_SECOND
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
#: A look at the clock, and a heartbeat, each so often.
_LOOK_S = 0.1
_BEAT_NS = NANOS_PER_SECOND
_CAPS = FeedCaps(
    resolution_ns=NANOS_PER_MS, has_id=True, has_side=True, backfill=Backfill.TICKS, reach_ns=REACH_NS,
    resume=Resume.BY_TIME, has_volume_counter=False, own_clock=True, invented=True,
)  # fmt: skip


class SimulatorFeed:
    """Implements `Feed`. `run`: names this performance, where the clock does not go on from the last."""

    def __init__(
        self, market: Market, universe: Universe, calendar: Calendar, clock: Clock, *,
        run: str = "", faults: Faults | None = None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        self.name, self.caps, self.run = NAME, _CAPS, run
        self._market, self._universe, self._calendar, self._clock = market, universe, calendar, clock
        self._faults, self._sleep = faults or Faults(), sleep
        self._closed = False

    async def contracts(self) -> list[Contract]:
        """The front contract, by calendar, of every product of the simulated market."""
        now_ns = self._due_ns()
        return [
            self._universe.front(root, session.trade_date)
            for root in self._market.roots
            if (session := next(self._sessions(root, now_ns), None))
        ]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """See `Feed`. A cursor at 0 begins with the trade date it is now, its night included.

        Raises `FeedRefused` for a product that is not simulated, `FeedLost` only as a fault asked for.
        """
        if contract.root not in self._market.roots:
            raise FeedRefused("unsubscribed", f"{contract.key} is not in the simulated market")
        begun_ns = beat_ns = self._due_ns()
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
        telling = Telling(self._faults)
        for session in self._sessions(contract.root, start_ns):
            rows = await asyncio.to_thread(self._market.trades, contract, session)
            times = rows["ts_event"]
            sent, due_ns = int(np.searchsorted(times, start_ns)), 0
            while due_ns < session.close_ns and not self._closed:
                if due_ns:
                    await self._sleep(_LOOK_S)
                due_ns = self._due_ns()
                due = int(np.searchsorted(times, due_ns, "right"))
                for event in telling.tell(rows[sent:due], due_ns):
                    yield event
                sent = max(sent, due)
                if not caught_up and due_ns < session.close_ns:
                    caught_up = True
                    yield CaughtUp(due_ns, Quality.TICKS)
                if behind and due_ns < session.close_ns:
                    behind = False
                    yield Status(subscribed=True, code="subscribed")
                if due_ns >= beat_ns + _BEAT_NS and due_ns < session.close_ns:
                    beat_ns = due_ns
                    yield Heartbeat(due_ns)
            if self._closed:
                return

    async def close(self) -> None:
        """End every stream at its next look at the clock."""
        self._closed = True

    def _due_ns(self) -> int:
        """Trades up to this instant have been received by now."""
        return self._clock.now_ns() - DELAY_NS

    def _day_open(self, contract: Contract) -> int:
        """When the trade date it is now, or is next, opened: with its night, where there is one."""
        session = next(self._sessions(contract.root, self._due_ns()))
        night = self._calendar.session(contract.root, session.trade_date, SessionKind.ETH)
        return night.open_ns if night else session.open_ns

    def _sessions(self, root: str, from_ns: int) -> Iterator[Session]:
        """Sessions that close after an instant (ns UTC), in order, without end."""
        first = datetime.fromtimestamp(from_ns // NANOS_PER_SECOND, UTC).date() - timedelta(days=2)
        while True:
            for session in self._calendar.sessions(root, first, first + timedelta(days=13)):
                if session.close_ns > from_ns:
                    yield session
            first += timedelta(days=14)

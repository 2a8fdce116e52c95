"""Runs one stream: reads a feed's events, logs and applies them, and shows the result in the registry."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import date
from typing import cast

import numpy as np

from outcry.live import entries
from outcry.live.columns import columns_of
from outcry.live.gap_tracker import GapTracker
from outcry.live.health import Phase, Sign
from outcry.live.history_start import answered_begin_ns, begin_ns
from outcry.live.intake import MAX_AHEAD_NS, Intake, SessionRows, TradingPeriod
from outcry.live.live_stream import LiveStream, StreamServices
from outcry.live.model import StreamKey
from outcry.trades import feed as ports
from outcry.trades.records import Rows
from outcry.trades.session_index import SessionIndex
from outcry.trades.validation import fault_of
from outcry.trades.volume_gap_check import VolumeGapCheck

#: Rows in one frame of the log, at most.
_MOST_ROWS = 20_000
#: Events that arrive in series; the sessions are refolded once after the last of them.
_AMENDING = (ports.Amend, ports.Replaced, ports.Bars)
#: Events taken before waiting for the log, which writes them together.
_EVENTS_PER_WAIT = 256
#: The longest time a stream uses the event loop without a pause, as far as one event can be split.
_LONGEST_TURN_S = 0.004
#: Reasons that one more trade of the session does not change.
_STEADY = frozenset({"live", "no_prior", "not_front"})


class Runner(LiveStream):
    """Runs one stream: receives a feed's rows, logs them, and stores completed sessions.

    Use it on the event loop; only the view is computed on other threads. index: the calendar of the product. life: from
    when to when the contract can trade (ns UTC).
    """

    def __init__(
        self, key: StreamKey, tick_e9: int, index: SessionIndex, life: TradingPeriod, services: StreamServices
    ) -> None:
        super().__init__(key, tick_e9, life, services)
        self._gaps = GapTracker(self.stream, services.calendar, key.contract.root)
        self.intake = Intake(tick_e9, index, self._day, life)
        #: Trade dates used last.
        self._days: dict[date, entries.Day] = {}
        #: Minutes known from bars alone, for a feed that is about to start.
        self.barred_ns: tuple[int, ...] = ()
        #: When this stream last let other tasks run (time of the event loop).
        self._since_s = 0.0
        self._volume = VolumeGapCheck()

    # -- the feed

    def begin(self, feed: ports.Feed) -> None:
        """Log the properties of a feed as the first entry of a new stream.

        Raises `ValueError` if the feed has the name of a simulated feed but real trades, or the reverse.
        """
        if feed.caps.invented != (feed.name in ports.SIMULATED_SOURCES):
            raise ValueError(
                f"a feed of simulated trades is called {', '.join(ports.SIMULATED_SOURCES)}, and no other is"
            )
        if not self.stream.position:
            self.log(entries.Began(feed.run, feed.caps.own_clock, feed.caps.invented, feed.caps.lag_ns))
            self.channel.simulated = self.stream.simulated

    async def _cursor(self) -> ports.Cursor:
        """Return where the feed should start: shortly before the newest row.

        Some trades of that time may not have arrived before the interruption.
        """
        latest_ns = self.stream.latest_ns
        barred_ns, self.barred_ns = self.barred_ns, ()
        since_ns = max(0, latest_ns - ports.OVERLAP_NS) if latest_ns else await self._begin_ns()
        root, now_ns = self.key.contract.root, self._services.clock.now_ns()
        answered_ns = 0 if self.stream.own_clock else answered_begin_ns(self._services.calendar, root, now_ns)
        return ports.Cursor(since_ns, barred_ns=barred_ns, answered_ns=answered_ns)

    async def _begin_ns(self) -> int:
        """Return where the history of a new stream begins (ns UTC); 0 for a feed with its own clock."""
        if self.stream.own_clock:
            return 0
        return await begin_ns(
            self._services.calendar, self._services.opening, self.key, self._services.clock.now_ns()
        )

    async def follow(self, feed: ports.Feed) -> None:
        """Receive and process the events of a feed until the feed ends.

        Raises `FeedLost`, `FeedRefused`, and `OSError` if the disk is full.
        """
        loop = asyncio.get_running_loop()
        health, stream = self.health, self.stream
        since = await self._cursor()
        before_ns = stream.time_ns if stream.covered_ns else 0
        unconfirmed = 0
        self._gaps.reopen(since.since_ns, feed.caps, self._services.clock.now_ns())
        self.intake.resume(stream.recent, stream.latest_ns, stream.last_bar_ns, stream.barred_ns)
        health.take(Sign.OPENED)
        self.update_availability(loop.time())
        try:
            events = cast("AsyncGenerator[ports.Event]", feed.open(self.key.contract, since))
            async with aclosing(events) as stream_of_events:
                async for event in stream_of_events:
                    health.heard(loop.time())
                    unconfirmed = (unconfirmed + 1) % _EVENTS_PER_WAIT
                    if not unconfirmed:
                        await self.stream.persisted()
                    if self.stream.amended and not isinstance(event, _AMENDING):
                        await self.stream.load_history()
                    if isinstance(event, ports.Trades) and self._take_directly(event.rows):
                        continue
                    await self._yield_to_others()
                    await self._take(event, feed.caps, before_ns)
                    self.update_availability(loop.time())
                    if self.ended:
                        return
        finally:
            if not self.ended:
                health.take(Sign.BROKE)
            self.update_availability(loop.time())

    def _refuse_impossible(self, event: ports.Event) -> None:
        """Raise `FeedLost` for an event with an impossible time.

        Such an event would end current sessions too early. The times of rows are checked elsewhere, by `Intake`.
        """
        if self.stream.own_clock or isinstance(event, ports.Trades | ports.Bars | ports.Replaced):
            return
        latest_ns = self._services.clock.now_ns() + MAX_AHEAD_NS
        if fault := fault_of(event, latest_ns, self._life):
            raise ports.FeedLost("protocol", f"{type(event).__name__} with impossible {fault}")

    async def _take(self, event: ports.Event, caps: ports.FeedCaps, before_ns: int) -> None:
        self._refuse_impossible(event)
        match event:
            case ports.Trades():
                for batch in self.intake.trades(event.rows):
                    await self._enter(batch, caps)
            case ports.Bars():
                # The feed's volume counter includes these lots, ours does not.
                self._volume = VolumeGapCheck()
                for batch in self.intake.bars(event.rows, event.quality, event.quality.length_ns):
                    await self._enter_bars(batch, event, caps)
            case ports.Replaced():
                for replacement in self.intake.replaced(event):
                    self.log(replacement)
            case ports.Heartbeat():
                await self._advance_time(event.at_ns)
            case ports.CaughtUp():
                await self._caught_up(event, caps, before_ns)
            case ports.Gap():
                self._log_gap(self._gaps.reported(event))
            case ports.Repaired():
                self.log(entries.Mended(event.from_ns, event.to_ns))
            case ports.Amend():
                self.log(entries.Amended(event.id, event.kind, event.price, event.size))
            case ports.VolumeCounter():
                self._count(event)
            case ports.Status():
                self.health.subscribed = event.subscribed
                self.health.behind = event.subscribed and event.code == ports.CATCHING_UP
                self.channel.feed_code = "" if event.subscribed else event.code
            case ports.Ended():
                await self._advance_time(event.at_ns)
                self.health.take(Sign.ENDED)

    def _take_directly(self, rows: Rows) -> bool:
        """Apply trades without checks if they continue the current session, as nearly all trades do.

        Return False, and apply none, if the trades need the checks of `_enter`.
        """
        if not len(rows) or len(rows) > _MOST_ROWS or self.channel.availability.reason not in _STEADY:
            return False
        columns = self.intake.plain(rows, self.stream.deadline_ns, self.stream.lag_ns)
        if columns is None:
            return False
        self._traded(self.stream.log_trades(self.intake.day, columns), columns)
        return True

    async def settle(self) -> None:
        """Store the sessions that have ended since the feed was disconnected.

        Call it only while no task receives from the feed. The time without data is logged as a gap, which the feed may
        fill when it returns.
        """
        market_ns, stream = self.market_ns, self.stream
        while stream.deadline_ns <= market_ns:
            deadline_ns = stream.deadline_ns
            known_ns = max(stream.time_ns, self._beat_ns)
            if known_ns < deadline_ns:
                self._log_gap(self._gaps.new(known_ns, deadline_ns, "disconnected"))
            await self._pass_deadlines(deadline_ns)

    async def _yield_to_others(self) -> None:
        """Let other tasks run if this stream has used the event loop for too long at a time."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since_s > _LONGEST_TURN_S:
            await asyncio.sleep(0)
            self._since_s = loop.time()

    def _day(self, trade_date: date) -> entries.Day:
        if trade_date not in self._days:
            (found,) = self._services.calendar.trading_days(self.key.contract.root, trade_date, trade_date)
            self._days = {
                trade_date: entries.Day(str(trade_date), found.close_ns),
                **dict(list(self._days.items())[:3]),
            }
        return self._days[trade_date]

    async def _enter(self, batch: SessionRows, caps: ports.FeedCaps) -> None:
        """Log and apply trades of one session in batches. A batch ends where another session must be stored first."""
        rows = batch.rows
        while len(rows):
            await self._yield_to_others()
            first_ns = int(rows["ts_event"][0])
            self._log_gaps_before(first_ns, first_ns - ports.OVERLAP_NS, caps)
            await self._pass_deadlines(first_ns)
            await self._open(batch.session)
            fit = int(np.searchsorted(rows["ts_event"], self.stream.deadline_ns))
            part = rows[: min(fit or len(rows), _MOST_ROWS)]
            columns = columns_of(part, self._tick_e9, self.stream.lag_ns)
            self._traded(self.stream.log_trades(batch.day, columns), columns)
            rows = rows[len(part) :]

    async def _enter_bars(self, batch: SessionRows, event: ports.Bars, caps: ports.FeedCaps) -> None:
        """Log and apply bars of one session, each as a separate entry."""
        for at in range(len(batch.rows)):
            await self._yield_to_others()
            row = batch.rows[at : at + 1]
            first_ns = int(row["ts_event"][0])
            self._log_gaps_before(first_ns, first_ns, caps)
            await self._pass_deadlines(first_ns)
            await self._open(batch.session)
            bar_ns = event.quality.length_ns
            self.log(entries.BarRows(batch.day, row.tobytes(), event.quality, bar_ns, event.backfill))

    async def _advance_time(self, at_ns: int) -> None:
        """Advance event time to a time (ns UTC) at which nothing traded."""
        self._beat_ns = max(self._beat_ns, at_ns)
        await self._pass_deadlines(at_ns)
        if self.stream.due_ns <= at_ns:
            self.log(entries.Mark(at_ns))

    async def _caught_up(self, event: ports.CaughtUp, caps: ports.FeedCaps, before_ns: int) -> None:
        if before_ns and self.health.phase is not Phase.CURRENT:
            self._log_gap(self._gaps.after_interruption(caps, before_ns, event.at_ns))
        self._log_gaps_before(event.at_ns, event.at_ns, caps)
        self.intake.caught_up(event.at_ns)
        self.health.take(Sign.CAUGHT_UP)
        self._gaps.caught_up()
        if not self.stream.warm:
            self.log(entries.Caught(event.at_ns, event.quality))
        await self._advance_time(event.at_ns)

    def _log_gaps_before(self, first_ns: int, complete_ns: int, caps: ports.FeedCaps) -> None:
        """Log a new gap, and the gaps that the feed has filled, before a row at `first_ns` (ns UTC) is applied.

        They must be in the log before the session of that time is stored.
        """
        for entry in self._gaps.before(first_ns, complete_ns, caps):
            self.log(entry)

    def _log_gap(self, gap: entries.Hole | None) -> None:
        if gap is not None:
            self.log(gap)

    def _count(self, event: ports.VolumeCounter) -> None:
        hole = self._volume.check(event, self._lots) if self.health.phase is Phase.CURRENT else None
        if hole is not None:
            self._log_gap(self._gaps.new(*hole, "volume counter"))

"""Runs one stream: reads a feed's events, logs and applies them, and shows the result in the registry.

A completed session is stored before the stream continues, because levels of the next session refer to it. Live and
replayed sessions then agree.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import date
from typing import cast

import numpy as np

from outcry.base.clock import Clock
from outcry.live import entries
from outcry.live.alert_queue import AlertQueue
from outcry.live.alert_row import alert_row
from outcry.live.columns import columns_of
from outcry.live.gap_tracker import GapTracker
from outcry.live.health import MAX_DRIFT_NS, Health, Phase, Sign
from outcry.live.history_start import Openings, answered_begin_ns, begin_ns
from outcry.live.intake import MAX_AHEAD_NS, Intake, SessionRows, TradingPeriod
from outcry.live.logged import LoggedStream
from outcry.live.model import AlertRow, StreamKey, TradeLog
from outcry.live.registry import Availability, Channel, Registry
from outcry.live.stream import Outcome
from outcry.market.alerts.machine import Fired
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.opening import Opening
from outcry.trades import feed as ports
from outcry.trades.records import Quality, Rows
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
#: Troubles that a stalled log explains: nothing more is read from the feed while its rows cannot be logged.
_UNWRITTEN = frozenset({"", "catching_up", "stale_link"})
#: Reasons that one more trade of the session does not change.
_STEADY = frozenset({"live", "no_prior", "not_front"})


@dataclass(frozen=True, slots=True)
class StreamServices:
    """The functions that every runner of an engine uses.

    opening: makes the opening of a session; may wait. store: stores a completed session in the database; may wait, and
    returns True once it is stored. alerts: takes the alerts of streams.
    """

    log: TradeLog
    registry: Registry
    clock: Clock
    calendar: Calendar
    opening: Openings
    store: Callable[["Runner", str], Awaitable[bool]]
    alerts: AlertQueue


class Runner:
    """Runs one stream: receives a feed's rows, logs them, and stores completed sessions.

    Call it on the event loop; only the view is computed on other threads. index: the calendar of the product. life:
    when the contract can trade (ns UTC).
    """

    def __init__(
        self, key: StreamKey, tick_e9: int, index: SessionIndex, life: TradingPeriod, services: StreamServices
    ) -> None:
        self.key, self._life, self._services = key, life, services
        self.name = key.text
        self._tick_e9 = tick_e9
        self.stream = LoggedStream(key.text, tick_e9, services.log)
        self.channel = Channel(key, simulated=False, peek=self.stream.view)
        self._gaps = GapTracker(self.stream, services.calendar, key.contract.root)
        self.intake = Intake(tick_e9, index, self._day, life)
        self.health = Health()
        self.saved_position = 0
        #: When this process acquired the stream.
        self.since_ns = services.clock.now_ns()
        self._store_lock = asyncio.Lock()
        #: Minutes known from bars alone, for a feed that is about to start.
        self.barred_ns: tuple[int, ...] = ()
        #: The code of the last loss, and whether the feed refused the login.
        self.lost_code = ""
        self.login_refused = False
        self._beat_ns = 0
        self._since_s = 0.0
        self._drifts = self._unlogged = False
        self._volume, self._lots = VolumeGapCheck(), 0
        self._days: dict[date, entries.Day] = {}

    # -- state

    def _applied(self, outcome: Outcome) -> None:
        """Update the registry after an entry was applied, and queue the alerts that it fired."""
        self.channel.version += 1
        if outcome.fired:
            rows = [self._alert_row(opening, fired) for opening, fired in outcome.fired]
            self._services.alerts.add(self.name, self.stream.position, rows)

    def _alert_row(self, opening: Opening, fired: Fired) -> AlertRow:
        """Return the alert as stored, with its recording time if that is not the present.

        For a feed with its own clock, at any speed, that is the feed's current time. A simulated market includes the
        time before this process started, and an alert of that time counts as recorded when it fired.
        """
        stream = self.stream
        row = alert_row(self.key, self._tick_e9, opening, fired, simulated=stream.simulated)
        if stream.simulated and row.at_ns < self.since_ns:
            return replace(row, recorded_ns=row.at_ns)
        return replace(row, recorded_ns=self.market_ns) if stream.own_clock else row

    async def recover(self, snapshot: tuple[int, bytes] | None, thread: Executor) -> None:
        """Restore the stream from a snapshot and its log, which is read on `thread`.

        Sessions that had ended but were not stored stay pending. Raises `LogDamaged`, `OSError`.
        """
        if snapshot is not None and self.stream.restore(*snapshot):
            self.saved_position = snapshot[0]
        async with aclosing(self.stream.replay(thread)) as outcomes:
            async for outcome in outcomes:
                self._applied(outcome)
        self.channel.simulated = self.stream.simulated
        self.channel.version += 1

    @property
    def market_ns(self) -> int:
        """The time by the feed's clock (ns UTC): the present, or the time that a replay or simulation has reached."""
        if self.stream.own_clock:
            return max(self._beat_ns, self.stream.time_ns)
        return self._services.clock.now_ns()

    @property
    def expired(self) -> bool:
        """Whether the contract does not trade any more."""
        return self.market_ns >= self._life[1]

    @property
    def quality(self) -> Quality:
        """The worst quality of the data that the current or last session is computed from."""
        current = self.stream.current
        ladder = current.ladder() if current else None
        return self.stream.quality if ladder is not None and ladder.source == "bars" else Quality.TICKS

    @property
    def ended(self) -> bool:
        """Whether the feed reported that it has ended for good."""
        return self.health.phase is Phase.ENDED

    def update_availability(self, now_s: float) -> None:
        """Determine whether the stream answers live, and update the registry. now_s: time of the event loop."""
        market_ns = self.market_ns
        root = self.key.contract.root
        current = self.stream.current
        trade_date = self._services.calendar.trade_date_at(root, market_ns)
        if trade_date is None and current is not None:
            trade_date = current.opening.trade_date
        reason = self._reason(now_s, market_ns)
        self._services.registry.set_availability(
            self.channel, Availability(reason == "live", reason, market_ns, trade_date)
        )

    def _reason(self, now_s: float, market_ns: int) -> str:
        """Return the stable code of why the stream is not answered live; `live` if it is."""
        trouble = self.health.trouble(now_s)
        if trouble in _UNWRITTEN and self._services.log.stalled(self.name) is not None:
            return "log_stalled"
        if trouble:
            return trouble
        session = self._services.calendar.session_at(self.key.contract.root, market_ns)
        current = self.stream.current
        if session is None:
            return "closed"
        if current is None or current.empty or current.opening.open_ns != session.open_ns:
            return "no_trades"
        if self.stream.degraded:
            return "degraded"
        if self.stream.lacks_beginning(current.opening):
            return "incomplete"
        if self.health.market_stale(market_ns, self.stream.latest_ns):
            return "stale_market"
        if current.opening.prior is None:
            return "no_prior"
        return "live" if current.opening.front else "not_front"

    # -- the feed

    def begin(self, feed: ports.Feed) -> None:
        """Log the properties of a feed as the first entry of a new stream.

        Raises `ValueError` if the feed's name contradicts whether its trades are simulated.
        """
        if feed.caps.invented != (feed.name in ports.SIMULATED_SOURCES):
            raise ValueError(
                f"a feed of simulated trades is called {', '.join(ports.SIMULATED_SOURCES)}, and no other is"
            )
        if not self.stream.position:
            self.log(entries.Began(feed.run, feed.caps.own_clock, feed.caps.invented, feed.caps.lag_ns))
            self.channel.simulated = self.stream.simulated

    async def _cursor(self) -> ports.Cursor:
        """Return where the feed should start: shortly before the newest row, because trades may have been in flight."""
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
        """Receive and process the events of a feed until it ends.

        Raises `FeedLost` and `FeedRefused`, `OSError` of a full disk.
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
                        await self.persisted()
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

    async def persisted(self) -> None:
        """Wait until the log has persisted every entry. Raises `LogTakenOver`."""
        await self.stream.persisted()

    def _refuse_impossible(self, event: ports.Event) -> None:
        """Raise `FeedLost` for an event with an impossible time, because it would end current sessions.

        The intake checks rows one by one.
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
                    self._log_gap(self._gaps.at_start(int(batch.rows["ts_event"][0]), caps))
                    await self._enter(batch)
            case ports.Bars():
                self._volume = (
                    VolumeGapCheck()
                )  # the feed's volume counter includes their lots, ours does not
                for batch in self.intake.bars(event.rows, event.quality, event.quality.length_ns):
                    self._log_gap(self._gaps.at_start(int(batch.rows["ts_event"][0]), caps))
                    await self._enter_bars(batch, event)
            case ports.Replaced():
                for batch in self.intake.replaced(event):
                    self.log(batch)
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
        """Apply trades without checks if they continue the current session, as nearly all do.

        Return False if none was applied, because the rows need the checks of `_enter`.
        """
        if not len(rows) or len(rows) > _MOST_ROWS or self.channel.availability.reason not in _STEADY:
            return False
        batch = self.intake.plain(rows, self.stream.deadline_ns)
        if batch is None:
            return False
        self._log_trades(batch.day, rows)
        return True

    async def settle(self) -> None:
        """Store sessions that ended while no task follows the feed.

        The missing time is logged as a gap, which the feed may fill when it returns.
        """
        market_ns, stream = self.market_ns, self.stream
        while stream.deadline_ns <= market_ns:
            deadline_ns = stream.deadline_ns
            known_ns = max(stream.time_ns, self._beat_ns)
            if known_ns < deadline_ns:
                self._log_gap(self._gaps.new(known_ns, deadline_ns, "disconnected"))
            await self._pass_deadlines(deadline_ns)

    async def _yield_to_others(self) -> None:
        """Let other tasks run if this stream has used the event loop for long."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._since_s > _LONGEST_TURN_S:
            await asyncio.sleep(0)
            self._since_s = loop.time()

    async def _enter(self, batch: SessionRows) -> None:
        """Log and apply trades of one session, in batches that end where another session must be stored."""
        rows = batch.rows
        while len(rows):
            await self._yield_to_others()
            self._log_filled(int(rows["ts_event"][0]) - ports.OVERLAP_NS)
            await self._pass_deadlines(int(rows["ts_event"][0]))
            await self._open(batch.session)
            fit = int(np.searchsorted(rows["ts_event"], self.stream.deadline_ns))
            part = rows[: min(fit or len(rows), _MOST_ROWS)]
            self._begin_day(batch.day)
            self._log_trades(batch.day, part)
            rows = rows[len(part) :]

    async def _enter_bars(self, batch: SessionRows, event: ports.Bars) -> None:
        """Log and apply bars of one session, each as a separate entry."""
        for at in range(len(batch.rows)):
            await self._yield_to_others()
            row = batch.rows[at : at + 1]
            self._log_filled(int(row["ts_event"][0]))
            await self._pass_deadlines(int(row["ts_event"][0]))
            await self._open(batch.session)
            bar_ns = event.quality.length_ns
            self._begin_day(batch.day)
            self.log(entries.BarRows(batch.day, row.tobytes(), event.quality, bar_ns, event.backfill))

    async def _advance_time(self, at_ns: int) -> None:
        """Advance event time to a timestamp (ns UTC) without a trade."""
        self._beat_ns = max(self._beat_ns, at_ns)
        await self._pass_deadlines(at_ns)
        if self.stream.due_ns <= at_ns:
            self.log(entries.Mark(at_ns))

    async def _pass_deadlines(self, at_ns: int) -> None:
        """Store each session and trade date that has been over for five minutes at a given time (ns UTC)."""
        while self.stream.deadline_ns <= at_ns:
            for what in self.log(entries.Mark(self.stream.deadline_ns)):
                await self._store(what)

    async def _store(self, what: str) -> None:
        """Store a completed session or trade date once; concurrent callers wait until it is stored."""
        async with self._store_lock:
            if what not in self.stream.pending or not await self._services.store(self, what):
                return
            current = self.stream.current
            if current is not None and current.opening.kind is SessionKind.ETH and what.startswith("rth"):
                opening = await self._services.opening(self.key, current.opening.session, None)
                if opening != current.opening:
                    self.log(entries.Opened(opening.dump()))
            self.log(entries.Stored(what))  # last: after a crash, all steps before it are repeated

    async def _open(self, session: Session) -> None:
        """Open the session that a row belongs to, if that session comes after the current one."""
        current = self.stream.current
        if current is not None and session.open_ns <= current.opening.open_ns:
            return
        night: tuple[int, int] | None = None
        if (
            current is not None
            and current.opening.kind is SessionKind.ETH
            and current.opening.trade_date == session.trade_date
            and not self.stream.lacks_beginning(current.opening)
        ):
            ladder = current.ladder()
            night = (ladder.high_ticks, ladder.low_ticks) if ladder else None
        opening = await self._services.opening(self.key, session, night)
        self.health.session_changed()
        self.log(entries.Opened(opening.dump()))

    async def _caught_up(self, event: ports.CaughtUp, caps: ports.FeedCaps, before_ns: int) -> None:
        if before_ns and self.health.phase is not Phase.CURRENT:
            self._log_gap(self._gaps.after_interruption(caps, before_ns, event.at_ns))
        self._log_gap(self._gaps.at_start(event.at_ns, caps))
        self.intake.caught_up(event.at_ns)
        self.health.take(Sign.CAUGHT_UP)
        self._log_filled(event.at_ns)
        self._gaps.caught_up()
        if not self.stream.warm:
            self.log(entries.Caught(event.at_ns, event.quality))
        await self._advance_time(event.at_ns)

    def _log_filled(self, until_ns: int) -> None:
        """Log the gaps that the feed has filled up to a time (ns UTC), before a session of that time is stored."""
        for entry in self._gaps.filled(until_ns):
            self.log(entry)

    def _log_gap(self, gap: entries.Hole | None) -> None:
        if gap is not None:
            self.log(gap)

    def _count(self, event: ports.VolumeCounter) -> None:
        hole = self._volume.check(event, self._lots) if self.health.phase is Phase.CURRENT else None
        if hole is not None:
            self._log_gap(self._gaps.new(*hole, "volume counter"))

    def _day(self, trade_date: date) -> entries.Day:
        if trade_date not in self._days:
            (found,) = self._services.calendar.trading_days(self.key.contract.root, trade_date, trade_date)
            self._days = {
                trade_date: entries.Day(str(trade_date), found.close_ns),
                **dict(list(self._days.items())[:3]),
            }
        return self._days[trade_date]

    # -- supervision

    async def store_pending(self) -> None:
        """Store sessions and trade dates that could not be stored when they ended."""
        for what in list(self.stream.pending):
            await self._store(what)

    def lost_for_s(self, now_s: float) -> float:
        """Return for how long (seconds) nothing was received from a lost feed; 0 if it is not lost."""
        return now_s - self.health.heard_s if self.health.phase is Phase.LOST else 0.0

    def drifted(self) -> int | None:
        """Return how far (ns) the feed's clock differs from ours when that first exceeds the limit, else None."""
        drift_ns = self.health.drift_ns
        latest_ns = self.stream.lag_ns + MAX_DRIFT_NS
        drifts = drift_ns is not None and not -MAX_DRIFT_NS <= drift_ns <= latest_ns
        first = drifts and not self._drifts
        self._drifts = drifts
        return drift_ns if first else None

    def log_trouble(self) -> str | None:
        """Return why the log has stalled if that is new, an empty text if it works again, None if nothing changed."""
        problem = self._services.log.stalled(self.name)
        if (problem is not None) == self._unlogged:
            return None
        self._unlogged = problem is not None
        return problem or ""

    def asked(self) -> None:
        """Clear an earlier refusal, because the feed is about to be opened again."""
        if self.health.phase is Phase.REFUSED:
            self.health.take(Sign.OPENED)
        self.lost_code, self.login_refused = "", False

    def refused(self, code: str, now_s: float, *, login: bool = False) -> None:
        """Record that the feed refuses this stream, or that no process follows it.

        code: the reason; login: whether the login failed.
        """
        self.health.refusal, self.login_refused = code, login
        if self.health.phase is not Phase.REFUSED:  # otherwise only the reason changes
            self.health.take(Sign.REFUSED)
        self.update_availability(now_s)

    # -- one entry

    def log(self, entry: entries.LogEntry) -> list[str]:
        """Log an entry, apply it and pass on the alerts it fired; return the sessions and trade dates it ended.

        Raises `OSError` (a full disk) and `LogTakenOver`; nothing is applied then.
        """
        outcome = self.stream.log(entry)
        self._applied(outcome)
        return outcome.ended

    def _begin_day(self, day: entries.Day) -> None:
        """Start a new log file with the first row of a trade date."""
        stream = self.stream
        if stream.cut_before(day):
            self.log(entries.Began(stream.run, stream.own_clock, stream.simulated, stream.lag_ns))

    def _log_trades(self, day: entries.Day, rows: Rows) -> None:
        columns = columns_of(rows, self._tick_e9, self.stream.lag_ns)
        self._applied(self.stream.log_trades(day, rows, columns))
        self._lots += sum(columns.sizes)
        self.health.traded(columns.at_ns[-1], columns.delay_ns)

"""A live stream: its log, its sessions, the health of its feed, and whether requests for it get a live answer.

A completed session is stored before the stream continues, because the levels of the next session depend on it. So a
replay gives the same levels as the live stream did.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from itertools import islice

from outcry.base.clock import Clock
from outcry.live import entries
from outcry.live.alert_recorder import AlertRecorder
from outcry.live.alert_row import alert_row
from outcry.live.columns import Columns
from outcry.live.health import MAX_DRIFT_NS, Health, Phase, Sign
from outcry.live.history_start import Openings
from outcry.live.intake import TradingPeriod
from outcry.live.logged import LoggedStream
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Availability, Channel, Registry
from outcry.live.stream import SessionAlert
from outcry.live.trade_log import TradeLog
from outcry.market.alerts.machine import Fired
from outcry.market.calendar import Calendar, Session, SessionKind
from outcry.market.opening import Opening
from outcry.trades.coverage import GRACE_NS
from outcry.trades.records import Quality

#: Troubles that a stalled log explains: nothing more is read from the feed while its rows cannot be logged.
_UNWRITTEN = frozenset({"", "catching_up", "stale_link"})
#: Frames read from the log at a time during recovery.
_FRAMES_AHEAD = 256


@dataclass(frozen=True, slots=True)
class StreamServices:
    """The functions that every live stream of an engine uses.

    opening: returns the opening of a session (its window and reference levels); may wait. store: stores a completed
    session in the database and returns True once it is stored; may wait. alerts: queues fired alerts for recording.
    """

    log: TradeLog
    registry: Registry
    clock: Clock
    calendar: Calendar
    opening: Openings
    store: Callable[["LiveStream", str], Awaitable[bool]]
    alerts: AlertRecorder


class LiveStream:
    """A stream whose state the registry shows to readers. Use it on the event loop.

    tick_e9: tick size of the product in units of 10⁻⁹. life: from when to when the contract can trade (ns UTC).
    """

    def __init__(self, key: StreamKey, tick_e9: int, life: TradingPeriod, services: StreamServices) -> None:
        self.key, self.name = key, key.text
        self._tick_e9, self._life, self._services = tick_e9, life, services
        self.stream = LoggedStream(key.text, tick_e9, services.log)
        self.channel = Channel(
            key, simulated=False, peek=self.stream.view, read_log=partial(services.log.read, key.text)
        )
        self.health = Health()
        self.saved_position = 0
        #: When this process acquired the stream.
        self.since_ns = services.clock.now_ns()
        #: The code of the last loss, and whether the feed refused the login.
        self.lost_code = ""
        self.login_refused = False
        #: The newest time (ns UTC) that the feed has reported without a trade.
        self._beat_ns = 0
        self._drifts = self._unlogged = False
        #: Lots of all trades applied.
        self._lots = 0
        self._store_lock = asyncio.Lock()

    # -- entries

    def log(self, entry: entries.LogEntry) -> list[str]:
        """Log an entry, apply it and queue the alerts it fired; return the sessions and trade dates it ended.

        Raises `OSError` (a full disk) and `LogTakenOver`; then nothing is applied.
        """
        outcome = self.stream.log(entry)
        self._applied(outcome.fired)
        return outcome.ended

    def _applied(self, alerts: Sequence[SessionAlert]) -> None:
        """Update the registry after an entry was applied, and queue the alerts that it fired."""
        self.channel.version += 1
        if alerts:
            self._queue(alerts)

    def _queue(self, alerts: Sequence[SessionAlert]) -> None:
        rows = [self._alert_row(opening, fired) for opening, fired in alerts]
        self._services.alerts.add(self.name, self.stream.position, rows)

    def _traded(self, alerts: Sequence[SessionAlert], columns: Columns) -> None:
        """Update registry and health after trades were applied, and queue the alerts that the trades fired."""
        self.channel.version += 1
        if alerts:
            self._queue(alerts)
        self._lots += sum(columns.sizes)
        self.health.traded(columns.at_ns[-1], columns.delay_ns)

    def _alert_row(self, opening: Opening, fired: Fired) -> AlertRow:
        """Return an alert as a row to store.

        If the feed has its own clock (a replay or simulation), the recording time is that clock's current time. A
        simulated market also covers time before this process started; an alert of that time counts as recorded when it
        fired. For other feeds the recording time is set later.
        """
        stream = self.stream
        row = alert_row(self.key, self._tick_e9, opening, fired, simulated=stream.simulated)
        if stream.simulated and row.at_ns < self.since_ns:
            return replace(row, recorded_ns=row.at_ns)
        return replace(row, recorded_ns=self.market_ns) if stream.own_clock else row

    async def recover(self, snapshot: tuple[int, bytes] | None, thread: Executor) -> None:
        """Restore the stream from a snapshot and its log, which is read on `thread`.

        Sessions that ended but were not stored are stored later. Raises `LogDamaged`, `OSError`.
        """
        if snapshot is not None and self.stream.restore(*snapshot):
            self.saved_position = snapshot[0]
        loop = asyncio.get_running_loop()
        frames = iter(self._services.log.read(self.name, self.stream.position))
        while batch := await loop.run_in_executor(thread, lambda: list(islice(frames, _FRAMES_AHEAD))):
            for frame in batch:
                outcome = await self.stream.reapply(frame)
                if outcome is not None:
                    self._applied(outcome.fired)
                await asyncio.sleep(0)
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
        """Whether the contract has stopped trading for good."""
        return self.market_ns >= self._life[1]

    @property
    def quality(self) -> Quality:
        """The lowest quality of the data from which the current or last session is computed."""
        current = self.stream.current
        ladder = current.ladder() if current else None
        return self.stream.quality if ladder is not None and ladder.source == "bars" else Quality.TICKS

    @property
    def ended(self) -> bool:
        """Whether the feed reported that it has ended for good."""
        return self.health.phase is Phase.ENDED

    def update_availability(self, now_s: float) -> None:
        """Determine whether requests for the stream get a live answer, and if not, why; update the registry.

        now_s: time of the event loop.
        """
        stream, calendar = self.stream, self._services.calendar
        market_ns, current = self.market_ns, stream.current
        trade_date = calendar.trade_date_at(self.key.contract.root, market_ns)
        session = calendar.session_at(self.key.contract.root, market_ns)
        trouble = self.health.trouble(now_s)
        market_stale = self.health.market_stale(market_ns, stream.latest_ns)
        if trade_date is None and current is not None:
            trade_date = current.opening.trade_date
        if trouble in _UNWRITTEN and self._services.log.stalled(self.name) is not None:
            reason = "log_stalled"
        elif trouble:
            reason = trouble
        elif session is None:
            reason = "closed"
        elif current is None or current.empty or current.opening.open_ns != session.open_ns:
            reason = "no_trades"
        elif stream.degraded:
            reason = "degraded"
        elif stream.lacks_beginning(current.opening):
            reason = "incomplete"
        elif market_stale:
            reason = "stale_market"
        elif current.opening.prior is None:
            reason = "no_prior"
        else:
            reason = "live" if current.opening.front else "not_front"
        self._services.registry.set_availability(
            self.channel, Availability(reason == "live", reason, market_ns, trade_date)
        )

    # -- sessions and trade dates

    async def _pass_deadlines(self, at_ns: int) -> None:
        """Store each session and trade date that ended at least five minutes before `at_ns` (ns UTC)."""
        while self.stream.deadline_ns <= at_ns:
            for what in self.log(entries.Mark(self.stream.deadline_ns)):
                await self._store(what)

    async def _store(self, what: str) -> None:
        """Store a completed session or trade date, and log that it is stored. what: for example `rth 2026-01-02`.

        Concurrent calls for the same session store it once, and all of them wait until it is stored.
        """
        async with self._store_lock:
            if what not in self.stream.pending or not await self._services.store(self, what):
                return
            current = self.stream.current
            if current is not None and self._opened_before_storing(current.opening, what):
                night = current.opening.overnight
                opening = await self._services.opening(self.key, current.opening.session, night)
                if opening != current.opening:
                    self.log(entries.Opened(opening.dump()))
            self.log(entries.Stored(what))  # last: after a crash, all steps before it are repeated

    def _opened_before_storing(self, opening: Opening, what: str) -> bool:
        """Return whether a session opened before the regular session that ended before it was stored.

        An overnight session follows the regular session at once. So does a regular session of a product that trades
        around the clock. what: the stored session, for example `rth 2026-01-02`.
        """
        kind, _, trade_date = what.partition(" ")
        if kind != "rth":
            return False
        ended = self._services.calendar.session(opening.root, date.fromisoformat(trade_date), SessionKind.RTH)
        follows = ended is not None and 0 <= opening.open_ns - ended.close_ns < GRACE_NS
        return opening.kind is SessionKind.ETH or follows

    async def _open(self, session: Session) -> None:
        """Open the session to which a row belongs, if that session comes after the current one."""
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

    async def store_pending(self) -> None:
        """Store the sessions and trade dates that could not be stored when they ended."""
        for what in list(self.stream.pending):
            await self._store(what)

    # -- the feed's health

    def lost_for_s(self, now_s: float) -> float:
        """Return for how long (seconds) the connection to the feed has been lost; 0 if it is not lost."""
        return now_s - self.health.heard_s if self.health.phase is Phase.LOST else 0.0

    def drifted(self) -> int | None:
        """Return how far (ns) the feed's clock differs from ours, to report it once.

        None if the difference is within the limit or was returned before.
        """
        drift_ns = self.health.drift_ns
        latest_ns = self.stream.lag_ns + MAX_DRIFT_NS
        drifts = drift_ns is not None and not -MAX_DRIFT_NS <= drift_ns <= latest_ns
        first = drifts and not self._drifts
        self._drifts = drifts
        return drift_ns if first else None

    def log_trouble(self) -> str | None:
        """Return why the log has stalled, if that was not returned before.

        Returns an empty text if the log has just recovered, and None if nothing has changed.
        """
        problem = self._services.log.stalled(self.name)
        if (problem is not None) == self._unlogged:
            return None
        self._unlogged = problem is not None
        return problem or ""

    def asked(self) -> None:
        """Forget that the feed refused the stream, because the feed is about to be opened again."""
        if self.health.phase is Phase.REFUSED:
            self.health.take(Sign.OPENED)
        self.lost_code, self.login_refused = "", False

    def refused(self, code: str, now_s: float, *, login: bool = False) -> None:
        """Record that the feed refuses this stream, or that no process delivers it.

        code: the reason. login: whether the vendor refused the login.
        """
        self.health.refusal, self.login_refused = code, login
        if self.health.phase is not Phase.REFUSED:  # otherwise only the reason changes
            self.health.take(Sign.REFUSED)
        self.update_availability(now_s)

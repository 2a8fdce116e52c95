"""One ordered stream: computes levels and alerts from log entries, without any input or output.

A stream has at most two sessions: the current one and, until five minutes after its close, the one before. While the
history of a new stream is loaded, and in a session whose beginning is missing, alerts count as fired but are not
reported. A trade that is received more than five seconds late fires nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from outcry.live import entries as log
from outcry.live.columns import Columns, columns_of
from outcry.live.refold import refolded
from outcry.live.stream_snapshot import StreamSnapshot
from outcry.live.stream_state import StreamState
from outcry.market.alerts.machine import Fired
from outcry.market.calendar import SessionKind
from outcry.market.ladder import Ladder, RangeTooWide
from outcry.market.live_session import Capture, LiveSession
from outcry.market.opening import Opening
from outcry.trades.coverage import GRACE_NS, merged_gaps
from outcry.trades.feed import OVERLAP_NS

#: Entries of the log from a position on, up to the one being applied.
History = Callable[[int], Iterable[log.LogEntry]]
#: An alert with the opening of its session.
SessionAlert = tuple[Opening, Fired]


@dataclass(slots=True)
class Outcome:
    """Result of applying a log entry to a stream.

    fired: alerts, each with the opening of its session. ended: sessions and trade dates to store, such as `rth
    2026-01-02`.
    """

    fired: list[SessionAlert] = field(default_factory=list[SessionAlert])
    ended: list[str] = field(default_factory=list[str])

    def add(self, opening: Opening, fired: Sequence[Fired]) -> None:
        """Add the alerts that a session fired, unless its contract is not the front contract."""
        if opening.front:
            self.fired += [(opening, alert) for alert in fired]


class Stream(StreamState):
    """The computed state of one contract of one feed, changed by applying log entries in order.

    tick_e9: the tick of the product; history: reads the stream's own log.
    """

    def __init__(self, tick_e9: int, history: History) -> None:
        super().__init__(tick_e9)
        self._history = history

    # -- queries

    def capture(self) -> Capture | None:
        """Copy the state of the current session, to compute a view from it. None before its first trade."""
        self._settle()
        capture = self.current.capture() if self.current else None
        return replace(capture, overnight_ladder=self._night_of(capture.opening)) if capture else None

    def _night_of(self, opening: Opening) -> Ladder | None:
        """Return the ladder of the overnight session before a regular one, if this stream has it."""
        if opening.kind is not SessionKind.RTH:
            return None
        before = self.sessions[-2] if len(self.sessions) > 1 else None
        if before is not None and before.opening.trade_date == opening.trade_date:
            return before.ladder()
        return self.night[1] if self.night and self.night[0] == opening.trade_date else None

    # -- entries

    def trades(self, day: log.Day, columns: Columns, session: LiveSession | None) -> Sequence[SessionAlert]:
        """Apply the trades of the log entry at `position` in order; advance `position`; return the alerts they fired.

        session: the session of the trades; None if it ended long ago.
        """
        if self.amended:
            self._settle()
        if not self.days or self.days[-1][0] is not day:
            self._note_day(day)
        first_ns, newest_ns = columns.at_ns[0], columns.at_ns[-1]
        if not self.covered_ns:
            self.covered_ns = first_ns
        self.latest_ns, self.time_ns = max(self.latest_ns, newest_ns), max(self.time_ns, newest_ns)
        self._keep_recent(newest_ns, columns.data)
        self.position += len(columns.at_ns)
        if session is None or self.degraded:  # the recording will have the trades
            return ()
        fired: list[Fired] = []
        try:
            if columns.old is None:
                fired = session.trades(columns.at_ns, columns.ticks, columns.sizes)
            else:
                for first, last, watched in _stretches(columns.old):
                    fired += session.trades(
                        columns.at_ns[first:last], columns.ticks[first:last], columns.sizes[first:last],
                        watched=watched,
                    )  # fmt: skip
        except RangeTooWide as problem:
            self.degraded = str(problem)
        return [(session.opening, alert) for alert in fired] if fired and session.opening.front else ()

    def apply(self, entry: log.LogEntry) -> Outcome:
        """Apply the next log entry, which is at `position`; advance `position`; return what the entry caused."""
        done = Outcome()
        if isinstance(entry, log.TradeRows):
            columns = columns_of(entry.rows, self._tick_e9, self.lag_ns)
            done.fired += self.trades(entry.day, columns, self.session_at(columns.at_ns[0]))
            return done
        if not isinstance(entry, log.Amended | log.Replacement | log.BarRows):
            self._settle()
        self._apply(entry, done)
        self.position += entry.count
        self._set_deadline()
        return done

    def _apply(self, entry: log.LogEntry, done: Outcome) -> None:
        match entry:
            case log.BarRows():
                self._note_day(entry.day)
                self._bars(entry, done)
            case log.Began():
                self.run, self.own_clock, self.simulated = entry.run, entry.own_clock, entry.invented
                self.lag_ns, self.begun_at = entry.lag_ns, self.position
            case log.Taken():
                pass
            case log.Opened():
                self._open(log.opening_of(entry))
            case log.Mark():
                self._advance(entry.at_ns, done)
            case log.Caught():
                self._caught(entry)
            case log.Hole():
                self.holes = merged_gaps([*self.holes, (entry.from_ns, entry.to_ns)])
                self._silence()
            case log.Mended():
                self.holes = [
                    hole for hole in self.holes if not (entry.from_ns <= hole[0] and hole[1] <= entry.to_ns)
                ]
                self._silence()
            case log.Amended():
                self.amended = True
            case log.Replacement():
                self._note_day(entry.day)
                self.amended = True
            case log.Stored():
                self.pending = [what for what in self.pending if what != entry.what]
                self.days = [(day, at) for day, at in self.days if f"day {day.trade_date}" != entry.what]
            case log.Lost():
                self.degraded = "entries of its log are lost"
            case log.TradeRows():
                raise AssertionError("trades are applied by `trades`")

    def _note_day(self, day: log.Day) -> None:
        if day not in {known for known, _ in self.days}:
            self.days.append((day, self.position))
            self._set_deadline()

    def _open(self, opening: Opening) -> None:
        current = self.current
        if current is not None and current.opening.open_ns == opening.open_ns:
            current.set_opening(opening)
            return
        self.degraded = ""
        self.sessions.append(LiveSession(opening, silent=self._silent(opening)))
        self._opened_at.append(self.position)

    def session_at(self, at_ns: int) -> LiveSession | None:
        """Return the session at a time (ns UTC). None if it is not open yet, or ended long ago."""
        for session in reversed(self.sessions):
            if session.open_ns <= at_ns < session.close_ns:
                return session
        return None

    def _bars(self, entry: log.BarRows, done: Outcome) -> None:
        rows = entry.rows
        start_ns, newest = int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        if not self.covered_ns:
            self.covered_ns = start_ns
        # Some trades of this bar may be applied already; the bar counts all of them.
        if start_ns < self.latest_ns:
            self.amended = True
        self.last_bar_ns = max(self.last_bar_ns, newest)
        self.barred_ns = max(self.barred_ns, newest + entry.bar_ns)
        self.quality = max(self.quality, entry.quality, key=lambda quality: quality.rank)
        self.latest_ns = max(self.latest_ns, newest + entry.bar_ns)
        self.time_ns = max(self.time_ns, newest + entry.bar_ns)
        session = self.session_at(start_ns)
        if session is None or self.degraded:
            return
        columns = [(rows[name] // self._tick_e9).tolist() for name in ("open", "high", "low", "close")]
        times, volumes = rows["ts_event"].tolist(), rows["volume"].tolist()
        try:
            for at_ns, opened, high, low, close, lots in zip(times, *columns, volumes, strict=True):
                end_ns = min(at_ns + entry.bar_ns, session.opening.close_ns)
                done.add(session.opening, session.bar(at_ns, end_ns, opened, high, low, close, lots))
        except RangeTooWide as problem:
            self.degraded = str(problem)

    def _advance(self, at_ns: int, done: Outcome) -> None:
        self.time_ns = max(self.time_ns, at_ns)
        for session in self.sessions:
            done.add(session.opening, session.advance(at_ns))
        while self.sessions and self.sessions[0].opening.close_ns + GRACE_NS <= at_ns:
            over = self.sessions.pop(0)
            opening = over.opening
            self._opened_at.pop(0)
            if opening.kind is SessionKind.RTH:
                self._end(f"rth {opening.trade_date}", done)
            elif (ladder := over.ladder()) is not None:
                self.night = opening.trade_date, ladder
        for day, _ in self.days:
            if day.end_ns + GRACE_NS <= at_ns:
                self._end(f"day {day.trade_date}", done)

    def _end(self, what: str, done: Outcome) -> None:
        if what not in self.pending:
            self.pending.append(what)
            done.ended.append(what)

    def _caught(self, entry: log.Caught) -> None:
        self.warm = True
        self.covered_ns = self.covered_ns or entry.at_ns
        self.time_ns = max(self.time_ns, entry.at_ns)
        self._silence()

    def _silence(self) -> None:
        """Set for each session whether its alerts are reported, or count as fired without a report."""
        for session in self.sessions:
            session.silence(on=self._silent(session.opening))

    def _silent(self, opening: Opening) -> bool:
        """Return whether alerts of a session are not reported, because they are old or its beginning is missing."""
        return not self.warm or self.lacks_beginning(opening)

    def _keep_recent(self, newest_ns: int, data: bytes) -> None:
        self._recent.append((newest_ns, data))
        horizon_ns = self.latest_ns - OVERLAP_NS
        while self._recent[0][0] < horizon_ns:
            self._recent.popleft()

    def _settle(self) -> None:
        """Compute the open sessions again after trades were cancelled, corrected or replaced by bars.

        Several such changes in a row are handled by one computation.
        """
        if not self.amended:
            return
        for session, opened_at in zip(self.sessions, self._opened_at, strict=True):
            if session.empty or self.degraded:
                continue
            try:
                session.amended(refolded(session.opening, self._history(opened_at), self._tick_e9))
            except RangeTooWide as problem:
                self.degraded = str(problem)
        self.amended = False  # last, so that the next call retries if the log cannot be read now

    # -- snapshots

    def dump(self) -> bytes:
        """Return the whole state as bytes: the result of all log entries before `position`."""
        return self.hold().encode()

    def hold(self) -> StreamSnapshot:
        """Copy the state within microseconds. Another thread encodes the copy later."""
        self._settle()
        return self.copied()


def _stretches(old: Sequence[bool]) -> Iterable[tuple[int, int, bool]]:
    """Yield `(first, last, watched)` for each group of consecutive trades.

    watched: whether the trades of the group are recent enough to fire alerts.
    """
    edges = [0, *(at for at in range(1, len(old)) if old[at] != old[at - 1]), len(old)]
    return [(a, b, not old[a]) for a, b in pairwise(edges)]

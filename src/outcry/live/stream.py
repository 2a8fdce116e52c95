"""One ordered stream: computes levels and alerts from log entries, without any input or output.

A stream has at most two sessions: the current one, and the one before until five minutes after its close. During the
first catch-up, and in a session whose beginning is missing, alerts count as fired without being reported. A trade
received more than five seconds late fires nothing.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise

import numpy as np

from outcry.live import entries as log
from outcry.live import stream_snapshot
from outcry.live.columns import Columns, columns_of
from outcry.market.alerts.machine import NEVER_NS, Fired
from outcry.market.calendar import SessionKind
from outcry.market.kernels import BulkFold
from outcry.market.ladder import (
    BRACKET_MINUTES,
    MAX_SESSION_ROWS,
    Ladder,
    RangeTooWide,
    bracket_windows,
)
from outcry.market.live_session import Capture, LiveSession
from outcry.market.opening import Opening
from outcry.trades.coverage import GRACE_NS, Span
from outcry.trades.feed import LIVE_TRADE, OVERLAP_NS
from outcry.trades.records import Quality, Rows
from outcry.trades.rows import fold_rows, on_tick

#: More gaps than this are merged into one.
_MOST_HOLES = 256

#: Entries of the log from a position on, up to the one being applied.
History = Callable[[int], Iterable[log.LogEntry]]


@dataclass(slots=True)
class Outcome:
    """What applying a log entry caused.

    fired: alerts, each with the opening of its session. ended: sessions and trade dates to store, such as `rth
    2026-01-02`.
    """

    fired: list[tuple[Opening, Fired]] = field(default_factory=list[tuple[Opening, Fired]])
    ended: list[str] = field(default_factory=list[str])


class Stream:
    """The computed state of one contract of one feed.

    tick_e9: the tick of the product; history: reads the stream's own log.
    """

    def __init__(self, tick_e9: int, history: History) -> None:
        self._tick_e9, self._history = tick_e9, history
        self.position = 0
        self.run = ""
        self.own_clock = self.simulated = False
        self.lag_ns = 0
        #: Position of the newest `Began`.
        self.begun_at = -1
        self.sessions: list[LiveSession] = []
        self._opened_at: list[int] = []
        #: The last overnight session that ended. It is still shown.
        self.night: tuple[date, Ladder] | None = None
        #: Whether the stream has ever caught up. Alerts before that are old.
        self.warm = False
        self.quality = Quality.TICKS
        self.latest_ns = 0
        #: Event time of the newest row or mark (ns UTC).
        self.time_ns = 0
        self.covered_ns = 0
        self.holes: list[Span] = []
        self.pending: list[str] = []
        #: Trade dates whose rows are not finally stored yet, with the position of their first row.
        self.days: list[tuple[log.Day, int]] = []
        self.last_bar_ns = 0
        #: Trades up to this time (ns UTC) were delivered as bars.
        self.barred_ns = 0
        #: Why the fold stopped; empty if it runs. The instrument is then degraded until the next session.
        self.degraded = ""
        #: Whether the open sessions must be refolded before the next query or entry.
        self.amended = False
        #: Batches of recent rows with the time of the newest row of each.
        self._recent: deque[tuple[int, Rows]] = deque()
        #: When the earliest open session or trade date has been over for five minutes and must be stored.
        self.deadline_ns = NEVER_NS

    # -- queries

    @property
    def current(self) -> LiveSession | None:
        """The current session, or the last one."""
        return self.sessions[-1] if self.sessions else None

    @property
    def due_ns(self) -> int:
        """The event time (ns UTC) from which a `Mark` has an effect; a session without trades has nothing to close."""
        dues = [session.due_ns for session in self.sessions if not session.empty]
        return min([*dues, self.deadline_ns])

    @property
    def recent(self) -> Rows:
        """Rows of the two seconds before the newest, in order of arrival."""
        return stream_snapshot.since([rows for _, rows in self._recent], self.latest_ns - OVERLAP_NS)

    def covered(self) -> list[Span]:
        """Return the time spans (ns UTC) in which the stream has every trade.

        Spans that are close to each other are joined by the importer. The spans around a gap are therefore cut so far
        apart that this cannot close a gap.
        """
        spans = [(self.covered_ns, self.time_ns)] if self.covered_ns else []
        for hole_from, hole_to in self.holes:
            spans = [
                piece
                for start, end in spans
                for piece in (
                    (start, min(end, hole_from, hole_to - GRACE_NS - 1)),
                    (max(start, hole_to), end),
                )
                if piece[0] < piece[1]
            ]
        return spans

    def lacks_beginning(self, opening: Opening) -> bool:
        """Return whether a gap covers the end of a session's first five minutes, so that its levels are unknown.

        Gaps later in the session do not count; its levels are computed from the received trades.
        """
        edge_ns = opening.open_ns + GRACE_NS
        return any(first_ns <= edge_ns < last_ns for first_ns, last_ns in self.holes)

    def capture(self) -> Capture | None:
        """Capture the current session; None before its first trade."""
        self._settle()
        capture = self.current.capture() if self.current else None
        return replace(capture, overnight_ladder=self._night_of(capture.opening)) if capture else None

    def _night_of(self, opening: Opening) -> Ladder | None:
        """Return the ladder of the overnight session before a regular one."""
        if opening.kind is not SessionKind.RTH:
            return None
        before = self.sessions[-2] if len(self.sessions) > 1 else None
        if before is not None and before.opening.trade_date == opening.trade_date:
            return before.ladder()
        return self.night[1] if self.night and self.night[0] == opening.trade_date else None

    @property
    def folded_from(self) -> int:
        """The log position from which entries are read to recompute the open sessions."""
        return min([self.position, *self._opened_at])

    @property
    def needed_from(self) -> int:
        """The oldest position of the log that open sessions and unstored trade dates still need."""
        return min([self.position, *(at for _, at in self.days), *self._opened_at])

    # -- entries

    def trades(self, day: log.Day, rows: Rows, columns: Columns, done: Outcome) -> None:
        """Apply trades of one session, in order, as the entry at `position`, and advance the position.

        columns: the same rows as lists.
        """
        self._settle()
        if not self.days or self.days[-1][0] is not day:
            self._note_day(day)
        self._trades(rows, columns, done)
        self.position += len(rows)

    def apply(self, entry: log.LogEntry) -> Outcome:
        """Apply the entry at `position`, advance the position, and return what the entry caused."""
        done = Outcome()
        if isinstance(entry, log.TradeRows):
            rows = entry.rows
            self.trades(entry.day, rows, columns_of(rows, self._tick_e9, self.lag_ns), done)
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
                self.holes = _merged([*self.holes, (entry.from_ns, entry.to_ns)])
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

    def _set_deadline(self) -> None:
        ends = [session.opening.close_ns for session in self.sessions[:1]]
        ends += [day.end_ns for day, _ in self.days if f"day {day.trade_date}" not in self.pending]
        self.deadline_ns = min(ends) + GRACE_NS if ends else NEVER_NS

    def _open(self, opening: Opening) -> None:
        current = self.current
        if current is not None and current.opening.open_ns == opening.open_ns:
            current.set_opening(opening)
            return
        self.degraded = ""
        self.sessions.append(LiveSession(opening, silent=self._silent(opening)))
        self._opened_at.append(self.position)

    def _session_of(self, at_ns: int) -> LiveSession | None:
        for session in reversed(self.sessions):
            if session.opening.open_ns <= at_ns < session.opening.close_ns:
                return session
        return None

    def _trades(self, rows: Rows, columns: Columns, done: Outcome) -> None:
        first_ns, newest_ns = columns.at_ns[0], columns.at_ns[-1]
        if not self.covered_ns:
            self.covered_ns = first_ns
        self.latest_ns, self.time_ns = max(self.latest_ns, newest_ns), max(self.time_ns, newest_ns)
        self._keep_recent(newest_ns, rows)
        session = self._session_of(first_ns)
        if (
            session is None or self.degraded
        ):  # ended long ago: the trade is in the log, and will be in the recording
            return
        try:
            if columns.old is None:
                done.fired += self._alerts_of(
                    session, session.trades(columns.at_ns, columns.ticks, columns.sizes)
                )
                return
            for first, last, watched in _stretches(columns.old):
                fired = session.trades(
                    columns.at_ns[first:last],
                    columns.ticks[first:last],
                    columns.sizes[first:last],
                    watched=watched,
                )
                done.fired += self._alerts_of(session, fired)
        except RangeTooWide as problem:
            self.degraded = str(problem)

    def _bars(self, entry: log.BarRows, done: Outcome) -> None:
        rows = entry.rows
        start_ns, newest = int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        if not self.covered_ns:
            self.covered_ns = start_ns
        if (
            start_ns < self.latest_ns
        ):  # some trades of this bar may be applied already; the bar counts all of them
            self.amended = True
        self.last_bar_ns = max(self.last_bar_ns, newest)
        self.barred_ns = max(self.barred_ns, newest + entry.bar_ns)
        self.quality = max(self.quality, entry.quality, key=lambda quality: quality.rank)
        self.latest_ns = max(self.latest_ns, newest + entry.bar_ns)
        self.time_ns = max(self.time_ns, newest + entry.bar_ns)
        session = self._session_of(start_ns)
        if session is None or self.degraded:
            return
        columns = [(rows[name] // self._tick_e9).tolist() for name in ("open", "high", "low", "close")]
        times, volumes = rows["ts_event"].tolist(), rows["volume"].tolist()
        try:
            for at_ns, opened, high, low, close, lots in zip(times, *columns, volumes, strict=True):
                end_ns = min(at_ns + entry.bar_ns, session.opening.close_ns)
                done.fired += self._alerts_of(
                    session, session.bar(at_ns, end_ns, opened, high, low, close, lots)
                )
        except RangeTooWide as problem:
            self.degraded = str(problem)

    def _alerts_of(self, session: LiveSession, fired: Sequence[Fired]) -> list[tuple[Opening, Fired]]:
        return [(session.opening, alert) for alert in fired] if session.opening.front else []

    def _advance(self, at_ns: int, done: Outcome) -> None:
        self.time_ns = max(self.time_ns, at_ns)
        for session in self.sessions:
            done.fired += self._alerts_of(session, session.advance(at_ns))
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
        """Set for each session whether alerts are reported, or only count as fired."""
        for session in self.sessions:
            session.silence(on=self._silent(session.opening))

    def _silent(self, opening: Opening) -> bool:
        """Return whether alerts of a session are not reported, because they are old or its beginning is missing."""
        return not self.warm or self.lacks_beginning(opening)

    def _keep_recent(self, newest_ns: int, rows: Rows) -> None:
        self._recent.append((newest_ns, rows))
        horizon_ns = self.latest_ns - OVERLAP_NS
        while self._recent[0][0] < horizon_ns:
            self._recent.popleft()

    def _settle(self) -> None:
        """Recompute the open sessions once after trades were cancelled, corrected or replaced by bars."""
        if not self.amended:
            return
        for session, opened_at in zip(self.sessions, self._opened_at, strict=True):
            if session.empty or self.degraded:
                continue
            try:
                ladder = self._refold(session.opening, list(self._history(opened_at)))
            except RangeTooWide as problem:
                self.degraded = str(problem)
                continue
            if ladder is not None and len(ladder.volume) > MAX_SESSION_ROWS:
                self.degraded = str(RangeTooWide(ladder.low_ticks, ladder.high_ticks, MAX_SESSION_ROWS))
            else:
                session.amended(ladder)
        self.amended = False  # last, so that the next call retries if the log cannot be read now

    def _refold(self, opening: Opening, history: Sequence[log.LogEntry]) -> Ladder | None:
        fold = BulkFold(bracket_windows(opening.segments, BRACKET_MINUTES))
        for entry in log.settled(history):
            rows = entry.rows
            mine = rows[(rows["ts_event"] >= opening.open_ns) & (rows["ts_event"] < opening.close_ns)]
            if len(mine):
                quality = entry.quality if isinstance(entry, log.BarRows) else Quality.TICKS
                good, ticks, _ = on_tick(mine, self._tick_e9, quality)
                fold_rows(fold, good, ticks, quality)
        return fold.ladder()

    # -- snapshots

    def dump(self) -> bytes:
        """Return the whole state before the entry at `position` as bytes."""
        return self.hold().encode()

    def hold(self) -> stream_snapshot.StreamSnapshot:
        """Copy the state within microseconds, to be encoded on another thread."""
        self._settle()
        parts = [
            (session.opening, at, session.state())
            for session, at in zip(self.sessions, self._opened_at, strict=True)
        ]
        rest = stream_snapshot.SnapshotRecord(
            stream_snapshot.VERSION, self.run, self.own_clock, self.simulated, self.lag_ns, self.begun_at,
            [], self.warm,
            self.quality, self.latest_ns, self.time_ns, self.covered_ns, list(self.holes), list(self.pending),
            list(self.days), b"", self.last_bar_ns, self.barred_ns, self.degraded,
            stream_snapshot.night_bytes(self.night),
        )  # fmt: skip
        return stream_snapshot.StreamSnapshot(parts, [rows for _, rows in self._recent], rest)

    def restore(self, position: int, data: bytes) -> bool:
        """Load a snapshot; return False and change nothing if it cannot be read."""
        try:
            self.load(position, data)
        except (ValueError, LookupError, TypeError):
            return False
        return True

    def load(self, position: int, data: bytes) -> None:
        """Load the state that `dump` wrote at a position. Raises `ValueError` before it changes anything."""
        found = stream_snapshot.read(data)
        sessions = [LiveSession.load(Opening.load(part.opening), part.data) for part in found.sessions]
        recent, night = np.frombuffer(found.recent, LIVE_TRADE), stream_snapshot.night_of(found.night)
        self.position, self.sessions = position, sessions
        self._opened_at = [part.opened_at for part in found.sessions]
        self.run, self.own_clock, self.simulated = found.run, found.own_clock, found.invented
        self.lag_ns, self.begun_at = found.lag_ns, found.begun_at
        self.warm, self.quality = found.warm, found.quality
        self.latest_ns, self.time_ns, self.covered_ns = found.latest_ns, found.time_ns, found.covered_ns
        self.holes, self.pending, self.days = found.holes, found.pending, found.days
        self.last_bar_ns, self.barred_ns = found.last_bar_ns, found.barred_ns
        self.degraded, self.night = found.degraded, night
        self._recent = deque([(int(recent["ts_event"].max()), recent)] if len(recent) else [])
        self._set_deadline()


def _merged(holes: Sequence[Span]) -> list[Span]:
    """Merge gaps that touch. Too many gaps become a single one, and nothing between them counts as complete."""
    found: list[Span] = []
    for first_ns, last_ns in sorted(holes):
        if found and first_ns <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last_ns))
        else:
            found.append((first_ns, last_ns))
    return found if len(found) <= _MOST_HOLES else [(found[0][0], max(last for _, last in found))]


def _stretches(old: Sequence[bool]) -> Iterable[tuple[int, int, bool]]:
    """Yield `(first, last, watched)` for runs of rows: all too old to fire alerts, or none too old."""
    edges = [0, *(at for at in range(1, len(old)) if old[at] != old[at - 1]), len(old)]
    return [(a, b, not old[a]) for a, b in pairwise(edges)]

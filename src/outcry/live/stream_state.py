"""The computed state of a stream after a log entry: its sessions, the time it covers, and its snapshots."""

from collections import deque
from datetime import date

import numpy as np

from outcry.live import entries as log
from outcry.live import stream_snapshot
from outcry.market.alerts.machine import NEVER_NS
from outcry.market.ladder import Ladder
from outcry.market.live_session import LiveSession
from outcry.market.opening import Opening
from outcry.trades.coverage import GRACE_NS, Span, without_gaps
from outcry.trades.feed import LIVE_TRADE, OVERLAP_NS
from outcry.trades.records import Quality, Rows


class StreamState:
    """The computed state of one contract of one feed. Its subclass `Stream` changes the state.

    tick_e9: tick size of the product in units of 10⁻⁹.
    """

    def __init__(self, tick_e9: int) -> None:
        self._tick_e9 = tick_e9
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
        #: Batches of recent rows (`LIVE_TRADE` as bytes) with the time of the newest row of each.
        self._recent: deque[tuple[int, bytes]] = deque()
        #: When the earliest open session or trade date has been over for five minutes and must be stored.
        self.deadline_ns = NEVER_NS

    # -- queries

    @property
    def current(self) -> LiveSession | None:
        """The current session; after its end, the last one."""
        return self.sessions[-1] if self.sessions else None

    @property
    def due_ns(self) -> int:
        """The event time (ns UTC) from which on a `Mark` (time that passed without a trade) has an effect.

        A session without trades has no bars or brackets to close.
        """
        dues = [session.due_ns for session in self.sessions if not session.empty]
        return min([*dues, self.deadline_ns])

    @property
    def recent(self) -> Rows:
        """The rows of the two seconds before the newest row, in order of arrival."""
        return stream_snapshot.since([data for _, data in self._recent], self.latest_ns - OVERLAP_NS)

    def covered(self) -> list[Span]:
        """Return the time spans (ns UTC) in which the stream has every trade.

        The importer merges spans that are close to each other. The spans around a gap are therefore shortened, so that
        the importer does not merge them.
        """
        return without_gaps((self.covered_ns, self.time_ns), self.holes) if self.covered_ns else []

    def lacks_beginning(self, opening: Opening) -> bool:
        """Return whether a gap covers the end of a session's first five minutes, so that its levels are unknown.

        Later gaps do not count: the session's levels are then computed from the trades that were received.
        """
        edge_ns = opening.open_ns + GRACE_NS
        return any(first_ns <= edge_ns < last_ns for first_ns, last_ns in self.holes)

    @property
    def folded_from(self) -> int:
        """The log position from which on entries are needed to compute the open sessions again."""
        return min([self.position, *self._opened_at])

    @property
    def needed_from(self) -> int:
        """The oldest log position that is still needed, for open sessions or for trade dates that are not stored."""
        return min([self.position, *(at for _, at in self.days), *self._opened_at])

    def _set_deadline(self) -> None:
        ends = [session.opening.close_ns for session in self.sessions[:1]]
        ends += [day.end_ns for day, _ in self.days if f"day {day.trade_date}" not in self.pending]
        self.deadline_ns = min(ends) + GRACE_NS if ends else NEVER_NS

    # -- snapshots

    def copied(self) -> stream_snapshot.StreamSnapshot:
        """Copy the state within microseconds, so that another thread can encode it.

        Call it only if no session has to be computed again.
        """
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
        return stream_snapshot.StreamSnapshot(parts, [data for _, data in self._recent], rest)

    def restore(self, position: int, data: bytes) -> bool:
        """Restore the state from a snapshot; return False and change nothing if it cannot be read."""
        try:
            self.load(position, data)
        except (ValueError, LookupError, TypeError):
            return False
        return True

    def load(self, position: int, data: bytes) -> None:
        """Restore the state at a log position from a snapshot that `StreamSnapshot.encode` wrote.

        Raises `ValueError`, and then changes nothing.
        """
        found = stream_snapshot.read(data)
        sessions = [LiveSession.load(Opening.load(part.opening), part.data) for part in found.sessions]
        times = np.frombuffer(found.recent, LIVE_TRADE)["ts_event"]
        night = stream_snapshot.night_of(found.night)
        self.position, self.sessions = position, sessions
        self._opened_at = [part.opened_at for part in found.sessions]
        self.run, self.own_clock, self.simulated = found.run, found.own_clock, found.invented
        self.lag_ns, self.begun_at = found.lag_ns, found.begun_at
        self.warm, self.quality = found.warm, found.quality
        self.latest_ns, self.time_ns, self.covered_ns = found.latest_ns, found.time_ns, found.covered_ns
        self.holes, self.pending, self.days = found.holes, found.pending, found.days
        self.last_bar_ns, self.barred_ns = found.last_bar_ns, found.barred_ns
        self.degraded, self.night = found.degraded, night
        self._recent = deque([(int(times.max()), found.recent)] if len(times) else [])
        self._set_deadline()

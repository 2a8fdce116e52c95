"""The state of a stream between two entries: its sessions, the time it covers, and its snapshots."""

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
    """The computed state of one contract of one feed.

    `Stream` changes it. tick_e9: the tick of the product.
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
        """The event time (ns UTC) from which a `Mark` (time without a trade) has an effect.

        A session without trades has nothing to close.
        """
        dues = [session.due_ns for session in self.sessions if not session.empty]
        return min([*dues, self.deadline_ns])

    @property
    def recent(self) -> Rows:
        """Rows of the two seconds before the newest, in order of arrival."""
        return stream_snapshot.since([rows for _, rows in self._recent], self.latest_ns - OVERLAP_NS)

    def covered(self) -> list[Span]:
        """Return the time spans (ns UTC) in which the stream has every trade.

        The importer joins spans that are close to each other. The spans around a gap are therefore shortened, so that
        they are too far apart to be joined.
        """
        return without_gaps((self.covered_ns, self.time_ns), self.holes) if self.covered_ns else []

    def lacks_beginning(self, opening: Opening) -> bool:
        """Return whether a gap covers the end of a session's first five minutes, so that its levels are unknown.

        Gaps later in the session do not count; its levels are computed from the received trades.
        """
        edge_ns = opening.open_ns + GRACE_NS
        return any(first_ns <= edge_ns < last_ns for first_ns, last_ns in self.holes)

    @property
    def folded_from(self) -> int:
        """The log position from which entries are read to compute the open sessions again."""
        return min([self.position, *self._opened_at])

    @property
    def needed_from(self) -> int:
        """The oldest position of the log that open sessions and unstored trade dates still need."""
        return min([self.position, *(at for _, at in self.days), *self._opened_at])

    def _set_deadline(self) -> None:
        ends = [session.opening.close_ns for session in self.sessions[:1]]
        ends += [day.end_ns for day, _ in self.days if f"day {day.trade_date}" not in self.pending]
        self.deadline_ns = min(ends) + GRACE_NS if ends else NEVER_NS

    # -- snapshots

    def copied(self) -> stream_snapshot.StreamSnapshot:
        """Copy the state within microseconds, to be encoded on another thread. The sessions must be settled."""
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
        """Restore the state from a snapshot; return False and change nothing if it cannot be read."""
        try:
            self.load(position, data)
        except (ValueError, LookupError, TypeError):
            return False
        return True

    def load(self, position: int, data: bytes) -> None:
        """Restore the state at a log position from a snapshot that `StreamSnapshot.encode` wrote.

        Raises `ValueError` before it changes anything.
        """
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

"""Gaps in the data that a feed has delivered for one stream: which ones to log, and which the feed may still fill."""

from outcry.live.entries import Hole, Mended
from outcry.live.stream import Stream
from outcry.market.calendar import Calendar
from outcry.trades import feed as ports
from outcry.trades.coverage import GRACE_NS, Span


class GapTracker:
    """Decides which gaps in a stream's data are logged. Methods return log entries, which the caller logs.

    root: the product of the stream.
    """

    def __init__(self, stream: Stream, calendar: Calendar, root: str) -> None:
        self._stream, self._calendar, self._root = stream, calendar, root
        #: Gaps that the feed may fill, because it was reopened before them.
        self._fillable: list[Span] = []
        #: Start (ns UTC) of the history that was requested for a new stream; 0: the session of its first row.
        self._requested_ns = 0

    def reopen(self, since_ns: int, caps: ports.FeedCaps, now_ns: int) -> None:
        """Record that the feed was opened again, and from when on (ns UTC) it was asked for history.

        since_ns: 0 if the feed decides from when on.
        """
        stream = self._stream
        self._requested_ns = since_ns
        self._fillable = [
            hole
            for hole in stream.holes
            if hole[0] >= since_ns
            and not _lacks(caps, hole[0], now_ns)
            and (_reports_gaps(caps) or 0 < stream.covered_ns < hole[1])
        ]

    def caught_up(self) -> None:
        """Record that the feed's history is complete, so that the feed fills none of the remaining gaps."""
        self._fillable = []

    def before(self, first_ns: int, complete_ns: int, caps: ports.FeedCaps) -> list[Hole | Mended]:
        """Return the log entries for gaps that must be logged before a row at `first_ns` (ns UTC).

        They are the gap at the start of a stream, and gaps that are filled now. complete_ns: time (ns UTC) up to which
        the feed has delivered everything. At the end of history, `first_ns` is that time.
        """
        hole = self._at_start(first_ns, caps)
        return [*([] if hole is None else [hole]), *self._filled(complete_ns)]

    def _filled(self, until_ns: int) -> list[Mended]:
        """Return the gaps that are filled now: those that end by `until_ns` (ns UTC), up to which history has arrived.

        History arrives in order of time. The feed has already reported the parts that it cannot deliver.
        """
        filled = [hole for hole in self._fillable if hole[1] <= until_ns]
        for hole in filled:
            self._fillable.remove(hole)
        return [Mended(*hole) for hole in filled]

    def reported(self, event: ports.Gap) -> Hole | None:
        """Return the gap that the feed reported, if it is not logged yet; else None.

        The feed can no longer fill gaps that overlap the reported one.
        """
        self._fillable = [h for h in self._fillable if h[1] <= event.from_ns or event.to_ns <= h[0]]
        return self.new(event.from_ns, event.to_ns, event.why)

    def after_interruption(self, caps: ports.FeedCaps, before_ns: int, now_ns: int) -> Hole | None:
        """Return the gap that an interruption leaves, if the feed cannot deliver all missed trades; else None.

        before_ns: start of the interruption; now_ns: its end (both ns UTC).
        """
        if not _lacks(caps, before_ns, now_ns):
            return None
        reach_ns = 0 if _has_no_history(caps) else caps.reach_ns
        return self.new(before_ns, now_ns - reach_ns, "history too short" if reach_ns else "reconnect")

    def _at_start(self, first_ns: int, caps: ports.FeedCaps) -> Hole | None:
        """Return the gap at the beginning of a new stream, before its first row at `first_ns` (ns UTC).

        Returns None if the gap is short or if the feed itself reports gaps.
        """
        if self._stream.covered_ns or _reports_gaps(caps):
            return None
        requested_ns = self._requested_ns
        if caps.own_clock:
            session = self._calendar.session_or_next(self._root, first_ns)
            requested_ns = session.open_ns if session else first_ns
        if first_ns - requested_ns <= GRACE_NS:
            return None
        return self.new(requested_ns, first_ns, "no history")

    def new(self, from_ns: int, to_ns: int, why: str) -> Hole | None:
        """Return a gap (half-open, ns UTC) to log; None if a logged gap contains it, for example a repeated one."""
        if any(known[0] <= from_ns and to_ns <= known[1] for known in self._stream.holes):
            return None
        return Hole(from_ns, to_ns, why)


def _has_no_history(caps: ports.FeedCaps) -> bool:
    """Return whether a feed has no history, so that it never delivers missed trades."""
    return caps.resume is ports.Resume.NONE or caps.backfill is ports.Backfill.NONE


def _lacks(caps: ports.FeedCaps, before_ns: int, now_ns: int) -> bool:
    """Return whether a feed is unable to deliver all trades since a time (ns UTC)."""
    return _has_no_history(caps) or 0 < caps.reach_ns < now_ns - before_ns


def _reports_gaps(caps: ports.FeedCaps) -> bool:
    """Return whether a feed delivers history from the requested time and reports the parts that it cannot deliver.

    Any other feed has a gap at the beginning of its history, the same each time it is opened.
    """
    return caps.from_cursor and caps.backfill is not ports.Backfill.NONE and not caps.own_clock

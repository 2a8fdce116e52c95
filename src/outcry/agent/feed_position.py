"""How far the received events of a contract reach, so that its feed can resume without a gap or repeats."""

from collections import deque

import numpy as np

from outcry.agent.pusher import time_of
from outcry.trades.feed import LIVE_TRADE, OVERLAP_NS, Bars, Event, Trades
from outcry.trades.records import Rows


class FeedPosition:
    """How far the events of one contract reach: their newest times (ns UTC) and last trades.

    time_ns: newest time of any event. latest_ns: time of the newest trade or end of the newest bar, whichever is later.
    last_bar_ns: start of the newest bar. barred_ns: end of the newest bar. recent: trades of the last two seconds.
    """

    def __init__(self) -> None:
        self.time_ns = self.latest_ns = self.last_bar_ns = self.barred_ns = 0
        self._last_bar_number = 0
        self._recent: deque[tuple[int, Rows]] = deque()

    @property
    def recent(self) -> Rows:
        """Trades within two seconds of the newest, in arrival order."""
        first_ns = self.latest_ns - OVERLAP_NS
        rows = [rows[rows["ts_event"] >= first_ns] for _, rows in self._recent]
        return np.concatenate(rows) if rows else np.zeros(0, LIVE_TRADE)

    def advance(self, number: int, event: Event) -> None:
        """Update the position by the next event. `number`: the event's number in the queue."""
        at_ns = time_of(event)
        self.time_ns = max(self.time_ns, at_ns)
        if isinstance(event, Trades):
            self.latest_ns = max(self.latest_ns, at_ns)
            self._recent.append((number, event.rows))
        elif isinstance(event, Bars):
            self.last_bar_ns, self._last_bar_number = max(self.last_bar_ns, at_ns), number
            self.barred_ns = max(self.barred_ns, at_ns + event.quality.length_ns)
            self.latest_ns = max(self.latest_ns, self.barred_ns)
        horizon_ns = self.latest_ns - OVERLAP_NS
        while self._recent and int(self._recent[0][1]["ts_event"].max()) < horizon_ns:
            self._recent.popleft()

    def needed(self) -> list[int]:
        """Return the numbers of the events that a restarted program needs to recognise rows that the feed repeats."""
        numbers = [self._recent[0][0]] if self._recent else []
        if self.barred_ns and self.barred_ns >= self.latest_ns - OVERLAP_NS:
            numbers.append(self._last_bar_number)
        return numbers

"""Receives one contract of a feed into the spool, the queue on disk from which events are pushed to a service.

After an interruption a feed resumes shortly before the newest known row, and the follower removes repeated rows. It
reports missing history as a gap. It also reports to the service why no data arrives, and when the feed is live again.
It counts events that no service would accept, and does not send them.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import cast

from outcry.agent.spooled_queue import SpooledQueue
from outcry.base.clock import Clock
from outcry.live.history_start import answered_begin_ns, history_begin_ns
from outcry.live.stream_status import StreamProgress
from outcry.market.calendar import Calendar
from outcry.market.units import NANOS_PER_HOUR
from outcry.trades.feed import (
    OVERLAP_NS,
    Backfill,
    Bars,
    CaughtUp,
    Cursor,
    Ended,
    Event,
    Feed,
    Gap,
    Heartbeat,
    Resume,
    Status,
    Trades,
)
from outcry.trades.overlap import Overlap
from outcry.trades.validation import fault_of

#: Maximum number of rows in one spooled event; a push contains several events.
_MOST_ROWS = 4096
_MOST_TEXT = 200
_MOST_AHEAD_NS = NANOS_PER_HOUR // 2  # a service accepts an hour, by its own clock


@dataclass(slots=True)
class ContractStatus:
    """Status of the feed of one contract, for display.

    phase: the current state of reception, such as `catching_up`; set by `ContractFollower`. code, text: why the feed is
    in this phase. rows: number of rows (trades or bars) added to the spool. set_aside: number of events and rows that
    were not sent, because no service would accept them. subscribed: whether the feed reports the contract as
    subscribed. quality: quality of its history.
    """

    phase: str = "connecting"
    code: str = ""
    text: str = ""
    rows: int = 0
    set_aside: int = 0
    subscribed: bool = True
    quality: str = ""


class ContractFollower:
    """Receives the events of one contract from its feed, and adds them to the contract's queue in the spool.

    window_ns: when the contract trades, half-open, ns UTC. progress: how far the service already has the contract's
    data, None if unknown; used if that is further than the spool. changed: called when `status` changes. added: called
    when there are new events to send.
    """

    def __init__(
        self, feed: Feed, queue: SpooledQueue, calendar: Calendar, clock: Clock, window_ns: tuple[int, int],
        progress: StreamProgress | None = None, *, added: Callable[[], object], changed: Callable[[], object],
    ) -> None:  # fmt: skip
        self.feed, self.queue = feed, queue
        self._calendar, self._clock, self._window_ns = calendar, clock, window_ns
        self._progress = progress or StreamProgress(0, 0)
        self._added, self._changed = added, changed
        self._overlap = Overlap()
        self._caught_up = False
        self._last_status: Status | None = None
        self.status = ContractStatus()
        #: Time of the feed's last event, by the event loop's clock.
        self.last_event_s = 0.0

    async def follow(self) -> bool:
        """Receive events until the feed closes the stream; return whether the feed has ended permanently.

        Raises `FeedLost`, and `OSError` if the spool is full.
        """
        queue, feed, loop = self.queue, self.feed, asyncio.get_running_loop()
        progress, self._progress = self._progress, replace(self._progress, barred_ns=())
        at = queue.position
        before_ns, latest_ns = max(at.time_ns, progress.time_ns), max(at.latest_ns, progress.latest_ns)
        since_ns = max(0, latest_ns - OVERLAP_NS) if latest_ns else progress.begin_ns or self._begin_ns()
        self._overlap.resume(at.recent, at.latest_ns, at.last_bar_ns, at.barred_ns)
        self._caught_up = False
        self.status.subscribed = True
        answered_ns = answered_begin_ns(self._calendar, queue.contract.root, self._clock.now_ns())
        cursor = Cursor(since_ns, barred_ns=progress.barred_ns, answered_ns=answered_ns)
        events = cast("AsyncGenerator[Event]", feed.open(queue.contract, cursor))
        async with aclosing(events) as stream:
            async for event in stream:
                self.last_event_s = loop.time()
                if not self._caught_up:
                    self._set_status("catching_up")
                self._process(event, since_ns, before_ns)
                if isinstance(event, Ended):
                    self._set_status("ended")
                    return True
        return False

    def report_status(self, phase: str, code: str, text: str = "") -> None:
        """Store the reason why the feed sends no data in `status`, and push it to the service."""
        text = "".join(sign for sign in text if sign.isprintable())[:_MOST_TEXT]
        self._set_status(phase, code, text)
        if self._last_status is None or self._last_status.subscribed or self._last_status.code != code:
            self._add_status(Status(subscribed=False, code=code[:64], text=text))

    def _set_status(self, phase: str, code: str = "", text: str = "") -> None:
        shown = self.status
        if (shown.phase, shown.code, shown.text) != (phase, code, text):
            shown.phase, shown.code, shown.text = phase, code, text
            self._changed()

    def _add_status(self, status: Status) -> None:
        self._add(status)
        self._last_status = status

    def _process(self, event: Event, since_ns: int, before_ns: int) -> None:
        match event:
            case Trades() | Bars():
                self._add_rows(event, since_ns)
            case Status():
                self.status.subscribed = event.subscribed
                if not event.subscribed:
                    self.report_status("lost", event.code, event.text)
                elif self._caught_up or self._last_status is None or self._last_status.subscribed:
                    self._add_status(event)  # else `_add_caught_up` reports it after the missing history
                    if self._caught_up:
                        self._set_status("live")
            case CaughtUp():
                self._add_caught_up(event, since_ns, before_ns)
            case Heartbeat() if not self._caught_up:
                pass  # a heartbeat would claim that nothing is missing before this time
            case _:
                self._add(event)

    def _add_rows(self, event: Trades | Bars, since_ns: int) -> None:
        """Add rows to the queue, without those that the feed repeats, split into events that fit in a push."""
        rows = event.rows
        if isinstance(event, Trades):
            rows = rows if self._caught_up else rows[rows["ts_event"] >= since_ns]
            rows = self._overlap.trades(rows)
        else:
            rows = self._overlap.bars(rows, event.quality.length_ns)
        for first in range(0, len(rows), _MOST_ROWS):
            part = rows[first : first + _MOST_ROWS]
            some = Trades(part) if isinstance(event, Trades) else Bars(part, event.quality, event.backfill)
            if self._fault(some):
                self._add_valid_rows(some)
            else:
                self._add(some)
                self.status.rows += len(part)

    def _add_valid_rows(self, event: Trades | Bars) -> None:
        """Add the valid rows of an event to the queue one by one, and count the invalid ones."""
        for at in range(len(event.rows)):
            row = event.rows[at : at + 1]
            one = Trades(row) if isinstance(event, Trades) else Bars(row, event.quality, event.backfill)
            if self._fault(one):
                self.status.set_aside += 1
            else:
                self._add(one)
                self.status.rows += 1

    def _add_caught_up(self, event: CaughtUp, since_ns: int, before_ns: int) -> None:
        if not self._caught_up and (gap := self._missing(since_ns, before_ns, event.at_ns)):
            self._add(gap)
        self._overlap.caught_up(event.at_ns)
        self.status.quality = event.quality.value
        self._caught_up = True
        self._add(event)
        if self._last_status is None or not self._last_status.subscribed:
            self._add_status(Status(subscribed=True, code="subscribed"))
        self._set_status("live")

    def _missing(self, since_ns: int, before_ns: int, now_ns: int) -> Gap | None:
        """Return the gap in history that the feed cannot fill, or None.

        since_ns: start of the requested history. before_ns: time up to which the spool or the service has everything; 0
        for a new stream.
        """
        caps = self.feed.caps
        if not before_ns:
            lacks = caps.backfill is Backfill.NONE and since_ns < now_ns
            return Gap(since_ns, now_ns, "no history") if lacks else None
        if caps.resume is Resume.NONE or caps.backfill is Backfill.NONE:
            return Gap(before_ns, now_ns, "reconnect") if before_ns < now_ns else None
        if 0 < caps.reach_ns < now_ns - before_ns:
            return Gap(before_ns, now_ns - caps.reach_ns, "not_kept")
        return None

    def _fault(self, event: Event) -> str:
        return fault_of(event, self._clock.now_ns() + _MOST_AHEAD_NS, self._window_ns)

    def _add(self, event: Event) -> None:
        if not isinstance(event, Trades | Bars) and self._fault(event):
            self.status.set_aside += 1
            return
        self.queue.add(event)
        self._added()

    def _begin_ns(self) -> int:
        """Return the time (ns UTC) from which to request the history of a contract without any known data."""
        return history_begin_ns(self._calendar, self.queue.contract.root, self._clock.now_ns(), None)

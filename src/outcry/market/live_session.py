"""One live session: its ladder, alerts, scenarios and bias, updated by events in order.

All results depend only on the `Opening` and the ordered events, not on how calls group the events. `dump` and `load`
may be used between any two events. A late trade is added to its own bracket and fires no alert
(docs/guides/live.md, rules §6).
"""

from collections.abc import Sequence
from typing import Any

from outcry.market.alerts.machine import Fired, Observation
from outcry.market.bar_closes import CLOSE_DELAY_NS, BarCloses
from outcry.market.fold import SessionFold
from outcry.market.ladder import MAX_SESSION_ROWS, Ladder
from outcry.market.live_view import Capture, LiveView
from outcry.market.opening import Opening
from outcry.market.session_monitor import SessionMonitor
from outcry.market.session_state import decode, encode

__all__ = ["CLOSE_DELAY_NS", "Capture", "LiveSession", "LiveView", "encode"]

_NOTHING_YET = -(2**63)


class LiveSession:
    """One live session. Times are ns UTC, prices ticks, sizes lots. Not thread-safe.

    silent: True while history is backfilled; alerts then count as fired but are not reported.
    """

    def __init__(self, opening: Opening, *, silent: bool = False) -> None:
        self.opening = opening
        self.open_ns, self.close_ns = opening.open_ns, opening.close_ns
        self.revision = 0
        self.empty = True  # nothing has traded, or all of it was busted
        self._bar_closes = BarCloses(opening.segments)
        self._fold = SessionFold(self._bar_closes.brackets, MAX_SESSION_ROWS)
        self._monitor = SessionMonitor(opening)
        self._latest_ns = _NOTHING_YET
        self._event_ns = _NOTHING_YET
        self._high = self._low = 0
        self.silence(on=silent)

    # -- events

    def silence(self, *, on: bool) -> None:
        """Suppress alerts (True), as during a backfill (rules §6), or report them again (False)."""
        self.silent = on
        self._monitor.silence(on=on)

    @property
    def due_ns(self) -> int:
        """The event time at which the next bar or bracket becomes final."""
        return self._bar_closes.due_ns

    def trades(
        self,
        at_ns: Sequence[int],
        price_ticks: Sequence[int],
        size_lots: Sequence[int],
        *,
        watched: bool = True,
    ) -> list[Fired]:
        """Apply trades in order of arrival; return the alerts they fired. Size 0 is ignored.

        watched: False for trades that are too old to act on; the ladder receives them, but they are not checked for
        alerts. Raises `OutsideSession` and `RangeTooWide`; trades before the faulty one remain applied.
        """
        if 0 in size_lots:
            some = [trade for trade in zip(at_ns, price_ticks, size_lots, strict=True) if trade[2]]
            at_ns, price_ticks, size_lots = ([trade[n] for trade in some] for n in range(3))
        fired: list[Fired] = []
        at, count = 0, len(at_ns)
        if count == 1 and watched and self._passed(at_ns[0], price_ticks[0], size_lots[0]):
            return fired
        while at < count:
            if at_ns[at] >= self.due_ns:
                fired += self.advance(at_ns[at])
            until = self._nothing_until(at_ns, price_ticks, at, count, watched=watched)
            if until > at:
                self._fold_in(at_ns, price_ticks, size_lots, at, until)
                at = until
            else:
                fired += self._one(at_ns[at], price_ticks[at], size_lots[at], watched=watched)
                at += 1
        return fired

    def bar(
        self, start_ns: int, end_ns: int, opened: int, high: int, low: int, close: int, volume_lots: int,
        *, watched: bool = True,
    ) -> list[Fired]:  # fmt: skip
        """Apply one completed bar, stamped at its start; return the alerts it fired, which have the time of its end.

        Volume 0 is ignored. watched: as in `trades`.
        """
        if not volume_lots:
            return []
        fired = self._finalize(start_ns)  # completed bars have no late trades to wait for
        first, late = self.empty, start_ns < self._latest_ns
        self._fold.bar(start_ns, opened, high, low, close, volume_lots)
        self._bar_closes.note(start_ns, close)
        self._reach(low, high, first=first)
        if first:
            self._opened(opened)
        if late:
            self._monitor.late_trade(start_ns, self._fold)
            return fired
        self._latest_ns, self._event_ns = start_ns, end_ns
        if watched:
            seen = Observation(end_ns, opened, low, high, close, start_ns)
            bracket = self._bar_closes.bracket_at(start_ns)
            fired += self._monitor.traded(seen, bracket, self._fold, (self._high, self._low))
        return fired

    def advance(self, at_ns: int) -> list[Fired]:
        """Move event time forward; return the alerts of bars and brackets that become final thereby.

        A bar or bracket becomes final two seconds after its end.
        """
        return self._finalize(at_ns - CLOSE_DELAY_NS)

    def amended(self, ladder: Ladder | None) -> None:
        """Continue from a ladder that was recomputed without busted trades. None: no trade remains.

        Fired alerts and final bars do not change. Event time does not go back. So a new trade still counts as late if
        it is earlier than a busted one.
        """
        self.revision += 1
        if ladder is None:
            self._fold = SessionFold(self._bar_closes.brackets, MAX_SESSION_ROWS)
            self._monitor.reset()
            self._high = self._low = 0
            self.empty = True
        else:
            self._fold = SessionFold.restore(self._bar_closes.brackets, ladder, MAX_SESSION_ROWS)
            self._high, self._low = ladder.high_ticks, ladder.low_ticks
            newest_ns = ladder.brackets[-1].last_ns
            self._latest_ns, self._event_ns = max(self._latest_ns, newest_ns), max(self._event_ns, newest_ns)
            if self.empty:  # a corrected trade is the first one that counts
                self._opened(ladder.open_ticks)
        self._bar_closes.amended(ladder.brackets if ladder else ())
        self._monitor.late_trade(self.opening.open_ns, self._fold)

    # -- results

    def ladder(self) -> Ladder | None:
        """Return the ladder of the session so far; None before its first event."""
        return self._fold.ladder()

    def capture(self) -> "Capture | None":
        """Return a snapshot from which a view can be computed later; None before the first event."""
        ladder = self._fold.ladder()
        if ladder is None or self.empty:
            return None
        complete = self._event_ns >= self._monitor.hour_ends_ns
        return Capture(
            self.opening, ladder, self._event_ns, complete, self._monitor.bias, self._monitor.scenarios(),
            self.revision,
        )  # fmt: skip

    def view(self) -> LiveView | None:
        """Return the current view of the session; None before its first event."""
        found = self.capture()
        return found.view() if found else None

    def set_opening(self, opening: Opening) -> None:
        """Replace the opening (reference levels), because the prior session has completed since this session opened."""
        self.opening = opening
        ladder = self._fold.ladder()
        self._monitor.set_opening(opening, ladder.open_ticks if ladder else None)

    # -- storing

    def dump(self) -> bytes:
        """Return the session's state, without its opening, as canonical JSON."""
        return encode(self.state())

    def state(self) -> dict[str, Any]:
        """Return the values that `dump` encodes. The returned values stay the same while the session continues."""
        ladder = self._fold.ladder()
        return {
            "revision": self.revision,
            "seals": self._bar_closes.dump(),
            "times": [self._latest_ns, self._event_ns],
            "prices": [self._high, self._low],
            "silent": self.silent,
            "ladder": ladder,
            "watch": self._monitor.dump(),
        }

    @staticmethod
    def load(opening: Opening, data: bytes) -> "LiveSession":
        """Restore a session from the result of `dump`. Raises `ValueError` if another version wrote it."""
        whole = decode(data)
        session = LiveSession(opening, silent=whole["silent"])
        session.revision = whole["revision"]
        session._bar_closes.restore(*whole["seals"])
        session._latest_ns, session._event_ns = whole["times"]
        session._high, session._low = whole["prices"]
        if whole["ladder"] is not None:
            session._fold = SessionFold.restore(
                session._bar_closes.brackets, whole["ladder"], MAX_SESSION_ROWS
            )
            session.empty = False
        session._monitor.restore(whole["watch"])
        return session

    # -- internals

    def _passed(self, now_ns: int, price: int, size: int) -> bool:
        """Add one trade to the ladder without evaluating it, if it cannot change anything else.

        Returns False, and adds nothing, if the trade must be evaluated.
        """
        calm = self._monitor.calm
        if calm is None or not (self._latest_ns <= now_ns < calm.until_ns and calm.low < price < calm.high):
            return False
        self._fold.trade(now_ns, price, size)
        closes = self._bar_closes
        if closes.from_ns <= now_ns < closes.until_ns:
            closes.closes[closes.bar] = (now_ns, price)
        else:
            closes.note(now_ns, price)
        if price > self._high:
            self._high = price
        elif price < self._low:
            self._low = price
        self._latest_ns = self._event_ns = now_ns
        return True

    def _nothing_until(
        self, at_ns: Sequence[int], price_ticks: Sequence[int], first: int, count: int, *, watched: bool
    ) -> int:
        """Return the index of the next trade, from `first` on, that the fast path cannot handle.

        Such a trade is late, ends a bar or may change alerts or scenarios.
        """
        if self.empty:
            return first
        monitor, due_ns = self._monitor, self.due_ns
        quiet = monitor.quiet(due_ns) if watched else monitor.unwatched(due_ns)
        low, high, until_ns = quiet.low, quiet.high, quiet.until_ns
        latest_ns = self._latest_ns
        for at in range(first, count):
            now_ns, price = at_ns[at], price_ticks[at]
            if now_ns < latest_ns or now_ns >= until_ns or price <= low or price >= high:
                return at
            latest_ns = now_ns
        return count

    def _fold_in(
        self,
        at_ns: Sequence[int],
        price_ticks: Sequence[int],
        size_lots: Sequence[int],
        first: int,
        until: int,
    ) -> None:
        """Add trades to the ladder that are in order and need no evaluation."""
        times, prices = at_ns[first:until], price_ticks[first:until]
        self._fold.trades(zip(times, prices, size_lots[first:until], strict=True))
        self._reach(min(prices), max(prices), first=False)
        self._bar_closes.note_all(times, prices)
        self._latest_ns = self._event_ns = times[-1]

    def _one(self, at_ns: int, price: int, size: int, *, watched: bool) -> list[Fired]:
        """Apply one trade: add it to the ladder and evaluate it for alerts."""
        first, late = self.empty, at_ns < self._latest_ns
        self._fold.trade(at_ns, price, size)
        self._bar_closes.note(at_ns, price)
        self._reach(price, price, first=first)
        if first:
            self._opened(price)
        if late:
            self._monitor.late_trade(at_ns, self._fold)
            return []
        self._latest_ns = self._event_ns = at_ns
        if not watched:
            self._monitor.settle(at_ns, self._fold)
            return []
        seen = Observation(at_ns, price, price, price, price, at_ns)
        bracket = self._bar_closes.bracket_at(at_ns)
        return self._monitor.traded(seen, bracket, self._fold, (self._high, self._low))

    def _opened(self, price: int) -> None:
        self.empty = False
        self._monitor.opened(price)

    def _reach(self, low: int, high: int, *, first: bool) -> None:
        self._low = low if first else min(self._low, low)
        self._high = high if first else max(self._high, high)

    def _finalize(self, until_ns: int) -> list[Fired]:
        """Finalize bars and brackets that ended by `until_ns`, in order; return the alerts they fire."""
        fired: list[Fired] = []
        for end_ns, is_bracket, index in self._bar_closes.finalize(until_ns):
            if is_bracket:
                fired += self._monitor.bracket_closed(index, end_ns, self._fold)
            else:
                _, close = self._bar_closes.closes.pop(index, (0, None))
                fired += self._monitor.bar_closed(end_ns, close, self._bar_closes.bracket_ending(end_ns))
        return fired

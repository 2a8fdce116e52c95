"""One session as it happens: the fold, the alert machines, bias and playbook, driven by one event after the other.

An answer is a fold over trades: what this object says is a function of its `Opening` and the ordered events it was
given, however they were batched. `dump` and `load` cut it anywhere.

Rules kept (feeds, rules §6): a late trade goes into its own bracket and fires nothing; a bar or bracket is sealed two
seconds of event time after its end, so that stragglers are in it.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outcry.core.bias import BiasMachine, BiasReading, votes
from outcry.core.calendar import SessionKind
from outcry.core.engine import SessionFold
from outcry.core.ladder import BRACKET_MINUTES, IB_BRACKETS, Bracket, Ladder, bracket_windows
from outcry.core.opening import Opening
from outcry.core.playbook import LevelLine, ScenarioState, level_lines
from outcry.core.profile import SessionProfile, profile_of
from outcry.core.scenarios import Scenarios
from outcry.core.snapshot import dump as dump_ladder
from outcry.core.snapshot import load as load_ladder
from outcry.core.structure.machine import NEVER_NS, SILENCE, Fired, Observation, Quiet
from outcry.core.structure.structure import Structure
from outcry.core.units import NANOS_PER_HOUR, NANOS_PER_SECOND

VERSION = 2
#: How long after its end a bar or bracket is sealed (feeds §2).
HOLD_NS = 2 * NANOS_PER_SECOND
CLOSE_BAR_MINUTES = 5
_NOTHING_YET = -(2**63)


def encode(held: dict[str, Any]) -> bytes:
    """Write what `LiveSession.hold` took."""
    ladder = held["ladder"]
    whole = held | {"ladder": json.loads(dump_ladder(ladder)) if ladder else None}
    return json.dumps(whole, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class LiveView:
    """A session as it stands, for whoever describes it. Prices in ticks, times ns UTC.

    last_ns: exchange time of the newest event folded in; revision: how often folded trades were amended since.
    overnight: high and low; of an ETH session, its own so far. ib_complete: whether the first 60 minutes are over.
    """

    opening: Opening
    ladder: Ladder
    profile: SessionProfile
    last_ticks: int
    last_ns: int
    ib_complete: bool
    overnight: tuple[int, int] | None
    bias: BiasReading
    levels: tuple[LevelLine, ...]
    scenarios: tuple[ScenarioState, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Capture:
    """What a view is worked out of: taken in microseconds, so that the fold can go on meanwhile."""

    opening: Opening
    ladder: Ladder
    last_ticks: int
    last_ns: int
    ib_complete: bool
    bias: BiasReading
    scenarios: tuple[ScenarioState, ...]
    revision: int

    def view(self) -> LiveView:
        """Work the levels out."""
        profile = profile_of(self.ladder, IB_BRACKETS)
        overnight = self.opening.overnight
        if self.opening.kind is SessionKind.ETH:
            overnight = (profile.high, profile.low)
        lines = level_lines(profile, self.opening, self.last_ticks, ib_complete=self.ib_complete)
        return LiveView(
            self.opening, self.ladder, profile, self.last_ticks, self.last_ns, self.ib_complete, overnight,
            self.bias, lines, self.scenarios, self.revision,
        )  # fmt: skip


class LiveSession:
    """Folds one session. `silent`: it is being caught up with, and what fires is history nobody was told of.

    Times are ns UTC, prices ticks, sizes lots. Not safe for several threads.
    """

    def __init__(self, opening: Opening, *, silent: bool = False) -> None:
        self.opening = opening
        self.revision = 0
        self.empty = True  # whether nothing has traded, or nothing that was not taken back
        self._brackets = bracket_windows(opening.segments, BRACKET_MINUTES)
        self._bars = bracket_windows(opening.segments, CLOSE_BAR_MINUTES)
        self._bracket_starts = [start for start, _ in self._brackets]
        self._bar_starts = [start for start, _ in self._bars]
        ends = [(end, 0, index) for index, (_, end) in enumerate(self._bars)]
        ends += [(end, 1, index) for index, (_, end) in enumerate(self._brackets)]
        self._seals = sorted(ends)
        self._ib_end_ns = min(opening.open_ns + NANOS_PER_HOUR, opening.close_ns)
        self._fold = SessionFold(self._brackets)
        self._structure = Structure(opening) if opening.kind is SessionKind.RTH else None
        self._scenarios = Scenarios(opening)
        self._bias = BiasMachine()
        self._sealed = 0
        self._latest_ns = _NOTHING_YET
        self._event_ns = _NOTHING_YET
        self._high = self._low = 0
        self._closes: dict[int, tuple[int, int]] = {}
        self._ib: tuple[int, int] | None = None
        self._ib_settled = False
        self._calm: Quiet | None = None
        self._bar_from_ns = self._bar_until_ns = self._bar = 0
        self.silence(on=silent)

    # -- what happens

    def silence(self, *, on: bool) -> None:
        """Let alerts latch without a word while catching up (rules §6), or speak again."""
        self.silent = on
        if self._structure:
            self._structure.silence(on=on)

    @property
    def due_ns(self) -> int:
        """The event time from which `advance` has something to do."""
        return self._seals[self._sealed][0] + HOLD_NS if self._sealed < len(self._seals) else NEVER_NS

    def trades(
        self,
        at_ns: Sequence[int],
        price_ticks: Sequence[int],
        size_lots: Sequence[int],
        *,
        watched: bool = True,
    ) -> list[Fired]:
        """Apply trades in the order they came, and return the alerts they fired.

        Not `watched`: they are too old to act on, and are folded in without a look. Raises `OutsideSession` and
        `RangeTooWide`; the trades before the faulty one are applied then.
        """
        fired: list[Fired] = []
        at, count = 0, len(at_ns)
        if count == 1 and watched and self._calm is not None:  # one more of many: nothing to look for
            now_ns, price, calm = at_ns[0], price_ticks[0], self._calm
            if self._latest_ns <= now_ns < calm.until_ns and calm.low < price < calm.high:
                self._fold.trade(now_ns, price, size_lots[0])
                if self._bar_from_ns <= now_ns < self._bar_until_ns:
                    self._closes[self._bar] = (now_ns, price)
                else:
                    self._note_close(now_ns, price)
                if price > self._high:
                    self._high = price
                elif price < self._low:
                    self._low = price
                self._latest_ns = self._event_ns = now_ns
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
        """Apply one completed bar, stamped at its start; what it fires is timed at its end."""
        fired = self._seal(start_ns)  # bars come complete: there are no stragglers to wait for
        first, late = self.empty, start_ns < self._latest_ns
        self._fold.bar(start_ns, opened, high, low, close, volume_lots)
        self._note_close(start_ns, close)
        self._reach(low, high, first=first)
        if first:
            self._opened(opened)
        if late:
            self._belated(start_ns)
            return fired
        self._latest_ns, self._event_ns = start_ns, end_ns
        if watched:
            fired += self._look(Observation(end_ns, low, high, close, start_ns))
        return fired

    def advance(self, at_ns: int) -> list[Fired]:
        """Let event time come to an instant: seal what ended two seconds before it."""
        return self._seal(at_ns - HOLD_NS)

    def amended(self, ladder: Ladder | None) -> None:
        """Go on from a ladder folded anew without what the exchange took back; None: nothing is left.

        What has fired and what was sealed stays. Event time does not go back: a trade made before the newest of those
        taken back is late still.
        """
        self.revision += 1
        if ladder is None:
            self._fold = SessionFold(self._brackets)
            self._scenarios, self._bias = Scenarios(self.opening), BiasMachine()
            self._high = self._low = 0
            self.empty = True
        else:
            self._fold = SessionFold.restore(self._brackets, ladder)
            self._high, self._low = ladder.high_ticks, ladder.low_ticks
            newest_ns = ladder.brackets[-1].last_ns
            self._latest_ns, self._event_ns = max(self._latest_ns, newest_ns), max(self._event_ns, newest_ns)
            if self.empty:  # what could not be counted was corrected
                self._opened(ladder.open_ticks)
        self._amend_closes(ladder.brackets if ladder else ())
        self._belated(self.opening.open_ns)

    # -- what it says

    def ladder(self) -> Ladder | None:
        """The session so far; None before its first event."""
        return self._fold.ladder()

    def capture(self) -> "Capture | None":
        """The session as it stands, for `view` to be worked out of later; None before its first event."""
        ladder = self._fold.ladder()
        if ladder is None or self.empty:
            return None
        complete = self._event_ns >= self._ib_end_ns
        return Capture(
            self.opening, ladder, ladder.close_ticks, self._event_ns, complete, self._bias.reading,
            self._scenarios.states(self._ib), self.revision,
        )  # fmt: skip

    def view(self) -> LiveView | None:
        """Everything about the session as it stands; None before its first event."""
        found = self.capture()
        return found.view() if found else None

    def refer(self, opening: Opening) -> None:
        """Measure against other references from here on: the session before this one has completed meanwhile."""
        self.opening = opening
        self._calm = None
        self._scenarios = Scenarios(opening)
        ladder = self._fold.ladder()
        if ladder is not None:
            self._scenarios.opened(ladder.open_ticks)

    # -- cutting it

    def dump(self) -> bytes:
        """Everything but the opening, as canonical JSON."""
        return encode(self.hold())

    def hold(self) -> dict[str, Any]:
        """What `dump` writes, taken in microseconds: nothing of it changes when the session goes on."""
        ladder = self._fold.ladder()
        return {
            "version": VERSION,
            "revision": self.revision,
            "sealed": self._sealed,
            "times": [self._latest_ns, self._event_ns],
            "prices": [self._high, self._low],
            "closes": sorted([index, *close] for index, close in self._closes.items()),
            "ib": [self._ib_settled, self._ib],
            "silent": self.silent,
            "ladder": ladder,
            "structure": self._structure.dump() if self._structure else None,
            "scenarios": self._scenarios.dump(),
            "bias": self._bias.dump(),
        }

    @staticmethod
    def load(opening: Opening, data: bytes) -> "LiveSession":
        """Read what `dump` wrote; raise `ValueError` for a version this program does not know."""
        whole: dict[str, Any] = json.loads(data)
        if whole["version"] != VERSION:
            raise ValueError(f"session of version {whole['version']}, this program reads {VERSION}")
        session = LiveSession(opening, silent=whole["silent"])
        session.revision, session._sealed = whole["revision"], whole["sealed"]
        session._latest_ns, session._event_ns = whole["times"]
        session._high, session._low = whole["prices"]
        session._closes = {index: (at_ns, close) for index, at_ns, close in whole["closes"]}
        session._ib_settled, balance = whole["ib"]
        session._ib = (balance[0], balance[1]) if balance else None
        if whole["ladder"] is not None:
            ladder = load_ladder(json.dumps(whole["ladder"]).encode())
            session._fold = SessionFold.restore(session._brackets, ladder)
            session.empty = False
        if session._structure:
            session._structure = Structure.load(opening, whole["structure"])
        session._scenarios = Scenarios.load(opening, whole["scenarios"])
        session._bias = BiasMachine.load(whole["bias"])
        return session

    # -- within

    def _nothing_until(
        self, at_ns: Sequence[int], price_ticks: Sequence[int], first: int, count: int, *, watched: bool
    ) -> int:
        """The first trade from `first` on that comes late, ends a bar, or may move a machine."""
        if self.empty:
            return first
        quiet = self._quiet() if watched else self._bounded(SILENCE)
        low, high, until_ns = quiet.low, quiet.high, quiet.until_ns
        latest_ns = self._latest_ns
        for at in range(first, count):
            now_ns, price = at_ns[at], price_ticks[at]
            if now_ns < latest_ns or now_ns >= until_ns or price <= low or price >= high:
                return at
            latest_ns = now_ns
        return count

    def _quiet(self) -> Quiet:
        if self._calm is None:
            calm = self._scenarios.quiet()
            if self._structure:
                calm = calm.join(self._structure.quiet())
            self._calm = self._bounded(calm)
        return self._calm

    def _bounded(self, quiet: Quiet) -> Quiet:
        """Where nothing happens, not to machines and not to bars, brackets and the initial balance either."""
        until_ns = min(quiet.until_ns, self.due_ns, self.opening.close_ns)
        return Quiet(quiet.low, quiet.high, until_ns if self._ib_settled else min(until_ns, self._ib_end_ns))

    def _fold_in(
        self,
        at_ns: Sequence[int],
        price_ticks: Sequence[int],
        size_lots: Sequence[int],
        first: int,
        until: int,
    ) -> None:
        """Trades in order that move nothing but the fold."""
        times, prices = at_ns[first:until], price_ticks[first:until]
        self._fold.trades(zip(times, prices, size_lots[first:until], strict=True))
        self._reach(min(prices), max(prices), first=False)
        begin = 0
        while begin < len(times):  # the last trade of each five minutes
            bar = bisect_right(self._bar_starts, times[begin]) - 1
            end = bisect_left(times, self._bars[bar][1], begin)
            self._note_close(times[end - 1], prices[end - 1])
            begin = end
        self._latest_ns = self._event_ns = times[-1]

    def _one(self, at_ns: int, price: int, size: int, *, watched: bool) -> list[Fired]:
        """A trade that may matter."""
        first, late = self.empty, at_ns < self._latest_ns
        self._fold.trade(at_ns, price, size)
        self._note_close(at_ns, price)
        self._reach(price, price, first=first)
        if first:
            self._opened(price)
        if late:
            self._belated(at_ns)
            return []
        self._latest_ns = self._event_ns = at_ns
        if not watched:
            self._settle_ib(at_ns)
            return []
        return self._look(Observation(at_ns, price, price, price, at_ns))

    def _opened(self, price: int) -> None:
        self.empty = False
        self._scenarios.opened(price)

    def _look(self, seen: Observation) -> list[Fired]:
        """Show the machines what traded."""
        self._settle_ib(seen.slot_ns)
        self._calm = None
        self._scenarios.traded(seen, self._ib)
        if self._structure is None:
            return []
        bracket = bisect_right(self._bracket_starts, seen.slot_ns) - 1
        return self._structure.traded(seen, bracket, self._ib, (self._high, self._low))

    def _settle_ib(self, slot_ns: int) -> None:
        """The initial balance stands once the first hour is over."""
        if not self._ib_settled and slot_ns >= self._ib_end_ns:
            self._ib, self._ib_settled = self._balance(), True
            self._calm = None

    def _balance(self) -> tuple[int, int] | None:
        hour = [b for b in (self._fold.bracket(index) for index in range(IB_BRACKETS)) if b]
        return (max(b.high_ticks for b in hour), min(b.low_ticks for b in hour)) if hour else None

    def _belated(self, slot_ns: int) -> None:
        """After a late trade: if it fell into the first hour, the initial balance may have moved."""
        self._calm = None
        if self._ib_settled and slot_ns < self._ib_end_ns:
            self._ib = self._balance()
            self._scenarios.revise_ib(self._ib)
            if self._structure:
                self._structure.revise_ib(self._ib)

    def _reach(self, low: int, high: int, *, first: bool) -> None:
        self._low = low if first else min(self._low, low)
        self._high = high if first else max(self._high, high)

    def _note_close(self, slot_ns: int, price: int) -> None:
        """The latest trade of a five-minute bar is its close, until it is sealed."""
        bar = bisect_right(self._bar_starts, slot_ns) - 1
        self._bar, (self._bar_from_ns, self._bar_until_ns) = bar, self._bars[bar]
        if self._over(bar):
            self._bar_until_ns = self._bar_from_ns  # none of its trades passes by here
            return
        known = self._closes.get(bar)
        if known is None or slot_ns >= known[0]:
            self._closes[bar] = (slot_ns, price)

    def _over(self, bar: int) -> bool:
        """Whether a five-minute bar is sealed."""
        return bool(self._sealed) and self._bars[bar][1] <= self._seals[self._sealed - 1][0]

    def _amend_closes(self, brackets: Sequence[Bracket]) -> None:
        """What the bars not sealed yet close with now. Where its bracket traded on after a bar, brackets do not tell:
        it keeps the close that was noted."""
        last = {bracket.index: bracket.last_ns for bracket in brackets}
        for bar in list(self._closes):
            start_ns = self._bar_starts[bar]
            if last.get(bisect_right(self._bracket_starts, start_ns) - 1, _NOTHING_YET) < start_ns:
                del self._closes[bar]
        for bracket in brackets:
            bar = bisect_right(self._bar_starts, bracket.last_ns) - 1
            if not self._over(bar):
                self._closes[bar] = (bracket.last_ns, bracket.close_ticks)

    def _seal(self, until_ns: int) -> list[Fired]:
        """Close the bars and brackets that end by an instant, in order."""
        fired: list[Fired] = []
        while self._sealed < len(self._seals) and self._seals[self._sealed][0] <= until_ns:
            end_ns, is_bracket, index = self._seals[self._sealed]
            self._sealed += 1
            self._calm = None
            fired += self._seal_bracket(index, end_ns) if is_bracket else self._seal_bar(index, end_ns)
        return fired

    def _seal_bar(self, index: int, end_ns: int) -> list[Fired]:
        found = self._closes.pop(index, None)
        if found is None or self._structure is None:
            return []
        bracket = bisect_left(self._bracket_starts, end_ns) - 1
        return self._structure.bar_closed(end_ns, found[1], bracket)

    def _seal_bracket(self, index: int, end_ns: int) -> list[Fired]:
        bracket = self._fold.bracket(index)
        close = bracket.close_ticks if bracket else None
        fired = self._structure.bracket_closed(index, end_ns, close) if self._structure else []
        self._scenarios.bracket_closed(index, end_ns, close)
        whole = self._fold.ladder()
        ladder = whole and whole.until(index)  # trades of the next two seconds are of the next bracket
        if ladder is None:
            return fired
        profile, complete = profile_of(ladder, IB_BRACKETS), end_ns >= self._ib_end_ns
        both = complete and profile.high > profile.ib_high and profile.low < profile.ib_low
        counted = votes(profile, self.opening.prior, ladder.brackets, ib_complete=complete)
        self._bias.bracket_closed(counted, both_sides_broken=both)
        return fired

"""What watches a session: alert machines, scenarios and bias, with the initial balance they are shown.

Owns the band in which none of them has anything to do, so that most trades are only folded. Rule kept (rules §6): the
initial balance stands once the first hour is over, and then only a late trade moves it.
"""

from typing import Any

from outcry.market.alerts.machine import SILENCE, Fired, Observation, Quiet
from outcry.market.alerts.session_alerts import SessionAlerts
from outcry.market.bias import BiasMachine, BiasReading, votes
from outcry.market.calendar import SessionKind
from outcry.market.fold import SessionFold
from outcry.market.ladder import IB_BRACKETS
from outcry.market.opening import Opening
from outcry.market.playbook import ScenarioState
from outcry.market.profile import profile_of
from outcry.market.scenarios import Scenarios
from outcry.market.units import NANOS_PER_HOUR


class SessionMonitor:
    """Watches one session. Times ns UTC, prices ticks. The fold it is given is that of its session.

    calm: the band in which nothing happens, worked out since something last moved; None: it has to be anew.
    """

    __slots__ = (
        "_alerts",
        "_bias",
        "_ib",
        "_ib_settled",
        "_opening",
        "_scenarios",
        "calm",
        "hour_ends_ns",
    )  # fmt: skip

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._alerts = SessionAlerts(opening) if opening.kind is SessionKind.RTH else None
        self._scenarios = Scenarios(opening)
        self._bias = BiasMachine()
        self._ib: tuple[int, int] | None = None
        self._ib_settled = False
        self.hour_ends_ns = min(opening.open_ns + NANOS_PER_HOUR, opening.close_ns)
        self.calm: Quiet | None = None

    @property
    def bias(self) -> BiasReading:
        """As of the newest bracket closed."""
        return self._bias.reading

    def scenarios(self) -> tuple[ScenarioState, ...]:
        """As they stand."""
        return self._scenarios.states(self._ib)

    def silence(self, *, on: bool) -> None:
        """Let alerts latch without a word, or speak again."""
        if self._alerts:
            self._alerts.silence(on=on)

    def opened(self, price: int) -> None:
        """The first price of the session."""
        self._scenarios.opened(price)

    def emptied(self) -> None:
        """All that was traded was taken back: nothing is left of it but what has fired."""
        self._scenarios, self._bias = Scenarios(self._opening), BiasMachine()

    def refer(self, opening: Opening, open_ticks: int | None) -> None:
        """Measure scenarios against other references. open_ticks: the session's first price, if it has one."""
        self._opening, self.calm = opening, None
        self._scenarios = Scenarios(opening)
        if open_ticks is not None:
            self._scenarios.opened(open_ticks)

    def quiet(self, due_ns: int) -> Quiet:
        """Where nothing happens. due_ns: when the next bar or bracket is sealed."""
        if self.calm is None:
            calm = self._scenarios.quiet()
            if self._alerts:
                calm = calm.join(self._alerts.quiet())
            self.calm = self._bounded(calm, due_ns)
        return self.calm

    def unwatched(self, due_ns: int) -> Quiet:
        """Where nothing happens to trades that are not shown."""
        return self._bounded(SILENCE, due_ns)

    def traded(
        self, seen: Observation, bracket: int, fold: SessionFold, extremes: tuple[int, int]
    ) -> list[Fired]:
        """Show what was traded in the bracket of that index. extremes: the session's high and low, this included."""
        self.settle(seen.slot_ns, fold)
        self.calm = None
        self._scenarios.traded(seen, self._ib)
        return self._alerts.traded(seen, bracket, self._ib, extremes) if self._alerts else []

    def settle(self, slot_ns: int, fold: SessionFold) -> None:
        """Something is traded at an instant: once the first hour is over, the initial balance stands."""
        if not self._ib_settled and slot_ns >= self.hour_ends_ns:
            self._ib, self._ib_settled = _balance(fold), True
            self.calm = None

    def belated(self, slot_ns: int, fold: SessionFold) -> None:
        """A late trade was folded in: if it fell into the first hour, the initial balance may have moved."""
        self.calm = None
        if self._ib_settled and slot_ns < self.hour_ends_ns:
            self._ib = _balance(fold)
            self._scenarios.revise_ib(self._ib)
            if self._alerts:
                self._alerts.revise_ib(self._ib)

    def bar_closed(self, end_ns: int, close: int | None, bracket: int) -> list[Fired]:
        """A bar of five minutes in the bracket of that index is sealed; None: nothing traded in it."""
        self.calm = None
        if close is None or self._alerts is None:
            return []
        return self._alerts.bar_closed(end_ns, close, bracket)

    def bracket_closed(self, index: int, end_ns: int, fold: SessionFold) -> list[Fired]:
        """A bracket is sealed: show its close, and count the votes."""
        self.calm = None
        bracket = fold.bracket(index)
        close = bracket.close_ticks if bracket else None
        fired = self._alerts.bracket_closed(index, end_ns, close) if self._alerts else []
        self._scenarios.bracket_closed(index, end_ns, close)
        whole = fold.ladder()
        ladder = whole and whole.until(index)  # trades of the next two seconds are of the next bracket
        if ladder is None:
            return fired
        profile, complete = profile_of(ladder, IB_BRACKETS), end_ns >= self.hour_ends_ns
        both = complete and profile.high > profile.ib_high and profile.low < profile.ib_low
        counted = votes(profile, self._opening.prior, ladder.brackets, ib_complete=complete)
        self._bias.bracket_closed(counted, both_sides_broken=both)
        return fired

    def _bounded(self, quiet: Quiet, due_ns: int) -> Quiet:
        """Nothing happens to bars, brackets and the initial balance either."""
        until_ns = min(quiet.until_ns, due_ns, self._opening.close_ns)
        return Quiet(
            quiet.low, quiet.high, until_ns if self._ib_settled else min(until_ns, self.hour_ends_ns)
        )

    def dump(self) -> dict[str, Any]:
        """What `restore` takes, as JSON holds it."""
        return {
            "ib": [self._ib_settled, self._ib],
            "structure": self._alerts.dump() if self._alerts else None,
            "scenarios": self._scenarios.dump(),
            "bias": self._bias.dump(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up where `dump` left off."""
        self._ib_settled, balance = state["ib"]
        self._ib = (balance[0], balance[1]) if balance else None
        if self._alerts:
            self._alerts = SessionAlerts.load(self._opening, state["structure"])
        self._scenarios = Scenarios.load(self._opening, state["scenarios"])
        self._bias = BiasMachine.load(state["bias"])


def _balance(fold: SessionFold) -> tuple[int, int] | None:
    hour = [bracket for bracket in map(fold.bracket, range(IB_BRACKETS)) if bracket]
    return (max(b.high_ticks for b in hour), min(b.low_ticks for b in hour)) if hour else None

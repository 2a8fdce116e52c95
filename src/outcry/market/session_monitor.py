"""Evaluates a live session: its alerts, scenarios and bias, and the initial balance that they use.

It also computes the price band in which no trade can change any of them, so that most trades only need to be added to
the ladder. The initial balance is fixed when the first hour ends; only a late trade changes it afterwards (rules §6).
"""

from typing import Any

from outcry.market.alerts.machine import ALWAYS_QUIET, Fired, Observation, QuietBand
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
    """Evaluates the trades of one session. Times are ns UTC, prices ticks.

    Pass the session's own fold to methods with a `fold`. calm: the cached price band in which no trade changes
    anything; None if it must be recomputed.
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
        self.calm: QuietBand | None = None

    @property
    def bias(self) -> BiasReading:
        """Return the bias as of the latest bracket close."""
        return self._bias.reading

    def scenarios(self) -> tuple[ScenarioState, ...]:
        """Return the current state of all scenarios."""
        return self._scenarios.states(self._ib)

    def silence(self, *, on: bool) -> None:
        """Suppress alerts, which then still count as fired (True), or report them again (False)."""
        if self._alerts:
            self._alerts.silence(on=on)

    def opened(self, price: int) -> None:
        """Record the session's first price."""
        self._scenarios.opened(price)

    def reset(self) -> None:
        """Reset scenarios and bias after all trades were busted. Alerts that fired stay fired."""
        self._scenarios, self._bias = Scenarios(self._opening), BiasMachine()

    def set_opening(self, opening: Opening, open_ticks: int | None) -> None:
        """Restart the scenarios, and the alerts at reference levels, with another opening.

        open_ticks: the session's first price; None before it.
        """
        self._opening, self.calm = opening, None
        self._alerts = self._alerts.reopened(opening) if self._alerts else None
        self._scenarios = Scenarios(opening)
        if open_ticks is not None:
            self._scenarios.opened(open_ticks)

    def quiet(self, due_ns: int) -> QuietBand:
        """Return the price band in which no trade changes alerts, scenarios or bias.

        due_ns: when the next bar or bracket becomes final, which ends the validity of the band.
        """
        if self.calm is None:
            calm = self._scenarios.quiet()
            if self._alerts:
                calm = calm.join(self._alerts.quiet())
            self.calm = self._bounded(calm, due_ns)
        return self.calm

    def unwatched(self, due_ns: int) -> QuietBand:
        """Return a quiet band of all prices, for trades that are too old to act on.

        Such trades are added to the ladder without evaluation. The band is valid for a limited time, as that of `quiet`
        is.
        """
        return self._bounded(ALWAYS_QUIET, due_ns)

    def traded(
        self, seen: Observation, bracket: int, fold: SessionFold, extremes: tuple[int, int]
    ) -> list[Fired]:
        """Evaluate a trade or bar; return the alerts it fires.

        bracket: index of the trade's bracket. extremes: the session's high and low, including this trade.
        """
        self.settle(seen.slot_ns, fold)
        self.calm = None
        self._scenarios.traded(seen, self._ib)
        return self._alerts.traded(seen, bracket, self._ib, extremes) if self._alerts else []

    def settle(self, slot_ns: int, fold: SessionFold) -> None:
        """Fix the initial balance if a trade at `slot_ns` (ns UTC) is the first one after the first hour."""
        if not self._ib_settled and slot_ns >= self.hour_ends_ns:
            self._ib, self._ib_settled = _balance(fold), True
            self.calm = None

    def late_trade(self, slot_ns: int, fold: SessionFold) -> None:
        """Update the initial balance after a late trade at `slot_ns`, if it belongs to the first hour."""
        self.calm = None
        if self._ib_settled and slot_ns < self.hour_ends_ns:
            self._ib = _balance(fold)
            self._scenarios.revise_ib(self._ib)
            if self._alerts:
                self._alerts.revise_ib(self._ib)

    def bar_closed(self, end_ns: int, close: int | None, bracket: int) -> list[Fired]:
        """Evaluate a final five-minute bar. close: None if nothing traded in it. bracket: index of its bracket."""
        self.calm = None
        if close is None or self._alerts is None:
            return []
        return self._alerts.bar_closed(end_ns, close, bracket)

    def bracket_closed(self, index: int, end_ns: int, fold: SessionFold) -> list[Fired]:
        """Evaluate a final bracket for bias, scenarios and alerts; return the alerts it fires."""
        self.calm = None
        bracket, whole = fold.bracket(index), fold.ladder()
        # Leave out trades of the next bracket, folded in the last two seconds.
        if whole is not None and (ladder := whole.until(index)) is not None:
            profile, complete = profile_of(ladder, IB_BRACKETS), end_ns >= self.hour_ends_ns
            both = complete and profile.high > profile.ib_high and profile.low < profile.ib_low
            counted = votes(profile, self._opening.prior, ladder.brackets, ib_complete=complete)
            self._bias.bracket_closed(counted, both_sides_broken=both)
        close = bracket.close_ticks if bracket else None
        self._scenarios.bracket_closed(index, end_ns, close)
        return self._alerts.bracket_closed(index, end_ns, close) if self._alerts else []

    def _bounded(self, quiet: QuietBand, due_ns: int) -> QuietBand:
        """Limit a price band to the time until the next bar or bracket is final, or the initial balance is fixed."""
        until_ns = min(quiet.until_ns, due_ns, self._opening.close_ns)
        return QuietBand(
            quiet.low, quiet.high, until_ns if self._ib_settled else min(until_ns, self.hour_ends_ns)
        )

    def dump(self) -> dict[str, Any]:
        """Return the state as the argument of `restore`, in JSON values."""
        return {
            "ib": [self._ib_settled, self._ib],
            "structure": self._alerts.dump() if self._alerts else None,
            "scenarios": self._scenarios.dump(),
            "bias": self._bias.dump(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the state that `dump` returned."""
        self._ib_settled, balance = state["ib"]
        self._ib = (balance[0], balance[1]) if balance else None
        if self._alerts:
            self._alerts = SessionAlerts.load(self._opening, state["structure"])
        self._scenarios = Scenarios.load(self._opening, state["scenarios"])
        self._bias = BiasMachine.load(state["bias"])


def _balance(fold: SessionFold) -> tuple[int, int] | None:
    hour = [bracket for bracket in map(fold.bracket, range(IB_BRACKETS)) if bracket]
    return (max(b.high_ticks for b in hour), min(b.low_ticks for b in hour)) if hour else None

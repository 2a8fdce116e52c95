"""All alert machines of one RTH session, driven by trades and by the closes of bars and brackets (rules §6).

This module coordinates the machines. It orders the alerts that one event fires, builds their keys, and computes the
price band in which no machine changes. A reject alert at an edge of value mutes the test alert of that edge. Acceptance
beyond the edge disarms its reject alert.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any, Protocol, cast

from outcry.market.alerts.edge import ValueEdge, arm_ticks
from outcry.market.alerts.ib_break import Balance, BalanceBreak
from outcry.market.alerts.machine import ALWAYS_QUIET, AlertType, Fired, Observation, QuietBand, Value
from outcry.market.alerts.naked_poc import NakedPoc
from outcry.market.alerts.poor import PoorExtreme
from outcry.market.alerts.va_accept import EdgeAccept
from outcry.market.alerts.va_reject import EdgeReject
from outcry.market.alerts.va_test import EdgeTest
from outcry.market.levels import CarriedLevel
from outcry.market.opening import Opening
from outcry.market.units import NANOS_PER_MS


class Machine(Protocol):
    """Interface of an alert's state machine. quiet: the price band in which the machine neither fires nor changes."""

    type: AlertType
    ref: str
    quiet: QuietBand

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Evaluate a trade or bar; return the alert's parameters if it fires, else None."""
        ...

    def dump(self) -> list[int | str]:
        """Return the machine's state as the arguments of `restore`."""
        ...

    @property
    def restore(self) -> Callable[..., None]:
        """The method that restores the machine's state from the values that `dump` returned."""
        ...


class _Family:
    """Alert machines of one type in the order in which they fire, and the price band in which none changes."""

    __slots__ = ("machines", "quiet")

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.machines = tuple(machines)
        self.quiet = ALWAYS_QUIET
        self.refresh()

    def refresh(self) -> None:
        """Recompute the quiet price band after a machine changed."""
        self.quiet = _joined([machine.quiet for machine in self.machines])


class SessionAlerts:
    """The alert machines of one RTH session.

    Without a prior session only initial balance alerts can fire. Pass events in order of time. If a bar and a bracket
    end at the same time, pass the bar first.
    """

    def __init__(self, opening: Opening) -> None:
        self._balance = Balance(opening.open_ns)
        self._breaks = tuple(BalanceBreak(self._balance, upper=upper) for upper in (True, False))
        prior = opening.prior
        edges = [ValueEdge.of(prior, upper=upper) for upper in (True, False)] if prior else []
        self._rejects = tuple(EdgeReject(edge) for edge in edges)
        self._accepts = tuple(EdgeAccept(edge) for edge in edges)
        self._tests = tuple(EdgeTest(edge) for edge in edges)
        arm, levels = arm_ticks(prior), opening.carried
        self._families = tuple(
            _Family(machines)
            for machines in (
                self._breaks,
                self._rejects,
                (NakedPoc(level) for level in sorted(levels.naked_pocs, key=_made_on)),
                self._tests,
                (PoorExtreme(level, arm, upper=True) for level in sorted(levels.poor_highs, key=_made_on)),
                (PoorExtreme(level, arm, upper=False) for level in sorted(levels.poor_lows, key=_made_on)),
            )
        )
        self._keys = dict.fromkeys(AlertType, 0)  # the last milliseconds used for a key of each type
        self._silent = False
        self._quiet = ALWAYS_QUIET
        self._refresh()

    def traded(
        self, seen: Observation, bracket: int, ib: tuple[int, int] | None, extremes: tuple[int, int]
    ) -> list[Fired]:
        """Evaluate a trade or bar; return the alerts it fires, in order.

        bracket: index of the bracket of `seen`. ib: high and low (ticks) of the initial balance after the first hour;
        None during that hour, or if there is no initial balance. extremes: the session's high and low, including
        `seen`.
        """
        if ib != self._balance.ib:
            self.revise_ib(ib)
        if _within(self._quiet, seen):
            return []
        self._balance.extremes = extremes
        fired: list[Fired] = []
        for family in self._families:
            if _within(family.quiet, seen):
                continue
            for machine in family.machines:
                if _within(machine.quiet, seen):
                    continue
                params = machine.traded(seen)
                if params is not None:
                    fired += self._fired(machine, seen.at_ns, seen.close, bracket, params)
            family.refresh()
        self._quiet = _joined([family.quiet for family in self._families])
        return fired

    def bar_closed(self, at_ns: int, close_ticks: int, bracket: int) -> list[Fired]:
        """Evaluate the close of a five-minute bar that had trades and ended at `at_ns`; return the alerts it fires."""
        fired: list[Fired] = []
        for reject, test in zip(self._rejects, self._tests, strict=True):
            params = reject.bar_closed(at_ns, close_ticks)
            if params is not None:
                test.rejected(at_ns)
                fired += self._fired(reject, at_ns, close_ticks, bracket, params)
        self._refresh()
        return fired

    def bracket_closed(self, index: int, at_ns: int, close_ticks: int | None) -> list[Fired]:
        """Evaluate the close of a bracket that ended at `at_ns`; return the alerts it fires.

        close_ticks: None if nothing traded in the bracket.
        """
        fired: list[Fired] = []
        for accept, reject in zip(self._accepts, self._rejects, strict=True):
            accepted = accept.bracket_closed(index, close_ticks)
            if close_ticks is None:
                continue
            if accepted:
                reject.accepted()
                params = accept.params()
                fired += self._fired(accept, at_ns, close_ticks, index, params) if params is not None else []
            elif not accept.is_beyond(close_ticks):
                reject.returned()
        self._refresh()
        return fired

    def quiet(self) -> QuietBand:
        """Return the price band in which `traded` neither fires nor changes anything while `ib` stays the same.

        For a bar, its whole range must be inside the band.
        """
        return self._quiet

    def revise_ib(self, ib: tuple[int, int] | None) -> None:
        """Set the initial balance (high, low) when it is complete, or after a late trade has changed it."""
        self._balance.ib = ib
        for side in self._breaks:
            side.revised()
        self._refresh()

    def silence(self, *, on: bool) -> None:
        """Suppress alerts (True), or report them again (False).

        Machines change state as usual while alerts are suppressed. Callers suppress the alerts of trades from history,
        that is, from before the stream was live.
        """
        self._silent = on

    def reopened(self, opening: Opening) -> "SessionAlerts":
        """Return alerts of the same session for an opening with other reference levels.

        The machines of reference levels begin again. Those of the initial balance, and the last keys, stay as they are.
        """
        made = SessionAlerts(opening)
        made._silent, made._keys = self._silent, self._keys
        made._balance.ib, made._balance.extremes = self._balance.ib, self._balance.extremes
        for new, old in zip(made._breaks, self._breaks, strict=True):
            new.restore(*cast("list[Any]", old.dump()))
        made._refresh()
        return made

    def dump(self) -> object:
        """Return the state as lists of integers and strings. Equal states give equal dumps."""
        return [
            int(self._silent),
            list(self._balance.ib or ()),
            list(self._keys.values()),
            [machine.dump() for machine in self._machines()],
        ]

    @staticmethod
    def load(opening: Opening, state: object) -> "SessionAlerts":
        """Restore the alerts of a session from the result of `dump`, with the same opening as then."""
        silent, ib, keys, machines = cast("list[Any]", state)
        made = SessionAlerts(opening)
        made._silent = bool(silent)
        made._balance.ib = (ib[0], ib[1]) if ib else None
        made._keys = dict(zip(AlertType, keys, strict=True))
        for machine, machine_state in zip(made._machines(), machines, strict=True):
            machine.restore(*machine_state)
        made._refresh()
        return made

    def _machines(self) -> Sequence[Machine | EdgeAccept]:
        return (*chain.from_iterable(family.machines for family in self._families), *self._accepts)

    def _fired(
        self,
        by: Machine | EdgeAccept,
        at_ns: int,
        price_ticks: int,
        bracket: int,
        params: Mapping[str, Value],
    ) -> list[Fired]:
        key_ms = max(at_ns // NANOS_PER_MS, self._keys[by.type] + 1)
        self._keys[by.type] = key_ms  # also while alerts are suppressed, so that keys do not depend on it
        return [] if self._silent else [Fired(by.type, at_ns, price_ticks, by.ref, params, bracket, key_ms)]

    def _refresh(self) -> None:
        for family in self._families:
            family.refresh()
        self._quiet = _joined([family.quiet for family in self._families])


def _made_on(level: CarriedLevel) -> date:
    return level.made_on


def _within(quiet: QuietBand, seen: Observation) -> bool:
    return quiet.low < seen.low and seen.high < quiet.high and seen.at_ns < quiet.until_ns


def _joined(bands: Iterable[QuietBand]) -> QuietBand:
    """Return the intersection of price bands.

    It compares bounds itself, because that is faster than `max` and the function runs at every change of a machine.
    """
    low, high, until_ns = ALWAYS_QUIET.low, ALWAYS_QUIET.high, ALWAYS_QUIET.until_ns
    for band in bands:
        low = band.low if band.low > low else low
        high = band.high if band.high < high else high
        until_ns = band.until_ns if band.until_ns < until_ns else until_ns
    return QuietBand(low, high, until_ns)

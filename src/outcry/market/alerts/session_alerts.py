"""The alert machines of one regular session, driven by its observations and by the closes of bars and brackets.

Owns what concerns more than one machine: the order of what one event fires, the keys, that a reject mutes the test of
its edge and acceptance disarms its reject, and the band in which nothing happens. Rules §6.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from itertools import chain
from typing import Any, Protocol, cast

from outcry.market.alerts.edge import ValueEdge, arm_ticks
from outcry.market.alerts.ib_break import Balance, BalanceBreak
from outcry.market.alerts.machine import SILENCE, AlertType, Fired, Observation, Quiet, Value
from outcry.market.alerts.naked_poc import NakedPoc
from outcry.market.alerts.poor import PoorExtreme
from outcry.market.alerts.va_accept import EdgeAccept
from outcry.market.alerts.va_reject import EdgeReject
from outcry.market.alerts.va_test import EdgeTest
from outcry.market.levels import CarriedLevel
from outcry.market.opening import Opening
from outcry.market.units import NANOS_PER_MS


class Machine(Protocol):
    """What watches observations. `quiet`: where it says nothing and stays as it is."""

    type: AlertType
    ref: str
    quiet: Quiet

    def traded(self, seen: Observation) -> Mapping[str, Value] | None:
        """Return what was measured, if this fires."""
        ...

    def dump(self) -> list[int | str]:
        """What `restore` takes, one argument an item."""
        ...

    @property
    def restore(self) -> Callable[..., None]:
        """Take up where `dump` left off."""
        ...


class _Family:
    """Machines of one kind in the order in which they speak, and where all of them are quiet."""

    __slots__ = ("machines", "quiet")

    def __init__(self, machines: Iterable[Machine]) -> None:
        self.machines = tuple(machines)
        self.quiet = SILENCE
        self.refresh()

    def refresh(self) -> None:
        """A machine moved."""
        self.quiet = _joined([machine.quiet for machine in self.machines])


class SessionAlerts:
    """The machines of one regular session.

    Without a prior session there is no value to measure against: only the initial balance speaks. Events are to come
    in order of time; a bar is closed before a bracket that ends with it.
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
        self._quiet = SILENCE
        self._refresh()

    def traded(
        self, seen: Observation, bracket: int, ib: tuple[int, int] | None, extremes: tuple[int, int]
    ) -> list[Fired]:
        """Show what was traded; return what fires, in order.

        bracket: index of the bracket it belongs to. ib: high and low (ticks) once the first hour is over and
        something was traded in it, else None. extremes: the session's high and low, this included.
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
                said = machine.traded(seen)
                if said is not None:
                    fired += self._fired(machine, seen.at_ns, seen.close, bracket, said)
            family.refresh()
        self._quiet = _joined([family.quiet for family in self._families])
        return fired

    def bar_closed(self, at_ns: int, close_ticks: int, bracket: int) -> list[Fired]:
        """A five-minute bar in which something traded ended at `at_ns`, in the bracket of that index."""
        fired: list[Fired] = []
        for reject, test in zip(self._rejects, self._tests, strict=True):
            said = reject.bar_closed(at_ns, close_ticks)
            if said is not None:
                test.rejected(at_ns)
                fired += self._fired(reject, at_ns, close_ticks, bracket, said)
        self._refresh()
        return fired

    def bracket_closed(self, index: int, at_ns: int, close_ticks: int | None) -> list[Fired]:
        """Bracket `index` ended at `at_ns`; `close_ticks` is None where nothing traded in it."""
        fired: list[Fired] = []
        for accept, reject in zip(self._accepts, self._rejects, strict=True):
            accepted = accept.bracket_closed(index, close_ticks)
            if close_ticks is None:
                continue
            if accepted:
                reject.accepted()
                said = accept.told()
                fired += self._fired(accept, at_ns, close_ticks, index, said) if said is not None else []
            elif not accept.is_beyond(close_ticks):
                reject.returned()
        self._refresh()
        return fired

    def quiet(self) -> Quiet:
        """Strictly inside it, with `ib` as last given, `traded` fires nothing and changes nothing: it may be left out.

        A bar lies inside if its whole range does.
        """
        return self._quiet

    def revise_ib(self, ib: tuple[int, int] | None) -> None:
        """The initial balance (high, low) was given, or moved by a late trade."""
        self._balance.ib = ib
        for side in self._breaks:
            side.revised()
        self._refresh()

    def silence(self, *, on: bool) -> None:
        """While on, machines move and latch as ever, and nothing is returned: for trades from before the start."""
        self._silent = on

    def dump(self) -> object:
        """All that changes, as lists of whole numbers and strings; equal states dump equal."""
        return [
            int(self._silent),
            list(self._balance.ib or ()),
            list(self._keys.values()),
            [machine.dump() for machine in self._machines()],
        ]

    @staticmethod
    def load(opening: Opening, state: object) -> "SessionAlerts":
        """Take up a session that opened so, where `dump` left off."""
        silent, ib, keys, machines = cast("tuple[int, list[int], list[int], list[list[Any]]]", state)
        made = SessionAlerts(opening)
        made._silent = bool(silent)
        made._balance.ib = (ib[0], ib[1]) if ib else None
        made._keys = dict(zip(AlertType, keys, strict=True))
        for machine, kept in zip(made._machines(), machines, strict=True):
            machine.restore(*kept)
        made._refresh()
        return made

    def _machines(self) -> Sequence[Machine | EdgeAccept]:
        return (*chain.from_iterable(family.machines for family in self._families), *self._accepts)

    def _fired(
        self, by: Machine | EdgeAccept, at_ns: int, price_ticks: int, bracket: int, said: Mapping[str, Value]
    ) -> list[Fired]:
        key_ms = max(at_ns // NANOS_PER_MS, self._keys[by.type] + 1)
        self._keys[by.type] = key_ms  # in silence too: keys are those of a run that heard everything
        return [] if self._silent else [Fired(by.type, at_ns, price_ticks, by.ref, said, bracket, key_ms)]

    def _refresh(self) -> None:
        for family in self._families:
            family.refresh()
        self._quiet = _joined([family.quiet for family in self._families])


def _made_on(level: CarriedLevel) -> date:
    return level.made_on


def _within(quiet: Quiet, seen: Observation) -> bool:
    return quiet.low < seen.low and seen.high < quiet.high and seen.at_ns < quiet.until_ns


def _joined(bands: Iterable[Quiet]) -> Quiet:
    """Where all are quiet. Conditions and not `max`: it runs at every trade that moves a machine."""
    low, high, until_ns = SILENCE.low, SILENCE.high, SILENCE.until_ns
    for band in bands:
        low = band.low if band.low > low else low
        high = band.high if band.high < high else high
        until_ns = band.until_ns if band.until_ns < until_ns else until_ns
    return Quiet(low, high, until_ns)

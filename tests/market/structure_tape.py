"""Harness of the alert machines: times in minutes since the open, prices in ticks.

By default the prior value area is 960 to 1000 with its POC at 980. It is 40 ticks wide; a tenth of that is 4, so `arm`
is 8.
"""

from datetime import date

from outcry.market.alerts.machine import Fired, Observation
from outcry.market.alerts.session_alerts import SessionAlerts
from outcry.market.calendar import SessionKind
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.opening import Opening, Prior

OPEN_NS = 1_767_623_400_000_000_000  # 2026-01-05 09:30 New York
MINUTE = 60_000_000_000
DAY = date(2026, 1, 5)
PRIOR = Prior(date(2026, 1, 2), poc=980, vah=1000, val=960, high=1020, low=950, close=990)


def opening(
    prior: Prior | None = PRIOR,
    pocs: tuple[CarriedLevel, ...] = (),
    highs: tuple[CarriedLevel, ...] = (),
    lows: tuple[CarriedLevel, ...] = (),
) -> Opening:
    return Opening(
        contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=DAY,
        segments=((OPEN_NS, OPEN_NS + 390 * MINUTE),), short=False, prior=prior,
        carried=CarriedLevels(pocs, highs, lows),
    )  # fmt: skip


def at(minutes: int, ns: int = 0) -> int:
    return OPEN_NS + minutes * MINUTE + ns


class Tape:
    """Drives the alert machines as their caller does, with the initial balance and extremes of the events so far."""

    def __init__(self, of: Opening | None = None, balance: tuple[int, int] | None = None) -> None:
        """`balance`: a fixed initial balance in place of that of the events."""
        self._balance = balance
        self.structure = SessionAlerts(of or opening())
        self.ib: tuple[int, int] | None = None
        self._first_hour: list[int] = []
        self._all: list[int] = []

    def trade(self, minutes: int, price: int, ns: int = 0) -> list[Fired]:
        when = at(minutes, ns)
        return self._show(Observation(when, price, price, price, price, when))

    def bar(self, minutes: int, low: int, high: int, close: int, opened: int | None = None) -> list[Fired]:
        """Show a one-minute bar that ends at `minutes`; its open equals its close by default."""
        first = close if opened is None else opened
        return self._show(Observation(at(minutes), first, low, high, close, at(minutes - 1)))

    def five(self, minutes: int, close: int) -> list[Fired]:
        """Show a five-minute bar that ends at `minutes`."""
        return self.structure.bar_closed(at(minutes), close, (minutes - 1) // 30)

    def bracket(self, index: int, close: int | None) -> list[Fired]:
        return self.structure.bracket_closed(index, at(30 * (index + 1)), close)

    def _show(self, seen: Observation) -> list[Fired]:
        self._all += [seen.low, seen.high]
        if seen.slot_ns < at(60):
            self._first_hour += [seen.low, seen.high]
        elif self._first_hour:
            self.ib = self.ib or self._balance or (max(self._first_hour), min(self._first_hour))
        bracket = (seen.slot_ns - OPEN_NS) // (30 * MINUTE)
        return self.structure.traded(seen, bracket, self.ib, (max(self._all), min(self._all)))


def fired_alerts(fired: list[Fired]) -> list[tuple[str, int]]:
    """Return the type and price of each alert."""
    return [(alert.type.value, alert.price_ticks) for alert in fired]

"""Hand-written live session in which all numbers differ, and channels that publish it.

ES, tick 0.25. RTH of Tuesday 2026-01-06, 14:30 to 21:15 UTC, two brackets traded; prior session Monday 2026-01-05.
In ticks and prices: prior POC 27600 = 6900, VAH 27650 = 6912.5, VAL 27559 = 6889.75; last 27652 = 6913.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from outcry.access.licences import Grant, Scope
from outcry.answers.query import Query
from outcry.live.model import AlertRow, StreamKey
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.alerts.machine import AlertType
from outcry.market.bias import Bias, BiasReading, Votes
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.market.ladder import Bracket, Ladder
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.live_session import LiveView
from outcry.market.opening import Opening, Prior
from outcry.market.playbook import (
    Condition,
    LevelKind,
    LevelLine,
    Reference,
    ReferenceKind,
    ScenarioId,
    ScenarioState,
    Status,
)
from outcry.market.profile import SessionProfile
from outcry.market.snapshot import dump
from outcry.sessions.store_model import SessionRow
from outcry.trades.records import Quality
from outcry.trades.reference_tables import load_reference

ESH26 = Contract("ES", 2026, 3)
ESM26 = Contract("ES", 2026, 6)
NQH26 = Contract("NQ", 2026, 3)
DAY, PRIOR_DAY = date(2026, 1, 6), date(2026, 1, 5)
OPEN_NS = 1_767_709_800_000_000_000  # 2026-01-06T14:30Z
CLOSE_NS = OPEN_NS + (6 * 60 + 45) * 60 * 10**9
LAST_NS = OPEN_NS + 2_096_123_456_789  # 15:04:56.123456789
LIVE = Availability(live=True, reason="live", market_ns=LAST_NS, trade_date=DAY)

NOW_NS = CLOSE_NS - 3600 * 10**9  # 2026-01-06T20:15Z
COMPLETED = Grant("everyone", "completed", (), None, None, 0)
SHARED = Grant("everyone", "live", (), None, None)
#: Ann may see the operator's live feeds, Bob only completed sessions.
ANN, BOB = Scope(1, (COMPLETED, SHARED)), Scope(2, (COMPLETED,))
REFERENCE = load_reference()

PRIOR = Prior(PRIOR_DAY, poc=27600, vah=27650, val=27559, high=27687, low=27522, close=27633)
CARRIED = CarriedLevels(
    naked_pocs=(CarriedLevel(27600, PRIOR_DAY), CarriedLevel(27400, date(2025, 12, 30))),
    poor_highs=(CarriedLevel(27687, PRIOR_DAY),),
    poor_lows=(),
)
OPENING = Opening(
    contract="ESH2026", root="ES", kind=SessionKind.RTH, trade_date=DAY, segments=((OPEN_NS, CLOSE_NS),), short=False,
    prior=PRIOR, carried=CARRIED, overnight=(27666, 27577), average_range=160,
)  # fmt: skip

LADDER = Ladder(
    brackets=(
        Bracket(0, 27640, 27644, 27638, 27642, OPEN_NS + 1_000_000, OPEN_NS + 1_790_000_000_000),
        Bracket(1, 27642, 27653, 27641, 27652, OPEN_NS + 1_800_000_000_000, LAST_NS),
    ),
    low_ticks=27638, volume=(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), touched=((27638, 27653),),
    source="trades",
)  # fmt: skip

PROFILE = SessionProfile(
    poc=27643, val=27641, vah=27648, poc_candidates=(27643,), vpoc=27651, high=27653,
    low=27638, open=27640, close=27652, ib_high=27654, ib_low=27637,
    tpos=(1, 1, 1, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1), upper_tail_rows=9, lower_tail_rows=3,
    upper_tail_provisional=True, lower_tail_provisional=False, single_prints=(), brackets=2,
)  # fmt: skip

VIEW = LiveView(
    opening=OPENING, ladder=LADDER, profile=PROFILE, last_ticks=27652, last_ns=LAST_NS, ib_complete=False,
    overnight=(27666, 27577),
    bias=BiasReading(Bias.LEAN_UP, Votes(last=1, poc=0, value=0, extension=1, one_timeframing=1)),
    levels=(
        LevelLine(27666, "ONH", LevelKind.ON_HIGH),
        LevelLine(27650, "VAH", LevelKind.PRIOR_VAH),
    ),
    scenarios=(
        ScenarioState(
            id=ScenarioId.ACCEPT_ABOVE, if_=Condition("trade", ">", 27650),
            reference=Reference(ReferenceKind.PRIOR_HIGH, 27687), confirm=Condition("bracket_close", ">", 27650, 2),
            invalidate=Condition("bracket_close", "<=", 27650), status=Status.PENDING,
        ),
    ),
    revision=0,
)  # fmt: skip


def eth(view: LiveView = VIEW) -> LiveView:
    """The same as an overnight session."""
    opening = replace(view.opening, kind=SessionKind.ETH, overnight=None)
    return replace(view, opening=opening, overnight=(view.profile.high, view.profile.low))


class Shown:
    """A channel in a registry, and the view it shows; counts how often that was worked out."""

    def __init__(
        self, registry: Registry, owner: int = 0, contract: Contract = ESH26, feed: str = "demo",
        view: LiveView | None = VIEW, *, invented: bool = False, availability: Availability = LIVE,
    ) -> None:  # fmt: skip
        self.view, self.peeks, self.registry = view, 0, registry
        self.channel = Channel(StreamKey(owner, feed, contract), simulated=invented, peek=self._peek)
        self.channel.version = 1
        registry.put(self.channel)
        registry.set_availability(self.channel, availability)

    def _peek(self) -> LiveView | None:
        self.peeks += 1
        return self.view

    def trade(self, last_ticks: int) -> None:
        """Another last price."""
        assert self.view is not None
        self.view = replace(self.view, last_ticks=last_ticks)
        self.channel.version += 1

    def stop(self, reason: str) -> None:
        self.registry.set_availability(self.channel, replace(LIVE, live=False, reason=reason))


def alert_row(seq: int, **more: Any) -> AlertRow:
    """A test of prior VAH at 6912 by the operator's demo feed, a second after the one before."""
    at_ns = OPEN_NS + seq * 1_000_000_000
    row = AlertRow(
        owner=0, feed="demo", contract="ESH2026", symbol="ES", type=AlertType.VA_TEST_HIGH, severity="info",
        session=SessionKind.RTH, trade_date=DAY, key=f"ES:va-test-high:{at_ns // 1_000_000}", at_ns=at_ns,
        price_e9=6912_000_000_000, ref="VAH",
        params={"vah": 6912_500_000_000, "tolTicks": 2, "approach": "inside", "brackets": [1, 2], "probeExtreme": None},
        invented=False, seq=seq,
    )  # fmt: skip
    return replace(row, **more)


class MemoryAlerts:
    """The part of a `LiveStore` that questions are put to."""

    def __init__(self, rows: Sequence[AlertRow] = ()) -> None:
        self.rows = list(rows)
        self.asked: list[tuple[int, ...]] = []

    def alerts(
        self, owners: Sequence[int] | None, *, after_seq: int = 0, symbol: str | None = None, first: date | None = None,
        last: date | None = None, before_seq: int | None = None, limit: int = 1000, newest_first: bool = False,
    ) -> Sequence[AlertRow]:  # fmt: skip
        self.asked.append(tuple(owners or ()))
        found = [
            row
            for row in sorted(self.rows, key=lambda row: row.seq)
            if (owners is None or row.owner in owners) and row.seq > after_seq and symbol in (None, row.symbol)
            and (before_seq is None or row.seq < before_seq)
            and (first is None or row.trade_date >= first) and (last is None or row.trade_date <= last)
        ]  # fmt: skip
        return (found[::-1] if newest_first else found)[:limit]


class MemorySessions:
    """The part of the store that questions are put to: one completed session of ES unless told otherwise."""

    def __init__(self, *owners: int, source: str = "dbn") -> None:
        self.rows = [completed(owner, source) for owner in owners]
        self.moves = 0

    def revision(self) -> int:
        return self.moves

    def sessions(self, owners: Sequence[int], root: str) -> Sequence[SessionRow]:
        return [row for row in self.rows if row.owner in owners and row.root == root]

    def sessions_and_damaged(
        self, owners: Sequence[int], root: str
    ) -> tuple[Sequence[SessionRow], list[Any]]:
        return self.sessions(owners, root), []

    def roots(self, owners: Sequence[int]) -> Sequence[str]:
        return sorted({row.root for row in self.rows if row.owner in owners})


def query(registry: Registry, store: Any = None, alerts: Any = None) -> Query:
    """The query service over a registry, one completed session of the operator's, and alerts of the past."""
    sessions: Any = store or MemorySessions(0)
    return Query(sessions, REFERENCE.universe, REFERENCE.calendar, registry, alerts)


def completed(owner: int, source: str) -> SessionRow:
    """Monday's session: 28 lots at one price, 6900, in fourteen brackets."""
    opened = OPEN_NS - 86_400 * 10**9
    step = 1800 * 10**9
    brackets = tuple(
        Bracket(n, 27600, 27600, 27600, 27600, opened + n * step, opened + n * step + 1) for n in range(14)
    )
    return SessionRow(
        owner=owner, root="ES", contract="ESH2026", trade_date=PRIOR_DAY, kind=SessionKind.RTH, open_ns=opened,
        close_ns=CLOSE_NS - 86_400 * 10**9, source=source, quality=Quality.TICKS, complete=True, short=False, rows=28,
        volume=28, off_tick=0, out_of_order=0, first_ns=opened, last_ns=opened + 13 * step + 1, received_ns=0,
        profile=dump(Ladder(brackets, 27600, (28,), ((27600, 27600),), "trades")),
    )  # fmt: skip

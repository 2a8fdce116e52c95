"""The opening of a session: its trading window and the reference levels to which it is compared.

References are frozen at the open (rules §6). An `Opening` is logged like a trade, so that a replay or recovery uses the
same levels, even if sessions have been imported since.
"""

import json
from dataclasses import dataclass
from datetime import date

from outcry.market.calendar import Session, SessionKind
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.periods import PeriodPoc
from outcry.market.windows import Segment

VERSION = 1


@dataclass(frozen=True, slots=True)
class Prior:
    """Levels of the newest complete RTH session of a contract before the one that opens. Prices are ticks."""

    trade_date: date
    poc: int
    vah: int
    val: int
    high: int
    low: int
    close: int


@dataclass(frozen=True, slots=True)
class IncompleteSession:
    """An earlier RTH session that should create levels but does not, because it is not recorded or incomplete.

    Only sessions within the look-back are listed. holes: gaps of its recording, half-open, ns UTC.
    """

    trade_date: date
    recorded: bool
    holes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """A session of one contract, with everything known at its open.

    contract: its key, `ESZ2026`. segments: half-open windows (ns UTC). prior: None if no session of the contract has
    completed; then no alert that needs prior value can fire. carried: naked POCs and poor extremes at the close of
    `prior`. overnight: high and low (ticks) of the ETH session before an RTH session; None for an ETH session, or if
    nothing traded. average_range: ticks, over up to 20 earlier RTH sessions; None if there are none. rolled_from: key
    of the contract that was front before this one, if the roll came after `prior`. front: whether it is the front
    contract; other contracts fire no alerts. damaged: contract, date and kind of stored sessions that are damaged, and
    therefore not used. incomplete: earlier sessions that create no levels, ascending. period_pocs: naked POCs of weeks
    and months at the close of the session before.
    """

    contract: str
    root: str
    kind: SessionKind
    trade_date: date
    segments: tuple[Segment, ...]
    short: bool
    prior: Prior | None
    carried: CarriedLevels
    overnight: tuple[int, int] | None = None
    average_range: int | None = None
    rolled_from: str | None = None
    front: bool = True
    damaged: tuple[tuple[str, str, str], ...] = ()
    incomplete: tuple[IncompleteSession, ...] = ()
    period_pocs: tuple[PeriodPoc, ...] = ()

    @property
    def session(self) -> Session:
        """Return the session alone, without its reference levels."""
        return Session(self.root, self.trade_date, self.kind, self.segments, self.short)

    @property
    def open_ns(self) -> int:
        """Return the start of the first segment (ns UTC)."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """Return the end of the last segment, not included (ns UTC)."""
        return self.segments[-1][1]

    def dump(self) -> bytes:
        """Return the opening as canonical JSON."""
        prior = self.prior
        whole: dict[str, object] = {
            "version": VERSION,
            "contract": self.contract,
            "root": self.root,
            "kind": self.kind.value,
            "trade_date": str(self.trade_date),
            "segments": self.segments,
            "short": self.short,
            "prior": prior
            and [str(prior.trade_date), prior.poc, prior.vah, prior.val, prior.high, prior.low, prior.close],
            "carried": [
                [[d.price_ticks, str(d.made_on), d.age_sessions, d.tpos, d.tail_rows] for d in levels]
                for levels in (self.carried.naked_pocs, self.carried.poor_highs, self.carried.poor_lows)
            ],
            "overnight": self.overnight,
            "average_range": self.average_range,
            "rolled_from": self.rolled_from,
            "front": self.front,
        }
        if self.damaged:
            whole["damaged"] = self.damaged
        if self.incomplete:
            whole["missed"] = [[str(one.trade_date), one.recorded, one.holes] for one in self.incomplete]
        if self.period_pocs:
            whole["period_pocs"] = [
                [poc.period, poc.price_ticks, str(poc.first), str(poc.last), poc.sessions]
                for poc in self.period_pocs
            ]
        return json.dumps(whole, separators=(",", ":")).encode()

    @staticmethod
    def load(data: bytes) -> "Opening":
        """Decode an opening from the result of `dump`. Raises `ValueError` if another version wrote it."""
        whole = json.loads(data)
        if whole["version"] != VERSION:
            raise ValueError(f"opening of version {whole['version']}, this program reads {VERSION}")
        prior = whole["prior"]
        pocs, highs, lows = (
            tuple(CarriedLevel(price, date.fromisoformat(made_on), *more) for price, made_on, *more in levels)
            for levels in whole["carried"]
        )
        return Opening(
            contract=whole["contract"],
            root=whole["root"],
            kind=SessionKind(whole["kind"]),
            trade_date=date.fromisoformat(whole["trade_date"]),
            segments=tuple((start, end) for start, end in whole["segments"]),
            short=whole["short"],
            prior=Prior(date.fromisoformat(prior[0]), *prior[1:]) if prior else None,
            carried=CarriedLevels(pocs, highs, lows),
            overnight=(whole["overnight"][0], whole["overnight"][1]) if whole["overnight"] else None,
            average_range=whole["average_range"],
            rolled_from=whole["rolled_from"],
            front=whole["front"],
            damaged=tuple((contract, day, kind) for contract, day, kind in whole.get("damaged", ())),
            incomplete=tuple(
                IncompleteSession(
                    date.fromisoformat(day), recorded, tuple((first, last) for first, last in holes)
                )
                for day, recorded, holes in whole.get("missed", ())
            ),
            period_pocs=tuple(
                PeriodPoc(period, price, date.fromisoformat(first), date.fromisoformat(last), sessions)
                for period, price, first, last, sessions in whole.get("period_pocs", ())
            ),
        )

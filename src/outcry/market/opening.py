"""What a session's fold must know before its first trade: its window, and the levels it is measured against.

Rule kept (rules §6): references are frozen at the open. An `Opening` is journalled like a trade, so that a replay or a
recovery measures against the very same levels, whatever has been imported meanwhile.
"""

import json
from dataclasses import dataclass
from datetime import date

from outcry.market.calendar import Session, SessionKind
from outcry.market.levels import CarriedLevel, CarriedLevels
from outcry.market.windows import Segment

VERSION = 1


@dataclass(frozen=True, slots=True)
class Prior:
    """The newest completed RTH session of the contract before the one that opens. Prices in ticks."""

    trade_date: date
    poc: int
    vah: int
    val: int
    high: int
    low: int
    close: int


@dataclass(frozen=True, slots=True)
class IncompleteSession:
    """A regular session of the look-back that makes no level: not recorded, or incomplete.
    `holes`: half-open, ns UTC."""

    trade_date: date
    recorded: bool
    holes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Opening:
    """One session of one contract about to open.

    contract: its key, `ESZ2026`. segments: half-open windows (ns UTC). prior: None where no session of the contract
    has completed; then no alert that is measured against value can fire. carried: naked POCs and poor extremes as
    they stood when `prior` completed. overnight: high and low (ticks) of the ETH session before an RTH session; None
    for an ETH session, or where nothing traded. average_range: ticks, of up to 20 RTH sessions before; None: none.
    rolled_from: key of the contract this one took the front from, if it did since `prior`. front: whether it is the
    front contract; another one's levels are answered when it is named, and it fires no alert. damaged: contract, date
    and kind of stored sessions that were left out because they are damaged. incomplete: sessions of the look-back that
    make no level, ascending.
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

    @property
    def session(self) -> Session:
        """The session itself."""
        return Session(self.root, self.trade_date, self.kind, self.segments, self.short)

    @property
    def open_ns(self) -> int:
        """Start of the first segment."""
        return self.segments[0][0]

    @property
    def close_ns(self) -> int:
        """End of the last segment, not included."""
        return self.segments[-1][1]

    def dump(self) -> bytes:
        """Write as canonical JSON."""
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
        return json.dumps(whole, separators=(",", ":")).encode()

    @staticmethod
    def load(data: bytes) -> "Opening":
        """Read what `dump` wrote; raise `ValueError` for a version this program does not know."""
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
        )

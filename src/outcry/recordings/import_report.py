"""Reports of an import: what happened to a file, and to each session of which the file has rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from outcry.market.calendar import SessionKind
from outcry.trades.coverage import Span
from outcry.trades.records import Quality

#: Called with the bytes read and the bytes in total.
Progress = Callable[[int, int], None]
State = Literal["imported", "unchanged", "no trades"]
SessionState = Literal["new", "unchanged", "second best"]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What importing a file added to one session.

    The counts are rows of the file; `volume` is in whole steps of `size_step_e9`. `holes` are spans in ns UTC; `zone`
    is the product's IANA time zone. `outcome` is `second best` if a stored recording from another source or of another
    quality is used instead.
    """

    contract: str
    trade_date: str
    kind: SessionKind
    quality: Quality
    rows: int
    volume: int
    off_tick: int
    duplicates: int
    out_of_order: int
    complete: bool
    holes: tuple[Span, ...]
    zone: str
    outcome: SessionState
    size_step_e9: int


@dataclass(slots=True)
class FileReport:
    """Result of importing one file.

    `skipped` maps a reason to the number of rows skipped for it. `outside` counts rows outside all trading hours.
    `damaged` lists damaged tape files (stored recordings) that new ones with this file's rows replaced. `parents` maps
    each micro of which the file has rows to its full-size product. `invalid` has the places and problems of the first
    invalid rows that were skipped.
    """

    path: Path
    state: State
    format: str = ""
    source: str = ""
    rows: int = 0
    outside: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    sessions: list[SessionReport] = field(default_factory=list[SessionReport])
    damaged: list[str] = field(default_factory=list[str])
    parents: dict[str, str] = field(default_factory=dict[str, str])
    invalid: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class RefoldedContract:
    """Result of computing a contract's sessions again: their number, and a line for each damaged recording."""

    contract: str
    sessions: int
    faults: Sequence[str]

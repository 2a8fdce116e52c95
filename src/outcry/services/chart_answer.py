"""The answer a market profile chart is drawn from, field for field.

Rule kept: what a chart shows is in it; whoever draws derives nothing.
"""

from typing import Literal

from outcry.services.answers import (
    Answer,
    DataSource,
    DatedLevel,
    IbExtension,
    Method,
    Overnight,
    PriorLevels,
    SessionLevels,
)

Extreme = Literal["open", "repaired"]


class Notation(Answer, frozen=True, kw_only=True):
    """How the exchange writes its prices: `decimal` with so many decimals, or points and `32nds`, these in halves (2),
    quarters (4) or eighths (8)."""

    kind: Literal["decimal", "32nds"]
    decimals: int
    parts: int


class ChartBracket(Answer, frozen=True, kw_only=True):
    """One bracket: its letter, its start (ISO 8601 UTC), and its prices."""

    letter: str
    start: str
    open: float
    high: float
    low: float
    close: float


class PathPoint(Answer, frozen=True, kw_only=True):
    """Value as it stood when a bracket ended."""

    letter: str
    poc: float
    vah: float
    val: float


class NightProfile(Answer, frozen=True, kw_only=True):
    """The overnight session: its range, brackets, and lots a tick from `low` upwards; these empty where only the range
    is known."""

    high: float
    low: float
    brackets: list[ChartBracket]
    volumes: list[int]


class ChartSession(Answer, frozen=True, kw_only=True):
    """One trade date. `open`, `close`: of its regular session (ISO 8601 UTC). Before that opens `levels` is null, and
    there are no brackets; `overnight` is then the night so far.

    volumes: lots a tick from `low` upwards. path: value at the end of each bracket. poor_high, poor_low: null where the
    extreme is not poor, else `open`, or `repaired` once a later regular session of the contract traded beyond it.
    """

    date: str
    contract: str
    open: str
    close: str
    final: bool
    levels: SessionLevels | None
    brackets: list[ChartBracket]
    low: float | None
    volumes: list[int]
    path: list[PathPoint]
    ib_extensions: list[IbExtension]
    overnight: NightProfile | None
    poor_high: Extreme | None = None
    poor_low: Extreme | None = None


class TouchedPoc(DatedLevel, frozen=True, kw_only=True):
    """A naked POC at which the open regular session has traded. `at`: of its first trade there (ISO 8601 UTC), as its
    alert has it; null where that was not watched, as while a feed catches up."""

    at: str | None


class ChartAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/chart`: sessions oldest first. `missing`: trade dates between them whose session is not known.

    `naked_pocs`, `poor_highs`, `poor_lows`, `prior` and `overnight` as in `GET /api/levels`. `average_range`: the mean
        range of up to twenty regular sessions before the newest, null where there are none.

    `touched_pocs`, `repaired_highs`, `repaired_lows`: those of `naked_pocs`, `poor_highs` and `poor_lows`, which are as
        they stood when the last session completed, that the regular session open now has traded at or beyond.
    """

    symbol: str
    name: str
    contract: str
    tick_size: float
    notation: Notation
    time_zone: str
    data_source: DataSource
    live: bool
    as_of: str | None
    updated_at: str | None
    state: str
    invented: bool
    last_price: float | None
    average_range: float | None
    prior: PriorLevels | None
    overnight: Overnight | None
    naked_pocs: list[DatedLevel]
    poor_highs: list[DatedLevel]
    poor_lows: list[DatedLevel]
    touched_pocs: list[TouchedPoc]
    repaired_highs: list[DatedLevel]
    repaired_lows: list[DatedLevel]
    sessions: list[ChartSession]
    missing: list[str]
    method: Method

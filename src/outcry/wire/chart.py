"""The answer from which a client draws a market profile chart, field for field.

It contains every value that a chart shows; clients compute none.
"""

from typing import ClassVar, Literal

from outcry.wire.answers import (
    Answer,
    DataSource,
    DatedLevel,
    IbExtension,
    Method,
    Overnight,
    PriorLevels,
    SessionLevels,
    Size,
)

Extreme = Literal["open", "repaired"]


class Notation(Answer, frozen=True, kw_only=True):
    """Price format of the exchange.

    `decimal` with `decimals` digits, or points and `32nds`. `parts`: the fractions of a 32nd, in halves (2), quarters
    (4) or eighths (8).
    """

    kind: Literal["decimal", "32nds"]
    decimals: int
    parts: int


class ChartBracket(Answer, frozen=True, kw_only=True):
    """A bracket: its letter, start time (ISO 8601 UTC) and prices."""

    letter: str
    start: str
    open: float
    high: float
    low: float
    close: float


class PathPoint(Answer, frozen=True, kw_only=True):
    """POC and value area at the end of a bracket."""

    letter: str
    poc: float
    vah: float
    val: float


class NightProfile(Answer, frozen=True, kw_only=True):
    """The overnight session: range, brackets, and volume of each tick from `low` upwards.

    `brackets` and `volumes` are empty if only the range is known.
    """

    high: float
    low: float
    brackets: list[ChartBracket]
    volumes: list[Size]


class ChartSession(Answer, frozen=True, kw_only=True):
    """A trade date, with its regular and overnight session.

    `open`, `close`: times of its regular session (ISO 8601 UTC). Before the open, `levels` is null, `brackets` is empty
    and `overnight` covers the overnight session so far.

    `volumes`: volume of each tick from `low` upwards. `path`: POC and value area at the end of each bracket.
    `poor_high`, `poor_low`: null if the extreme is not poor; otherwise `open`, or `repaired` after a later regular
    session of the contract traded beyond it.
    """

    date: str
    contract: str
    open: str
    close: str
    final: bool
    levels: SessionLevels | None
    brackets: list[ChartBracket]
    low: float | None
    volumes: list[Size]
    path: list[PathPoint]
    ib_extensions: list[IbExtension]
    overnight: NightProfile | None
    poor_high: Extreme | None = None
    poor_low: Extreme | None = None


class TouchedPoc(DatedLevel, frozen=True, kw_only=True):
    """A naked POC that the open regular session has touched.

    `at`: time of the first trade there (ISO 8601 UTC), as in its alert; null if price touched it while no alerts were
    computed, for example during a backfill.
    """

    at: str | None


class ChartAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/chart`: sessions, oldest first.

    `missing`: trade dates between the first and last of these sessions for which there is no data. `naked_pocs`,
    `poor_highs`, `poor_lows`, `prior` and `overnight`: as in `GET /api/levels`, at the end of the last completed
    session. `average_range`: mean range of up to twenty regular sessions before the newest; null without any.

    `touched_pocs`, `repaired_highs`, `repaired_lows`: the naked POCs, poor highs and poor lows that the open regular
    session has since touched or traded beyond.
    """

    _rows: ClassVar[str] = "sessions"

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

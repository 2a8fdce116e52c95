"""The values of a profile, as the library returns them."""

import datetime as dt
from dataclasses import dataclass, field

from outcry.base.sizes import Size


@dataclass(frozen=True, slots=True)
class Row:
    """One price level of a profile: the brackets that traded there, and the volume.

    price: the lowest price of the row. delta: volume of aggressive buyers minus those of sellers; None without sides.
    """

    price: float
    letters: str
    tpos: int
    volume: Size
    delta: Size | None = None


@dataclass(frozen=True)
class ProfileLevels:
    """The levels and rows of a session. Prices are floats with the decimals of the tick. Ranges include both ends.

    poc, vah, val: by the method's basis, TPOs by default; vpoc, volume_vah, volume_val: by volume. rows: highest price
    first. day_type: by the rules of docs/explanation/levels.md; None unless the session is regular and in half-hours.

    vwap, vwap_deviation: volume-weighted average price and its standard deviation; not a number without volume.
    high_volume_nodes, low_volume_nodes: peaks of the volume and the valleys between them, ascending
    (docs/reference/profiles.md). delta: sum of the rows' deltas; None without sides. row_ticks: ticks of a row.

    anchored_vwap, anchored_vwap_deviation: of the trades since `anchor`; not a number without it. balances: first and
    last trade dates of consecutive regular sessions whose value areas overlap, which can be merged (by TPOs).

    symbol, date, session: what the user asked for; None for a window of the user's own. date: None for several.
    contract: its key, if the file names it. window_ns: start and end (ns UTC) of the profile, end excluded. sessions:
    the trade dates.
    """

    poc: float
    vah: float
    val: float
    vpoc: float
    ib_high: float
    ib_low: float
    high: float
    low: float
    poc_candidates: list[float]
    poor_high: bool
    poor_low: bool
    single_prints: list[tuple[float, float]]
    rows: list[Row] = field(repr=False)
    method: str = "dalton"
    tick_size: float = 0.0
    volume_vah: float = float("nan")
    volume_val: float = float("nan")
    open: float = float("nan")
    close: float = float("nan")
    day_type: str | None = None
    symbol: str | None = None
    contract: str | None = None
    date: dt.date | None = None
    session: str | None = None
    window_ns: tuple[int, int] = (0, 0)
    bracket_minutes: int = 30
    row_ticks: int = 1
    vwap: float = float("nan")
    vwap_deviation: float = float("nan")
    high_volume_nodes: list[float] = field(default_factory=list)
    low_volume_nodes: list[float] = field(default_factory=list)
    delta: Size | None = None
    anchored_vwap: float = float("nan")
    anchored_vwap_deviation: float = float("nan")
    balances: list[tuple[dt.date, dt.date]] = field(default_factory=list)
    sessions: list[dt.date] = field(default_factory=list)

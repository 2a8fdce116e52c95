"""The values of a profile, as the library returns them."""

import datetime as dt
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One price level of a profile: the brackets that traded there, and the volume in lots."""

    price: float
    letters: str
    tpos: int
    volume: int


@dataclass(frozen=True)
class ProfileLevels:
    """The levels and rows of a session. Prices are floats with the decimals of the tick. Ranges include both ends.

    poc, vah, val: by the method's basis, TPOs by default; vpoc, volume_vah, volume_val: by volume. rows: highest price
    first. day_type: by the rules of docs/explanation/levels.md; None unless the session is regular and in half-hours.

    symbol, date, session: what the user asked for; None for a window of the user's own. contract: its key, if the file
    names it. window_ns: start and end (ns UTC) of the session, end excluded.
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

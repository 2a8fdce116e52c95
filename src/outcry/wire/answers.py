"""The answers of the API, field for field as clients receive them, ready for any encoder.

Prices are JSON numbers with no more decimals than the tick needs: only `number()` converts a price to a float.
`/api/levels` has exactly the fields of the documented interface; the other answers have more details.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import msgspec

from outcry.base.frames import build_frame
from outcry.base.sizes import Size

DataSource = Literal["personal", "shared", "delayed"]
Bias = Literal["trend_up", "trend_down", "lean_up", "lean_down", "balanced", "neutral", "undetermined"]

COMPLETE_RULE = (
    "A session is complete if it has closed and has no gap longer than is usual for the product at that hour of the "
    "week."
)
DISCLAIMER = "Educational context, not advice. Market data keeps its owner's licence."


#: Prices are whole numbers of 10⁻⁹ inside.
_PRICE_SCALE = 1_000_000_000


def number(price_e9: int) -> float:
    """Return the double nearest to a price, which prints as the price itself: 1655750000000 gives 1655.75."""
    return price_e9 / _PRICE_SCALE


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all answers: field names in camelCase on the wire."""

    #: The field whose items are the rows of `to_frame`; empty if the answer itself is the only row.
    _rows: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as it is on the wire, for `json.dumps` and the like."""
        return msgspec.to_builtins(self)

    def to_json(self) -> str:
        """Return the answer as JSON, as it is on the wire."""
        return msgspec.json.encode(self).decode()

    def to_frame(self, library: str | None = None) -> Any:
        """Return the rows of the answer as a table of pandas, Polars or pyarrow.

        Columns are named as the fields in Python (`ib_high`); those of a nested object after both (`prior_poc`).
        library: `pandas`, `polars` or `pyarrow`; None for the one that the program uses or has installed. Raises
        ImportError if there is none.
        """
        answers: list[Answer] = getattr(self, self._rows) if self._rows else [self]
        rows = [dict(_cells(answer, "")) for answer in answers]
        names = dict.fromkeys(name for row in rows for name in row)
        return build_frame({name: [row.get(name) for row in rows] for name in names}, library)


def _cells(row: "Answer", prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a row with their values; nested objects become columns of their own."""
    for field in row.__struct_fields__:
        value, name = getattr(row, field), prefix + field.rstrip("_")
        if isinstance(value, Answer):
            yield from _cells(value, f"{name}_")
        else:
            yield name, msgspec.to_builtins(value)


class PriorLevels(Answer, frozen=True, kw_only=True):
    """TPO point of control (`poc`) and value area (`vah`, `val`) of a completed session."""

    poc: float
    vah: float
    val: float


class DatedLevel(Answer, frozen=True, kw_only=True):
    """A price level and the trade date of the session that made it."""

    price: float
    date: str


class Developing(Answer, frozen=True, kw_only=True):
    """Profile of the open session so far."""

    poc: float
    vah: float
    val: float
    vpoc: float
    ib_high: float
    ib_low: float
    high: float
    low: float


class Overnight(Answer, frozen=True, kw_only=True):
    """Range of the overnight (ETH) session."""

    high: float
    low: float


class PlaybookLevel(Answer, frozen=True, kw_only=True):
    """A row of the playbook's level table."""

    price: float
    label: str
    kind: str
    side: str
    distance_ticks: int


class Scenario(Answer, frozen=True, kw_only=True):
    """A scenario. Educational only: no entries, stops, sizes or odds."""

    id: str
    if_: str = msgspec.field(name="if")
    then: str
    reference: str
    confirm: str
    invalidate: str
    status: Literal["pending", "active", "done", "void"]


class Playbook(Answer, frozen=True, kw_only=True):
    """Bias, levels (highest price first) and scenarios."""

    bias: Bias
    levels: list[PlaybookLevel]
    scenarios: list[Scenario]


class LevelsAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/levels`."""

    symbol: str
    data_source: DataSource
    live: bool
    as_of: str | None
    updated_at: str | None
    last_price: float | None
    bias: Bias | None
    developing: Developing | None
    prior: PriorLevels
    overnight: Overnight | None
    naked_pocs: list[DatedLevel]
    poor_highs: list[DatedLevel]
    poor_lows: list[DatedLevel]
    playbook: Playbook | None


class SymbolState(Answer, frozen=True, kw_only=True):
    """A product that the service covers, and the data of it that this key can see.

    `size_step`: the smallest size; 1 for a future. `state`: `live`, or a stable code for why the product is not live.
    `invented`: true if the answers are computed from simulated trades.
    """

    symbol: str
    name: str
    exchange: str
    sector: str
    tick_size: float
    tick_value: float
    size_step: Size
    months: str
    micro: list[str]
    rth: str
    time_zone: str
    contract: str | None
    data_source: DataSource | None
    live: bool
    as_of: str | None
    state: str
    invented: bool


class SymbolsAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/symbols`."""

    _rows: ClassVar[str] = "symbols"

    count: int
    symbols: list[SymbolState]


class PriceRange(Answer, frozen=True, kw_only=True):
    """A price range; both ends are included."""

    low: float
    high: float


class Method(Answer, frozen=True, kw_only=True):
    """How the levels were computed. With these values they can be recomputed elsewhere.

    `preset`: name of a preset of the service, or of a setting that the caller saved. `bar_minutes`: length of the bars
    from which volume or closes are counted; 0 for the finest that is recorded. `label`: the price that stands for a
    row of several ticks.
    """

    preset: str
    bracket_minutes: int
    value_area: str
    poc_tie: str
    row_ticks: int
    vpoc_source: Literal["trades", "bars"]
    bar_minutes: int = 0
    label: Literal["ticks", "bottom", "middle", "edges"] = "ticks"


class DataQuality(Answer, frozen=True, kw_only=True):
    """The data a session was computed from.

    `invented`: true if the trades are simulated. Fields that are counted only when a session completes are null until
    then.
    """

    source: str
    invented: bool
    quality: Literal["ticks", "bars_1s", "bars_1m"] | None
    complete: bool
    rows: int | None
    volume: Size
    off_tick: int | None
    out_of_order: int | None
    first: str
    last: str


class SessionLevels(Answer, frozen=True, kw_only=True):
    """All values computed for one session. Times are ISO 8601 UTC; `open` is inclusive and `close` exclusive.

    `final`: the session has completed; only a correction of the data can still change these values. `open_type_final`:
    the second half-hour has completed, so the open type can no longer change.
    """

    contract: str
    date: str
    session: Literal["rth", "eth"]
    final: bool
    open: str
    close: str
    short_session: bool
    poc: float
    vah: float
    val: float
    vpoc: float
    volume_vah: float
    volume_val: float
    high: float
    low: float
    open_price: float
    close_price: float
    ib_high: float
    ib_low: float
    ib_complete: bool
    poc_candidates: list[float]
    poor_high: bool
    poor_low: bool
    upper_tail_ticks: int
    lower_tail_ticks: int
    single_prints: list[PriceRange]
    day_type: str | None
    day_type_final: bool
    open_type: str | None
    open_type_final: bool
    data: DataQuality


class HistoryAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/history`: completed RTH sessions from `from` to `to` (both included), oldest first."""

    _rows: ClassVar[str] = "sessions"

    symbol: str
    from_: str = msgspec.field(name="from")
    to: str
    count: int
    sessions: list[SessionLevels]


class IbExtension(Answer, frozen=True, kw_only=True):
    """Initial balance extension: the prices at `percent` of the range (150: half a range beyond each edge)."""

    percent: int
    up: float
    down: float
    up_reached: bool
    down_reached: bool


class BiasVotes(Answer, frozen=True, kw_only=True):
    """The five votes of the bias (each −1, 0 or +1) at the latest bracket close, and their sum `total`."""

    last: int
    poc: int
    value: int
    extension: int
    one_timeframing: int
    total: int


class DamagedData(Answer, frozen=True, kw_only=True):
    """A stored session that does not match its checksum. No answer uses it. Import its recording again."""

    contract: str
    date: str
    session: str


class Hole(Answer, frozen=True, kw_only=True):
    """A gap longer than usual for the product at that hour. `from` is inclusive, `to` exclusive."""

    from_: str = msgspec.field(name="from")
    to: str


class MissingSession(Answer, frozen=True, kw_only=True):
    """A regular session without a complete recording; it contributes no levels.

    `holes`: its gaps; empty if nothing is recorded, or if the recording stops before the session closed.
    """

    date: str
    recorded: bool
    holes: list[Hole]


class Completeness(Answer, frozen=True, kw_only=True):
    """Completeness of the sessions from which the levels come.

    `rule`: when a session counts as complete. `missing`: regular sessions without a complete recording, oldest first,
    since the first of the last 60 complete sessions; they contribute no naked POC, poor high or poor low.
    """

    rule: str
    missing: list[MissingSession]


class Instrument(Answer, frozen=True, kw_only=True):
    """Where the tick, hours and holidays of a product come from.

    `own_tables`: the operator's own tables that add to Outcry's data of the product or replace it, such as
    `products.csv`; empty if all of it is Outcry's. `source`, `checked_on`: source of the product's row, and the date on
    which it was last compared with it.
    """

    own_tables: list[str]
    source: str
    checked_on: str | None


class PeriodPoc(Answer, frozen=True, kw_only=True):
    """The naked POC of a week or month. `from`, `to`: its first and last recorded trade date, both included."""

    price: float
    from_: str = msgspec.field(name="from")
    to: str
    sessions: int


class VwapBand(Answer, frozen=True, kw_only=True):
    """The prices `deviations` standard deviations above and below the VWAP."""

    deviations: int
    upper: float
    lower: float


class Vwap(Answer, frozen=True, kw_only=True):
    """Volume-weighted average price, and the volume-weighted standard deviation of the price.

    Volume of bars counts as the profile spreads it: evenly over the rows of each bar.
    """

    price: float
    deviation: float
    bands: list[VwapBand]


class ContextAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/context`: the details behind a levels answer.

    `state`: `live`, or a stable code for why the answer is delayed; `reason` is the same as text. `feed`: name of the
    live feed. `invented`: true if computed from simulated trades. `damaged_sessions`: stored sessions of the product
    that failed their checksum; no answer uses them. `excess_high`, `excess_low`, `vwap` and the nodes are those of
    `session`, as `GET /api/profile` defines them.
    """

    symbol: str
    data_source: DataSource
    live: bool
    as_of: str | None
    updated_at: str | None
    state: str
    reason: str
    feed: str | None
    contract: str
    rolled_from: str | None
    invented: bool
    disclaimer: str
    method: Method
    session: SessionLevels
    overnight: Overnight | None
    ib_extensions: list[IbExtension]
    excess_high: bool = False
    excess_low: bool = False
    vwap: Vwap | None = None
    high_volume_nodes: list[float] = []
    low_volume_nodes: list[float] = []
    bias: Bias | None
    bias_votes: BiasVotes | None
    naked_pocs: list[DatedLevel]
    naked_weekly_pocs: list[PeriodPoc] = []
    naked_monthly_pocs: list[PeriodPoc] = []
    poor_highs: list[DatedLevel]
    poor_lows: list[DatedLevel]
    damaged_sessions: list[DamagedData]
    completeness: Completeness
    instrument: Instrument

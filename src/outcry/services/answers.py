"""The answers, field for field as the interface gives them, ready for any encoder.

Prices are JSON numbers with no more decimals than the tick needs: `number()` is the one place a price becomes a float.
`/api/levels` carries exactly the fields of the interface; anything richer lives in the other answers.
"""

from typing import Literal

import msgspec

from outcry.core.units import PRICE_SCALE

DataSource = Literal["personal", "shared", "delayed"]
Bias = Literal["trend_up", "trend_down", "lean_up", "lean_down", "balanced", "neutral", "undetermined"]

COMPLETE_RULE = (
    "A session is complete if it is over and no gap in it is longer than the product's usual trade at that hour of the "
    "week explains."
)
DISCLAIMER = "Educational context, not advice. Market data keeps its owner's licence."


def number(price_e9: int) -> float:
    """The nearest double of a price, which prints as the price itself: 1655750000000 is 1655.75."""
    return price_e9 / PRICE_SCALE


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all answers: field names in camelCase on the wire."""


class PriorLevels(Answer, frozen=True, kw_only=True):
    """Completed-session value: TPO point of control and value area."""

    poc: float
    vah: float
    val: float


class DatedLevel(Answer, frozen=True, kw_only=True):
    """A level and the trade date it was made."""

    price: float
    date: str


class Developing(Answer, frozen=True, kw_only=True):
    """The open session's profile so far."""

    poc: float
    vah: float
    val: float
    vpoc: float
    ib_high: float
    ib_low: float
    high: float
    low: float


class Overnight(Answer, frozen=True, kw_only=True):
    """The overnight (ETH) range."""

    high: float
    low: float


class PlaybookLevel(Answer, frozen=True, kw_only=True):
    """One line of the playbook's level table."""

    price: float
    label: str
    kind: str
    side: str
    distance_ticks: int


class Scenario(Answer, frozen=True, kw_only=True):
    """One scenario; educational wording, no entries, stops, sizes or odds."""

    id: str
    if_: str = msgspec.field(name="if")
    then: str
    reference: str
    confirm: str
    invalidate: str
    status: Literal["pending", "active", "done", "void"]


class Playbook(Answer, frozen=True, kw_only=True):
    """Bias, levels high to low, scenarios."""

    bias: Bias
    levels: list[PlaybookLevel]
    scenarios: list[Scenario]


class LevelsAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/levels`: exactly the interface's fields."""

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
    """One product of the scan universe and what this key may see of it.

    `state`: `live`, or the stable code of why it is not (`services.wording.STATES`). `invented`: what it is answered
    from are trades nobody made.
    """

    symbol: str
    name: str
    exchange: str
    sector: str
    tick_size: float
    tick_value: float
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
    """`GET /api/symbols`."""

    count: int
    symbols: list[SymbolState]


class PriceRange(Answer, frozen=True, kw_only=True):
    """Two prices, low and high, both included."""

    low: float
    high: float


class ProfileRow(Answer, frozen=True, kw_only=True):
    """One price of a profile: the letters of the brackets that printed it, and its volume in lots."""

    price: float
    tpos: int
    letters: str
    volume: int


class Method(Answer, frozen=True, kw_only=True):
    """How the levels were computed, so that they can be recomputed elsewhere."""

    preset: str
    bracket_minutes: int
    value_area: str
    poc_tie: str
    row_ticks: int
    vpoc_source: Literal["trades", "bars"]


class DataQuality(Answer, frozen=True, kw_only=True):
    """What the session was computed from; null is what is counted only once a session has completed. `invented`: from
    trades nobody made."""

    source: str
    invented: bool
    quality: Literal["ticks", "bars_1s", "bars_1m"] | None
    complete: bool
    rows: int | None
    volume: int
    off_tick: int | None
    out_of_order: int | None
    first: str
    last: str


class SessionLevels(Answer, frozen=True, kw_only=True):
    """Everything computed of one session. Times ISO 8601 UTC; window half-open.

    `final`: the session has completed, and none of this will change but by a correction of the data. `open_type_final`:
    its second half-hour has, which the kind of open is read from.
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


class ProfileAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/profile`: the rows of one session, high to low: a completed RTH session, or the one open now."""

    symbol: str
    tick_size: float
    levels: SessionLevels
    method: Method
    rows: list[ProfileRow]


class HistoryAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/history`: completed RTH sessions between two trade dates, both included, oldest first."""

    symbol: str
    from_: str = msgspec.field(name="from")
    to: str
    count: int
    sessions: list[SessionLevels]


class IbExtension(Answer, frozen=True, kw_only=True):
    """A multiple of the initial balance's range beyond its edges, in percent (150 is half a range beyond)."""

    percent: int
    up: float
    down: float
    up_reached: bool
    down_reached: bool


class BiasVotes(Answer, frozen=True, kw_only=True):
    """The five votes behind the bias, each −1, 0 or +1, of the newest bracket close; `total` is their sum."""

    last: int
    poc: int
    value: int
    extension: int
    one_timeframing: int
    total: int


class DamagedData(Answer, frozen=True, kw_only=True):
    """A stored session that does not match its checksum. No answer uses it; import its recording again."""

    contract: str
    date: str
    session: str


class Hole(Answer, frozen=True, kw_only=True):
    """A stretch without trade that the product's usual trade at that hour does not explain; half-open."""

    from_: str = msgspec.field(name="from")
    to: str


class MissingSession(Answer, frozen=True, kw_only=True):
    """A regular session that makes no level. `holes`: why one that is recorded is not complete; none
    if it was not over when it was stored."""

    date: str
    recorded: bool
    holes: list[Hole]


class Completeness(Answer, frozen=True, kw_only=True):
    """Which sessions the levels rest on. `rule`: what makes a session complete. `missing`: regular sessions of the
    look-back without a complete recording, oldest first; they leave no naked POC and no poor extreme."""

    rule: str
    missing: list[MissingSession]


class ContextAnswer(Answer, frozen=True, kw_only=True):
    """`GET /api/context`: everything behind a levels answer.

    `state`: `live`, or the stable code of why the answer is delayed; `reason` says it to a person. `feed`: name of
    the live feed. `invented`: computed from trades nobody made. `damaged_sessions`: stored sessions of the product that
    were found damaged and are used in no answer.
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
    bias: Bias | None
    bias_votes: BiasVotes | None
    naked_pocs: list[DatedLevel]
    poor_highs: list[DatedLevel]
    poor_lows: list[DatedLevel]
    damaged_sessions: list[DamagedData]
    completeness: Completeness

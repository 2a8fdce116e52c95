"""The answer of `GET /api/profile`: rows and levels of one session or of several, under chosen settings."""

from typing import ClassVar, Literal

import msgspec

from outcry.base.sizes import Size
from outcry.wire.answers import Answer, IbExtension, Method, PriceRange, SessionLevels, Vwap

Hours = Literal["rth", "overnight", "full"]
Period = Literal["day", "week", "month", "quarter"]


class ProfileRow(Answer, frozen=True, kw_only=True):
    """A row of a profile: the letters of the brackets that traded it, and its volume.

    `price`: the row's lowest price. A profile of several days has the letters of each day, oldest first, with a space
    between days. `delta`: lots that buyers traded as aggressors minus those of sellers; null as in `profile.delta`.
    """

    price: float
    tpos: int
    letters: str
    volume: Size
    delta: Size | None = None


class TimeRange(Answer, frozen=True, kw_only=True):
    """A range of time in UTC: `from` is included, `to` is not."""

    from_: str = msgspec.field(name="from")
    to: str


class ProfileSession(Answer, frozen=True, kw_only=True):
    """One session of a profile, or the part of it that the profile counts, with its TPO value area.

    The value area is computed under the profile's settings. `final`: the session has completed. `whole`: the profile
    counts the whole session. `windows`: the times that it counts, without breaks of trading.
    """

    date: str
    session: Literal["rth", "eth"]
    final: bool
    poc: float
    vah: float
    val: float
    whole: bool = True
    windows: list[TimeRange] = msgspec.field(default_factory=list[TimeRange])


class AbsentSession(Answer, frozen=True, kw_only=True):
    """A session between the first and last of a profile without a complete recording of the contract."""

    date: str
    session: Literal["rth", "eth"]


class Balance(Answer, frozen=True, kw_only=True):
    """Consecutive trade dates, both included, whose value areas overlap, so that they can be merged to one profile.

    A session joins the one before it if their value areas share at least half of the rows of the narrower one.
    """

    from_: str = msgspec.field(name="from")
    to: str
    sessions: int


class ProfileWindow(Answer, frozen=True, kw_only=True):
    """The sessions that a profile counts: those of one contract between two trade dates, both included.

    The request may select some of them, or parts. `period`: null unless the request named one. `balances`: suggestions
    to merge sessions.
    """

    session: Hours
    period: Period | None
    from_: str = msgspec.field(name="from")
    to: str
    contract: str
    sessions: list[ProfileSession]
    missing: list[AbsentSession]
    balances: list[Balance]


class Delta(Answer, frozen=True, kw_only=True):
    """Volume delta: lots that buyers traded as aggressors minus those of sellers.

    `unknown_volume`: lots of trades whose side the recording does not have.
    """

    total: Size
    unknown_volume: Size


class ProfileLevels(Answer, frozen=True, kw_only=True):
    """The levels of a profile under its settings.

    `ib_high`, `ib_low`: range of the first hour of the regular session; null for several days, the overnight session
    and a part without the whole hour, which have no extensions either. Tails, single prints and excess are counted in
    ticks, whatever the row size. `excess_high`: two or more single prints at the high, made before the last bracket.
    `high_volume_nodes`, `low_volume_nodes`: peaks of the volume, and the valleys between them, ascending. `vwap`: null
    without volume.
    `anchored_vwap`: from the instant `anchor` on; null without that parameter. `delta`: null unless the request asks
    for it and the recording of every session has sides of trades.
    """

    poc: float
    vah: float
    val: float
    vpoc: float
    volume_vah: float
    volume_val: float
    poc_candidates: list[float]
    high: float
    low: float
    open_price: float
    close_price: float
    ib_high: float | None
    ib_low: float | None
    ib_extensions: list[IbExtension]
    excess_high: bool
    excess_low: bool
    upper_tail_ticks: int
    lower_tail_ticks: int
    single_prints: list[PriceRange]
    high_volume_nodes: list[float]
    low_volume_nodes: list[float]
    vwap: Vwap | None
    anchored_vwap: Vwap | None = None
    delta: Delta | None = None


class ProfileSplit(Answer, frozen=True, kw_only=True):
    """One of the profiles into which `split` divides the selection: the trades from `from` (included) to `to`.

    `to` is not included. `develops`: later trades can still change it. `profile`: null if nothing traded.
    """

    _rows: ClassVar[str] = "rows"

    from_: str = msgspec.field(name="from")
    to: str
    develops: bool
    profile: ProfileLevels | None
    rows: list[ProfileRow]


class ProfileAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/profile`: the rows of one or several sessions, highest price first.

    `levels`: all values of the newest session, always with the preset `dalton`, brackets of 30 minutes and rows of one
    tick. `profile`: the levels of the rows, under the settings that `method` names. `develops`: later trades can still
    change the rows, because a session is open or to come. `splits`: the profiles between the instants of `split`, in
    order of time; empty without this parameter.
    """

    _rows: ClassVar[str] = "rows"

    symbol: str
    tick_size: float
    levels: SessionLevels
    method: Method
    window: ProfileWindow
    develops: bool
    profile: ProfileLevels
    rows: list[ProfileRow]
    splits: list[ProfileSplit] = msgspec.field(default_factory=list[ProfileSplit])

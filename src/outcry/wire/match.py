"""The answer of `GET /api/match`: the settings of a profile that reproduce the levels of another platform."""

from typing import ClassVar, Literal

from outcry.wire.answers import Answer


class GivenLevels(Answer, frozen=True, kw_only=True):
    """The levels of the other platform, as the request gave them."""

    poc: float
    vah: float
    val: float
    vpoc: float | None


class SettingDifference(Answer, frozen=True, kw_only=True):
    """One part of a setting that differs from ours.

    `part`: the name of a field of the setting. `value`, `ours`: that field, of the setting and of ours. `reason`: the
    difference as an English sentence.
    """

    part: str
    value: str | int
    ours: str | int
    reason: str


class MatchedSetting(Answer, frozen=True, kw_only=True):
    """A setting, its levels, and their distance from the given ones.

    `distance`: sum over the given levels in ticks; a level within half a tick of the given one counts as equal.
    `alike`: number of settings found with the same levels, this one included. `preset`: the preset with this method.
    `hours`: `rth`, `rth:NAME` (another set of regular hours), `full`, `trade_date` (all trading of the exchange's
    trade date), `overnight`, `day@ZONE` (the calendar day in a zone) or `rth@ZONE` (the clock times of the regular
    hours, read in another zone). `bars`: minutes of a bracket (TPOs), or of the bars that volume comes from; 0 for the
    trades themselves. `placement`: `range` if a bar counts at every row of its range, `close_up` if only at its
    close. `row`: height of a row in ticks. `rowCount`: the number of rows that the range of the profile is divided
    into, from the low upwards, so that `row` follows from it; 0 for a fixed height. `shift`: ticks that the platform's
    prices are above ours, as in a back-adjusted continuous contract. `label`: which price of a row is shown. The
    remaining fields define the method.
    """

    distance: int
    poc: float
    vah: float
    val: float
    vpoc: float
    alike: int
    preset: str | None
    contract: str
    hours: str
    basis: Literal["tpo", "volume"]
    placement: Literal["range", "close_up"]
    bars: int
    row: int
    row_count: int = 0
    shift: int = 0
    label: Literal["ticks", "bottom", "middle", "edges"]
    percent: int
    step: Literal[1, 2]
    pair: Literal["full", "trim"]
    side_tie: Literal["up", "down", "both"]
    stop: Literal["ge", "gt", "floor"]
    poc_tie: str
    rows: Literal["all", "printed"]
    differences: list[SettingDifference]


class MatchAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/match`: the nearest settings, nearest first; of equals, the one that differs least from ours.

    `recording`: what was counted: `trades`, `bars`, or `profile` if the trades are no longer recorded, so that only the
    stored profile was searched. `exact`: whether the first setting reproduces all given levels. `ours`: our own
    setting. `searched`: hours that were searched. `not_searched`: hours whose trades are not all recorded, or not
    visible to this key.
    """

    _rows: ClassVar[str] = "matches"

    symbol: str
    contract: str
    date: str
    tick_size: float
    recording: Literal["trades", "bars", "profile"]
    given: GivenLevels
    exact: bool
    ours: MatchedSetting | None
    matches: list[MatchedSetting]
    searched: list[str]
    not_searched: list[str]

"""The answer of `GET /api/presets`: the settings that `method` of `GET /api/profile` can name."""

from typing import ClassVar, Literal

from outcry.wire.answers import Answer


class Preset(Answer, frozen=True, kw_only=True):
    """A setting with a name. The fields are those of a setting that `GET /api/match` returns.

    `own`: the caller saved it. The other presets follow a published rule, which says nothing of hours, bars and rows:
    for them these fields have the values that a profile uses by default.
    """

    name: str
    own: bool
    hours: str
    basis: Literal["tpo", "volume"]
    placement: Literal["range", "close_up"]
    bars: int
    row: int
    label: Literal["ticks", "bottom", "middle", "edges"]
    percent: int
    step: Literal[1, 2]
    pair: Literal["full", "trim"]
    side_tie: Literal["up", "down", "both"]
    stop: Literal["ge", "gt", "floor"]
    poc_tie: str
    rows: Literal["all", "printed"]


class PresetsAnswer(Answer, frozen=True, kw_only=True):
    """Answer of `GET /api/presets`: the presets of the service, then the caller's own, sorted by name."""

    _rows: ClassVar[str] = "presets"

    count: int
    presets: list[Preset]

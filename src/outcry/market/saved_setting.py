"""A setting of a profile under a name of the user's own, as plain values and as settings of a profile.

The values have the names and the meaning of a setting that `GET /api/match` returns, so that a match can be saved, sent
and used as it is. Values of other fields are ignored, such as `shift`, which changes no rule.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import PRESETS, Method, PocTie
from outcry.market.profile_settings import (
    BRACKET_CHOICES,
    MAX_ROW_TICKS,
    SESSION_KINDS,
    Hours,
    ProfileSettings,
)
from outcry.market.row_label import RowLabel

Value = str | int

#: Names of a user's own presets: 1 to 32 characters that need no escaping in a URL.
NAME_PATTERN = "[a-z0-9][a-z0-9_-]{0,31}"
_NAME = re.compile(NAME_PATTERN, re.ASCII)
#: Names of platforms that later presets of ours may have.
_PLATFORMS = (
    "atas", "exocharts", "motivewave", "ninjatrader", "quantower", "sierra_chart", "thinkorswim", "linnsoft",
    "marketdelta", "bookmap", "jigsaw", "esignal", "cqg", "default", "outcry",
)  # fmt: skip
_VOLUME_BARS, _CLOSE_BARS = (0, 1, 5, 15, 30), (1, 5, 15, 30, 60)
_CHOICES: Mapping[str, tuple[Value, ...]] = {
    "hours": tuple(SESSION_KINDS),
    "basis": ("tpo", "volume"),
    "placement": ("range", "close_up"),
    "label": get_args(RowLabel),
    "step": (1, 2),
    "pair": ("full", "trim"),
    "sideTie": ("up", "down", "both"),
    "stop": ("ge", "gt", "floor"),
    "pocTie": get_args(PocTie),
    "rows": ("all", "printed"),
}
_RANGES: Mapping[str, range] = {"percent": range(1, 101), "row": range(1, MAX_ROW_TICKS + 1)}
#: The fields in the order in which they are written, each with the value that stands for a missing one.
_DEFAULTS: Mapping[str, Value] = {
    "hours": "rth", "basis": "tpo", "placement": "range", "bars": BRACKET_MINUTES, "row": 1, "label": "ticks",
    "percent": 70, "step": 2, "pair": "full", "sideTie": "up", "stop": "ge", "pocTie": "mypivots", "rows": "all",
}  # fmt: skip
FIELDS = tuple(_DEFAULTS)


class BadSetting(ValueError):
    """A value that no setting has. field: its name."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field} {value!r} is not valid: use {allowed}")
        self.field = field


@dataclass(frozen=True, slots=True)
class SavedSetting:
    """A setting that a user saved. The name of its method is the name that the user gave it.

    bars: minutes of a bracket (TPOs), or of the bars that volume or closes come from; 0 for the trades themselves.
    """

    method: Method
    hours: Hours
    bars: int
    row_ticks: int
    label: RowLabel

    @property
    def bracket_minutes(self) -> int:
        """Return the length of a bracket in minutes; the usual one if brackets do not count."""
        return self.bars if self._counts_brackets else BRACKET_MINUTES

    @property
    def bar_minutes(self) -> int:
        """Return the length of the bars from which volume or closes come; 0 for the finest that is recorded."""
        return 0 if self._counts_brackets else self.bars

    @property
    def _counts_brackets(self) -> bool:
        return (self.method.basis, self.method.placement) == ("tpo", "range")

    def settings(self) -> ProfileSettings:
        """Return the settings of a profile."""
        return ProfileSettings(
            self.method, self.hours, bracket_minutes=self.bracket_minutes, row_ticks=self.row_ticks,
            bar_minutes=self.bar_minutes, label=self.label,
        )  # fmt: skip

    def values(self) -> dict[str, Value]:
        """Return the setting as plain values, which `setting_of` reads."""
        method = self.method
        return {
            "hours": self.hours, "basis": method.basis, "placement": method.placement, "bars": self.bars,
            "row": self.row_ticks, "label": self.label, "percent": method.percent, "step": method.step,
            "pair": method.pair, "sideTie": method.side_tie, "stop": method.stop, "pocTie": method.poc_tie,
            "rows": method.rows,
        }  # fmt: skip


def setting_of(name: str, values: Mapping[str, object]) -> SavedSetting:
    """Return the setting with plain values. A missing value is that of our own setting. Raises `BadSetting`."""
    if values.get("rowCount", 0) != 0:
        raise BadSetting("rowCount", values["rowCount"], "rows of a fixed height")
    checked: dict[str, Any] = dict(_checked(values))
    method = Method(
        name, checked["basis"], checked["percent"], checked["step"], checked["pair"], checked["sideTie"],
        checked["stop"], cast("PocTie", checked["pocTie"]), checked["rows"], checked["placement"],
    )  # fmt: skip
    return SavedSetting(method, checked["hours"], checked["bars"], checked["row"], checked["label"])


def is_own_name(name: str) -> bool:
    """Return whether a text has the form of a name of a user's own preset."""
    return _NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Return whether a name is that of a preset or platform, or differs from it only by `-` and `_`."""
    return _bare(name) in _RESERVED


def _bare(name: str) -> str:
    return name.replace("-", "").replace("_", "")


_RESERVED = frozenset(map(_bare, (*PRESETS, *_PLATFORMS)))


def _checked(values: Mapping[str, object]) -> Iterator[tuple[str, Value]]:
    given = {**_DEFAULTS, **{name: values[name] for name in FIELDS if name in values}}
    bars = _bars_of(given)
    if "bars" not in values:
        given["bars"] = bars[0]
    for name, value in given.items():
        allowed = bars if name == "bars" else _CHOICES.get(name) or _RANGES[name]
        # True equals 1, and 1.0 equals 1
        if not isinstance(value, str | int) or isinstance(value, bool) or value not in allowed:
            shown = (
                f"{allowed[0]} to {allowed[-1]}"
                if isinstance(allowed, range)
                else ", ".join(map(str, allowed))
            )
            raise BadSetting(name, value, shown)
        yield name, value


def _bars_of(given: Mapping[str, object]) -> tuple[int, ...]:
    """Return the lengths of bars that can be counted, the usual one first."""
    if given["placement"] == "close_up":
        return _CLOSE_BARS
    return (
        _VOLUME_BARS
        if given["basis"] == "volume"
        else (BRACKET_MINUTES, *(n for n in BRACKET_CHOICES if n != BRACKET_MINUTES))
    )

"""Turn the arguments of `outcry.profile` into the settings of a profile."""

from collections.abc import Mapping
from typing import cast

from outcry.library.errors import InvalidInput
from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.methods import PRESETS
from outcry.market.profile_settings import MAX_ROW_TICKS, SESSION_KINDS, Hours, ProfileSettings
from outcry.market.saved_setting import BadSetting, SavedSetting, setting_of

#: Name of the method of a setting that is given as values.
OWN = "own"


def settings_of(
    method: str | Mapping[str, object], session: str, bracket_minutes: int, row_ticks: int
) -> ProfileSettings:
    """Return the settings. A setting given as values decides the other arguments that have their defaults.

    Raises `InvalidInput`.
    """
    if session not in SESSION_KINDS:
        raise InvalidInput(f"Unknown session {session!r}", f"Use one of {', '.join(SESSION_KINDS)}.")
    if not 1 <= row_ticks <= MAX_ROW_TICKS:
        raise InvalidInput(f"Invalid row_ticks {row_ticks!r}", f"Use 1 to {MAX_ROW_TICKS}.")
    own = None if isinstance(method, str) else _own(method)
    hours = cast("Hours", session)
    if own is not None:
        hours = own.hours if session == "rth" else hours
        row_ticks = own.row_ticks if row_ticks == 1 else row_ticks
        bracket_minutes = own.bracket_minutes if bracket_minutes == BRACKET_MINUTES else bracket_minutes
        preset = own.method
    elif isinstance(method, str) and method in PRESETS:
        preset = PRESETS[method]
    else:
        raise InvalidInput(f"Unknown method {method!r}", f"Use one of {', '.join(PRESETS)}.")
    try:
        return ProfileSettings(
            preset, hours, bracket_minutes=bracket_minutes, row_ticks=row_ticks,
            bar_minutes=own.bar_minutes if own else 0, label=own.label if own else "ticks",
        )  # fmt: skip
    except ValueError as problem:
        raise InvalidInput(
            f"Invalid bracket_minutes: {problem}", "Use 15, 30 or 60, for example."
        ) from problem


def _own(values: Mapping[str, object]) -> SavedSetting:
    try:
        return setting_of(OWN, values)
    except BadSetting as problem:
        raise InvalidInput(
            f"Invalid method: {problem}", "Use the values of a setting that you saved."
        ) from problem

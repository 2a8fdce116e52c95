"""Build the answer of `GET /api/presets`."""

from collections.abc import Iterable

from outcry.answers.match_words import Words, reason, wire_name
from outcry.market.ladder import BRACKET_MINUTES
from outcry.market.matching.setting import Sampling, Setting, default_setting, differences
from outcry.market.methods import PRESETS, Method
from outcry.market.saved_setting import SavedSetting
from outcry.people.preset_store import PresetRow
from outcry.wire.presets import Preset, PresetsAnswer


def presets_answer(own: Iterable[PresetRow]) -> PresetsAnswer:
    """Return the presets of this version, and those of a user that it can use."""
    found = [_preset(preset_setting(method), own=False) for method in PRESETS.values()]
    found += [_preset(row.setting, own=True) for row in own if row.setting is not None]
    return PresetsAnswer(count=len(found), presets=found)


def preset_setting(method: Method) -> SavedSetting:
    """Return the setting that a profile has under a preset by default."""
    usual = BRACKET_MINUTES if method.basis == "tpo" else 0
    bars = 1 if method.placement == "close_up" else usual
    return SavedSetting(method, "rth", bars, 1, "ticks")


def reasons_of(setting: SavedSetting, words: Words) -> list[str]:
    """Return how a setting differs from our own, as sentences."""
    method = setting.method
    sampling = Sampling(method.basis, method.placement, setting.bars)
    found = Setting("", setting.hours, sampling, setting.row_ticks, setting.label, method)
    return [
        reason(wire_name(part), value, ours, words, basis=method.basis, placement=method.placement)
        for part, value, ours in differences(found, default_setting(""), trades=True)
    ]


def _preset(setting: SavedSetting, *, own: bool) -> Preset:
    method = setting.method
    return Preset(
        name=method.name, own=own, hours=setting.hours, basis=method.basis, placement=method.placement,
        bars=setting.bars, row=setting.row_ticks, label=setting.label, percent=method.percent, step=method.step,
        pair=method.pair, side_tie=method.side_tie, stop=method.stop, poc_tie=method.poc_tie, rows=method.rows,
    )  # fmt: skip

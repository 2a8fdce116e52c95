"""Saved settings as plain values: every setting survives, and every value that no setting has is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.market.methods import DALTON, PRESETS
from outcry.market.saved_setting import FIELDS, BadSetting, is_own_name, is_reserved, setting_of


def test_missing_values_are_those_of_our_own_setting() -> None:
    found = setting_of("dalton", {"distance": 3, "alike": 2})
    assert found.settings().method == DALTON
    assert (found.bars, found.row_ticks, found.label, found.hours) == (30, 1, "ticks", "rth")
    assert setting_of("x", {"basis": "volume"}).bars == 0
    assert setting_of("x", {"placement": "close_up"}).bars == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hours", "night"), ("basis", "TPO"), ("placement", ""), ("bars", 7), ("bars", 0), ("row", 0), ("row", 401),
        ("row", True), ("row", 1.0), ("row", "1"), ("label", None), ("percent", 0), ("percent", 101), ("step", 3),
        ("pair", "half"), ("sideTie", "left"), ("stop", ">="), ("pocTie", ["lowest"]), ("rows", "some"),
        ("rowCount", 24),
    ],
)  # fmt: skip
def test_values_that_no_setting_has(field: str, value: object) -> None:
    with pytest.raises(BadSetting) as found:
        setting_of("x", {field: value})
    assert found.value.field == field


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 100), st.integers(1, 400))
def test_every_preset_survives(name: str, percent: int, row: int) -> None:
    method = PRESETS[name]
    bars = 30 if (method.basis, method.placement) == ("tpo", "range") else 5
    values: dict[str, object] = {
        "hours": "full", "basis": method.basis, "placement": method.placement, "bars": bars, "row": row,
        "label": "ticks", "percent": percent, "step": method.step, "pair": method.pair, "sideTie": method.side_tie,
        "stop": method.stop, "pocTie": method.poc_tie, "rows": method.rows,
    }  # fmt: skip
    found = setting_of("mine", values)
    assert found.values() == values
    assert tuple(found.values()) == FIELDS
    assert setting_of("mine", found.values()) == found


def test_names() -> None:
    assert is_own_name("a")
    assert is_own_name("0-desk_of-ann")
    assert not is_own_name("a.b")
    assert is_reserved("da-lton")
    assert not is_reserved("daltons")

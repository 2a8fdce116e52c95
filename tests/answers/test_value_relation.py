"""Position of value relative to prior value, and the number of prints on each side of the POC."""

import pytest

from outcry.answers.value_relation import tpos_around, value_relation
from outcry.wire.profile import ProfileRow


@pytest.mark.parametrize(
    ("now", "prior", "place"),
    [
        ((110, 105), (104, 100), "higher"),
        ((99, 95), (104, 100), "lower"),
        ((106, 101), (104, 100), "overlapping_higher"),
        ((103, 99), (104, 100), "overlapping_lower"),
        ((103, 101), (104, 100), "inside"),
        ((105, 99), (104, 100), "outside"),
        ((104, 100), (104, 100), "same"),
    ],
)
def test_position_of_value(now: tuple[float, float], prior: tuple[float, float], place: str) -> None:
    assert value_relation(*now, *prior) == place


def test_prints_at_the_poc_are_on_neither_side() -> None:
    rows = [
        ProfileRow(price=price, tpos=tpos, letters="", volume=1)
        for price, tpos in ((101.0, 2), (100.5, 1), (100.25, 5), (100.0, 4), (99.75, 3))
    ]
    assert tpos_around(100.25, rows) == (3, 7)
    assert tpos_around(102.0, rows) == (0, 15)

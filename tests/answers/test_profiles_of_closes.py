"""`GET /api/profile` under presets that count each one-minute bar at its close only, such as LEAN's."""

from pathlib import Path
from typing import Any

import pytest
from tests.answers.test_query import GRANTED, put, session
from tests.installations import Write

from outcry.answers.profile_request import ProfileRequest
from outcry.app.installation import Installation
from outcry.base.errors import NotFound
from outcry.wire.profile import ProfileAnswer


def ask(installation: Installation, **parameters: Any) -> ProfileAnswer:
    request = ProfileRequest(date="2024-07-02", **parameters)
    return installation.query.chosen_profile(GRANTED, "ES", request, installation.clock.now_ns()).answer


def levels(found: ProfileAnswer) -> tuple[float, float, float]:
    return found.profile.poc, found.profile.val, found.profile.vah


@pytest.mark.parametrize("method", ["lean", "lean_time", "py_market_profile"])
def test_one_minute_bars_count_at_their_closes(installation: Installation, ticks: Write, method: str) -> None:
    """`session(5500)` trades in the first minute of fourteen half-hours: 10 lots at 5500, then 1 at another price.

    The closes are 5498, 5499, 5500 and 5501 three times each and 5502 twice, with 11 lots each, and the last trade of 1
    lot at 5500: 33, 33, 34, 33 and 22 lots, 155 in all. The value area needs more than 108.5 lots: from 34 it grows up
    (equal sides, 67), down to 5499 (33 against 22, 100) and to 5498 (133). By counts 3, 3, 4, 3, 2 of 15 it needs more
    than 10.5 and grows in the same order: 4, 7, 10, 13.
    """
    put(installation, ticks("20240702", *session(5500)))
    found = ask(installation, method=method)
    assert levels(found) == (5500.0, 5498.0, 5501.0)
    assert [(row.price, row.tpos, row.volume) for row in found.rows if row.tpos] == [
        (5502.0, 2, 22), (5501.0, 3, 33), (5500.0, 4, 34), (5499.0, 3, 33), (5498.0, 3, 33),
    ]  # fmt: skip
    assert {row.letters for row in found.rows} == {""}
    assert (found.profile.high, found.profile.low, found.profile.close_price) == (5502.0, 5498.0, 5500.0)
    assert (found.profile.ib_high, found.profile.single_prints) == (None, [])
    assert found.method.preset == method
    (one,) = found.window.sessions
    assert (one.poc, one.val, one.vah) == levels(found)


def test_a_close_is_rounded_up_to_its_row(installation: Installation, ticks: Write) -> None:
    """Rows of two points: 33 lots at 5498, 67 at 5500 and 55 at 5502; the area needs more than 108.5: 67 + 55."""
    put(installation, ticks("20240702", *session(5500)))
    found = ask(installation, method="lean", row_ticks=8)
    assert levels(found) == (5500.0, 5500.0, 5502.0)
    assert [row.volume for row in found.rows] == [55, 67, 33]


def test_closes_of_two_days_add_up(installation: Installation, ticks: Write) -> None:
    for day in ("20240701", "20240702"):
        put(installation, ticks(day, *session(5500)))
    request = ProfileRequest(first="2024-07-01", last="2024-07-02", method="lean")
    found = installation.query.chosen_profile(GRANTED, "ES", request, installation.clock.now_ns()).answer
    assert [row.volume for row in found.rows if row.tpos] == [44, 66, 68, 66, 66]
    assert len(found.window.sessions) == 2


def test_closes_need_the_trades(installation: Installation, ticks: Write, tmp_path: Path) -> None:
    put(installation, ticks("20240702", *session(5500)))
    for file in (tmp_path / "data" / "tape").rglob("*.dbn.zst"):
        file.unlink()
    with pytest.raises(NotFound):
        ask(installation, method="lean")

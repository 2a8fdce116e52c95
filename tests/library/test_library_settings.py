"""`method=` of the library with the values of a saved setting, against the slow count of the match search's tests."""

import random
from typing import Any, get_args

import numpy as np
import pytest
from tests.market import match_oracle as oracle
from tests.market.test_matching import CONTRACT, HOURS, walk

import outcry
from outcry.library.errors import InvalidInput
from outcry.market.matching.setting import Sampling, Setting
from outcry.market.methods import Method, PocTie
from outcry.market.row_label import RowLabel

BARS = {("tpo", "range"): (15, 30, 60), ("volume", "range"): (0, 1, 5, 30), ("tpo", "close_up"): (1, 5, 60),
        ("volume", "close_up"): (1, 15, 30)}  # fmt: skip


def drawn(chance: random.Random) -> dict[str, Any]:
    basis, placement = chance.choice([*BARS])
    step, pair = chance.choice([(1, "full"), (2, "full"), (2, "trim")])
    return {
        "basis": basis, "placement": placement, "bars": chance.choice(BARS[basis, placement]),
        "row": chance.choice((1, 2, 4, 10)), "percent": chance.choice((50, 68, 70, 80)), "step": step, "pair": pair,
        "label": chance.choice(get_args(RowLabel)) if placement == "range" else "ticks",
        "sideTie": chance.choice(["up", "down", "both"]), "stop": chance.choice(["ge", "gt", "floor"]),
        "pocTie": chance.choice(get_args(PocTie)), "rows": chance.choice(["all", "printed"]),
    }  # fmt: skip


def levels(values: dict[str, Any], trades: list[oracle.Trade]) -> tuple[float, ...]:
    """Return POC, VAL, VAH and volume POC in ticks, counted slowly."""
    method = Method(
        "", values["basis"], values["percent"], values["step"], values["pair"], values["sideTie"], values["stop"],
        values["pocTie"], values["rows"], values["placement"],
    )  # fmt: skip
    sampling = Sampling(values["basis"], values["placement"], values["bars"])
    setting = Setting(CONTRACT, "rth", sampling, values["row"], values["label"], method)
    return oracle.levels(trades, HOURS["rth"], setting)


def columns(trades: list[oracle.Trade]) -> dict[str, Any]:
    at, ticks, sizes = (np.array(column, np.int64) for column in zip(*trades, strict=True))
    return {"ts": at, "price": ticks / 4, "size": sizes}


@pytest.mark.parametrize("seed", range(24))
def test_any_saved_setting_has_the_levels_of_the_oracle(seed: int) -> None:
    values, trades = drawn(random.Random(seed)), walk(seed, 3000)
    want = [level / 4 for level in levels(values, trades)]
    found = outcry.profile(columns(trades), symbol="ES", date="2026-11-19", method=values)
    assert [found.poc, found.val, found.vah] == want[:3]
    if values["basis"] == "volume":
        assert found.vpoc == want[3]
    assert (found.row_ticks, found.method) == (values["row"], "own")


def test_hours_bracket_and_row_of_the_setting_apply_unless_the_caller_names_others() -> None:
    values, data = {"hours": "full", "bars": 60, "row": 4}, columns(walk(3, 3000))
    asked = {"symbol": "ES", "date": "2026-11-19"}
    own = outcry.profile(data, **asked, method=values)
    plain = outcry.profile(data, **asked, session="full", bracket_minutes=60, row_ticks=4)
    assert (own.session, own.bracket_minutes, own.row_ticks) == ("full", 60, 4)
    assert (own.poc, own.val, own.vah, own.rows) == (plain.poc, plain.val, plain.vah, plain.rows)
    other = outcry.profile(data, **asked, method=values, session="overnight", bracket_minutes=15, row_ticks=2)
    assert (other.session, other.bracket_minutes, other.row_ticks) == ("overnight", 15, 2)
    window = HOURS["rth"][0]
    assert outcry.profile(data, tick_size=0.25, window=window, method=values).row_ticks == 4


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"percent": 0}, "percent 0"),
        ({"bars": 7}, "bars 7"),
        ({"rowCount": 20}, "rowCount 20"),
        ({"row": "4"}, "row '4'"),
    ],
)
def test_values_that_no_setting_has_are_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        outcry.profile(columns(walk(1, 100)), symbol="ES", date="2026-11-19", method=values)

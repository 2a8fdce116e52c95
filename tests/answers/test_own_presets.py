"""`method=` with a user's own preset: its values, what other parameters replace, and that others do not see it."""

from typing import Any

import pytest
from tests.answers.test_query import GRANTED, put, session
from tests.installations import Write

from outcry.access.licences import VISITOR, Scope
from outcry.answers.profile_request import ProfileRequest
from outcry.app.installation import Installation
from outcry.base.errors import InvalidParameter, UnknownSymbol
from outcry.market.saved_setting import setting_of
from outcry.people.preset_store import SqlPresets
from outcry.wire.profile import ProfileAnswer

DAY = "2024-07-02"


@pytest.fixture
def presets(installation: Installation, ticks: Write) -> SqlPresets:
    """Return the store of presets; user 1 (`GRANTED`) and user 2 exist, and one session is recorded."""
    put(installation, ticks("20240702", *session(5500)))
    assert [installation.store.ensure_user(f"{name}@example.com", 1) for name in ("ann", "bob")] == [1, 2]
    assert GRANTED.user_id == 1
    return SqlPresets(installation.database)


def save(presets: SqlPresets, name: str, user: int = 1, **values: object) -> None:
    presets.add(user, name, setting_of(name, values), 7)


def ask(installation: Installation, scope: Scope = GRANTED, **parameters: Any) -> ProfileAnswer:
    request = ProfileRequest(date=DAY, **parameters)
    return installation.query.chosen_profile(scope, "ES", request, installation.clock.now_ns()).answer


def test_an_own_preset_has_its_method_bracket_and_row(
    installation: Installation, presets: SqlPresets
) -> None:
    """Half-hour n trades from 5500 to 5498 + n % 5, so three times down to 5498 and to 5499, three times up to 5501 and
    twice up to 5502. Rows of two points have 6, 14 and 2 TPOs; rows of one point 3, 6, 14, 5 and 2.
    """
    save(presets, "desk", row=8, percent=50, label="bottom")
    found = ask(installation, method="desk")
    assert [row.tpos for row in found.rows] == [2, 14, 6]
    assert (found.profile.poc, found.profile.val, found.profile.vah) == (5500.0, 5500.0, 5500.0)
    assert (found.method.preset, found.method.row_ticks, found.method.label) == ("desk", 8, "bottom")
    assert "50 % of tpos" in found.method.value_area
    named = ask(installation, method="desk", row_ticks=4, named="row")
    assert [row.tpos for row in named.rows] == [2, 5, 14, 6, 3]


@pytest.mark.parametrize(
    ("label", "levels"),
    [("ticks", (5500.75, 5500, 5501.75)), ("bottom", (5500, 5500, 5500)), ("middle", (5500.875,) * 3),
     ("edges", (5501, 5500, 5502))],
)  # fmt: skip
def test_the_price_that_stands_for_a_row(
    installation: Installation, presets: SqlPresets, label: str, levels: tuple[float, float, float]
) -> None:
    """One row of two points, 5500 to 5501.75, is POC and value area of 50 %: its middle tick is the fourth of eight."""
    save(presets, "desk", row=8, percent=50, label=label)
    found = ask(installation, method="desk").profile
    assert (found.poc, found.val, found.vah) == levels


def test_volume_of_bars_is_spread(installation: Installation, presets: SqlPresets) -> None:
    """A bar of five minutes has 11 lots between 5500 and its close: at 5498 three times, over nine ticks, 1 lot at each
    and 2 more at the close. Its ticks between whole points have volume, though nothing traded there.
    """
    save(presets, "desk", basis="volume", bars=5)
    found = ask(installation, method="desk")
    of_price = {row.price: row.volume for row in found.rows}
    assert of_price[5498.0] == 3 * (1 + 2)
    assert of_price[5498.25] == 3
    assert (found.method.bar_minutes, found.method.vpoc_source) == (5, "bars")
    exact = {row.price: row.volume for row in ask(installation, method="tradingview").rows}
    assert (exact[5498.0], exact[5498.25]) == (3, 0)


def test_another_user_does_not_see_it(installation: Installation, presets: SqlPresets) -> None:
    save(presets, "desk", percent=50)
    bob = Scope(2, GRANTED.grants)
    for scope in (bob, Scope(VISITOR, GRANTED.grants)):
        with pytest.raises(InvalidParameter):
            ask(installation, scope, method="desk")
        assert not [each for each in installation.query.presets(scope, 0).answer.presets if each.own]
    save(presets, "desk", user=2, percent=90)
    assert "90 %" in ask(installation, bob, method="desk").method.value_area
    assert "50 %" in ask(installation, method="desk").method.value_area


def test_unknown_names_are_refused_before_anything_is_read(
    installation: Installation, presets: SqlPresets
) -> None:
    with pytest.raises(InvalidParameter) as found:
        ask(installation, method="no-such")
    assert found.value.details == {"parameter": "method"}
    save(presets, "desk")
    with pytest.raises(UnknownSymbol):
        installation.query.chosen_profile(
            GRANTED, "NOTHING", ProfileRequest(method="desk"), installation.clock.now_ns()
        )


def test_the_list_has_ours_and_the_callers(installation: Installation, presets: SqlPresets) -> None:
    save(presets, "desk", basis="volume", bars=15, hours="full")
    answer = installation.query.presets(GRANTED, 0).answer
    assert answer.count == len(answer.presets)
    assert [each.name for each in answer.presets][:2] == ["dalton", "cbot_1row"]
    own = answer.presets[-1]
    assert (own.name, own.own, own.basis, own.bars, own.hours) == ("desk", True, "volume", 15, "full")
    lean = next(each for each in answer.presets if each.name == "lean")
    assert (lean.own, lean.placement, lean.bars) == (False, "close_up", 1)

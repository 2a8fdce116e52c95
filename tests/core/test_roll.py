"""The front contract by volume (rules §9), worked by hand."""

from datetime import date, timedelta

from outcry.core.instruments import Contract
from outcry.core.roll import fronts

H, M, U = Contract("ES", 2024, 3), Contract("ES", 2024, 6), Contract("ES", 2024, 9)
DAY = date(2024, 3, 4)
FAR = date(2030, 1, 1)


def days(*volumes: dict[Contract, int]) -> dict[date, dict[Contract, int]]:
    return {DAY + timedelta(days=n): of_day for n, of_day in enumerate(volumes)}


def names(
    volumes: dict[date, dict[Contract, int]], roll_sessions: int = 1, deadline: date = FAR
) -> list[Contract]:
    return [front.contract for front in fronts(volumes, roll_sessions, lambda _contract: deadline)]


def test_rolls_on_the_trade_date_after_volume_has_moved() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 1, M: 9})) == [H, H, M]


def test_equal_volume_is_not_more() -> None:
    assert names(days({H: 9, M: 1}, {H: 5, M: 5}, {H: 9, M: 1})) == [H, H, H]


def test_never_goes_back() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 9, M: 1}, {H: 9, M: 1})) == [H, H, M, M]


def test_metals_and_energy_ask_for_two_sessions_running() -> None:
    assert names(days({H: 9, M: 1}, {H: 4, M: 5}, {H: 9, M: 1}, {H: 4, M: 5}, {H: 4, M: 5}, {}), 2) == [
        H,
        H,
        H,
        H,
        H,
        M,
    ]


def test_the_deadline_rolls_without_volume() -> None:
    found = fronts(
        days({H: 9, M: 1}, {H: 9, M: 1}, {H: 9, M: 1}),
        1,
        lambda c: DAY + timedelta(days=1) if c == H else FAR,
    )
    assert [(f.contract, f.rolled_from) for f in found] == [(H, None), (M, H), (M, H)]


def test_the_first_front_is_the_one_most_traded_the_nearest_of_equals() -> None:
    assert names(days({U: 2, H: 1, M: 7})) == [M]
    assert names(days({U: 7, M: 7})) == [M]


def test_a_front_without_a_session_gives_way_to_what_trades() -> None:
    assert names(days({H: 9}, {M: 3}, {M: 3}, {M: 3}, {M: 3})) == [H, H, H, H, M]


def test_a_missing_day_of_the_front_is_not_a_day_without_volume() -> None:
    assert names(days({H: 9}, {M: 2}, {H: 9, M: 2}, {H: 9, M: 2})) == [H, H, H, H]

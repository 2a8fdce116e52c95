"""Pauses between attempts."""

import pytest

from outcry.base.backoff import Backoff


@pytest.fixture(autouse=True)
def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always choose the longest pause."""

    def longest_of(_shortest: float, longest: float) -> float:
        return longest

    monkeypatch.setattr("random.uniform", longest_of)


def test_pauses_double_up_to_the_longest_until_a_success() -> None:
    backoff = Backoff(first_s=1, longest_s=5)
    assert [backoff.next_s() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert [backoff.next_s() for _ in range(2)] == [1, 2]


def test_the_first_pause_is_never_longer_than_the_longest() -> None:
    assert Backoff(first_s=10, longest_s=5).next_s() == 5


def test_a_test_shortens_all_pauses() -> None:
    backoff = Backoff(10, first_s=1, longest_s=2)
    assert [backoff.next_s() for _ in range(3)] == [0.1, 0.2, 0.2]


def test_a_changed_first_pause_applies_to_the_next_attempt() -> None:
    backoff = Backoff(first_s=1, longest_s=60)
    assert [backoff.next_s() for _ in range(2)] == [1, 2]
    backoff.first_s = 3
    assert [backoff.next_s() for _ in range(2)] == [12, 24]


def test_any_number_of_attempts_is_counted() -> None:
    """Many pauses of zero length, then a long one: 2⁶⁴ seconds are limited to a minute."""
    backoff = Backoff(first_s=0)
    assert {backoff.next_s() for _ in range(5000)} == {0}
    backoff.first_s = 1
    assert backoff.next_s() == 60


def test_each_pause_is_shortened_at_random_by_up_to_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pauses = [Backoff(first_s=8).next_s() for _ in range(200)]
    assert all(4 <= pause_s <= 8 for pause_s in pauses)
    assert max(pauses) - min(pauses) > 1

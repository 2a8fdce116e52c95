import pytest
from hypothesis import given
from hypothesis import strategies as st

from outcry.access.key_format import compose, is_well_formed, prefix

SECRETS = st.integers(0, 2**256 - 1)


def test_a_worked_key() -> None:
    """Secret 0 is 43 zeros, so prefix, length and digits can be verified by eye."""
    key = compose(0)
    assert key.startswith("outcry_" + "0" * 43)
    assert len(key) == 7 + 43 + 6


def test_digits_run_from_zero_to_small_z() -> None:
    """61 is the last digit; 62 is `10`."""
    assert compose(61)[49] == "z"
    assert compose(62)[48:50] == "10"


def test_a_secret_has_256_bits() -> None:
    assert is_well_formed(compose(2**256 - 1))
    for secret in (-1, 2**256):
        with pytest.raises(ValueError, match="256 bits"):
            compose(secret)


@given(SECRETS, SECRETS)
def test_keys_are_as_different_as_their_secrets(one: int, other: int) -> None:
    assert (compose(one) == compose(other)) == (one == other)


@given(
    SECRETS,
    st.integers(7, 55),
    st.sampled_from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
)
def test_one_mistyped_character_is_noticed(secret: int, place: int, typed: str) -> None:
    key = compose(secret)
    mistyped = key[:place] + typed + key[place + 1 :]
    assert is_well_formed(mistyped) == (mistyped == key)


@given(SECRETS, st.integers(7, 54))
def test_swapped_neighbours_are_noticed(secret: int, place: int) -> None:
    key = compose(secret)
    swapped = key[:place] + key[place + 1] + key[place] + key[place + 2 :]
    assert is_well_formed(swapped) == (swapped == key)


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key[:-1],
        lambda key: key + "0",
        lambda key: " " + key,
        lambda key: key + "\n",
        lambda key: key.upper(),
        lambda key: key.replace("outcry_", "outcry-"),
        lambda key: key[:20] + "٣" + key[21:],  # ARABIC-INDIC DIGIT THREE is a digit to str.isdigit
        lambda key: key[:20] + "é" + key[21:],
        lambda _key: "",
    ],
)
def test_a_malformed_key_is_invalid(change: object) -> None:
    assert callable(change)
    assert not is_well_formed(change(compose(12345678901234567890)))


def test_the_displayed_part_leaves_35_characters_secret() -> None:
    key = compose(2**255 + 7)
    assert key.startswith(prefix(key))
    assert len(key) - len(prefix(key)) == 35 + 6

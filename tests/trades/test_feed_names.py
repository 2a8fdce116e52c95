"""Names of pushed feeds are also names of folders, on every system."""

import pytest

from outcry.trades.push_format import is_feed_name


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("replay", True), ("a", True), ("my-feed_2", True), ("a" * 24, True), ("a" * 25, False), ("", False),
        ("2nd", False), ("_x", False), ("Feed", False), ("a b", False), ("a/b", False), ("a:b", False), ("ä", False),
        ("a\n", False), ("con", False), ("nul", False), ("aux", False), ("prn", False), ("com1", False),
        ("lpt9", False), ("con1", True), ("console", True), ("com10", True), ("aux-2", True),
    ],
)  # fmt: skip
def test_names(name: str, *, is_valid: bool) -> None:
    assert is_feed_name(name) is is_valid

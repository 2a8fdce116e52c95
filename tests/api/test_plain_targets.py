"""Request targets that can be answered without decoding are recognised, and those with a key are not."""

import pytest

from outcry.http.requests import PlainTargets


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/api/levels?symbol=ES", "/api/levels", b"symbol=ES"),
        (b"/api/symbols", "/api/symbols", b""),
        (b"/api/levels?symbol=a?b", "/api/levels", b"symbol=a?b"),
        (b"/api/levels?" + b"x" * 4000, "/api/levels", b"x" * 4000),
    ],
)
def test_a_plain_target_is_divided_at_the_first_question_mark(target: bytes, path: str, query: bytes) -> None:
    targets = PlainTargets()
    assert [targets.divide(target) for _ in range(2)] == [(path, query)] * 2


@pytest.mark.parametrize(
    "target",
    [
        b"",
        b"*",
        b"/api/levels%3F",
        b"/api/levels/1",
        b"http://outcry/api/levels",
        b"/api/levels?symbol=ES#top",
        b"/api/levels?key=x",
        b"/api/levels?symbol=ES&a=outcry_x",
        b"/api/levels?%6bey=x",
    ],
)
def test_other_targets_are_not_plain(target: bytes) -> None:
    assert PlainTargets().divide(target) is None

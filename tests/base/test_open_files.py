"""The limit of open files: unknown without `resource`, none if infinite, and raised as far as the system allows."""

from types import SimpleNamespace

import pytest

from outcry.base import open_files
from outcry.base.open_files import allow_open_files, most_open_files

INFINITE = -1


class Limits(SimpleNamespace):
    """A module `resource` of a system that refuses limits above `most`."""

    RLIMIT_NOFILE, RLIM_INFINITY = 7, INFINITE

    def getrlimit(self, _which: int) -> tuple[int, int]:
        return self.soft, self.hard

    def setrlimit(self, _which: int, limits: tuple[int, int]) -> None:
        if limits[0] > self.most:
            raise ValueError("not allowed to raise maximum limit")
        self.soft, self.hard = limits


@pytest.mark.parametrize(
    ("soft", "hard", "most", "raised"),
    [
        (1024, 1_048_576, 10**9, 65_536),  # Linux
        (1024, 4096, 10**9, 4096),
        (256, INFINITE, 10_240, 10_240),  # macOS refuses more, although it states no limit
        (256, INFINITE, 10**9, 65_536),
        (256, INFINITE, 200, 256),
        (100_000, INFINITE, 10**9, 100_000),
    ],
)
def test_the_limit_is_raised(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, raised: int
) -> None:
    monkeypatch.setattr(open_files, "resource", Limits(soft=soft, hard=hard, most=most))
    allow_open_files()
    assert most_open_files() == raised


def test_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_files, "resource", Limits(soft=INFINITE, hard=INFINITE, most=10**9))
    allow_open_files()
    assert most_open_files() is None
    monkeypatch.setattr(open_files, "resource", None)  # Windows
    allow_open_files()
    assert most_open_files() is None

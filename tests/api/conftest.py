from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import Harness, build_harness, served

from outcry.http.edge import Edge
from outcry.http.fastpath import FastPathCache


@pytest.fixture
def harness() -> Iterator[Harness]:
    with served(build_harness()) as running:
        yield running


class FastPath:
    """Wrapper of the fast path that tests can modify even if the original is compiled."""

    def __init__(self, edge: Edge) -> None:
        self._fast_path = FastPathCache(edge)

    def __len__(self) -> int:
        return len(self._fast_path)

    def serve(self, data: bytes, dated: Any) -> bytes | None:
        return self._fast_path.serve(data, dated)

    def learn(self, *lesson: Any) -> None:
        self._fast_path.learn(*lesson)


@pytest.fixture
def hot(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record for each packet whether the fast path answered it. Request this fixture before `harness`."""
    served_hot: list[bool] = []

    class Watched(FastPath):
        def serve(self, data: bytes, dated: Any) -> bytes | None:
            response = super().serve(data, dated)
            served_hot.append(response is not None)
            return response

    monkeypatch.setattr("outcry.api.app.FastPathCache", Watched)
    return served_hot

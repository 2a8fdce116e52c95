"""The cache of answers has a memory limit and retains used answers."""

import asyncio

import pytest
from tests.api.sample_answers import ANSWERS

from outcry.answers.live_answers import QueryResult
from outcry.http.cache import AnswerCache
from outcry.wire.answers import Answer

FOUND: QueryResult[Answer] = QueryResult(ANSWERS["LevelsAnswer"], None)


async def cached(cache: AnswerCache, number: int) -> None:
    """Compute and cache an answer, as the first request for it does."""
    await cache.answer(number, 1, 0, lambda: FOUND)


def test_an_answer_in_use_outlives_newer_ones_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        cache = AnswerCache(10.0)
        await cached(cache, 0)
        monkeypatch.setattr("outcry.http.cache._MOST_BYTES", 10 * cache.size_bytes)
        for number in range(1, 50):
            assert cache.find(0, 1, 0) is not None
            await cached(cache, number)
        assert [number for number in range(50) if cache.find(number, 1, 0)] == [0, *range(41, 50)]
        cache.close()

    asyncio.run(run())


def test_an_answer_no_longer_used_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        cache = AnswerCache(10.0)
        await cached(cache, 0)
        most_bytes = 10 * cache.size_bytes
        monkeypatch.setattr("outcry.http.cache._MOST_BYTES", most_bytes)
        assert cache.find(0, 1, 0) is not None
        for number in range(1, 30):
            await cached(cache, number)
        assert cache.find(0, 1, 0) is None
        assert cache.size_bytes <= most_bytes
        cache.close()

    asyncio.run(run())

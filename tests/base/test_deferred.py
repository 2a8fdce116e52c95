"""A part is built once, when it is first used."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from outcry.base.deferred import Deferred


def test_a_part_is_built_at_its_first_use_and_once() -> None:
    built: list[object] = []

    def build() -> object:
        built.append(object())
        return built[-1]

    part = Deferred(build)
    assert (part.if_built, built) == (None, [])
    assert part() is part() is part.if_built is built[0]
    assert len(built) == 1


def test_threads_that_use_a_part_at_once_share_it() -> None:
    together = threading.Barrier(4)
    part = Deferred(object)

    def use(_: int) -> object:
        together.wait(60)
        return part()

    with ThreadPoolExecutor(4) as threads:
        assert len(set(map(id, threads.map(use, range(4))))) == 1


def test_the_event_loop_continues_while_a_part_is_built() -> None:
    may_end = threading.Event()

    async def run() -> tuple[bool, bool]:
        part = Deferred(lambda: may_end.wait(60))
        loading = asyncio.create_task(part.loaded())
        await asyncio.sleep(0)
        waits = not loading.done()
        may_end.set()  # would never run if the build blocked the loop
        return waits, await loading

    assert asyncio.run(run()) == (True, True)


def test_a_failed_build_is_tried_again() -> None:
    results = iter([OSError("not now"), None])

    def build() -> str:
        if problem := next(results):
            raise problem
        return "built"

    part = Deferred(build)
    with pytest.raises(OSError, match="not now"):
        part()
    assert part() == "built"

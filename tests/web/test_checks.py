"""Background checks of the pages: how many at once, which results are stored, and when they expire."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from itertools import count
from unittest.mock import patch

from tests.timeouts import until

from outcry.connections.model import CheckStep, Finding
from outcry.web.checks import MAX_STORED, Checks

FOUND = [Finding(CheckStep.SIGN_IN, "", passed=True, code="ok")]
Found = Sequence[Finding] | None


def on_a_loop(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class ChecksHarness:
    """Checks that wait until they are let go."""

    def __init__(self) -> None:
        self.checks = Checks()
        self.go = asyncio.Event()
        self.found: list[Found] = []
        self._now = count(1)

    async def wait(self) -> Found:
        await self.go.wait()
        return FOUND

    async def tell(self, found: Found) -> None:
        self.found.append(found)

    def begin(self, user: int, connection: int, check: Callable[[], Awaitable[Found]] | None = None) -> bool:
        return self.checks.begin((user, connection), check or self.wait, lambda: next(self._now), self.tell)

    async def ended(self, number: int) -> None:
        await until(lambda: len(self.found) >= number)


@on_a_loop
async def test_a_user_has_two_and_a_connection_one() -> None:
    bench = ChecksHarness()
    assert bench.begin(1, 1)
    assert not bench.begin(1, 1)
    assert bench.begin(1, 2)
    assert not bench.begin(1, 3)
    assert bench.begin(2, 3)
    check = bench.checks.of((1, 1))
    assert check is not None
    assert (check.ended_ns, check.findings) == (None, None)
    bench.go.set()
    await bench.ended(3)
    assert bench.found == [FOUND, FOUND, FOUND]
    check = bench.checks.of((1, 1))
    assert check is not None
    assert check.ended_ns is not None
    assert check.findings == FOUND
    assert bench.begin(1, 3)
    bench.checks.forget((1, 3))


@on_a_loop
async def test_one_that_is_forgotten_says_nothing_of_the_next() -> None:
    bench = ChecksHarness()
    bench.begin(1, 1)
    await asyncio.sleep(0)
    bench.checks.forget((1, 1))
    assert bench.checks.of((1, 1)) is None
    assert bench.begin(1, 1)
    await asyncio.sleep(0.01)
    check = bench.checks.of((1, 1))
    assert check is not None
    assert check.ended_ns is None
    assert bench.found == []
    bench.go.set()
    await bench.ended(1)


@on_a_loop
async def test_one_that_does_not_end_is_given_up() -> None:
    bench = ChecksHarness()
    with patch("outcry.web.checks.TIMEOUT_S", 0.01):
        bench.begin(1, 1)
        await bench.ended(1)
    check = bench.checks.of((1, 1))
    assert check is not None
    assert check.ended_ns is not None
    assert check.findings is None
    assert bench.found == [None]


@on_a_loop
async def test_only_the_newest_are_kept() -> None:
    bench = ChecksHarness()
    bench.go.set()
    for user in range(1, MAX_STORED + 3):
        bench.begin(user, 1)
    await bench.ended(MAX_STORED + 2)
    assert bench.checks.of((1, 1)) is None
    assert bench.checks.of((MAX_STORED + 2, 1)) is not None

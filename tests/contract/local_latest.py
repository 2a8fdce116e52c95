"""Latest states within one process.

A newer state replaces one that was not read yet, so a slow reader delays no other.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence

from outcry.cluster.latest import Latest, Order


class LocalLatest:
    """`JetStreamLatest` in memory, for one event loop."""

    def __init__(self) -> None:
        self._latest: dict[str, Latest] = {}
        self._watchers: list[tuple[dict[str, Latest], asyncio.Event]] = []

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        """See `JetStreamLatest`."""
        refused: dict[str, Order] = {}
        for state in states:
            there = self._latest.get(state.key)
            if there is not None and state.order <= there.order:
                refused[state.key] = there.order
                continue
            self._latest[state.key] = state
            for unread, some in self._watchers:
                unread.pop(state.key, None)  # ordered by the latest change
                unread[state.key] = state
                some.set()
        return refused

    async def watch(self) -> AsyncGenerator[Latest | None]:
        """See `JetStreamLatest`."""
        unread, some = dict(self._latest), asyncio.Event()
        watcher = (unread, some)
        self._watchers.append(watcher)
        try:
            while unread:
                yield unread.pop(next(iter(unread)))
            yield None
            while True:
                await some.wait()
                some.clear()
                while unread:
                    yield unread.pop(next(iter(unread)))
        finally:
            self._watchers.remove(watcher)

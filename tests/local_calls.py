"""What processes say to each other, within one process; `away`: the bus is not there."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from tests.contract.local_latest import LocalLatest

from outcry.cluster.calls import BusDown
from outcry.cluster.latest import Latest, Order


class Bus:
    """The part of `Calls` that tells, and `LatestStates`, both away at times."""

    def __init__(self) -> None:
        self.away = self.silent = False
        self.told: list[tuple[str, bytes]] = []
        self.puts: list[Latest] = []
        self._listeners: dict[str, list[Callable[[bytes], None]]] = {}
        self.latest = LocalLatest()

    async def tell(self, name: str, body: bytes) -> None:
        if self.away or self.silent:
            return
        self.told.append((name, body))
        for heard in list(self._listeners.get(name, ())):
            heard(body)

    @asynccontextmanager
    async def listen(self, name: str, heard: Callable[[bytes], None]) -> AsyncGenerator[None]:
        listeners = self._listeners.setdefault(name, [])
        listeners.append(heard)
        try:
            yield
        finally:
            listeners.remove(heard)

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        if self.away:
            raise BusDown("away")
        self.puts += states
        return await self.latest.put(states)

    async def watch(self) -> AsyncIterator[Latest | None]:
        if self.away:
            raise BusDown("away")
        async with aclosing(self.latest.watch()) as states:
            async for state in states:
                if self.away:
                    raise BusDown("away")
                yield state

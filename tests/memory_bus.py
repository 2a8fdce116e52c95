"""In-memory bus between the processes of a cluster, for tests within one process."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

from tests.contract.local_latest import LocalLatest

from outcry.cluster.calls import BusDown
from outcry.cluster.latest import Latest, Order


class Bus:
    """Publishing as by `NatsCalls`, and the latest states; `silent`: messages are lost."""

    def __init__(self) -> None:
        self.down = self.silent = False
        self.published: list[tuple[str, bytes]] = []
        self.puts: list[Latest] = []
        self._listeners: dict[str, list[Callable[[bytes], None]]] = {}
        self.latest = LocalLatest()

    async def tell(self, name: str, body: bytes) -> None:
        if self.down or self.silent:
            return
        self.published.append((name, body))
        for listener in list(self._listeners.get(name, ())):
            listener(body)

    @asynccontextmanager
    async def listen(self, name: str, listener: Callable[[bytes], None]) -> AsyncGenerator[None]:
        listeners = self._listeners.setdefault(name, [])
        listeners.append(listener)
        try:
            yield
        finally:
            listeners.remove(listener)

    async def put(self, states: Sequence[Latest]) -> Mapping[str, Order]:
        if self.down:
            raise BusDown("down")
        self.puts += states
        return await self.latest.put(states)

    async def watch(self) -> AsyncIterator[Latest | None]:
        if self.down:
            raise BusDown("down")
        async with aclosing(self.latest.watch()) as states:
            async for state in states:
                if self.down:
                    raise BusDown("down")
                yield state

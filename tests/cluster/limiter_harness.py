"""Replicas and owners of shared limits on one event loop, over calls that can be lost, late or refused."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from time import monotonic_ns
from unittest.mock import patch

from outcry.access.limiter import Verdict
from outcry.cluster.calls import Answerer, BusDown, NobodyServes
from outcry.cluster.limits.owner import LimitOwner
from outcry.cluster.limits.shared_limiter import SharedLimiter
from outcry.live.partitions import PARTITIONS


@contextmanager
def patience(seconds: float = 60.0) -> Iterator[None]:
    """Lengthen all timeouts of limits, so that none ends because the machine is busy."""
    names = ("shared_limiter.PATIENCE_S", "peers._PATIENCE_S", "owner._RECALL_S", "owner._ADMISSION_S")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch(f"outcry.cluster.limits.{name}", seconds))
        yield


class HandTime:
    """Manually advanced clock."""

    def __init__(self, now_ns: int = 10**18) -> None:
        self.at_ns = now_ns

    def __call__(self) -> int:
        return self.at_ns


@dataclass
class Wires:
    """Simulated message transport.

    down: calls get no answer. deaf: names of servers that are stalled. delay_s: delay in each direction of a call to a
    name. A lost answer belongs to a call that was received.
    """

    served: dict[str, Answerer] = field(default_factory=dict)
    down: bool = False
    deaf: set[str] = field(default_factory=set)
    delay_s: Callable[[str], float] = lambda _name: 0.0
    lose_answers: bool = False
    asked: list[str] = field(default_factory=list)

    async def ask(self, name: str, body: bytes, timeout_s: float) -> bytes:
        self.asked.append(name)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._carry(name, body)
        except TimeoutError:
            raise BusDown from None

    async def _carry(self, name: str, body: bytes) -> bytes:
        await asyncio.sleep(self.delay_s(name))
        answer = self.served.get(name)
        if self.down or name in self.deaf:
            await asyncio.sleep(3600)
        if answer is None:
            raise NobodyServes
        said = await answer(body)
        if self.lose_answers:
            await asyncio.sleep(3600)
        await asyncio.sleep(self.delay_s(name))
        if self.served.get(name) is not answer:
            raise NobodyServes
        return said

    @asynccontextmanager
    async def serve(self, name: str, answer: Answerer) -> AsyncIterator[None]:
        self.served[name] = answer
        try:
            yield
        finally:
            if self.served.get(name) is answer:
                del self.served[name]

    async def tell(self, name: str, body: bytes) -> None:
        raise NotImplementedError

    def listen(self, name: str, on_message: Callable[[bytes], None]) -> object:
        raise NotImplementedError


@dataclass
class Here:
    """One process as seen by the others."""

    name: str
    names: list[str]
    connected: bool = True
    joined: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.joined.set()

    def here(self, roles: Sequence[str]) -> object:
        raise NotImplementedError

    def members(self, role: str) -> Sequence[str]:
        return sorted(self.names) if role == "api" else []


class Harness:
    """Context manager with several replicas and one owner of all partitions at a time."""

    def __init__(
        self, replicas: int, now_ns: Callable[[], int] = monotonic_ns, max_subjects: int = 50_000
    ) -> None:
        self.wires, self.now_ns = Wires(), now_ns
        self.names = [f"api-{number}" for number in range(replicas)]
        self.places = [Here(name, self.names) for name in self.names]
        self.replicas = [
            SharedLimiter(self.wires, place, now_ns=now_ns, max_subjects=max_subjects)
            for place in self.places
        ]
        self.running: list[asyncio.Task[None]] = []
        self._owner: AsyncExitStack | None = None
        self._owners = 0

    async def __aenter__(self) -> "Harness":
        self.running = [asyncio.ensure_future(replica.run()) for replica in self.replicas]
        await asyncio.sleep(0)
        await self.start_owner()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)
        await self.stop_owner()

    async def start_owner(self) -> None:
        """Start an owner that takes all partitions."""
        self._owners += 1
        owner = LimitOwner(self.wires, Here(f"engine-{self._owners}", self.names), now_ns=self.now_ns)
        self._owner = AsyncExitStack()
        for partition in range(PARTITIONS):
            await self._owner.enter_async_context(owner.serve(partition))
        await asyncio.sleep(0.01)

    async def stop_owner(self) -> None:
        """Stop the owner."""
        if self._owner is not None:
            await self._owner.aclose()
            self._owner = None

    async def ask(self, replica: int, subject: str, limit: int) -> Verdict:
        """Request like the HTTP edge: take from the share, or ask the owner."""
        limiter = self.replicas[replica]
        return limiter.take(subject, limit) or await limiter.ask(subject, limit)

    async def passed(self, replica: int, subject: str, limit: int, requests: int) -> int:
        """Return how many of so many concurrent requests pass."""
        verdicts = await asyncio.gather(*(self.ask(replica, subject, limit) for _ in range(requests)))
        return sum(verdict.allowed for verdict in verdicts)

"""Clients that send requests during the faults.

They are readers of every replica, the key management, and one client that exceeds its limit. A status of 500 is always
a fault. A missing answer is no fault while a process is down. Statuses 502 and 429 are counted separately.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec
from sim.processes import Worker

from outcry.app.installation import Installation
from outcry.database.errors import StoreBusy

#: Requests per second to each replica.
EACH_S = 6.0
LIMIT, LIMITED_EACH_S = 30, 2.0
#: Time limits (s) until every replica refuses a revoked key: usually, and while the bus or the store is unavailable.
REVOKED_WITHIN_S, REVOKED_AT_WORST_S = 1.0, 5.0
#: Expected statuses. A client that repeatedly sends invalid keys soon receives 429.
_ACCEPTED, _REFUSED = frozenset({200}), frozenset({401, 429})
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_PATHS = (
    "/api/levels?symbol={}",
    "/api/profile?symbol={}",
    "/api/alerts",
    "/api/context?symbol={}",
    "/api/symbols",
)


@dataclass
class Reader:
    """A client with a key, and the symbols that it requests."""

    owner: str
    key: str
    symbols: tuple[str, ...]


@dataclass
class ClientResults:
    """Results of the requests. `latencies_s`: longest latency by status."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    longest_s: dict[int, float] = field(default_factory=dict[int, float])
    revoked_s: list[float] = field(default_factory=list[float])
    created_s: list[float] = field(default_factory=list[float])
    #: Times (s) at which accepted requests of the client above its limit were sent and answered.
    passed: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    limited: int = 0

    def over_limit(self, lost_s: Sequence[float]) -> int:
        """Return how many requests too many were certainly accepted in the worst 60 seconds.

        `lost_s`: times at which a replica was killed and may have lost its counts, or was cut off from the others; such
        a minute does not count.
        """
        found, passed = 0, sorted(self.passed, key=lambda pair: pair[1])
        for last in range(len(passed)):
            first = last
            least = passed[last][0]
            while first >= 0 and passed[last][1] - min(least, passed[first][0]) < 60:
                least = min(least, passed[first][0])
                first -= 1
            if not any(least - 60 <= at <= passed[last][1] for at in lost_s):
                found = max(found, last - first - LIMIT)
        return found


class Clients:
    """All clients, on the running event loop.

    `steady`: returns whether neither the store nor the bus has a fault, now or a moment ago.
    """

    def __init__(
        self,
        installation: Installation,
        apis: Sequence[Worker],
        chance: random.Random,
        steady: Callable[[], bool],
    ) -> None:
        self._installation, self._apis, self._chance, self._steady = installation, apis, chance, steady
        self.results = ClientResults()
        self.readers: list[Reader] = []
        #: Keys that must be valid or revoked at the end.
        self.valid: list[str] = []
        self.revoked: list[str] = []
        self._session: aiohttp.ClientSession

    async def run(self) -> None:
        """Send requests until cancelled."""
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as self._session,
            asyncio.TaskGroup() as tasks,
        ):
            for api in self._apis:
                tasks.create_task(self._read(api))
            tasks.create_task(self._create_and_revoke())
            tasks.create_task(self._exceed_limit())

    async def check(self) -> Iterator[str]:
        """Return faults of keys at the end: a valid key that a replica refuses, or a revoked one that it accepts."""
        faults: list[str] = []
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as self._session:
            for api in self._apis:
                for keys, wanted in ((self.valid, _ACCEPTED), (self.revoked, _REFUSED)):
                    for key in keys:
                        status = await self._final_status(api, key, wanted)
                        if status not in wanted:
                            faults.append(f"{api.name} answers a key {status}, not {wanted}")
        return iter(faults)

    async def check_answers(self, profiles: Mapping[tuple[str, str, str], Any]) -> list[str]:
        """Return the completed sessions that a replica answers wrongly, by owner, contract and date."""
        faults: list[str] = []
        keys = {reader.owner: reader.key for reader in self.readers}
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            for (owner, contract, day), wanted in profiles.items():
                for api in self._apis:
                    url = f"http://127.0.0.1:{api.port}/api/profile?symbol={contract}&date={day}"
                    async with session.get(url, headers={"x-api-key": keys[owner]}) as answer:
                        found = await answer.json()
                    if found != wanted:
                        differing = [name for name in wanted if found.get(name) != wanted[name]]
                        faults.append(
                            f"{api.name}, {contract} of {day} to {owner}: {differing} differ: {str(found)[:200]}"
                        )
        return faults

    async def _final_status(self, api: Worker, key: str, wanted: Collection[int]) -> int:
        """Return the answer of an available replica; for a key at its limit, the answer of the next minute."""
        status = 0
        for _ in range(300):
            status, _ = await self._request(api, "/api/symbols", key)
            if status in wanted or status == 401:
                break
            await asyncio.sleep(0.25)
        return status

    async def create_key(self, email: str, tier: Any, **more: Any) -> str:
        """Create a key; retry while the store is unavailable."""
        return await self.in_store(
            lambda: self._installation.keys.create(email, tier, self._installation.clock.now_ns(), **more)
        )

    async def in_store(self, work: Callable[[], Any]) -> Any:
        """Run work on the store; retry while the store is unavailable."""
        while True:
            try:
                return await asyncio.to_thread(work)
            except StoreBusy:
                await asyncio.sleep(0.2)

    async def _read(self, api: Worker) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(EACH_S))
            if not self.readers:
                continue
            reader = self._chance.choice(self.readers[-6:])
            path = self._chance.choice(_PATHS).format(self._chance.choice(reader.symbols))
            await self._request(api, path, reader.key)

    async def _request(self, api: Worker, path: str, key: str) -> tuple[int, float]:
        """Send one request; return its status (0 without an answer) and the time at which it was sent."""
        sent_s = time.monotonic()
        try:
            async with self._session.get(
                f"http://127.0.0.1:{api.port}{path}", headers={"x-api-key": key}
            ) as answer:
                body, status = await answer.read(), answer.status
        except TimeoutError:
            self.results.statuses["no answer in 10 s"] += 1
            return 0, sent_s
        except (aiohttp.ClientError, OSError):
            self.results.statuses["no connection"] += 1
            return 0, sent_s
        code = "" if status == 200 else f" {_code(body)}"
        self.results.statuses[f"{status}{code}"] += 1
        self.results.longest_s[status] = max(
            self.results.longest_s.get(status, 0.0), time.monotonic() - sent_s
        )
        if status >= 500 and status not in {502, 503}:
            self.results.faults.append(f"{api.name} answers {path} {status}: {body[:300]!r}")
        return status, sent_s

    # -- keys

    async def _create_and_revoke(self) -> None:
        """Create and revoke keys, and measure the time until every replica applies the change."""
        number = 0
        while True:
            await asyncio.sleep(self._chance.uniform(1.0, 4.0))
            number += 1
            key = await self.create_key(f"k{number % 5}@example.com", "admin")
            await self._until(key, accepted=True)
            if self._chance.random() < 0.3:
                self.valid.append(key)
                continue
            await self.in_store(
                lambda key=key: self._installation.keys.revoke(key[:15], self._installation.clock.now_ns())
            )
            self.revoked.append(key)
            await self._until(key, accepted=False)

    async def _until(self, key: str, *, accepted: bool) -> None:
        steady, since_s = self._steady(), time.monotonic()
        found = await asyncio.gather(
            *(self._until_at(api, key, since_s, accepted=accepted) for api in self._apis)
        )
        longest_s = max(found)
        if not (steady and self._steady()):
            allowed_s = 60.0 if accepted else REVOKED_AT_WORST_S
        else:
            (self.results.created_s if accepted else self.results.revoked_s).append(longest_s)
            allowed_s = 10.0 if accepted else REVOKED_WITHIN_S
        if longest_s > allowed_s:
            what = "not taken" if accepted else "taken"
            self.results.faults.append(
                f"a key was {what} {longest_s:.2f} s after it was {'made' if accepted else 'revoked'}"
            )

    async def _until_at(self, api: Worker, key: str, since_s: float, *, accepted: bool) -> float:
        """Poll one replica until it applies a change; return when the last request with the old result was sent."""
        wrong_s = since_s
        while True:
            status, sent_s = await self._request(api, "/api/symbols", key)
            if status in (_ACCEPTED if accepted else _REFUSED):
                return wrong_s - since_s
            if status in (_REFUSED if accepted else _ACCEPTED):
                wrong_s = sent_s
            if time.monotonic() - since_s > 90:  # the replica is unavailable; the final check covers it
                return wrong_s - since_s
            await asyncio.sleep(0.05)

    async def _exceed_limit(self) -> None:
        key = await self.create_key("limited@example.com", "free")
        tasks: set[asyncio.Task[None]] = set()

        async def once() -> None:
            status, sent_s = await self._request(self._chance.choice(self._apis), "/api/symbols", key)
            if status == 200:
                self.results.passed.append((sent_s, time.monotonic()))
            self.results.limited += status == 429

        while True:
            await asyncio.sleep(self._chance.expovariate(LIMITED_EACH_S))
            for _ in range(self._chance.choice((1, 1, 1, 6))):
                task = asyncio.create_task(once())
                tasks.add(task)
                task.add_done_callback(tasks.discard)


def _code(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["code"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return "?"

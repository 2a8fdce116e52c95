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
from sim.stage import Worker

from outcry.app.installation import Installation
from outcry.database.errors import StoreBusy

#: Requests per second to each replica.
EACH_S = 6.0
LIMIT, LIMITED_EACH_S = 30, 2.0
#: Time limits (s) until every replica refuses a revoked key: usually, and while the bus or the store is unavailable.
REVOKED_WITHIN_S, REVOKED_AT_WORST_S = 1.0, 5.0
#: Expected statuses. A client that repeatedly sends invalid keys soon receives 429.
_TAKEN, _REFUSED = frozenset({200}), frozenset({401, 429})
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
class Asked:
    """Results of the requests. `latencies_s`: longest latency by status."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    longest_s: dict[int, float] = field(default_factory=dict[int, float])
    revoked_s: list[float] = field(default_factory=list[float])
    made_s: list[float] = field(default_factory=list[float])
    #: Times (s) at which accepted requests of the client above its limit were sent and answered.
    passed: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    limited: int = 0

    def over_limit(self, lost_s: Sequence[float]) -> int:
        """Return how many requests too many were certainly accepted in the worst 60 seconds.

        `lost_s`: times at which a replica was killed and may have lost its counts; such a minute does not count.
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


class Askers:
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
        self._house, self._apis, self._chance, self._steady = installation, apis, chance, steady
        self.asked = Asked()
        self.readers: list[Reader] = []
        #: Keys that must be valid or revoked at the end.
        self.good: list[str] = []
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
            tasks.create_task(self._churn())
            tasks.create_task(self._ask_too_much())

    async def check(self) -> Iterator[str]:
        """Return faults of keys at the end: a valid key that a replica refuses, or a revoked one that it accepts."""
        faults: list[str] = []
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as self._session:
            for api in self._apis:
                for keys, wanted in ((self.good, _TAKEN), (self.revoked, _REFUSED)):
                    for key in keys:
                        status = await self._patiently(api, key, wanted)
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

    async def _patiently(self, api: Worker, key: str, wanted: Collection[int]) -> int:
        """Return the answer of an available replica; for a key at its limit, the answer of the next minute."""
        status = 0
        for _ in range(300):
            status, _ = await self._ask(api, "/api/symbols", key)
            if status in wanted or status == 401:
                break
            await asyncio.sleep(0.25)
        return status

    async def make(self, email: str, tier: Any, **more: Any) -> str:
        """Create a key; retry while the store is unavailable."""
        return await self.in_store(
            lambda: self._house.keys.create(email, tier, self._house.clock.now_ns(), **more)
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
            await self._ask(api, path, reader.key)

    async def _ask(self, api: Worker, path: str, key: str) -> tuple[int, float]:
        """Send one request; return its status (0 without an answer) and the time at which it was sent."""
        sent_s = time.monotonic()
        try:
            async with self._session.get(
                f"http://127.0.0.1:{api.port}{path}", headers={"x-api-key": key}
            ) as answer:
                body, status = await answer.read(), answer.status
        except TimeoutError:
            self.asked.statuses["no answer in 10 s"] += 1
            return 0, sent_s
        except (aiohttp.ClientError, OSError):
            self.asked.statuses["nobody there"] += 1
            return 0, sent_s
        code = "" if status == 200 else f" {_code(body)}"
        self.asked.statuses[f"{status}{code}"] += 1
        self.asked.longest_s[status] = max(self.asked.longest_s.get(status, 0.0), time.monotonic() - sent_s)
        if status >= 500 and status not in {502, 503}:
            self.asked.faults.append(f"{api.name} answers {path} {status}: {body[:300]!r}")
        return status, sent_s

    # -- keys

    async def _churn(self) -> None:
        """Create and revoke keys, and measure the time until every replica applies the change."""
        number = 0
        while True:
            await asyncio.sleep(self._chance.uniform(1.0, 4.0))
            number += 1
            key = await self.make(f"k{number % 5}@example.com", "admin")
            await self._until(key, taken=True)
            if self._chance.random() < 0.3:
                self.good.append(key)
                continue
            await self.in_store(lambda key=key: self._house.keys.revoke(key[:15], self._house.clock.now_ns()))
            self.revoked.append(key)
            await self._until(key, taken=False)

    async def _until(self, key: str, *, taken: bool) -> None:
        steady, since_s = self._steady(), time.monotonic()
        found = await asyncio.gather(*(self._until_at(api, key, since_s, taken=taken) for api in self._apis))
        longest_s = max(found)
        if not (steady and self._steady()):
            allowed_s = 60.0 if taken else REVOKED_AT_WORST_S
        else:
            (self.asked.made_s if taken else self.asked.revoked_s).append(longest_s)
            allowed_s = 10.0 if taken else REVOKED_WITHIN_S
        if longest_s > allowed_s:
            what = "not taken" if taken else "taken"
            self.asked.faults.append(
                f"a key was {what} {longest_s:.2f} s after it was {'made' if taken else 'revoked'}"
            )

    async def _until_at(self, api: Worker, key: str, since_s: float, *, taken: bool) -> float:
        """Poll one replica until it applies a change; return when the last request with the old result was sent."""
        wrong_s = since_s
        while True:
            status, sent_s = await self._ask(api, "/api/symbols", key)
            if status in (_TAKEN if taken else _REFUSED):
                return wrong_s - since_s
            if status in (_REFUSED if taken else _TAKEN):
                wrong_s = sent_s
            if time.monotonic() - since_s > 90:  # the replica is unavailable; the final check covers it
                return wrong_s - since_s
            await asyncio.sleep(0.05)

    async def _ask_too_much(self) -> None:
        key = await self.make("limited@example.com", "free")
        tasks: set[asyncio.Task[None]] = set()

        async def once() -> None:
            status, sent_s = await self._ask(self._chance.choice(self._apis), "/api/symbols", key)
            if status == 200:
                self.asked.passed.append((sent_s, time.monotonic()))
            self.asked.limited += status == 429

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

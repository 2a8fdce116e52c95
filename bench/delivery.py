"""Delivery: signed messages per second over TLS from one worker, their delay, and the cost of failing endpoints.

The time covers everything between an alert and the endpoint. That includes the outbox entry, the claim, the URL check,
the signature, TLS, the response and the recorded attempt, over SQLite on disk. The endpoints are in another process.
For comparison, the same client posts bytes signed beforehand to the same endpoints.
"""

import asyncio
import random
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic_ns, perf_counter, process_time
from typing import Any

import aiohttp
import numpy as np
import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult
from bench.endpoints import DOMAIN
from bench.measurement import Figure, Size, within
from bench.outbound import SECRET, Endpoints, Worker, endpoints, resolve

from outcry.delivery.signing import signed
from outcry.delivery.trust import system_trust

HOSTS, AT_ONCE = 250, 256
WARM_HOSTS = 20
#: Subscriptions that receive one alert, and number of alerts.
WARM, COLD, ROUNDS = 3_000, 1_000, 3
ALERTS_A_SECOND, ENDPOINTS, DEAD = 100, 300, 90
LASTS_S = 6.0
#: Time until the worker has opened its connections (s).
_SETTLED_S = 3.0
_FAN_OUT = (10_000, 100_000)
_LIMIT_S = 60.0


def run(size: Size) -> Iterator[Figure]:
    """Measure throughput, delay, the cost of failing endpoints, and recording an alert for many subscriptions."""
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        with endpoints(folder, HOSTS) as there:
            yield from _throughput(folder, there, size)
            yield from _lateness(folder, there, size)
            yield from _dead(folder, there, size)
            yield from _fan_out(folder, there, size)


# -- throughput


def _throughput(folder: Path, there: Endpoints, size: Size) -> Iterator[Figure]:
    for name, way, hosts, many, target in (
        ("warm: connections kept", "ok", WARM_HOSTS, WARM, 2_500),
        ("cold: a new connection each", "close", HOSTS, COLD, 1_000),
    ):
        rounds = size.of(ROUNDS, 1, 1)
        count = many // size.of(1, 5, 50)
        addresses = [there.url(number % hosts, f"{way}/{number}") for number in range(count)]
        worker = Worker(folder / way, there, HOSTS)
        worker.subscribe(addresses, [""] * count)
        ours, bare = uvloop.run(within(_in_turn(worker, there, addresses, rounds), _LIMIT_S))
        wall_s, cpu_s = (min(each[at] for each in ours) for at in (0, 1))
        more = ", ".join(f"{count / wall:,.0f}" for wall, _ in ours)
        yield Figure(name, count / wall_s, "messages/s", f"rounds {more}", target)
        yield Figure(f"{way}: of the processor's time", count / cpu_s, "messages/CPU-s")
        yield Figure(
            f"{way}: bare client", count / min(wall for wall, _ in bare), "posts/s",
            f"{count / min(cpu for _, cpu in bare):,.0f} posts/CPU-s",
        )  # fmt: skip
        share = 100 * min(cpu for _, cpu in bare) / cpu_s
        yield Figure(f"{way}: share of it, by processor time", share, "%")


async def _in_turn(
    worker: Worker, there: Endpoints, addresses: Sequence[str], rounds: int
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Run rounds of both; return seconds by the clock and of the processor. The first round opens the connections."""
    ours: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    running = await worker.run()
    async with bare_client(there) as client:
        for number in range(rounds + 1):
            there.taken()
            mine = await _round(worker, len(addresses))
            came = len(there.taken())
            if came != len(addresses):
                raise RuntimeError(f"{came} messages came, {len(addresses)} were due")
            others = await bare_round(client, addresses)
            if number:
                ours.append(mine)
                bare.append(others)
    await worker.end(running)
    return ours, bare


async def _round(worker: Worker, count: int) -> tuple[float, float]:
    """Send one alert to all subscriptions and wait for all responses; the time starts when the alert is recorded."""
    before = worker.dispatcher.counts.total()
    await asyncio.sleep(1.1)  # the queue collects messages for a second
    await asyncio.to_thread(worker.fire)
    began, used = perf_counter(), process_time()
    worker.dispatcher.wake()
    while worker.dispatcher.counts.total() - before < count or worker.waiting():
        await asyncio.sleep(0.02)
    return perf_counter() - began, process_time() - used


def bare_client(there: Endpoints) -> aiohttp.ClientSession:
    """Return a client without URL checks that trusts the endpoints' certificate."""
    trust = system_trust(str(there.certificate))
    connector = aiohttp.TCPConnector(limit=0, ssl=trust, resolver=_Hosts(), use_dns_cache=True)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


class _Hosts(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        (number,) = resolve(host)
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(hostname=host, host=number, port=port, proto=0, flags=flags, family=socket.AF_INET)
        ]

    async def close(self) -> None:
        pass


async def bare_round(client: aiohttp.ClientSession, addresses: Sequence[str]) -> tuple[float, float]:
    """Post bytes signed beforehand to each URL, with the worker's concurrency."""
    body = b'{"version":2,"text":"' + b"x" * 500 + b'","alerts":[]}'
    headers = {"content-type": "application/json", **signed("msg_bench", body, [SECRET], 10**18)}
    left = iter(addresses)

    async def post() -> None:
        for address in left:
            async with client.post(address, data=body, headers=headers) as response:
                await response.read()

    began, used = perf_counter(), process_time()
    await asyncio.gather(*(post() for _ in range(AT_ONCE)))
    return perf_counter() - began, process_time() - used


# -- delay


@dataclass(frozen=True, slots=True)
class Late:
    """Milliseconds from recording an alert to its first byte at the endpoint, by the endpoint's number."""

    ms: np.ndarray[Any, np.dtype[np.float64]]

    def at(self, percent: float) -> float:
        """Return a percentile."""
        return float(np.percentile(self.ms, percent))


def _lateness(folder: Path, there: Endpoints, size: Size) -> Iterator[Figure]:
    lasts_s = size.of(LASTS_S, 2.0, 0.5)
    ways = ["ok"] * ENDPOINTS
    late = _paced(folder / "in-turn", there, ways, lasts_s, in_turn=True)
    each = (
        f"{ALERTS_A_SECOND} alerts/s, {ENDPOINTS} endpoints, each every {ENDPOINTS / ALERTS_A_SECOND:.0f} s"
    )
    yield Figure("alert → first byte, p50", late.at(50), "ms", each, 100, at_least=False)
    yield Figure("… p99", late.at(99), "ms", f"{len(late.ms)} alerts", 1_000, at_least=False)
    late = _paced(folder / "at-random", there, ways, lasts_s, in_turn=False)
    yield Figure(
        "… of endpoints at random, p50", late.at(50), "ms", "some are within a second of the last: gathered"
    )
    yield Figure("… p99", late.at(99), "ms")


def _dead(folder: Path, there: Endpoints, size: Size) -> Iterator[Figure]:
    """Measure with and without failing endpoints, in turn; count only endpoints that work in both."""
    well, ill = ["ok"] * ENDPOINTS, ["ok"] * ENDPOINTS
    for number, way in zip(
        range(ENDPOINTS - DEAD, ENDPOINTS), ["hang", "500", "refuse"] * DEAD, strict=False
    ):
        ill[number] = way
    found: dict[str, list[Late]] = {"well": [], "ill": []}
    for number in range(size.of(2, 1, 1)):
        for name, ways in (("well", well), ("ill", ill)):
            lasts_s = size.of(LASTS_S, 2.0, 0.5)
            found[name].append(
                _paced(
                    folder / f"{name}{number}", there, ways, lasts_s, in_turn=True, counted=ENDPOINTS - DEAD
                )
            )
    best = {name: min(late.at(99) for late in runs) for name, runs in found.items()}
    said = ", ".join(
        f"{name} " + " and ".join(f"{late.at(99):.0f}" for late in runs) for name, runs in found.items()
    )
    yield Figure(f"p99 of the healthy, {DEAD} of {ENDPOINTS} dead", best["ill"], "ms", f"rounds: {said}")
    yield Figure("… against none dead", best["ill"] / best["well"], "×", "", 1.5, at_least=False)


def _paced(
    folder: Path, there: Endpoints, ways: Sequence[str], lasts_s: float, *, in_turn: bool, counted: int = ENDPOINTS
) -> Late:  # fmt: skip
    """Fire alerts at a fixed rate, each for one endpoint, and measure when they arrive."""
    worker = Worker(folder, there, HOSTS)
    addresses = [_address(there, number, way) for number, way in enumerate(ways)]
    symbols = [f"S{number}" for number in range(len(ways))]
    worker.subscribe(addresses, symbols)
    fired = uvloop.run(within(_fired(worker, symbols, lasts_s, in_turn=in_turn), _LIMIT_S))
    came = {key: taken.first_ns for taken in reversed(there.taken()) for key in taken.keys}
    wanted = {key: at_ns for key, at_ns in fired.items() if int(key[1:].partition(":")[0]) < counted}
    lost = wanted.keys() - came.keys()
    if lost:
        raise RuntimeError(f"{len(lost)} alerts did not come: {sorted(lost)[:3]}")
    return Late(np.array([(came[key] - at_ns) / 1e6 for key, at_ns in wanted.items()]))


def _address(there: Endpoints, number: int, way: str) -> str:
    """Return the URL of an endpoint; failing ones have separate hosts."""
    if way == "refuse":
        return f"https://h0.{DOMAIN}:1/{number}"
    return there.url(number % 100 if way == "ok" else 100 + number % 100, f"{way}/{number}")


async def _fired(worker: Worker, symbols: Sequence[str], lasts_s: float, *, in_turn: bool) -> dict[str, int]:
    """Return alerts by key and when each was passed on to be recorded; the first seconds do not count."""
    fired: dict[str, int] = {}
    chance, running = random.Random(1), await worker.run()
    order = list(symbols)
    chance.shuffle(order)
    began = perf_counter()
    total = round(ALERTS_A_SECOND * (_SETTLED_S + lasts_s))
    for number in range(total):
        await asyncio.sleep(max(0.0, began + number / ALERTS_A_SECOND - perf_counter()))
        symbol = order[number % len(order)] if in_turn else chance.choice(symbols)
        at_ns = monotonic_ns()
        key = await asyncio.to_thread(worker.fire, symbol)
        worker.dispatcher.wake()
        if number >= ALERTS_A_SECOND * _SETTLED_S:
            fired[key] = at_ns
    await asyncio.sleep(1.5)
    await worker.end(running)
    return fired


# -- many subscriptions


def _fan_out(folder: Path, there: Endpoints, size: Size) -> Iterator[Figure]:
    """Return the seconds until an alert is recorded and in the outbox for all subscriptions."""
    for count in size.of(_FAN_OUT, _FAN_OUT[:1], (100,)):
        worker = Worker(folder / f"fan-out{count}", there, HOSTS)
        worker.subscribe_all(there.url(0, "ok"), count)
        taken_s: list[float] = []
        for _ in range(3):
            began = perf_counter()
            worker.fire()
            taken_s.append(perf_counter() - began)
        if worker.waiting() != 3 * count:
            raise RuntimeError("an alert was not entered for everyone")
        worker.dispatcher.close()
        worker.database.close()
        more = "then " + ", ".join(f"{each:.2f}" for each in taken_s[1:])
        yield Figure(f"an alert entered for {count:,} subscriptions", taken_s[0], "s", more)

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
from bench.figures import Figure, Rounds, at_least, at_most
from bench.measurement import Size, within
from bench.outbound import SECRET, Endpoints, Worker, endpoints, resolve

from outcry.delivery.signing import signed
from outcry.delivery.trust import system_trust

HOSTS, AT_ONCE = 250, 256
WARM_HOSTS = 20
#: Subscriptions that receive one alert, and number of alerts.
WARM, COLD = 3_000, 1_000
ALERTS_A_SECOND, ENDPOINTS, DEAD = 100, 300, 90
_FAN_OUT = (10_000, 100_000)
LIMIT_S = 240.0


def goals(size: Size) -> Iterator[Figure]:
    """Compare one worker with a client that posts bytes signed beforehand to the same endpoints."""
    with TemporaryDirectory(prefix="outcry-bench-") as place, endpoints(Path(place), HOSTS) as there:
        for name, way, hosts, many, goal in (
            ("signed TLS deliveries, warm (connections kept)", "ok", WARM_HOSTS, WARM, 0.5),
            ("signed TLS deliveries, cold (a new connection each)", "close", HOSTS, COLD, 0.7),
        ):
            count = many // size.of(1, 3, 50)
            addresses = [there.url(number % hosts, f"{way}/{number}") for number in range(count)]
            worker = Worker(Path(place) / way, there, HOSTS)
            worker.subscribe(addresses, [""] * count)
            runs = uvloop.run(within(_in_turn(worker, there, addresses, size.rounds), LIMIT_S))
            ours, bare = (Rounds.of([cpu_s for _, cpu_s in each]) for each in runs)
            walls = [Rounds.of([wall_s for wall_s, _ in each]) for each in runs]
            note = f"{ours.rate(count)} to {bare.rate(count)} messages/CPU-s, "
            note += f"{walls[0].rate(count)} to {walls[1].rate(count)} by the clock"
            yield Figure.ratio(name, bare, ours, "a bare aiohttp client", at_least(goal), note)


def more(size: Size) -> Iterator[Figure]:
    """Measure delay, the cost of failing endpoints, and recording an alert for many subscriptions."""
    with TemporaryDirectory(prefix="outcry-bench-") as place, endpoints(Path(place), HOSTS) as there:
        folder = Path(place)
        yield from _lateness(folder, there, size)
        yield from _dead(folder, there, size)
        yield from _fan_out(folder, there, size)


# -- throughput


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
    ways = ["ok"] * ENDPOINTS
    late = _paced(folder / "in-turn", there, ways, size, in_turn=True)
    each = (
        f"{ALERTS_A_SECOND} alerts/s, {ENDPOINTS} endpoints, each every {ENDPOINTS / ALERTS_A_SECOND:.0f} s"
    )
    yield Figure("alert → first byte, p50", late.at(50), "ms", each, goal=at_most(100))
    yield Figure("alert → first byte, p99", late.at(99), "ms", f"{len(late.ms)} alerts", goal=at_most(1_000))
    late = _paced(folder / "at-random", there, ways, size, in_turn=False)
    note = f"p50 {late.at(50):.0f} ms; alerts within a second of the last one are gathered"
    yield Figure("alert → first byte, endpoints at random, p99", late.at(99), "ms", note)


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
            place = folder / f"{name}{number}"
            found[name].append(_paced(place, there, ways, size, in_turn=True, counted=ENDPOINTS - DEAD))
    best = {name: min(late.at(99) for late in runs) for name, runs in found.items()}
    said = ", ".join(
        f"{name} " + " and ".join(f"{late.at(99):.0f}" for late in runs) for name, runs in found.items()
    )
    name = f"alert → first byte, {DEAD} of {ENDPOINTS} endpoints dead: p99 of the others"
    yield Figure(name, best["ill"] / best["well"], "×", f"ms: {said}", "that with none dead", at_most(1.5))


def _paced(
    folder: Path, there: Endpoints, ways: Sequence[str], size: Size, *, in_turn: bool, counted: int = ENDPOINTS
) -> Late:  # fmt: skip
    """Fire alerts at a fixed rate, each for one endpoint, and measure when they arrive."""
    worker = Worker(folder, there, HOSTS)
    addresses = [_address(there, number, way) for number, way in enumerate(ways)]
    symbols = [f"S{number}" for number in range(len(ways))]
    worker.subscribe(addresses, symbols)
    fired = uvloop.run(within(_fired(worker, symbols, size, in_turn=in_turn), LIMIT_S))
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


async def _fired(worker: Worker, symbols: Sequence[str], size: Size, *, in_turn: bool) -> dict[str, int]:
    """Return alerts by key and when each was passed on to be recorded.

    The first seconds, in which the worker opens its connections, do not count.
    """
    settled_s, lasts_s = size.of(3.0, 3.0, 0.2), size.of(6.0, 2.0, 0.3)
    fired: dict[str, int] = {}
    chance, running = random.Random(1), await worker.run()
    order = list(symbols)
    chance.shuffle(order)
    began = perf_counter()
    total = round(ALERTS_A_SECOND * (settled_s + lasts_s))
    for number in range(total):
        await asyncio.sleep(max(0.0, began + number / ALERTS_A_SECOND - perf_counter()))
        symbol = order[number % len(order)] if in_turn else chance.choice(symbols)
        at_ns = monotonic_ns()
        key = await asyncio.to_thread(worker.fire, symbol)
        worker.dispatcher.wake()
        if number >= ALERTS_A_SECOND * settled_s:
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

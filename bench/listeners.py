"""A thousand readers of event streams: `python -m bench.listeners PORT KEYS SYMBOLS COUNT`.

KEYS is a file with one key per line; each has as many streams as its tier allows. It prints a JSON line when all
streams are open (`{"ready": ...}`). It counts from one line of input to the next, and prints the results. A reader
searches for the ends of events and for their names. It also reads the time of the newest trade in them, which yields
its age on arrival.
"""

import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, monotonic_ns

import numpy as np
import uvloop
from bench.paced_feed import BASE_NS

from outcry.access.tiers import STREAMS_ALLOWED

PATIENCE_S = 60.0
_TIME = b'"updatedAt":"'
_EVENT = b"event: "


class Totals:
    """Totals of all readers."""

    def __init__(self, count: int) -> None:
        self.missing = count
        self.all_there = asyncio.Event()
        self.counting = False
        self.events: Counter[bytes] = Counter()
        self.told: list[tuple[bytes, int]] = []
        self.bytes = 0
        self.lost = 0


class Reader(asyncio.Protocol):
    """Protocol of one stream."""

    def __init__(self, totals: Totals, ask: bytes) -> None:
        self._totals, self._ask = totals, ask
        self._rest = b""
        self._there = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request the stream."""
        transport.write(self._ask)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Count received events."""
        totals = self._totals
        if not self._there:
            if not data.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"refused: {data[:300]!r}")
            self._there = True
            totals.missing -= 1
            if not totals.missing:
                totals.all_there.set()
        if not totals.counting:
            self._rest = b""
            return
        totals.bytes += len(data)
        read_ns = monotonic_ns()
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            at = event.find(_EVENT)
            if at < 0:
                continue
            totals.events[event[at + len(_EVENT) :].split(b"\n", 1)[0]] += 1
            time = event.rfind(_TIME)
            if time >= 0:
                totals.told.append((event[time + len(_TIME) : time + len(_TIME) + 24], read_ns))

    def connection_lost(self, exc: Exception | None) -> None:
        """Record that the server closed the connection."""
        self._totals.lost += self._totals.counting


async def listen(port: int, keys: list[str], symbols: list[str], count: int) -> None:
    """Open all streams in groups, and count while asked to."""
    loop, totals = asyncio.get_running_loop(), Totals(count)
    each = STREAMS_ALLOWED["admin"]
    readers: list[asyncio.BaseTransport] = []
    for number in range(count):
        ask = f"GET /api/stream?symbols={symbols[number % len(symbols)]} HTTP/1.1\r\nhost: bench\r\n"
        ask += f"x-api-key: {keys[number // each]}\r\n\r\n"
        transport, _ = await loop.create_connection(
            lambda ask=ask: Reader(totals, ask.encode()), "127.0.0.1", port
        )
        readers.append(transport)
        if not number % 10:
            await asyncio.sleep(0.02)
    async with asyncio.timeout(PATIENCE_S):
        await totals.all_there.wait()
    await asyncio.sleep(2.0)
    _say(ready=count)
    await asyncio.to_thread(sys.stdin.readline)
    totals.counting, began_s = True, monotonic()
    await asyncio.to_thread(sys.stdin.readline)
    totals.counting, seconds = False, monotonic() - began_s
    ages = _ages(totals.told)
    _say(
        seconds=seconds, events={name.decode(): number for name, number in totals.events.items()}, bytes=totals.bytes,
        lost=totals.lost, now=monotonic_ns(), ages=[int(x) for x in np.percentile(ages, (50, 99, 100))] if ages else [],
    )  # fmt: skip
    for transport in readers:
        transport.abort()  # type: ignore[attr-defined]


def _ages(told: list[tuple[bytes, int]]) -> list[int]:
    """Return arrival (monotonic ns) minus event time since the feeds' beginning; the caller subtracts their zero."""
    times = {text: 0 for text, _ in told}
    for text in times:
        at = np.datetime64(text.decode().removesuffix("Z"), "ns").astype(np.int64)
        times[text] = int(at) - BASE_NS
    return [read_ns - times[text] for text, read_ns in told]


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    number, file, names, how_many = sys.argv[1:]
    uvloop.run(listen(int(number), Path(file).read_text().split(), names.split(","), int(how_many)))

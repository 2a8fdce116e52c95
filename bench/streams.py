"""A thousand readers of the event stream, with four updates of one symbol per second, compared with a bare server.

The service and its readers are separate processes on real sockets of this machine. Every product trades every 100
milliseconds, so that each of the four checks per second finds a change. The bare server only writes an event of the
same size to as many sockets, four times a second. Both have their readers at the same time.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any, ClassVar

import uvloop
from bench.figures import Figure, Rounds, at_least, at_most, shown
from bench.latency import add_keys, served
from bench.measurement import Scale, Size
from bench.processes import cpu_ns, pss_bytes
from bench.tape import PRODUCTS, contracts, lay_out
from support.engines.ports import free_ports

from outcry.access.tiers import STREAMS_ALLOWED
from outcry.trades.reference_tables import load_reference

READERS = 1_000
A_SECOND = 4
BEAT_MS = 100
LIMIT_S = 240.0
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def goals(size: Size) -> Iterator[Figure]:
    """Measure a thousand readers (a hundred if quick)."""
    readers, window_s = size.of((READERS, 4.0), (READERS, 3.0), (10, 0.5))
    with TemporaryDirectory(prefix="outcry-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        lay_out(folder / "data", history=size.of(20, 20, 1))
        keys = add_keys(folder / "data", -(-readers // STREAMS_ALLOWED["admin"]))
        (folder / "keys").write_text("\n".join(keys))
        task = {"data": str(folder / "data"), "out": str(folder / "notes.npz"), "feeds": 1, "rows_a_beat": 1,
                "beat_ms": BEAT_MS}  # fmt: skip
        service = stack.enter_context(served(task, folder / "errors"))
        port, zero_ns = service.wait_for("port"), service.wait_for("zero")
        sleep(size.of(3.0, 3.0, 0.5))
        empty = pss_bytes(service.process.pid)
        (idle,) = _windows([service.process.pid], size.rounds, window_s)
        with _listening(port, folder / "keys", 10, 1.0) as few:
            sample = json.loads(few())
        event_bytes = sample["bytes"] // max(1, sum(sample["events"].values()))
        bare_pid, bare_port = stack.enter_context(_bare_server(event_bytes))
        lasts_s = size.rounds * window_s
        with (
            _listening(port, folder / "keys", readers, lasts_s) as ours,
            _listening(bare_port, folder / "keys", readers, lasts_s) as theirs,
        ):
            used, bare = _windows([service.process.pid, bare_pid], size.rounds, window_s)
            found, least = json.loads(ours()), json.loads(theirs())
        memory = pss_bytes(service.process.pid) - empty
    extra = Rounds.of([cost - idle.median for cost in used.costs])
    if extra.best <= 0 and size.scale is not Scale.SMOKE:
        raise RuntimeError("the service needed less with readers than without: the machine is too busy")
    told = (found["events"].get("quote", 0) + found["events"].get("levels", 0)) / lasts_s
    bare_told = sum(least["events"].values()) / lasts_s
    note = f"{100 * extra.median:.0f} % to {shown(100 * bare.median)} % of a processor, "
    note += (
        f"{100 * idle.median:.0f} % without readers; {event_bytes} bytes an event, {bare_told:,.0f}/s there; "
    )
    note += f"{memory / readers / 1e3:.0f} kB a reader"
    name = f"SSE updates to {readers:,} readers, processor time"
    yield Figure.ratio(name, extra, bare, "a bare server", at_most(2), note)
    p50, p99, worst = ((age - zero_ns) / 1e6 for age in found["ages"])
    note = f"age of the newest trade: p50 {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms; {found['lost']} cut off"
    least_told = at_least(0.95 * readers * A_SECOND)
    yield Figure(f"SSE updates to {readers:,} readers", told, "a second", note, goal=least_told)


def _windows(pids: list[int], rounds: int, window_s: float) -> list[Rounds]:
    """Return the share of a processor that each process uses in windows of the same length."""
    shares: list[list[float]] = [[] for _ in pids]
    for _ in range(rounds):
        before = [cpu_ns(pid) for pid in pids]
        sleep(window_s)
        for each, pid, used in zip(shares, pids, before, strict=True):
            each.append((cpu_ns(pid) - used) / 1e9 / window_s)
    return [Rounds.of(each) for each in shares]


@contextmanager
def _listening(port: int, keys: Path, readers: int, seconds: float) -> Generator[Any]:
    """Run readers, which have opened their streams; the function yielded returns what they counted, as JSON."""
    symbols = ",".join(contract.root for contract in contracts(load_reference())[:PRODUCTS])
    command = [sys.executable, "-m", "bench.listeners", *map(str, (port, keys, symbols, readers, seconds))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listeners:
        timer = threading.Timer(LIMIT_S, listeners.kill)
        timer.start()
        try:
            assert listeners.stdout is not None
            if not listeners.stdout.readline():
                raise RuntimeError("the readers ended early")
            yield listeners.stdout.readline
        finally:
            timer.cancel()


# -- the minimal server


@contextmanager
def _bare_server(event_bytes: int) -> Generator[tuple[int, int]]:
    """Run the bare server; yield its process and port."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "bench.streams", str(port), str(event_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            yield server.pid, port
        finally:
            server.terminate()


class _Told(asyncio.Protocol):
    """A reader of the bare server."""

    everyone: ClassVar[set[asyncio.BaseTransport]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(_HEAD)  # type: ignore[attr-defined]
        self.everyone.add(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.everyone.discard(self._transport)


async def _tell_all(port: int, size: int) -> None:
    head = b"event: quote\ndata: "
    data = head + b"x" * max(0, size - len(head) - 2) + b"\n\n"
    await asyncio.get_running_loop().create_server(_Told, "127.0.0.1", port)
    print("up", flush=True)
    while True:
        for transport in tuple(_Told.everyone):
            transport.write(data)  # type: ignore[attr-defined]
        await asyncio.sleep(1 / A_SECOND)


if __name__ == "__main__":
    uvloop.run(_tell_all(int(sys.argv[1]), int(sys.argv[2])))

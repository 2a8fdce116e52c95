"""A thousand readers of the event stream, with four updates of one symbol per second, compared with a bare server.

The service and its readers are separate processes on real sockets of this machine. Every product trades every 20
milliseconds, so that each of the four checks per second finds a change. The comparator only writes an event of the same
size to as many sockets, four times a second.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, ClassVar

import uvloop
from bench.latency import add_keys, cpu_ns, served
from bench.measurement import Figure, Size
from bench.serving import pss_bytes
from bench.tape import PRODUCTS, contracts, lay_out
from support.engines.ports import free_ports

from outcry.access.tiers import STREAMS_ALLOWED
from outcry.trades.reference_tables import load_reference

READERS = 1_000
A_SECOND = 4
BEAT_MS = 20
LIMIT_S = 180.0
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def run(size: Size) -> Iterator[Figure]:
    """Measure a thousand readers (a hundred if quick)."""
    readers, seconds = size.of((READERS, 20.0), (100, 3.0), (10, 1.0))
    with TemporaryDirectory(prefix="outcry-bench-") as place:
        folder = Path(place)
        lay_out(folder / "data")
        keys = add_keys(folder / "data", -(-readers // STREAMS_ALLOWED["admin"]))
        (folder / "keys").write_text("\n".join(keys))
        task = {"data": str(folder / "data"), "out": str(folder / "notes.npz"), "feeds": 1, "rows_a_beat": 1,
                "beat_ms": BEAT_MS}  # fmt: skip
        with served(task, folder / "errors") as service:
            port, zero_ns = service.wait_for("port"), service.wait_for("zero")
            sleep(size.of(3.0, 3.0, 1.0))
            found = _heard(service.process.pid, port, folder / "keys", readers, seconds)
        bare = _bare(folder, readers, seconds, found)
    yield from _figures(found, bare, readers, seconds, zero_ns)


def _figures(
    found: dict[str, Any], bare: dict[str, Any], readers: int, seconds: float, zero_ns: int
) -> Iterator[Figure]:
    events = found["events"]
    told = (events.get("quote", 0) + events.get("levels", 0)) / seconds
    kinds = ", ".join(f"{number:,} {name}" for name, number in sorted(events.items()))
    more = f"{kinds} in {seconds:.0f} s"
    yield Figure(f"updates told to {readers:,} readers", told, "a second", more, 0.95 * readers * A_SECOND)
    yield Figure("readers cut off", found["lost"], "readers", "", 0, at_least=False)
    p50, p99, worst = ((age - zero_ns) / 1e6 for age in found["ages"])
    more = f"p50 {p50:.1f}, worst {worst:.0f}"
    yield Figure("age of the newest trade told, as it is read: p99", p99, "ms", more)
    cpu, least, idle = found["cpu_s"] / seconds, bare["cpu_s"] / seconds, found["idle"]
    size = found["bytes"] / max(1, sum(events.values()))
    yield Figure("processor time of the service", 100 * cpu, "%", f"{100 * idle:.0f} % without readers")
    yield Figure("… of it for an update", 1e6 * (cpu - idle) / told, "µs", f"{size:.0f} bytes each")
    more = f"{sum(bare['events'].values()) / seconds:.0f} a second of {size:.0f} bytes"
    yield Figure("bare server: processor time", 100 * least, "%", more)
    yield Figure("service without its feeds ÷ bare server", (cpu - idle) / least, "times")
    memory, whole = found["memory"], found["whole"] / 1e6
    more = f"{whole:.0f} MB with all, {whole - memory / 1e6:.0f} without"
    yield Figure("memory of the service for a reader (PSS)", memory / readers / 1e3, "kB", more)


def _heard(pid: int, port: int, keys: Path, readers: int, seconds: float) -> dict[str, Any]:
    """Start the readers, and measure the server's process meanwhile."""
    empty = pss_bytes(pid)
    before, began = cpu_ns(pid), monotonic()
    sleep(3.0)
    idle = (cpu_ns(pid) - before) / 1e9 / (monotonic() - began)
    symbols = ",".join(contract.root for contract in contracts(load_reference())[:PRODUCTS])
    command = [
        sys.executable,
        "-m",
        "bench.listeners",
        str(port),
        str(keys),
        symbols,
        str(readers),
        str(seconds),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listeners:
        timer = threading.Timer(LIMIT_S, listeners.kill)
        timer.start()
        try:
            assert listeners.stdout is not None
            ready = listeners.stdout.readline()
            before = cpu_ns(pid)
            counted = listeners.stdout.readline()
            cpu_s = (cpu_ns(pid) - before) / 1e9
            whole = pss_bytes(pid)
        finally:
            timer.cancel()
    if not ready or not counted:
        raise RuntimeError("the readers broke off")
    return json.loads(counted) | {"cpu_s": cpu_s, "idle": idle, "whole": whole, "memory": whole - empty}


# -- the minimal server


def _bare(folder: Path, readers: int, seconds: float, found: dict[str, Any]) -> dict[str, Any]:
    (port,) = free_ports(1)
    size = found["bytes"] // max(1, sum(found["events"].values()))
    command = [sys.executable, "-m", "bench.streams", str(port), str(size)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            return _heard(server.pid, port, folder / "keys", readers, seconds)
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

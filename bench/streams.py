"""A thousand readers of the event stream, with four updates of one symbol per second, compared with a bare server.

The service and its readers are separate processes on real sockets of this machine. Every product trades every 100
milliseconds, so that each of the four checks per second finds a change. The bare server only writes an event of the
same size to as many sockets, four times a second. A second service with the same trades has no readers; the difference
of the two services is what the readers cost. All three run at the same time, and costs are per event received.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any, ClassVar

import uvloop
from bench.figures import Figure, Rounds, at_least, at_most, shown
from bench.latency import Served, add_keys, served
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
        shutil.copytree(folder / "data", folder / "other")
        service = stack.enter_context(_service(folder / "data", folder))
        unread = stack.enter_context(_service(folder / "other", folder))
        port, zero_ns = service.wait_for("port"), service.wait_for("zero")
        unread.wait_for("zero")
        sleep(size.of(3.0, 3.0, 0.5))
        with _listening(port, folder / "keys", 10) as few:
            few.start()
            sleep(1.0)
            sample = few.counted()
        event_bytes = sample["bytes"] // max(1, sum(sample["events"].values()))
        bare_pid, bare_port = stack.enter_context(_bare_server(event_bytes))
        with (
            _listening(port, folder / "keys", readers) as ours,
            _listening(bare_port, folder / "keys", readers) as theirs,
        ):
            ours.start()
            theirs.start()
            pids = [service.process.pid, unread.process.pid, bare_pid]
            used, idle, bare = _windows(pids, size.rounds, window_s)
            memory = pss_bytes(service.process.pid) - pss_bytes(unread.process.pid)
            found, least = ours.counted(), theirs.counted()
    told, bare_told = (sum(each["events"].values()) / each["seconds"] for each in (found, least))
    extra = [whole - without for whole, without in zip(used.costs, idle.costs, strict=True)]
    if min(extra) <= 0 and size.scale is not Scale.SMOKE:
        raise RuntimeError("the service needed less with readers than without: the machine is too busy")
    note = f"{100 * median(extra):.1f} % to {shown(100 * bare.median)} % of a processor, "
    note += f"{100 * idle.median:.0f} % without readers; {event_bytes} bytes an event; "
    note += f"{told:,.0f} events/s to {bare_told:,.0f}/s; {memory / readers / 1e3:.0f} kB a reader"
    name = f"SSE updates to {readers:,} readers, processor time"
    ours_each, theirs_each = (
        Rounds.of([cost / rate for cost in costs]) for costs, rate in ((extra, told), (bare.costs, bare_told))
    )
    yield Figure.ratio(name, ours_each, theirs_each, "a bare server", at_most(2), note)
    p50, p99, worst = ((age - zero_ns) / 1e6 for age in found["ages"])
    note = f"age of the newest trade: p50 {p50:.0f} ms, p99 {p99:.0f} ms, worst {worst:.0f} ms; {found['lost']} cut off"
    least_told = at_least(0.95 * readers * A_SECOND)
    yield Figure(f"SSE updates to {readers:,} readers", told, "a second", note, goal=least_told)


@contextmanager
def _service(data: Path, folder: Path) -> Generator[Served]:
    """Run a service whose products trade ten times a second each."""
    task = {"data": str(data), "out": f"{data}.npz", "feeds": 1, "rows_a_beat": 1, "beat_ms": BEAT_MS}
    with served(task, folder / f"{data.name}.errors") as service:
        yield service


def _windows(pids: list[int], rounds: int, window_s: float) -> list[Rounds]:
    """Return the share of a processor that each process uses in windows of the same length."""
    shares: list[list[float]] = [[] for _ in pids]
    for _ in range(rounds):
        before = [cpu_ns(pid) for pid in pids]
        sleep(window_s)
        for each, pid, used in zip(shares, pids, before, strict=True):
            each.append((cpu_ns(pid) - used) / 1e9 / window_s)
    return [Rounds.of(each) for each in shares]


class _Readers:
    """A process of readers that have opened their streams. They count from `start` until `counted`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def start(self) -> None:
        """Make the readers count the events that they receive."""
        self._stdin.write("count\n")
        self._stdin.flush()

    def counted(self) -> dict[str, Any]:
        """End the streams; return what the readers counted."""
        self.start()
        return json.loads(self._stdout.readline())


@contextmanager
def _listening(port: int, keys: Path, readers: int) -> Generator[_Readers]:
    """Run readers, which have opened their streams."""
    symbols = ",".join(contract.root for contract in contracts(load_reference())[:PRODUCTS])
    command = [sys.executable, "-m", "bench.listeners", *map(str, (port, keys, symbols, readers))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as listeners:
        timer = threading.Timer(LIMIT_S, listeners.kill)
        timer.start()
        try:
            assert listeners.stdout is not None
            if not listeners.stdout.readline():
                raise RuntimeError("the readers ended early")
            yield _Readers(listeners)
        finally:
            timer.cancel()
            listeners.kill()


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
    due_s = monotonic()
    while True:
        for transport in tuple(_Told.everyone):
            transport.write(data)  # type: ignore[attr-defined]
        due_s += 1 / A_SECOND
        await asyncio.sleep(due_s - monotonic())


if __name__ == "__main__":
    uvloop.run(_tell_all(int(sys.argv[1]), int(sys.argv[2])))

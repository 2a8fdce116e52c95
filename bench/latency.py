"""Delay of the service at 50,000 trades per second: from a trade to its answer, and to its alert.

Sixty streams send 8 or 9 trades every 10 ms each, one after another. All times are from the machine's monotonic clock.
An answer's `updatedAt` states when its newest trade was due, and the service records when the trade was passed on.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any

import numpy as np
from bench.figures import Figure, Goal, at_least, at_most
from bench.measurement import Size, Unavailable
from bench.processes import cpu_ns, waited_ns
from bench.tape import FEEDS, STREAMS
from numpy.typing import NDArray

from outcry.app.installation import open_installation
from outcry.app.settings import read_settings

RATE = 50_000
BEAT_MS = 10
POLLED = ("ES", "GC", "ZN")
KEYS = 100
#: Interval between polls (s). An answer may have been available this much earlier than measured.
POLL_S = 0.001
START_S = 180.0
STRETCH_NS = 4_000_000_000
_MARK = b'"updatedAt":"'
Longs = NDArray[np.int64]


class Served:
    """A running service: its process, its port, and the start of its feeds."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.said: dict[str, int] = {}

    def wait_for(self, name: str) -> int:
        """Return a value that the process printed by this name; wait for it if needed."""
        until = monotonic() + START_S
        while name not in self.said:
            if monotonic() > until or self.process.poll() is not None:
                raise Unavailable(f"the service did not say its {name}")
            sleep(0.01)
        return self.said[name]

    def listen(self) -> None:
        """Read the output of the process."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said |= json.loads(line)


@contextmanager
def served(task: Mapping[str, Any], errors: Path) -> Generator[Served]:
    """Run `bench.service` with a task for the duration of the context; its notes are written at the end."""
    with errors.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.service", json.dumps(task)], stdout=subprocess.PIPE, stderr=log
        )
    service = Served(process)
    reader = threading.Thread(target=service.listen, daemon=True)
    reader.start()
    try:
        yield service
    finally:
        process.send_signal(signal.SIGINT)  # uvicorn raises a SIGTERM again once it has stopped
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        reader.join(5)


def add_keys(data: Path, count: int) -> list[str]:
    """Create keys of the highest tier."""
    with open_installation(read_settings({}, data=str(data))) as installation:
        return [
            installation.keys.create(f"bench{n}@example.com", "admin", installation.clock.now_ns())
            for n in range(count)
        ]


def run(laid: Path, folder: Path, size: Size) -> Iterator[Figure]:
    """Measure answers and alerts of one run, and the same feeds without the service."""
    data, out, seconds = folder / "late", folder / "notes.npz", size.of(20.0, 2.0, 2.0)
    _copy(laid, data)
    task = {
        "data": str(data),
        "out": str(out),
        "rows_a_beat": RATE * BEAT_MS / 1000 / STREAMS,
        "beat_ms": BEAT_MS,
    }
    bare_s = size.of(5.0, 2.0, 2.0)
    subprocess.run([sys.executable, "-m", "bench.service", json.dumps({**task, "bare": bare_s})], check=True,
                   stdout=subprocess.DEVNULL, timeout=START_S + bare_s)  # fmt: skip
    with np.load(out) as notes:
        events = _settled(notes["events"], int(notes["zero"]))
        yield from _late("the feeds alone: due → sent", events[:, 1], events[:, 2] - events[:, 1])
    out.unlink()
    keys = add_keys(data, KEYS)
    with served({**task, "asked_each": 60}, folder / "late.log") as service:
        port, zero_ns = service.wait_for("port"), service.wait_for("zero")
        sleep(max(0.0, (zero_ns - monotonic_ns()) / 1e9) + 1.0)
        before_ns, began = cpu_ns(service.process.pid), monotonic()
        waited_before_ns = waited_ns(service.process.pid)
        polled = [_poll(port, keys, symbol, seconds / len(POLLED)) for symbol in POLLED]
        taken_s = monotonic() - began
        share = (cpu_ns(service.process.pid) - before_ns) / 1e9 / taken_s
        queued = (waited_ns(service.process.pid) - waited_before_ns) / 1e9 / taken_s
    with np.load(out) as notes:
        yield from _figures(folder, dict(notes), polled, share, queued)


def _figures(
    folder: Path, notes: dict[str, Any], polled: list[list[tuple[int, int]]], share: float, queued: float
) -> Iterator[Figure]:
    base_ns, zero_ns = int(notes["base"]), int(notes["zero"])
    events = _settled(notes["events"], zero_ns)
    span_s = float(events[:, 1].max() - events[:, 1].min()) / 1e9
    beats = len(events) / span_s / STREAMS * BEAT_MS / 1000
    yield Figure(
        "events sent in time",
        100 * beats,
        "%",
        f"{RATE:,} trades/s offered for {span_s:.0f} s",
        goal=at_least(99),
    )
    more = f"it waited for a processor another {100 * queued:.0f} % of the time"
    yield Figure("processor time of the service, polled meanwhile", 100 * share, "%", more)
    yield from _disk(folder)
    yield from _late("due → sent", events[:, 1], events[:, 2] - events[:, 1])
    yield from _late("sent → applied, in the registry", events[:, 1], events[:, 3] - events[:, 2])
    asked: Longs = notes["asked"]
    yield from _late("sent → answered in process", asked[:, 0], asked[:, 1] - asked[:, 0])
    names = list(notes["names"])
    sent = {n: events[events[:, 0] == n] for n in range(len(names))}
    late = np.concatenate(
        [
            _seen(sent[names.index(f"{FEEDS[0]}/{symbol}")], np.array(answers, np.int64), zero_ns - base_ns)
            for symbol, answers in zip(POLLED, polled, strict=True)
        ]
    )
    more = f"{len(late):,} events of {len(POLLED)} symbols, {sum(map(len, polled)):,} answers polled"
    yield from _late("sent → read in an HTTP answer", late[:, 0], late[:, 1], at_most(5), more)
    waited: list[tuple[int, int]] = []
    for number, at_ns, posted_ns in notes["alerts"].tolist():
        mine, fired_ns = sent[number], at_ns - base_ns + zero_ns
        place = int(np.searchsorted(mine[:, 1], fired_ns))
        if place < len(mine) and fired_ns > mine[0, 1]:
            waited.append((fired_ns, posted_ns - int(mine[place, 2])))
    fired = np.array(waited, np.int64).reshape(-1, 2)
    more = f"{len(fired)} alerts"
    yield from _late(
        "sent → its alert recorded, in the registry", fired[:, 0], fired[:, 1], at_most(10), more
    )


def _settled(events: Longs, zero_ns: int) -> Longs:
    """Return events without those of the first second, in which all streams start."""
    return events[events[:, 1] > zero_ns + 1_000_000_000]


def _late(
    name: str, at_ns: NDArray[Any], late_ns: NDArray[Any], goal: Goal | None = None, more: str = ""
) -> Iterator[Figure]:
    """Yield the p99 of the best span of the run, because noise only adds delay.

    The p99 of the other spans and of the whole run are printed beside it. at_ns: when each late event was due.
    """
    if not len(late_ns):
        raise RuntimeError(f"nothing was measured: {name}")
    stretch = (at_ns - at_ns.min()) // STRETCH_NS
    parts = [late_ns[stretch == n] for n in range(int(stretch.max()) + 1)]
    each = sorted(
        float(np.percentile(part, 99)) / 1e6 for part in parts if len(part) > len(late_ns) / len(parts) / 2
    )
    p50, p99, worst = (float(x) / 1e6 for x in np.percentile(late_ns, (50, 99, 100)))
    spread = (
        f"stretches {', '.join(f'{value:.3g}' for value in each)}; whole run p50 {p50:.2f}, p99 {p99:.3g}, "
    )
    spread += f"worst {worst:.3g}" + (f"; {more}" if more else "")
    yield Figure(f"{name}: p99", each[0], "ms", spread, goal=goal)


def _seen(sent: Longs, answers: Longs, offset_ns: int) -> Longs:
    """Return when each event sent during polling was due, and the time from sending it to the first answer with it."""
    read_ns, due_ns = answers[:, 0], answers[:, 1] + offset_ns
    newest = np.maximum.accumulate(due_ns)
    mine = sent[(sent[:, 1] > newest[0]) & (sent[:, 1] <= newest[-1])]
    return np.column_stack((mine[:, 1], read_ns[np.searchsorted(newest, mine[:, 1])] - mine[:, 2]))


def _poll(port: int, keys: list[str], symbol: str, seconds: float) -> list[tuple[int, int]]:
    """Poll over one connection; return when each answer was read, and its event time (ns)."""
    asks = [
        b"GET /api/levels?symbol=%s HTTP/1.1\r\nhost: bench\r\nx-api-key: %s\r\n\r\n"
        % (symbol.encode(), key.encode())
        for key in keys
    ]
    found: list[tuple[int, int]] = []
    until = monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while monotonic() < until:
            sleep(POLL_S)
            line.sendall(asks[len(found) % len(asks)])
            body = _answer(line)
            read_ns = monotonic_ns()
            at = body.find(_MARK) + len(_MARK)
            told = datetime.fromisoformat(body[at : body.index(b'"', at)].decode())
            found.append((read_ns, round(told.timestamp() * 1000) * 1_000_000))
    return found


def _answer(line: socket.socket) -> bytes:
    """Read one answer; a status other than 200 ends the bench."""
    data = line.recv(65_536)
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += line.recv(65_536)
    if not data.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"not answered: {data[:300]!r}")
    head = data[:end].lower()
    at = head.index(b"content-length:") + len(b"content-length:")
    length = int(head[at:].split(b"\r\n", 1)[0])
    while len(data) < end + 4 + length:
        data += line.recv(65_536)
    return data[end + 4 :]


def _copy(laid: Path, data: Path) -> None:
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(laid, data)


def _disk(folder: Path) -> Iterator[Figure]:
    """Measure the latency of the disk, because an alert counts as recorded once it is on disk."""
    taken: list[float] = []
    with (folder / "synced").open("wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(4096))
            began = monotonic()
            os.fsync(file.fileno())
            taken.append(1e3 * (monotonic() - began))
    p50, p99 = (float(x) for x in np.percentile(taken, (50, 99)))
    yield Figure("the disk alone: 4 kB written and synced: p99", p99, "ms", f"p50 {p50:.2f}")

"""`GET /api/levels` over loopback, with real keys, exact limits and the request log, compared with simpler servers.

Each server runs on processor 0 and `wrk` on processor 1. The figure is requests per second of the server's processor
time, which a slow load generator or another process distorts least. A status other than 200 ends the bench.
"""

import os
import re
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep

from bench.market import write_recording
from bench.measurement import Figure, Size, Unavailable, installed_command
from support.engines.ports import free_ports

from outcry.access import key_format as form
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.recordings.file_model import ReadOptions

KEYS = 3_500  # fewer than the fast path caches, and enough for two rounds at 600 requests a minute each
CONNECTIONS = 32
SERVER_CPU, LOAD_CPU = 0, 1
START_S = 180.0
PATH = "/api/levels?symbol=ES"
#: Our two services by the value of `OUTCRY_FASTPATH`; their data folders have these names.
_SWITCHES = {"fast path": "1", "without fast path": "0"}

_LUA = """
local requests, at = {}, 0
function init(args)
  for key in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("GET", wrk.path, {["x-api-key"] = key})
  end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
"""

_NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile on; tcp_nopush on; open_file_cache max=8; types {{}}
  default_type application/json; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port}; root {folder};
    location = /memory {{ return 200 "{body}"; }}
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Load:
    """One round: requests per second of the server's processor time and by the clock, latencies in ms."""

    per_cpu_s: float
    per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Running:
    """A running server and its request."""

    process: subprocess.Popen[bytes]
    url: str
    ready_s: float


def run(size: Size) -> Iterator[Figure]:
    """Measure all servers in turn, three rounds of 4 s each (one of 1 s if quick)."""
    need("wrk", "nginx", "taskset")
    if (os.cpu_count() or 1) < 2:
        raise Unavailable("it takes two processors: one for the server, one for the load")
    rounds, seconds = size.of((3, 4), (1, 1), (1, 1))
    with TemporaryDirectory(prefix="outcry-bench-") as place, ExitStack() as stack:
        folder = Path(place)
        keys = _prepare(folder, size.of(KEYS, KEYS, 400))
        servers = _start_all(folder, keys[0], stack)
        loads: dict[str, list[Load]] = {name: [] for name in servers}
        if size is not Size.SMOKE:
            for server in servers.values():
                load(server, folder, 1)
        for _ in range(rounds):
            for name, server in servers.items():
                loads[name].append(load(server, folder, seconds))
        yield from _figures(loads)
        for name in ("fast path", "without fast path"):
            yield Figure(
                f"{name}: start to first answer", servers[name].ready_s, "s", "", 0.5, at_least=False
            )
            memory = pss_bytes(servers[name].process.pid) / 1e6
            yield Figure(f"{name}: memory after the load (PSS)", memory, "MB", "", 60, at_least=False)


def need(*programs: str) -> None:
    """Raise `Unavailable` if a program is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"{' and '.join(missing)} not found: make browser installs what Debian has")


def _prepare(folder: Path, count: int) -> list[str]:
    """Create a data folder for each of the two services, with a week of ES and the same keys; return the keys.

    A data folder serves one process only.
    """
    write_recording(folder / "es.dbn", 100_000)
    keys = [form.compose(secrets.randbits(form.SECRET_BITS)) for _ in range(count)]
    first, second = (folder / switch for switch in _SWITCHES.values())
    with open_installation(read_settings({}, data=str(first))) as installation:
        furnish(installation, folder / "es.dbn", keys)
    shutil.copytree(first, second)
    write_load(folder, keys)
    return keys


def furnish(installation: Installation, recording: Path, keys: list[str]) -> None:
    """Import a recording, and create these keys of the highest tier."""
    now_ns = installation.clock.now_ns()
    installation.importer.run(recording, 0, ReadOptions(), now_ns)
    user = installation.store.ensure_user("bench@example.com", now_ns)
    for key in keys:
        installation.store.add_key(user, "admin", form.prefix(key), installation.keys.digest(key), now_ns)


def write_load(folder: Path, keys: list[str]) -> None:
    """Write the input of `wrk`."""
    (folder / "keys").write_text("\n".join(keys) + "\n")
    (folder / "load.lua").write_text(_LUA)


def _start_all(folder: Path, key: str, stack: ExitStack) -> dict[str, Running]:
    """Start every server; they are idle until measured."""
    servers: dict[str, Running] = {}
    for name, switch in _SWITCHES.items():
        (port,) = free_ports(1)
        command = [installed_command(), "serve", "--data", str(folder / switch), "--port", str(port)]
        servers[name] = stack.enter_context(served(command, port, PATH, key, {"OUTCRY_FASTPATH": switch}))
    with urllib.request.urlopen(_asking(servers["fast path"].url, key), timeout=5) as answer:
        body = answer.read()
    (folder / "levels.json").write_bytes(body)
    for name, kind in (("bare uvicorn application", "asgi"), ("bare protocol", "protocol")):
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "bench.bare", kind, str(port), str(folder / "levels.json")]
        servers[name] = stack.enter_context(served(command, port, "/", key, {}))
    (port,) = free_ports(1)
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, port=port, body="x" * len(body)))
    nginx = stack.enter_context(
        served(["nginx", "-p", str(folder), "-c", str(config)], port, "/memory", key, {})
    )
    servers["nginx, from memory"] = nginx
    servers["nginx, static file"] = Running(
        nginx.process, nginx.url.replace("/memory", "/levels.json"), nginx.ready_s
    )
    return servers


@contextmanager
def served(command: list[str], port: int, path: str, key: str, more: dict[str, str]) -> Generator[Running]:
    """Run a server on its own processor for the duration of the context, once it is ready."""
    began = perf_counter()
    process = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CPU), *command],
        env={**os.environ, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}{path}"
    try:
        while perf_counter() - began < START_S and process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(_asking(url, key), timeout=5) as answer:
                answer.read()
                break
            sleep(0.005)
        else:
            raise Unavailable(f"it did not start: {' '.join(command)}")
        yield Running(process, url, perf_counter() - began)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _asking(url: str, key: str) -> urllib.request.Request:
    return urllib.request.Request(url, headers={"x-api-key": key})


def load(server: Running, folder: Path, seconds: int) -> Load:
    """Send requests as fast as the server answers."""
    before = _cpu_ns(server.process.pid)
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(folder / "load.lua")]
    done = subprocess.run(
        ["taskset", "-c", str(LOAD_CPU), *command, server.url, "--", str(folder / "keys")],
        capture_output=True, text=True, check=False, timeout=seconds + 30,
    )  # fmt: skip
    said = done.stdout
    if done.returncode:
        raise RuntimeError(f"wrk failed on {server.url}: {done.stderr or said}")
    used_s = (_cpu_ns(server.process.pid) - before) / 1e9
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"{server.url} did not answer everything with 200:\n{said}")
    requests = int(_found(r"(\d+) requests in", said)[0])
    return Load(
        per_cpu_s=requests / used_s,
        per_s=float(_found(r"Requests/sec:\s+([\d.]+)", said)[0]),
        p50_ms=_milliseconds(_found(r"50%\s+([\d.]+)(us|ms|s)", said)),
        p99_ms=_milliseconds(_found(r"99%\s+([\d.]+)(us|ms|s)", said)),
    )


def _found(pattern: str, text: str) -> tuple[str, ...]:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"wrk said nothing of {pattern}:\n{text}")
    return match.groups()


def _milliseconds(found: tuple[str, ...]) -> float:
    number, unit = found
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


def _cpu_ns(pid: int) -> int:
    """Return the processor time of a process, its threads and its children (first field of schedstat, ns)."""
    used = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        used += int((task / "schedstat").read_text().split()[0])
        used += sum(_cpu_ns(int(child)) for child in (task / "children").read_text().split())
    return used


def pss_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _figures(loads: dict[str, list[Load]]) -> Iterator[Figure]:
    rate = {
        name: statistics.median(load.per_cpu_s for load in rounds) / 1e3 for name, rounds in loads.items()
    }
    targets = {"fast path": 120.0}
    for name, rounds in loads.items():
        each = [load.per_cpu_s / 1e3 for load in rounds]
        wall = max(load.per_s for load in rounds) / 1e3
        p50, p99 = (min(getattr(load, field) for load in rounds) for field in ("p50_ms", "p99_ms"))
        spread = f"{min(each):.1f}–{max(each):.1f}, {len(each)} rounds; "
        spread += f"best {wall:.1f} k/s, p50 {p50:.2f}, p99 {p99:.2f} ms"
        yield Figure(name, rate[name], "k req/CPU-s", spread, targets.get(name))
    p99 = min(load.p99_ms for load in loads["fast path"])
    yield Figure("fast path: p99 of the best round", p99, "ms", "", 2, at_least=False)
    for name, other, target in (
        ("fast path", "nginx, from memory", 0.85),
        ("fast path", "nginx, static file", 1.2),
        ("fast path", "bare protocol", None),
        ("without fast path", "nginx, static file", 0.45),
        ("without fast path", "bare uvicorn application", None),
    ):
        yield Figure(f"{name} ÷ {other}", rate[name] / rate[other], "times", "medians", target)

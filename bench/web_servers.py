"""Servers on their own processor: Outcry with a week of ES and many keys, and nginx with the same answers as files."""

import os
import secrets
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

from bench.market import write_recording
from bench.measurement import Unavailable, installed_command
from support.engines.ports import free_ports

from outcry.access import key_format
from outcry.access.tiers import Tier
from outcry.app.installation import Installation, open_installation
from outcry.app.settings import read_settings
from outcry.database import schema
from outcry.recordings.file_model import ReadOptions

SERVER_CPU = 0
_START_S = 180.0
_TRADES = 100_000

#: `sendfile off` is faster for answers of this size. The headers are those of our answers.
_NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; sendfile off; tcp_nopush on; open_file_cache max=64; types {{}}
  default_type application/json; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port}; root {folder};
    {headers}
    location = /memory {{ return 200 "{body}"; }}
  }}
}}
"""
#: Headers that nginx writes itself.
_ITS_OWN = {"content-length", "content-type", "date", "server", "etag", "connection"}


@dataclass(frozen=True, slots=True)
class Running:
    """A running server."""

    process: subprocess.Popen[bytes]
    base: str


@contextmanager
def served(
    command: Sequence[str], port: int, ready: str, environment: Mapping[str, str]
) -> Generator[Running]:
    """Run a server on its own processor for the duration of the context, once a path is answered."""
    process = subprocess.Popen(
        ["taskset", "-c", str(SERVER_CPU), *command],
        env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    running = Running(process, f"http://127.0.0.1:{port}")
    try:
        wait_for_answer(process, running.base + ready)
        yield running
    finally:
        end(process)


def wait_for_answer(process: "subprocess.Popen[bytes]", url: str) -> None:
    """Wait until a server answers at all. Raises `Unavailable` if it ends or does not in time."""
    began = perf_counter()
    while perf_counter() - began < _START_S and process.poll() is None:
        with suppress(OSError):
            try:
                urllib.request.urlopen(url, timeout=5).close()
            except urllib.error.HTTPError as refusal:
                refusal.close()
            return
        sleep(0.005)
    raise Unavailable(f"it did not start: {process.args}")


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask a process to end, and wait for it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def service(data: Path, environment: Mapping[str, str]) -> Generator[Running]:
    """Run `outcry serve` on a data folder."""
    (port,) = free_ports(1)
    command = [installed_command(), "serve", "--data", str(data), "--port", str(port)]
    with served(command, port, "/healthz", environment) as running:
        yield running


@contextmanager
def nginx(folder: Path, headers: Mapping[str, str], body: int) -> Generator[Running]:
    """Run nginx, which sends the folder's files and, at `/memory`, a body of this many bytes, with these headers."""
    (port,) = free_ports(1)
    theirs = {name: value.replace('"', '\\"') for name, value in headers.items() if name not in _ITS_OWN}
    added = "\n    ".join(f'add_header {name} "{value}";' for name, value in theirs.items())
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, port=port, headers=added, body="x" * body))
    with served(["nginx", "-p", str(folder), "-c", str(config)], port, "/memory", {}) as running:
        yield running


def new_keys(count: int) -> list[str]:
    """Return new keys."""
    return [key_format.compose(secrets.randbits(key_format.SECRET_BITS)) for _ in range(count)]


def furnish(installation: Installation, folder: Path, keys: Mapping[Tier, Sequence[str]]) -> None:
    """Import a week of ES, and add these keys of each tier."""
    now_ns = installation.clock.now_ns()
    recording = folder / "es.dbn"
    write_recording(recording, _TRADES)
    installation.importer.run(recording, 0, ReadOptions(), now_ns)
    recording.unlink()
    user = installation.store.ensure_user("bench@example.com", now_ns)
    rows = [
        {"user_id": user, "tier": tier, "prefix": key_format.prefix(key), "digest": installation.keys.digest(key),
         "created_ns": now_ns, "role": "read", "label": ""}
        for tier, those in keys.items()
        for key in those
    ]  # fmt: skip
    with installation.database.write() as connection:
        connection.execute(schema.keys.insert(), rows)


def lay_out(
    data: Path, folder: Path, keys: Mapping[Tier, Sequence[str]], environment: Mapping[str, str]
) -> None:
    """Create a data folder with `furnish`."""
    with open_installation(read_settings(environment, data=str(data))) as installation:
        furnish(installation, folder, keys)

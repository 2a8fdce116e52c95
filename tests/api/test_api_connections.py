"""Limits on connections per client, and behaviour when file descriptors run out."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.api.harness import build_harness, served
from tests.api.wire import Wire, plain
from tests.timeouts import wait_until

from outcry.http.connections import LOOPBACK, Connections

ROOT = Path(__file__).parents[2]


class RecordedLog:
    """Log that stores its warnings."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def warning(self, event: str, **values: Any) -> None:
        self.lines.append({"event": event, **values})

    info = error = warning


class Seconds:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_one_client_has_its_most_and_others_theirs() -> None:
    open_now = Connections(RecordedLog(), 2)
    assert [open_now.enter("192.0.2.1", 9) for _ in range(2)] == [None, None]
    refusal = open_now.enter("192.0.2.1", 9)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (429, "rate_limited")
    assert open_now.enter("192.0.2.2", 9) is None
    open_now.leave("192.0.2.1")
    assert open_now.enter("192.0.2.1", 9) is None


def test_the_addresses_of_one_subscriber_are_one_client() -> None:
    """The addresses of an IPv6 /64 are one client; an IPv4-mapped IPv6 address is the IPv4 address."""
    open_now = Connections(RecordedLog(), 1)
    assert open_now.enter("2001:db8::1", 9) is None
    assert open_now.enter("2001:db8::ffff:1", 9) is not None
    assert open_now.enter("2001:db8:0:1::1", 9) is None
    assert open_now.enter("192.0.2.1", 9) is None
    assert open_now.enter("::ffff:192.0.2.1", 9) is not None


@pytest.mark.parametrize(
    "address", ["10.0.0.2", "2001:db8::7", "172.29.0.9", "127.0.0.1", "::1", "::ffff:10.0.0.2", ""]
)
def test_proxies_and_this_machine_are_not_capped(address: str) -> None:
    open_now = Connections(RecordedLog(), 1, f"{LOOPBACK},10.0.0.2, 2001:db8::7,172.29.0.0/24")
    assert [open_now.enter(address, 9) for _ in range(1000)] == [None] * 1000


def test_no_cap_is_no_cap() -> None:
    open_now = Connections(RecordedLog(), 0)
    assert [open_now.enter("192.0.2.1", 9) for _ in range(5000)] == [None] * 5000


@pytest.mark.parametrize(
    ("descriptors", "reserve"), [(100, 50), (256, 64), (1024, 128), (65_536, 1024), (1_048_576, 1024)]
)
def test_the_last_descriptors_are_kept_for_those_who_are_served(descriptors: int, reserve: int) -> None:
    """The system assigns the lowest free number, so a socket's own number shows how many are in use."""
    open_now = Connections(RecordedLog(), 0, "", descriptors)
    assert open_now.enter("192.0.2.1", descriptors - reserve - 1) is None
    refusal = open_now.enter("192.0.2.1", descriptors - reserve)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (503, "starting")
    assert open_now.open_of("192.0.2.1") == 1


def test_the_log_has_one_line_of_each_kind_in_ten_seconds_with_how_many_it_stands_for() -> None:
    log, now = RecordedLog(), Seconds()
    open_now = Connections(log, 1, "", 256, now)
    open_now.enter("192.0.2.1", 9)
    for _ in range(1000):
        open_now.enter("192.0.2.1", 9)
        open_now.enter("192.0.2.2", 250)
    now.now_s += 9.9
    open_now.enter("192.0.2.1", 9)
    assert [line["event"] for line in log.lines] == ["too_many_connections", "out_of_descriptors"]
    now.now_s += 0.2
    open_now.enter("192.0.2.1", 9)
    assert log.lines[2] == {
        "event": "too_many_connections",
        "times": 1001,
        "client": "192.0.2.1",
        "limit": 1,
    }


def test_whoever_has_too_many_can_read_why_and_the_others_are_answered() -> None:
    with (
        served(build_harness(), connections_per_client=3, uncapped="") as harness,
        ExitStack() as open_connections,
    ):
        key = harness.key()
        wires = [open_connections.enter_context(Wire(harness)) for _ in range(3)]
        for wire in wires:
            assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")
        with Wire(harness) as refused:
            answer = refused.ask(plain(key))
            assert answer.startswith(b"HTTP/1.1 429 ")
            assert b'"code":"rate_limited"' in answer
            assert b"\r\nconnection: close\r\n" in answer
            assert b"\r\nretry-after: 5\r\n" in answer
            assert b"x-ratelimit-limit: " in answer
            assert refused.closed_within(30)
        assert all(wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ") for wire in wires)
        wires.pop().socket.close()
        wait_until(lambda: harness.get("/healthz").status == 200)


def test_a_trusted_proxy_brings_more_than_one_clients_connections() -> None:
    binding = {"connections_per_client": 1, "uncapped": "", "trusted_proxies": "127.0.0.1"}
    with served(build_harness(), **binding) as harness, ExitStack() as open_connections:
        key = harness.key()
        for number in range(5):
            wire = open_connections.enter_context(Wire(harness))
            request = plain(key, more=f"X-Forwarded-For: 192.0.2.{number}\r\n")
            assert wire.ask(request).startswith(b"HTTP/1.1 200 ")


class Cramped:
    """A service with 256 file descriptors, in a separate process."""

    def __init__(self, loop: str) -> None:
        self._running = subprocess.Popen(
            [sys.executable, "-m", "tests.api.cramped", "256", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd=ROOT,
        )  # fmt: skip
        port, self.key = self._line().split()
        self.port = int(port)

    def _line(self) -> str:
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        assert line, "the service has ended"
        return line

    def say(self, command: str) -> Any:
        assert self._running.stdin is not None
        self._running.stdin.write(command + "\n")
        self._running.stdin.flush()
        return json.loads(self._line())

    def connect(self) -> Wire:
        return Wire(self)  # type: ignore[arg-type]

    def close(self) -> None:
        self._running.communicate(timeout=30)


@contextmanager
def cramped(loop: str) -> Iterator[Cramped]:
    service = Cramped(loop)
    try:
        yield service
    finally:
        service.close()


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_those_who_are_served_go_on_being_served_when_descriptors_run_out(loop: str) -> None:
    with cramped(loop) as service, ExitStack() as open_connections:
        first = open_connections.enter_context(service.connect())
        request = plain(service.key)
        assert first.ask(request).startswith(b"HTTP/1.1 200 ")
        statuses = []
        for _ in range(300):
            wire = open_connections.enter_context(service.connect())
            try:
                statuses.append(wire.ask(request)[9:12])
            except (EOFError, ConnectionError):  # beyond the few that are queued until they are read
                statuses.append(b"cut")
        assert statuses[:150] == [b"200"] * 150
        assert statuses[-1] != b"200"
        assert set(statuses) >= {b"200", b"503"}
        assert 256 - statuses.count(b"200") >= 64, "the reserve"
        for number in range(3):  # by the fast path and by the application
            assert first.ask(request).startswith(b"HTTP/1.1 200 ")
            assert first.ask(plain(service.key, more=f"x: {number}\r\n")).startswith(b"HTTP/1.1 200 ")
        assert service.say("log")["out_of_descriptors"] <= 2


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_service_without_any_descriptor_left_says_so_and_recovers(loop: str) -> None:
    with cramped(loop) as service, service.connect() as first:
        request = plain(service.key)
        assert first.ask(request).startswith(b"HTTP/1.1 200 ")
        assert service.say("hog") > 100
        with service.connect() as waiting:
            waiting.socket.settimeout(0.5)
            with pytest.raises((EOFError, OSError)):
                waiting.ask(request)
        assert first.ask(request).startswith(b"HTTP/1.1 200 ")
        assert first.ask(plain(service.key, more="x: 1\r\n")).startswith(b"HTTP/1.1 200 ")
        wait_until(lambda: service.say("log").get("out_of_descriptors", 0) >= 1)
        service.say("free")

        def answered() -> bool:
            with service.connect() as again:
                again.socket.settimeout(5)
                try:
                    return again.ask(request).startswith(b"HTTP/1.1 200 ")
                except (TimeoutError, EOFError, OSError):
                    return False

        wait_until(answered)

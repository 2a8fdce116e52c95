"""Parked connections: served beside the event loop's transports, and given back to them when necessary."""

import select
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.api.harness import Harness, build_harness, known, served
from tests.api.wire import Wire, plain
from tests.timeouts import wait_until

from outcry.http.parking import Parking
from outcry.http.protocol import EdgeProtocol

pytestmark = pytest.mark.skipif(not hasattr(select, "epoll"), reason="only Linux has epoll")


@pytest.fixture
def parked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record when connections are parked and given back. Request this fixture before `harness`."""
    seen: list[str] = []

    def watch(name: str) -> None:
        original: Callable[..., Any] = getattr(EdgeProtocol, name)

        def wrapped(self: EdgeProtocol, *args: Any) -> Any:
            seen.append(name)
            return original(self, *args)

        monkeypatch.setattr(EdgeProtocol, name, wrapped)

    for name in ("data_received", "unpark"):
        watch(name)
    return seen


def park(harness: Harness, wire: Wire, seen: list[str], key: str) -> None:
    """Ask until the connection is parked."""
    known(harness)

    def is_parked() -> bool:
        seen.clear()
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")
        return not seen

    wait_until(is_parked)


def test_a_parked_connection_is_answered_without_its_transport(parked: list[str], harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        park(harness, wire, parked, key)
        for _ in range(5):
            assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")
        assert parked == []


def test_another_request_gives_the_connection_back(parked: list[str], harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        park(harness, wire, parked, key)
        assert wire.ask(plain(key, "/api/levels?symbol=XX")).startswith(b"HTTP/1.1 404 ")
        assert parked == ["unpark"]
        park(harness, wire, parked, key)


def test_pieces_of_requests_are_put_together(parked: list[str], harness: Harness) -> None:
    key = harness.key()
    request = plain(key)
    with Wire(harness) as wire:
        for cut in (1, 30, len(request) - 1):
            park(harness, wire, parked, key)
            wire.send(request[:cut])
            wait_until(lambda: "unpark" in parked)
            assert wire.ask(request[cut:]).startswith(b"HTTP/1.1 200 ")


def test_pipelined_requests_are_answered_in_order(parked: list[str], harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        park(harness, wire, parked, key)
        wire.send(plain(key) + plain(key, "/api/symbols") + plain(key))
        bodies = [wire.read().partition(b"\r\n\r\n")[2][:9] for _ in range(3)]
        assert bodies == [b'{"symbol"', b'{"count":', b'{"symbol"']


def test_a_closed_connection_is_noticed(parked: list[str], harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        park(harness, wire, parked, key)
    wait_until(lambda: "unpark" in parked)
    with Wire(harness) as wire:  # it may have the same file descriptor
        park(harness, wire, parked, key)


def test_an_idle_parked_connection_is_closed(parked: list[str]) -> None:
    with served(build_harness(), keep_alive_s=2) as harness, Wire(harness) as wire:
        key = harness.key()
        park(harness, wire, parked, key)
        for _ in range(4):  # the time counts from the last answer
            time.sleep(0.8)
            assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")
        assert wire.closed_within(30)


class Kept:
    """Connection that records what it is given back."""

    def __init__(self) -> None:
        self.given = list[tuple[bytes, bytes]]()

    def unpark(self, received: bytes, unsent: bytes) -> None:
        self.given.append((received, unsent))

    def abort(self) -> None:
        raise AssertionError


class State:
    """State of a server."""

    def __init__(self) -> None:
        self.default_headers = [(b"date", b"now")]


def test_what_the_system_does_not_take_at_once_is_left_to_the_transport() -> None:
    response = bytes(range(256)) * 40_000
    here, there = socket.socketpair()
    kept = Kept()
    parking = Parking(lambda _data, _dated: response, State())
    with here, there:
        here.setblocking(False)
        parking.park(here.fileno(), kept)
        parking.run()
        assert kept.given == []
        there.send(b"question")
        parking.run()
        ((received, unsent),) = kept.given
        assert received == b""
        sent = len(response) - len(unsent)
        assert 0 < sent < len(response)
        assert response.endswith(unsent)
        found = b""
        while len(found) < sent:
            found += there.recv(1 << 20)
        assert found == response[:sent]
        parking.leave(here.fileno(), kept)  # it has left
    parking.close()


def test_an_unexpected_error_closes_only_its_connection(
    parked: list[str], harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = harness.key()
    with Wire(harness) as wire, Wire(harness) as other:
        park(harness, wire, parked, key)
        park(harness, other, parked, key)

        def fail(*_: object, **_more: object) -> None:
            raise RuntimeError

        with monkeypatch.context() as patch:
            patch.setattr(EdgeProtocol, "_handle_packet", fail)
            wire.send(plain(key, "/api/symbols"))
            assert wire.closed_within(30)
        assert other.ask(plain(key)).startswith(b"HTTP/1.1 200 ")


def test_the_service_stops_with_parked_connections(parked: list[str]) -> None:
    with served(build_harness()) as harness:
        wire = Wire(harness)
        park(harness, wire, parked, harness.key())
    assert wire.closed_within(30)
    wire.socket.close()

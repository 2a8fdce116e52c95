"""The demo's receiver on a real socket with TLS."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.timeouts import wait_until

from outcry.base.clock import SystemClock
from outcry.delivery.sink import LONGEST_BODY_BYTES, Manner
from outcry.delivery.sink_server import (
    AUTHORITY_FILE,
    CERTIFICATE_FILE,
    PORT_FILE,
    Receiver,
    receiver,
)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Receiver]:
    with receiver(tmp_path / "data", SystemClock(), slow_s=0.05) as made:
        yield made


def connected(running: Receiver) -> http.client.HTTPSConnection:
    trusting = ssl.create_default_context(cafile=str(running.authority))
    host, _, port = running.host.partition(":")
    return http.client.HTTPSConnection(host, int(port), timeout=30, context=trusting)


def post(
    running: Receiver, body: bytes = b"{}", path: str = "/in", **headers: str
) -> http.client.HTTPResponse:
    connection = connected(running)
    connection.request("POST", path, body, {"content-type": "application/json", **headers})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def wait_for_receipt(running: Receiver) -> None:
    wait_until(lambda: running.sink.receipts)


def test_the_receiver_stores_requests_unchanged(running: Receiver) -> None:
    assert running.sink.address == f"https://{running.host}/in"
    assert post(running, b'{"version":2}', **{"webhook-id": "msg_1"}).status == 200
    (receipt,) = running.sink.receipts
    assert receipt.body == b'{"version":2}'
    assert receipt.message_id == "msg_1"
    assert receipt.header("content-type") == "application/json"


@pytest.mark.parametrize(
    ("manner", "status", "header"),
    [
        (Manner.ERROR, 500, None),
        (Manner.GONE, 410, None),
        (Manner.BUSY, 429, ("retry-after", "30")),
        (Manner.REDIRECT, 302, ("location", "https://elsewhere.example.com/")),
    ],
)
def test_the_receiver_fails_as_scripted(
    running: Receiver, manner: Manner, status: int, header: tuple[str, str] | None
) -> None:
    running.sink.manner = manner
    answer = post(running)
    assert answer.status == status
    if header is not None:
        assert answer.headers[header[0]] == header[1]


def test_a_slow_response_delays_no_other(tmp_path: Path) -> None:
    with receiver(tmp_path, SystemClock(), slow_s=3600.0) as made:
        made.sink.manner = Manner.SLOW
        slow = connected(made)
        slow.request("POST", "/in", b"{}")
        wait_for_receipt(made)
        made.sink.manner = Manner.WELL
        assert post(made).status == 200
        slow.close()


def test_a_slow_response_is_sent_at_last(running: Receiver) -> None:
    running.sink.manner = Manner.SLOW
    assert post(running).status == 200


def test_too_long_or_foreign_requests_are_refused_and_not_stored(running: Receiver) -> None:
    assert post(running, b"x" * (LONGEST_BODY_BYTES + 1)).status == 413
    assert post(running, path="/other").status == 404
    connection = connected(running)
    connection.request("GET", "/in")
    assert connection.getresponse().status == 405
    connection.close()
    assert running.sink.receipts == []


def test_it_listens_on_this_machine_only(running: Receiver) -> None:
    port = int(running.host.partition(":")[2])
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("127.0.0.2", port))  # a receiver that listened everywhere would accept it


def test_it_is_where_it_was_the_last_time_if_it_can_be(tmp_path: Path) -> None:
    with receiver(tmp_path, SystemClock()) as first:
        with receiver(tmp_path / "other", SystemClock()) as other:
            assert other.host != first.host
        (tmp_path / "other" / PORT_FILE).write_text(first.host.partition(":")[2])
        with receiver(tmp_path / "other", SystemClock()) as moved:  # the port is in use
            assert moved.host != first.host
    with receiver(tmp_path, SystemClock()) as again:
        assert again.host == first.host
        assert post(again).status == 200
    for odd in ("", "port", "70000", "-1"):
        (tmp_path / PORT_FILE).write_text(odd)
        with receiver(tmp_path, SystemClock()) as restarted:
            assert post(restarted).status == 200


def test_its_key_is_its_owners_and_nobody_can_make_another_certificate(running: Receiver) -> None:
    folder = running.authority.parent
    assert running.authority.name == AUTHORITY_FILE
    assert (folder / CERTIFICATE_FILE).stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" in (folder / CERTIFICATE_FILE).read_text()
    assert "PRIVATE KEY" not in running.authority.read_text()


def test_clients_without_its_authority_do_not_trust_it(running: Receiver) -> None:
    host, _, port = running.host.partition(":")
    connection = http.client.HTTPSConnection(
        host, int(port), timeout=30, context=ssl.create_default_context()
    )
    with pytest.raises(ssl.SSLCertVerificationError):
        connection.request("POST", "/in", b"{}")
    connection.close()


def test_it_stops_while_a_response_is_pending(tmp_path: Path) -> None:
    with receiver(tmp_path, SystemClock(), slow_s=3600.0) as made:
        made.sink.manner = Manner.SLOW
        waiting = connected(made)
        waiting.request("POST", "/in", b"{}")
        wait_for_receipt(made)
    waiting.close()

"""Requirements of RFC 9110 and RFC 9112, and the exact limits of docs/reference/http.md."""

import os
import re
import subprocess
import sys
import threading
import time

import pytest
from tests.api.harness import Harness, build_harness, served
from tests.api.wire import Wire, plain

LIMIT = 128 * 1024  # docs/reference/http.md: "A request's head may have 128 KiB"


def status(answer: bytes) -> int:
    return int(answer[9:12])


def get(host: bytes, key: str, version: bytes = b"1.1") -> bytes:
    return b"GET /api/levels?symbol=ES HTTP/%s\r\n%sx-api-key: %s\r\n\r\n" % (version, host, key.encode())


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"Host: outcry\r\n", 200),
        (b"Host: outcry.example.com:8000\r\n", 200),
        (b"Host: [::1]:8000\r\n", 200),
        (b"Host: \t outcry \t\r\n", 200),
        (b"Host:\r\n", 200),  # valid if the target has no authority
        (b"", 400),
        (b"Host: outcry\r\nHost: outcry\r\n", 400),
        (b"Host: outcry\r\nhost: other\r\n", 400),
        (b"Host: outcry/path\r\n", 400),
        (b"Host: user@outcry\r\n", 400),
        (b"Host: out cry\r\n", 400),
        (b"Host: outcry:http\r\n", 400),
    ],
)
def test_a_request_names_its_host_once(harness: Harness, host: bytes, expected: int) -> None:
    with Wire(harness) as wire:
        answer = wire.ask(get(host, harness.key()))
        assert status(answer) == expected
        if expected == 400:
            assert b'"code":"invalid_parameter"' in answer
            assert b"Host" in answer
            assert wire.closed_within(30)


def test_http_1_0_may_do_without_a_host(harness: Harness) -> None:
    for host, expected in ((b"", 200), (b"Host: a\r\n", 200), (b"Host: a\r\nHost: b\r\n", 400)):
        with Wire(harness) as wire:
            assert status(wire.ask(get(host, harness.key(), b"1.0"))) == expected


@pytest.mark.parametrize("after", [b" ", b"\t", b" \t  "])
def test_white_space_around_a_value_is_no_part_of_it(harness: Harness, after: bytes) -> None:
    """White space around keys, ids and entity tags is ignored."""
    key = harness.key()
    with Wire(harness) as wire:
        first = wire.ask(plain(key))
        etag = re.search(rb'\r\netag: ("[0-9a-f]+")', first)
        assert etag
        more = b"X-Request-Id: job-7%s\r\nIf-None-Match:%s%s%s\r\n" % (after, after, etag[1], after)
        wire.send(plain(key + after.decode(), more=more.decode()))
        again = wire.read(bodiless=True)
    assert status(again) == 304
    assert b"\r\nx-request-id: job-7\r\n" in again


def long_head(key: str, size: int) -> bytes:
    """Create a request whose head, including the final empty line, has this many bytes."""
    padding = size - len(plain(key, more="x: \r\n"))
    return plain(key, more=f"x: {'a' * padding}\r\n")


def in_packets(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("packet", [LIMIT + 1, 50_000, LIMIT - 2])
def test_a_head_may_have_128_kib_and_not_a_byte_more(harness: Harness, packet: int) -> None:
    key = harness.key()
    for size, expected in ((LIMIT, 200), (LIMIT + 1, 400)):
        request = long_head(key, size)
        assert len(request) == size
        with Wire(harness) as wire:
            for piece in in_packets(request, packet):
                wire.send(piece)
                time.sleep(0.02)  # so that packets stay apart; the answer is the same otherwise
            answer = wire.read()
            assert status(answer) == expected
            assert (b"131072" in answer) == (expected == 400)


@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_the_limit_counts_each_head_of_a_pipeline_by_itself(harness: Harness, size: int) -> None:
    """The limit applies after requests without and with a body, and after empty lines."""
    key = harness.key()
    posted = (
        b"POST /api/levels HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\nContent-Length: 5000\r\n\r\n"
        % key.encode()
    )
    with Wire(harness) as wire:
        wire.send(plain(key) + posted + b"y" * 5000 + b"\r\n\r\n" + long_head(key, size))
        assert [status(wire.read()) for _ in range(3)] == [200, 405, 200 if size == LIMIT else 400]


def test_a_large_body_is_no_head(harness: Harness) -> None:
    """A head of 100 KiB and a body of 100 KiB are accepted by the head limit; an unexpected body is refused."""
    key = harness.key()
    with Wire(harness) as wire:
        wire.send(long_head(key, 100 * 1024) * 3)
        assert [status(wire.read()) for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(
    "malformed",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /api/levels HTTP/1.1\r\n\r\n",
        b"GET /" + b"a" * 2 * LIMIT,
        b"POST /api/levels HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
@pytest.mark.parametrize("before", [1, 3])
def test_valid_requests_before_malformed_bytes_are_answered(
    harness: Harness, malformed: bytes, before: int
) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        wire.send(plain(key) * before + malformed + plain(key))
        assert [status(wire.read()) for _ in range(before + 1)] == [200] * before + [400]
        assert wire.closed_within(30)
    assert len([line for line in harness.query.calls if line[0] == "levels"]) <= 1


def test_a_request_is_answered_first_though_its_answer_takes_longer_than_the_bytes_behind_it(
    harness: Harness,
) -> None:
    harness.query.gate = threading.Event()
    key = harness.key()
    with Wire(harness) as wire:
        wire.send(plain(key) + b"nonsense\r\n\r\n")
        time.sleep(0.1)
        wire.send(b"more nonsense")
        harness.query.gate.set()
        assert [status(wire.read()), status(wire.read())] == [200, 400]
        assert wire.closed_within(30)


def test_a_malformed_body_is_refused_in_its_turn(harness: Harness) -> None:
    """A push waits for a body that never arrives: it is cancelled, and the response is 400."""
    key = harness.key(role="ingest")
    with Wire(harness) as wire:
        wire.send(
            b"POST /api/ingest?feed=a HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
            % key.encode()
        )
        time.sleep(0.1)
        wire.send(b"zz\r\n")
        assert status(wire.read()) in (400, 403, 404)
        assert wire.closed_within(30)


UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"


def posted(key: str, head: bytes, body: bytes) -> bytes:
    return b"POST /api/ingest?feed=demo HTTP/1.1\r\nHost: outcry\r\nx-api-key: %s\r\n%s\r\n%s" % (
        key.encode(),
        head,
        body,
    )


@pytest.mark.parametrize("packet", [1, 7, 1 << 20])
def test_a_body_behind_a_wish_for_another_protocol_is_no_request(harness: Harness, packet: int) -> None:
    """A proxy with shared connections would pass the answer to such a request to another client."""
    hidden = get(b"Host: outcry\r\n", harness.key())
    head = UPGRADE + b"Content-Length: %d\r\n" % len(hidden)
    with Wire(harness) as wire:
        for part in in_packets(
            posted("none", head, hidden) + get(b"Host: outcry\r\n", harness.key()), packet
        ):
            wire.send(part)
        assert status(wire.read()) == 401  # the POST, whose key is invalid
        assert status(wire.read()) == 200  # the following GET
        wire.send(get(b"Host: outcry\r\n", "none"))
        assert status(wire.read()) == 401  # and nothing between them


def test_a_chunked_body_behind_a_wish_for_another_protocol_is_refused(harness: Harness) -> None:
    hidden = get(b"Host: outcry\r\n", harness.key())
    head = UPGRADE + b"Transfer-Encoding: chunked\r\n"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(hidden), hidden)
    with Wire(harness) as wire:
        assert status(wire.ask(posted("none", head, body))) == 400
        assert wire.closed_within(30)


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_allow_has_one_order_whatever_the_hash_seed(seed: str) -> None:
    """Starlette stores a route's methods in a set, whose order depends on the hash seed."""
    program = (
        "from starlette.routing import Route\n"
        "from outcry.http.errors import allow, allowed_at\n"
        "async def at(request): ...\n"
        "routes = [Route('/a', at, methods=['POST']), Route('/a', at, methods=['GET']), Route('/b', at)]\n"
        "scope = {'type': 'http', 'method': 'PUT', 'path': '/a', 'headers': []}\n"
        "print(allow(allowed_at(routes, scope)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    assert done.stdout.strip() == "GET, HEAD, POST"


@pytest.mark.parametrize("path", ["/api/levels", "/healthz", "/api/stream", "/openapi.json"])
def test_allow_is_the_same_at_every_address_that_is_read(harness: Harness, path: str) -> None:
    assert harness.get(path, harness.key(), method="DELETE").headers["allow"] == "GET, HEAD"


def test_who_is_silent_is_closed_after_the_time_for_a_request_and_empty_lines_do_not_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Requests must arrive within ten seconds (docs/reference/http.md), idle connections end after 30.

    The test uses half a second and ten minutes.
    """
    monkeypatch.setattr("outcry.http.strict_protocol.REQUEST_TIMEOUT_S", 0.5)
    with served(build_harness(), keep_alive_s=600) as harness:
        with Wire(harness) as silent:
            assert silent.closed_within(30)
        with Wire(harness) as empty:
            empty.socket.settimeout(0.1)
            ends = time.monotonic() + 30
            while time.monotonic() < ends:
                try:
                    empty.send(b"\r\n")
                    if empty.socket.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                pytest.fail("empty lines kept a connection open")
        with Wire(harness) as asked:  # after a request, the idle limit applies
            asked.ask(plain(harness.key()))
            assert not asked.closed_within(1.5)

"""Hostile requests: no error 500, no stack trace, no connection that stays open."""

import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.api.harness import Harness, build_harness, served
from tests.api.wire import Wire, plain

from outcry.base.redaction import holds_key


def raw(harness: Harness, data: bytes, patience_s: float = 2.0) -> bytes:
    """Send bytes on a new connection and return everything received until it is idle or closed."""
    with Wire(harness) as wire:
        reply = b""
        try:
            wire.send(data)
            wire.socket.settimeout(patience_s)
            while True:
                more = wire.socket.recv(65536)
                if not more:
                    return reply
                reply += more
                wire.socket.settimeout(0.15)
        except (TimeoutError, ConnectionError):
            return reply


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"(?:^|[}\n])HTTP/1\.1 ([0-9]{3}) ", answer)]


def check(harness: Harness, answer: bytes) -> None:
    assert not [status for status in statuses(answer) if status >= 500], answer
    assert b"Traceback" not in answer
    for head in re.findall(rb"HTTP/1\.1 [0-9]{3} .*?\r\n\r\n", answer, re.DOTALL):
        if not head.startswith(b"HTTP/1.1 100 "):
            assert b"x-ratelimit-limit: " in head, head
            assert b"x-api-tier: " in head, head
            assert b"x-request-id: " in head, head


TARGETS = [
    "http://outcry/api/levels?symbol=ES",
    "http://outcry:80/api/levels?symbol=ES",
    "//api/levels",
    "*",
    "/",
    "/%",
    "/%zz",
    "/api/%2e%2e/healthz",
    "/api/levels?symbol=%",
    "/api/levels?symbol=%zz",
    "/api/levels?%",
    "/api/levels?&&&=&=",
    "/api/levels?symbol=ES#fragment",
    "/api/levels;a=b?symbol=ES",
    "/\\api\\levels",
    "/api/levels?symbol=ES?symbol=ES",
    "/api/levels?symbol=" + "%41" * 20000,
    "/" + "a" * 60000,
    "/api/" + "../" * 5000,
    "api/levels",
    "?",
    "http://",
    "http:///",
    "/api/levels?symbol[]=ES",
    "/api/levels?" + "a=1&" * 10000,
    "/api/levels?symbol=\x7f",
    "/api/\xff\xfe",
    "outcry:80",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("method", ["GET", "OPTIONS", "CONNECT", "TRACE"])
def test_targets(harness: Harness, method: str, target: str) -> None:
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nx-api-key: {harness.key()}\r\n\r\n"
    answer = raw(harness, head.encode("latin-1"))
    assert len(statuses(answer)) == 1
    check(harness, answer)
    assert harness.get("/healthz").status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\r\n" * 50,
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"BREW / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX-Request-Id: a\r\n b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET /healthz HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"GET /api/levels HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000 + b"\r\n",
        b"GET / HTTP/1.1\r\na: " + b"b" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"a" * 300_000,
        b"GET /" + b"a" * 300_000,
        b"a" * 300_000,
        b"POST /api/levels HTTP/1.1\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 300_000,
    ],
)
def test_what_is_hardly_http(harness: Harness, data: bytes) -> None:
    check(harness, raw(harness, data, 0.3))
    assert harness.get("/healthz").status == 200
    assert b"Traceback" not in harness.log.getvalue()


def test_malformed_http_is_told_in_our_own_words(harness: Harness) -> None:
    answer = raw(harness, b"GET / HTTP/1.1\r\nbad header\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'"code":"invalid_parameter"' in answer
    assert b"\r\nconnection: close\r\n" in answer


def test_http_1_0_is_answered_and_closed(harness: Harness) -> None:
    with Wire(harness) as wire:
        wire.send(plain(harness.key()).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert wire.read().startswith(b"HTTP/1.1 200 ")
        assert wire.closed_within(30)


@pytest.mark.parametrize(
    "name", ["x-api-key", "accept", "accept-language", "if-none-match", "x-request-id", "cookie"]
)
@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        ";q=",
        "\x80\xff",
        "é" * 500,
        "*" * 500,
        "a;q=1e999",
        "q=0." + "9" * 500,
        '"',
        "W/",
        "%00",
        "\t",
    ],
)
def test_header_values(harness: Harness, name: str, value: str) -> None:
    more = "" if name == "x-api-key" else f"x-api-key: {harness.key()}\r\n"
    for path in ("/api/levels?symbol=ES", "/api/levels?symbol=XX"):
        head = f"GET {path} HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\n{name}: {value}\r\n{more}\r\n"
        check(harness, raw(harness, head.encode("latin-1"), 1))


def test_a_header_cannot_be_smuggled_through_the_request_id(harness: Harness) -> None:
    for value in ("a\r\n x: y", "a%0d%0ax: y", "a\x85x: y", "a\u0130".encode().decode("latin-1")):
        head = f"GET /healthz HTTP/1.1\r\nHost: a\r\nX-Request-Id: {value}\r\n\r\n".encode("latin-1")
        answer = raw(harness, head)
        assert b"x: y" not in answer
        check(harness, answer)


def test_two_key_headers_are_one_too_many(harness: Harness) -> None:
    key = harness.key()
    for second in (key, "", "nothing"):
        with Wire(harness) as wire:
            answer = wire.ask(plain(key, more=f"X-API-Key: {second}\r\n"))
            assert answer.startswith(b"HTTP/1.1 401 ")


def test_the_header_name_is_known_in_any_case_and_the_limit_is_the_same(harness: Harness) -> None:
    key = harness.key("free")
    with Wire(harness) as wire:
        for left, name in zip(range(29, 0, -1), ["x-api-key", "X-API-KEY", "X-Api-Key"] * 10, strict=False):
            answer = wire.ask(plain(key).replace(b"x-api-key", name.encode()))
            assert b"x-ratelimit-remaining: %d\r\n" % left in answer


def test_forwarded_addresses_are_not_believed(harness: Harness) -> None:
    for number in range(30):
        harness.get("/api/levels", headers={"X-Forwarded-For": f"192.0.2.{number}"})
    assert harness.get("/api/levels", headers={"X-Forwarded-For": "192.0.2.99"}).status == 429


def test_metrics_are_not_for_who_comes_through_a_proxy(harness: Harness) -> None:
    assert harness.get("/metrics").status == 200
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        assert harness.get("/metrics", headers={name: "192.0.2.1"}).status == 403
    with served(build_harness(open_metrics=True)) as other:
        assert other.get("/metrics", headers={"Via": "1.1 a"}).status == 200


def drip(wire: Wire) -> None:
    """Send one byte at a time for half a minute."""
    for _ in range(600):
        wire.send(b"a")
        time.sleep(0.05)


def test_who_says_nothing_or_never_ends_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.http.strict_protocol.REQUEST_TIMEOUT_S", 0.5)
    with served(build_harness(), keep_alive_s=1) as harness:
        for first in (
            b"",
            b"GET /healthz HT",
            b"GET /healthz HTTP/1.1\r\nHost: a\r\n",
            b"GET /healthz HTTP/1.1\r\na: b\r\n",
            b"\r\n",
        ):
            with Wire(harness) as wire:
                wire.send(first)
                assert wire.closed_within(30), first
        with Wire(harness) as wire, pytest.raises(OSError):  # noqa: PT011 - reset or a broken pipe
            drip(wire)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    head=st.binary(max_size=60),
    tail=st.lists(
        st.sampled_from([b"\r\n", b"\n", b" ", b"HTTP/1.1", b":", b"GET", b"?", b"\x00", b"chunked"]),
        max_size=8,
    ),
)
def test_any_bytes(harness: Harness, head: bytes, tail: list[bytes]) -> None:
    check(
        harness,
        raw(
            harness,
            b"GET /api/levels?symbol=" + head + b"".join(tail) + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            0.05,
        ),
    )


@pytest.mark.parametrize("filler", ["+", "%20", "&key[", "[", "%2525", ";", "=", "&"])
def test_no_query_takes_long_to_judge(filler: str) -> None:
    """Validation precedes all limits, so a backtracking pattern would let one request block all others."""
    query = b"key" + filler.encode() * (120_000 // len(filler)) + b"!"
    started = time.thread_time()
    holds_key(query)
    assert time.thread_time() - started < 5

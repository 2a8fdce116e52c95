"""The fast path returns the same bytes as the application over real sockets, and skips no check."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from tests.api.harness import SECOND, SERVER_SECRET, Harness, build_harness, known, served
from tests.api.wire import Wire, plain
from tests.timeouts import wait_until

from outcry.access.keys import ApiKeys
from outcry.access.model import Tier
from outcry.api.app import Application
from outcry.http.edge import WHOLE
from outcry.http.fastpath import FastPathCache

MASKS = [
    (rb"x-request-id: [0-9a-f]{12}-[0-9a-f]{8}", b"x-request-id: ID"),
    (rb"\r\ndate: [^\r]{29}\r", b"\r\ndate: NOW\r"),
]


ID = re.compile(rb"[0-9a-f]{12}-[0-9a-f]{8}")


def masked(response: bytes) -> bytes:
    for pattern, mask in MASKS:
        response, count = re.subn(pattern, mask, response)
        assert count == 1, response
    return ID.sub(b"ID", response)  # the body of an error contains the id too


def cached(harness: Harness) -> int:
    return len(harness.app.fast_path)


@pytest.fixture(autouse=True)
def patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the time after which polls are stale to a minute: a slow machine would interrupt the fast path."""
    if "silent" not in request.node.name:
        monkeypatch.setattr("outcry.http.revision_poller.STALE_NS", 60 * SECOND)


@contextmanager
def by(way: str) -> Iterator[Harness]:
    """Start a service that answers by the fast path, from memory, or by the application alone."""
    with pytest.MonkeyPatch.context() as patch:
        if way == "application":
            patch.setattr(Application, "answer_at_once", lambda *_: None)
        with served(build_harness(), fastpath=way == "fast path") as harness:
            yield harness


WAYS = ("fast path", "at once", "application")


def asked_by(way: str, tier: Tier, request: Callable[[str], bytes], times: int = 4) -> list[bytes]:
    """Return the masked responses to the same request, sent several times."""
    with by(way) as harness, Wire(harness) as wire:
        sent = request(harness.key(tier))
        known(harness)
        answers = []
        for _ in range(times):
            wire.send(sent)
            answers.append(masked(wire.read()))
        assert cached(harness) == (2 if way == "fast path" else 0)
        return answers


#: Every combination of path, tier and white space around the key.
PAIRS = [
    (path, tier, around)
    for row, path in enumerate(
        ["/api/levels?symbol=ES", "/api/symbols", "/api/profile?symbol=es&date=2026-01-02"]
    )
    for column, around in enumerate([b"%s", b"%s ", b"%s\t", b"  \t%s \t "])
    for tier in [("free", "pro", "admin")[(row + column) % 3]]
]


@pytest.mark.parametrize(("path", "tier", "around"), PAIRS)
def test_byte_for_byte_what_the_application_sends(
    path: str, tier: Tier, around: bytes, hot: list[bool]
) -> None:
    """White space around the key is not part of the header's value (RFC 9110 §5.5)."""

    def request(key: str) -> bytes:
        return plain(key, path).replace(key.encode(), around % key.encode())

    answers = [asked_by(way, tier, request) for way in WAYS]
    assert hot == [False, False, True, True]
    assert answers[0][0].startswith(b"HTTP/1.1 200 ")
    assert answers[0] == answers[1] == answers[2]


GERMAN_PROBLEM = "Accept: application/problem+json\r\nAccept-Language: de\r\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/levels?symbol=XX", b"404"),
        ("/api/nothing", b"404"),
        ("/api/levels?symbol=NQ", b"409"),
        ("/api/profile?symbol=ES&date=2026-02-30", b"400"),
    ],
)
@pytest.mark.parametrize("more", ["", GERMAN_PROBLEM])
def test_an_error_is_byte_for_byte_the_applications(
    path: str, status: bytes, more: str, hot: list[bool]
) -> None:
    answers = [asked_by(way, "pro", lambda key: plain(key, path, more)) for way in WAYS]
    assert hot[-2:] == [True, True]
    assert answers[0][0][9:12] == status
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("more", ["", GERMAN_PROBLEM])
def test_a_refusal_over_the_limit_is_byte_for_byte_the_applications(more: str, hot: list[bool]) -> None:
    answers = [asked_by(way, "free", lambda key: plain(key, more=more), 33) for way in WAYS]
    assert hot[-3:] == [True, True, True]
    assert [answer[9:12] for answer in answers[0]] == [b"200"] * 30 + [b"429"] * 3
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("tag", ["%s", "W/%s", '"other", %s', "*", '"00000000000000000000000000000000"'])
def test_a_conditional_request_is_answered_byte_for_byte_as_by_the_application(tag: str) -> None:
    answers: list[list[bytes]] = []
    for way in WAYS:
        with by(way) as harness, Wire(harness) as wire:
            key = harness.key()
            first = wire.ask(plain(key))
            etag = re.search(rb'etag: ("[0-9a-f]{32}")', first)
            assert etag is not None
            given = tag.replace("%s", etag[1].decode())
            answers.append([])
            for name in ("If-None-Match", "if-none-match", "IF-NONE-MATCH") * 2:
                wire.send(plain(key, more=f"{name}: {given}\r\n"))
                answers[-1].append(masked(wire.read(bodiless="000" not in given)))
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0].startswith(b"HTTP/1.1 200 " if "000" in tag else b"HTTP/1.1 304 ")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /api/levels?symbol=ES",
        "HEAD /api/levels?symbol=ES",
        "GET /api/levels?symbol=XX",
        "GET /api/levels",
        "POST /api/levels",
        "GET /api/nothing",
    ],
)
@pytest.mark.parametrize("more", ["", "Connection: close\r\n", "If-None-Match: *\r\n"])
def test_a_response_written_in_one_piece_is_the_one_uvicorn_writes(
    request_line: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[bytes] = []
    for whole in (True, False):
        monkeypatch.setattr("outcry.http.protocol.WHOLE", WHOLE if whole else "unknown extension")
        with served(build_harness()) as harness, Wire(harness) as wire:
            head = plain(harness.key(), more=more).partition(b" HTTP/1.1")[2]
            wire.send(request_line.encode() + b" HTTP/1.1" + head)
            bodiless = request_line.startswith("HEAD") or ("symbol=ES" in request_line and "None" in more)
            answers.append(ID.sub(b"ID", masked(wire.read(bodiless=bodiless))))
            if "close" in more:
                assert b"\r\nconnection: close\r\n" in answers[-1]
                assert wire.closed_within(30)
    assert answers[0] == answers[1]


def test_a_repeated_request_line_and_repeated_header_lines_are_enough(
    hot: list[bool], harness: Harness
) -> None:
    ann, bob = harness.key(), harness.key()
    known(harness)
    with Wire(harness) as wire, Wire(harness) as second:
        wire.ask(plain(ann))  # computed
        wire.ask(plain(ann))  # from memory, and cached for the fast path
        second.ask(plain(ann))
        wire.ask(plain(bob))
        wire.ask(plain(bob))
        wire.ask(plain(ann, more="traceparent: 1\r\n"))
        wire.ask(plain(ann, "/api/levels?symbol=es"))
        wire.ask(plain(ann, "/api/levels?symbol=es"))
        wire.ask(plain(bob, "/api/levels?symbol=es"))
    assert hot == [False, False, True, False, True, False, False, False, True]


def test_a_new_tag_does_not_make_the_request_a_new_one(hot: list[bool], harness: Harness) -> None:
    key = harness.key()
    known(harness)
    with Wire(harness) as wire:
        for number in range(4):
            wire.ask(plain(key, more=f'If-None-Match: "{number:032x}"\r\n'))
        wire.ask(plain(key))
    assert hot == [False, False, True, True, True]


def test_callers_with_other_permissions_do_not_share_answers(hot: list[bool], harness: Harness) -> None:
    harness.query.private_to = 1
    ann, bob = harness.key(), harness.key(email="bob@example.com")
    known(harness)
    with Wire(harness) as wire:
        for _ in range(3):
            assert wire.ask(plain(ann)).startswith(b"HTTP/1.1 200 ")
            assert wire.ask(plain(bob)).startswith(b"HTTP/1.1 409 ")
    assert hot[-2:] == [True, True]


def test_callers_of_other_tiers_have_their_own_limits(hot: list[bool], harness: Harness) -> None:
    pro, free = harness.key("pro"), harness.key("free")
    known(harness)
    with Wire(harness) as wire:
        for left in (119, 118, 117):
            assert b"x-ratelimit-remaining: %d\r\n" % left in wire.ask(plain(pro))
        for left in (29, 28, 27):
            reply = wire.ask(plain(free))
            assert b"x-api-tier: free\r\n" in reply
            assert b"x-ratelimit-remaining: %d\r\n" % left in reply
    assert hot == [False, False, True, False, True, True]


def test_a_missing_symbol_is_looked_for_again_after_a_second(hot: list[bool], harness: Harness) -> None:
    key = harness.key()
    known(harness)
    with Wire(harness) as wire:
        for _ in range(3):
            assert wire.ask(plain(key, "/api/levels?symbol=XX")).startswith(b"HTTP/1.1 404 ")
        assert hot == [False, False, True]
        assert len(harness.query.calls) == 1
        harness.clock.at_ns += SECOND
        assert wire.ask(plain(key, "/api/levels?symbol=XX")).startswith(b"HTTP/1.1 404 ")
        assert len(harness.query.calls) == 2


@pytest.mark.parametrize("hosts", [b"", b"Host: outcry\r\nHost: outcry\r\n", b"Host: out cry\r\n"])
def test_bytes_that_name_no_host_are_refused_on_both_ways(hosts: bytes) -> None:
    answers: dict[bool, bytes] = {}
    for fastpath in (True, False):
        with served(build_harness(), fastpath=fastpath) as harness:
            request = plain(harness.key())
            with Wire(harness) as wire:
                for _ in range(3):
                    assert wire.ask(request).startswith(b"HTTP/1.1 200 ")
                refused = wire.ask(request.replace(b"Host: outcry\r\n", hosts))
                answers[fastpath] = ID.sub(b"ID", masked(refused))
                assert wire.closed_within(30)
    assert answers[True] == answers[False]
    assert answers[True].startswith(b"HTTP/1.1 400 ")


def test_limits_are_shared_with_the_application_and_exact(harness: Harness) -> None:
    key = harness.key("free")
    with Wire(harness) as wire:
        for left in range(29, -1, -1):
            request = plain(key) if left % 3 else plain(key, more="X-Request-Id: job\r\n")
            assert b"x-ratelimit-remaining: %d\r\n" % left in wire.ask(request)
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 429 ")
        harness.clock.at_ns += 70 * SECOND  # a step of the machine's clock opens no new window
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 429 ")
        harness.steady.at_ns += 60 * SECOND
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")


def refused(harness: Harness, wire: Wire, key: str) -> bytes:
    """Return the refusal of a key once the service has polled its store."""
    known(harness)
    reply = wire.ask(plain(key))
    assert reply.startswith(b"HTTP/1.1 401 ")
    return reply


def test_a_revoked_key_is_refused_within_a_second_on_a_connection_kept_open(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        known(harness)
        for _ in range(3):
            wire.ask(plain(key))
        assert cached(harness) == 2
        ApiKeys(harness.accounts, SERVER_SECRET, harness.clock).revoke(key, harness.clock.now_ns())
        assert b'"revoked"' in refused(harness, wire, key)
    assert cached(harness) == 1, "the key's bytes are forgotten with it"


def test_a_key_is_refused_within_a_second_of_its_end_on_a_connection_kept_open(harness: Harness) -> None:
    """The store does not change when a key expires."""

    now_ns = harness.clock.now_ns()
    key = harness.keys.create("ann@example.com", "admin", now_ns, expires_ns=now_ns + 60 * SECOND)
    with Wire(harness) as wire:
        known(harness)
        for _ in range(3):
            assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")
        assert cached(harness) == 2
        harness.clock.at_ns += 60 * SECOND
        assert b'"expired"' in refused(harness, wire, key)
    assert cached(harness) == 1, "the key's bytes are forgotten with it"


def test_a_disabled_users_key_is_refused_within_a_second(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        for _ in range(3):
            wire.ask(plain(key))
        harness.accounts.change(1, disabled_ns=1)
        assert b'"disabled"' in refused(harness, wire, key)
        harness.accounts.change(1, disabled_ns=None)
        known(harness)
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 200 ")


def test_a_key_revoked_while_its_first_answer_was_computed_is_not_remembered(harness: Harness) -> None:
    key = harness.key()
    harness.query.gate = threading.Event()
    with Wire(harness) as wire:
        wire.send(plain(key))
        time.sleep(0.1)
        harness.keys.revoke(key[:15], harness.clock.now_ns())
        harness.query.gate.set()
        wire.read()
        for _ in range(2):
            assert wire.ask(plain(key)).startswith(b"HTTP/1.1 401 ")


def test_a_key_revoked_here_is_refused_at_once(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        wire.ask(plain(key))
        wire.ask(plain(key))
        harness.keys.revoke(key[:15], harness.clock.now_ns())
        assert wire.ask(plain(key)).startswith(b"HTTP/1.1 401 ")


def test_a_store_that_went_silent_stops_the_fast_path_too(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        wire.ask(plain(key))
        wire.ask(plain(key))
        harness.accounts.busy = True
        wait_until(lambda: wire.ask(plain(key)).startswith(b"HTTP/1.1 502 "))


def test_new_data_and_stale_answers_are_computed_anew(harness: Harness) -> None:
    key = harness.key()
    harness.query.fresh_until_ns = harness.clock.at_ns + SECOND
    with Wire(harness) as wire:
        first = wire.ask(plain(key))
        harness.query.poc = 6901.5
        assert b"6900.25" in wire.ask(plain(key))
        harness.clock.at_ns += SECOND
        assert b"6901.5" in wire.ask(plain(key))
        harness.query.fresh_until_ns = None
        harness.query.poc = 6902.5
        harness.accounts.moves += 1
        wait_until(lambda: b"6902.5" in wire.ask(plain(key)))
    assert b"6900.25" in first


@pytest.mark.parametrize(
    "more",
    [
        "Connection: close\r\n",
        "X-Request-Id: a\r\n",
        "Content-Length: 0\r\n",
        "Expect: 100-continue\r\n",
        "Connection: Upgrade\r\nUpgrade: websocket\r\n",
        "Transfer-Encoding: chunked\r\n",
    ],
)
def test_particular_requests_are_not_remembered(harness: Harness, more: str) -> None:
    with Wire(harness) as wire:
        key = harness.key()
        wire.ask(plain(key, "/api/levels?symbol=es"))
        wire.ask(plain(key, more=more))
    assert cached(harness) == 0


def test_strangers_and_other_methods_are_not_remembered(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        for request in (
            plain("nothing"),
            plain(key[:-1]),
            plain(key, "/api/levels?symbol=ES&key=1"),
            plain(key, more=f"x-api-key: {key}\r\n"),
            plain(key, "/healthz"),
            plain(key, "/api/stream?symbols=XX"),
            plain(key).replace(b"GET", b"POST"),
            plain(harness.key(role="ingest")),
        ):
            for _ in range(2):
                wire.ask(request)
    assert cached(harness) == 0


def test_a_body_that_looks_like_a_known_request_is_a_body(harness: Harness) -> None:
    """A request that is smuggled as the body of another one must not be answered."""
    key = harness.key("pro")
    known = plain(key)
    with Wire(harness) as wire:
        wire.ask(known)
        wire.ask(known)
        wire.send(b"POST /api/levels HTTP/1.1\r\nHost: a\r\nx-api-key: %s\r\n" % key.encode())
        wire.send(b"Content-Length: %d\r\n\r\n" % len(known))
        assert wire.read().startswith(b"HTTP/1.1 405 ")
        wire.send(known)
        time.sleep(0.1)
        assert b"x-ratelimit-remaining: 116\r\n" in wire.ask(known), "one of the two was the body"
        assert wire.pending == b""


def test_a_request_in_pieces_is_not_mistaken(harness: Harness) -> None:
    key = harness.key()
    known = plain(key)
    with Wire(harness) as wire:
        wire.ask(known)
        wire.ask(known)
        for cut in (1, 4, 20, len(known) - 2):
            wire.send(known[:cut])
            time.sleep(0.03)
            assert wire.ask(known[cut:]).startswith(b"HTTP/1.1 200 ")
        wire.send(b"GET /api/levels HTTP/1.1\r\nx: ")  # the known bytes become part of a header value here
        time.sleep(0.03)
        assert wire.ask(known).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 "))


def test_pipelined_requests_are_answered_in_order(harness: Harness) -> None:
    key = harness.key()
    known, other = plain(key), plain(key, "/api/symbols")
    with Wire(harness) as wire:
        wire.ask(known)
        wire.send(known + other + known + plain(key, "/api/levels?symbol=XX") + known)
        bodies = [wire.read().partition(b"\r\n\r\n")[2][:18] for _ in range(5)]
        assert bodies[0] == bodies[2] == bodies[4] == b'{"symbol":"ES","da'
        assert bodies[1].startswith(b'{"count":1')
        assert bodies[3].startswith(b'{"code":"unknown')
        wire.send(other)
        wire.send(known)
        assert wire.read().partition(b"\r\n\r\n")[2].startswith(b'{"count":1')
        assert wire.read().partition(b"\r\n\r\n")[2].startswith(b'{"symbol":"ES"')


def test_two_requests_in_one_packet_teach_nothing(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        for _ in range(2):
            wire.send(plain(key) + plain(key))
            wire.read()
            wire.read()
    assert cached(harness) == 0


def test_a_client_slow_to_read_does_not_fill_the_memory(harness: Harness) -> None:
    key = harness.key()
    known = plain(key)
    with Wire(harness) as wire:
        wire.ask(known)
        count = 400
        for _ in range(count - 1):
            wire.send(known)
        for _ in range(count - 1):
            assert wire.read().startswith(b"HTTP/1.1 200 ")


def test_the_idle_time_counts_from_the_last_answer() -> None:
    with served(build_harness(), keep_alive_s=3) as harness, Wire(harness) as wire:
        key = harness.key()
        for _ in range(5):
            wire.ask(plain(key))
            time.sleep(0.9)
        assert wire.closed_within(30)


def test_what_the_fast_path_answers_is_counted_and_logged(harness: Harness) -> None:
    key = harness.key()
    with Wire(harness) as wire:
        for _ in range(7):
            wire.ask(plain(key))
    text = harness.get("/metrics").body.decode()
    assert 'outcry_http_requests_total{route="/api/levels",status="200",tier="admin"} 7.0' in text
    assert 'outcry_http_request_seconds_count{route="/api/levels"} 7.0' in text
    wait_until(lambda: harness.log.getvalue().count(b"/api/levels") >= 7)
    lines = [line for line in harness.log.getvalue().splitlines() if b"/api/levels" in line]
    assert len(lines) == 7
    assert len({re.sub(rb'"(request_id|ms)":[^,]*', b"", line) for line in lines}) == 1


def test_memory_for_requests_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.api.app.FastPathCache", partial(FastPathCache, most_bytes=20_000))
    with served(build_harness()) as harness, Wire(harness) as wire:
        key = harness.key()
        known(harness)
        for number in range(200):
            wire.ask(plain(key, f"/api/levels?symbol=ES&x={number % 100}", more=f"x: {number}\r\n"))
        before = cached(harness)
        assert 10 < before < 100
        for _ in range(2):
            wire.ask(plain(key, more="x: " + "y" * 3000 + "\r\n"))
        assert cached(harness) == before, "long requests are not cached"


def test_a_graceful_end_leaves_no_connection_open() -> None:
    with served(build_harness()) as harness:
        wire = Wire(harness)
        key = harness.key()
        wire.ask(plain(key))
        wire.ask(plain(key))
    with wire:
        assert wire.closed_within(30)

"""A pusher with services that answer wrongly, slowly, with redirects, or without the expected identity."""

import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from support.certificates import certificate

from outcry.agent.pusher import _MemoryQueue
from outcry.agent.sender import LONGEST_PAUSE_S, Sender, record_result
from outcry.cli.agent_words import WORDS
from outcry.client.errors import ApiError, Unreachable
from outcry.market.instruments import Contract
from outcry.trades.feed import LIVE_TRADE, Backfill, FeedCaps, Resume, Trades

ES = Contract("ES", 2026, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False)
KEY = "outcry_secret"


def whole(talk: socket.socket) -> bytes:
    """Read one request: its head, and a body of the stated length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += received_from(talk)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # pyright: ignore[reportOptionalSubscript]
    while len(body) < length:
        body += received_from(talk)
    return head


def received_from(talk: socket.socket) -> bytes:
    """Return the next received bytes. Raises `OSError` if the peer has closed the connection."""
    data = talk.recv(65536)
    if not data:
        raise ConnectionResetError
    return data


@contextmanager
def answering(answer: bytes, context: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Start a server with one answer for all requests; yield its port and the first bytes of each connection."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), near:
                    near.settimeout(30)
                    talk = context.wrap_socket(near, server_side=True) if context else near
                    received.append(whole(talk))
                    talk.sendall(answer)
                    talk.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], received
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def queue() -> _MemoryQueue:
    rows = np.zeros(1, LIVE_TRADE)
    rows["size"], rows["side"] = 1, b"N"
    made = _MemoryQueue("a" * 20, ES, CAPS)
    made.pending.append(Trades(rows))
    return made


def answer(body: bytes, status: str = "200 OK", *headers: bytes) -> bytes:
    head = [f"HTTP/1.1 {status}".encode(), b"content-length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", body])


@pytest.mark.parametrize(
    "response",
    [
        b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"\x00" * 100_000, answer(b"{}"), answer(b"[1]"),
        answer(b'{"next": -1}'), answer(b'{"next": 2}'), answer(b'{"next": 99999999999999999999}'),
        answer(b'{"next": "1"}'), answer(b'{"next": 1.5}'), answer(b"x" * 1_000_000),
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 1000 + b"\r\n",
        answer(b"", "302 Found", b"location: http://127.0.0.1:1/elsewhere"),
        answer(b'{"code": 5}', "422 No"), answer(b"<html>", "404 Not Found"),
        answer(b"[" * 60_000), answer(b"[" * 60_000, "422 No"), answer(b'{"code": "invalid_request"}', "422 No"),
    ],
)  # fmt: skip
def test_nothing_but_an_answer_is_one(response: bytes) -> None:
    """An invalid response accepts no events and is not retried elsewhere; the reported problem contains no key."""
    with answering(response) as (port, received):
        sender, sent = Sender(f"http://127.0.0.1:{port}", KEY, timeout_s=5), queue()
        try:
            assert sender.attempt("mine", sent) is not None
            problem = sender.problem
        except Unreachable as found:
            problem = found
        finally:
            sender.close()
        assert sent.next == 0
        assert len(sent.pending) == 1
        assert KEY not in f"{problem!s} {problem!r}"
        assert len(received) == 1


@pytest.mark.parametrize("asked", ["-5", "1e300", '"soon"', "null", "NaN", "{}", "86400000"])
def test_every_request_has_a_time_limit(asked: str) -> None:
    said = f'{{"code":"rate_limited","message":"no","request_id":"1","retry_after_ms":{asked}}}'
    with answering(answer(said.encode(), "429 Too Many")) as (port, _):
        sender = Sender(f"http://127.0.0.1:{port}", KEY, timeout_s=5)
        wait_s = sender.attempt("mine", queue())
        sender.close()
    assert wait_s is not None
    assert 0 <= wait_s <= LONGEST_PAUSE_S


def test_a_refusal_is_reported_as_a_refusal() -> None:
    said = b'{"code":"forbidden","message":"no","request_id":"1"}'
    with answering(answer(said, "403 Forbidden")) as (port, _):
        sender = Sender(f"http://127.0.0.1:{port}", KEY, timeout_s=5)
        with pytest.raises(ApiError, match="forbidden"):
            sender.attempt("mine", queue())
        sender.close()


def _refused(reason: str, **more: object) -> ApiError:
    return ApiError("invalid_request", 422, "no", "r1", {"reason": reason, **more})


def test_a_nearly_full_disk_of_the_service_passes_and_a_used_up_quota_does_not() -> None:
    """Rejected events remain queued in both cases; only the full disk is retried."""
    queue = _MemoryQueue("a" * 20, ES, CAPS)
    queue.pending.append(Trades(np.zeros(1, LIVE_TRADE)))
    push = queue.push()
    later = record_result(queue, push, _refused("disk_reserve", retry_after_ms=5000), "the service")
    assert later is not None
    assert later.pause_s == 5.0
    with pytest.raises(ApiError):
        record_result(queue, push, _refused("quota", used_bytes=1, limit_bytes=1), "the service")
    assert len(queue.pending) == 1
    assert {"quota", "disk_reserve"} <= set(WORDS)


def test_a_service_without_a_valid_certificate_receives_nothing(tmp_path: Path) -> None:
    """A service without a valid certificate does not even receive the key; once the certificate is trusted, it does."""
    made = certificate(tmp_path)
    with answering(answer(b'{"next": 1}'), made.server) as (port, received):
        sender = Sender(f"https://127.0.0.1:{port}", KEY, timeout_s=5)
        assert sender.attempt("mine", queue()) == 0.0
        assert "CERTIFICATE_VERIFY_FAILED" in str(sender.problem)
        sender.close()
        assert received == []
        trust = ssl.create_default_context(cafile=str(made.path))
        sender = Sender(f"https://127.0.0.1:{port}", KEY, timeout_s=5, trust=trust)
        assert sender.attempt("mine", queue()) is None
        sender.close()
        assert KEY.encode() in received[0]


def test_a_push_under_way_is_ended_from_another_thread() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = Sender(f"http://127.0.0.1:{listener.getsockname()[1]}", KEY, timeout_s=60)
        waits: list[float | None] = []
        pushing = threading.Thread(target=lambda: waits.append(sender.attempt("mine", queue())))
        pushing.start()
        near, _ = listener.accept()
        near.recv(100)
        sender.abort()
        pushing.join(5)
        assert not pushing.is_alive()
        assert waits == [0.0]
        near.close()
        sender.close()


def test_a_push_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(answer(b'{"next": 1}')) as (port, received):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("no_proxy", "")
        sender = Sender("http://outcry.example/prefix/", KEY, timeout_s=5)
        assert sender.attempt("my feed", queue()) is None
        sender.close()
    assert received[0].startswith(b"POST http://outcry.example/prefix/api/ingest?feed=my+feed HTTP/1.1")


@contextmanager
def keeping(*answers: bytes) -> Iterator[tuple[int, list[int]]]:
    """Start a server that sends one answer per request and keeps connections, but closes each after the last answer.

    Yield its port, and the number of the connection by which each request came."""
    left, requests = list(answers), list[int]()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            number = 0
            while True:
                try:
                    talk, _ = listener.accept()
                except OSError:
                    return
                number += 1
                with suppress(OSError), talk:
                    talk.settimeout(30)
                    while True:
                        whole(talk)
                        requests.append(number)
                        if not left:
                            break
                        talk.sendall(left.pop(0))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1], requests
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_pushes_share_a_connection_until_an_error() -> None:
    """After an error the service may not have read the whole push, so the next one has a new connection."""
    busy = answer(b'{"code":"starting","message":"wait","request_id":"1"}', "503 Unavailable")
    taken = answer(b'{"next": 1}')
    with keeping(taken, taken, busy, taken) as (port, requests):
        sender = Sender(f"http://127.0.0.1:{port}", KEY, timeout_s=5)
        progress = [sender.attempt("mine", queue()) is None for _ in range(4)]
        sender.close()
    assert progress == [True, True, False, True]
    assert requests == [1, 1, 1, 2]


def test_a_push_is_sent_once_by_a_connection_that_ends() -> None:
    """The service closes a kept connection after it has read the push: it may have accepted it."""
    with keeping(answer(b'{"next": 1}')) as (port, requests):
        sender = Sender(f"http://127.0.0.1:{port}", KEY, timeout_s=5)
        assert sender.attempt("mine", queue()) is None
        assert sender.attempt("mine", queue()) == 0.0
        assert isinstance(sender.problem, Unreachable)
        assert requests == [1, 1]
        sender.close()


def test_a_key_that_no_header_may_have_is_refused() -> None:
    with pytest.raises(ValueError, match="no header may have"):
        Sender("http://127.0.0.1:1", "outcry_\r\nx: y")

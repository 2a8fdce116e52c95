"""A server that sends event streams from a script."""

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from tests.api.sample_answers import ANSWERS

ALERT: Any = ANSWERS["AlertsHistoryAnswer"]
LEVELS = msgspec.json.encode(ANSWERS["LevelsAnswer"])


def alert(seq: int, **more: Any) -> bytes:
    entry = msgspec.structs.replace(ALERT.alerts[0], seq=seq, key=f"ES:va-test-high:{seq}", **more)
    return b"event: alert\nid: %d\ndata: %s\n\n" % (seq, msgspec.json.encode(entry))


def snapshot(*seqs: int, mark: int = 0, **more: Any) -> bytes:
    alerts = [
        json.loads(
            msgspec.json.encode(msgspec.structs.replace(ALERT.alerts[0], seq=n, key=f"ES:va-test-high:{n}"))
        )
        for n in seqs
    ]
    whole = {"updatedAt": "2026-01-05T15:00:00.000Z", "resumed": False, "missed": False, "levels": [json.loads(LEVELS)],
             "states": [], "alerts": alerts} | more  # fmt: skip
    return b"event: snapshot\nid: %d\ndata: %s\n\n" % (mark, json.dumps(whole).encode())


class Script:
    """Script with the data to send on each connection; after the last one the server stays idle and the test ends."""

    def __init__(self, *responses: bytes | tuple[int, dict[str, Any]] | None) -> None:
        self.responses = list(responses)
        self.asked: list[dict[str, str]] = []
        self.paths: list[str] = []


@contextmanager
def server(script: Script) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            script.asked.append({name.lower(): value for name, value in self.headers.items()})
            script.paths.append(self.path)
            turn = script.responses.pop(0)
            self.close_connection = True
            if turn is None:  # closes the connection without data
                self.connection.shutdown(socket.SHUT_RDWR)
            elif isinstance(turn, bytes):
                self.send_response(200)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for at in range(0, len(turn), 7):  # in chunks that split lines and events
                    piece = turn[at : at + 7]
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                if not turn.endswith(b"cut"):
                    self.wfile.write(b"0\r\n\r\n")
            else:
                body = json.dumps(turn[1]).encode()
                self.send_response(turn[0])
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            running.shutdown()
            thread.join()


@contextmanager
def open_stream(sent: bytes) -> Iterator[str]:
    """Serve a stream that sends something and then stays open without an event."""
    ended = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(sent)
            self.wfile.flush()
            ended.wait(60)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.daemon_threads = True
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}"
        finally:
            ended.set()
            running.shutdown()
            thread.join()

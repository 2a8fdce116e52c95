"""A server that answers requests from a script, and records what it received."""

import http.server
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Turn:
    """One response. close: whether the server closes the connection after it, without saying so beforehand."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False


def refusal(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> Turn:
    """Return an error response of the service."""
    body = {"code": code, "message": "No.", "status": status, "request_id": "7", **more}
    return Turn(status, json.dumps(body).encode(), headers or {})


@dataclass
class Received:
    """What a scripted server received: method, path and headers of each request, and the number of connections."""

    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    connections: int = 0


@contextmanager
def scripted(turns: Sequence[Turn]) -> Iterator[tuple[str, Received]]:
    """Serve the turns in order, and the last one again and again. Yields the URL and what was received."""
    received, left, lock = Received(), list(turns), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            with lock:
                received.connections += 1
            super().setup()

        def do_GET(self) -> None:
            with lock:
                received.requests.append(
                    (self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
                )
                turn = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(turn.status)
            for name, value in turn.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(turn.body)))
            self.end_headers()
            self.wfile.write(turn.body)
            self.close_connection = turn.close

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", received
        finally:
            server.shutdown()
            thread.join()

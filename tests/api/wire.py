"""A raw connection to a service under test: bytes sent and bytes received."""

import re
import socket

from tests.api.harness import Harness


def plain(key: str, path: str = "/api/levels?symbol=ES", more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: outcry\r\nx-api-key: {key}\r\n{more}\r\n".encode("latin-1")


class Wire:
    """Connection that reads whole responses as raw bytes."""

    def __init__(self, harness: Harness) -> None:
        self.socket = socket.create_connection(("127.0.0.1", harness.port), timeout=30)
        self.pending = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, *, bodiless: bool = False) -> bytes:
        while b"\r\n\r\n" not in self.pending:
            self._more()
        head, _, rest = self.pending.partition(b"\r\n\r\n")
        found = None if bodiless else re.search(rb"\r\ncontent-length: ([0-9]+)", head)
        length = int(found[1]) if found else 0
        while len(rest) < length:
            self._more()
            rest = self.pending.partition(b"\r\n\r\n")[2]
        self.pending = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError(self.pending)
        self.pending += data

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        return self.read()

    def closed_within(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

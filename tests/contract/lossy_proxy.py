"""A proxy between client and server that delays or drops data in either direction."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self


class Between:
    """Context manager with a port that forwards to another port of this machine."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        self._asking, self._answering = threading.Event(), threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._all: list[socket.socket] = [self._door]
        self.go_on()

    def __enter__(self) -> Self:
        self._begin(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.append(self._door)
        self.cut()
        self.go_on()
        for thread in self._threads:
            thread.join(10)
        for one in self._all:
            one.close()

    def _begin(self, work: Callable[..., None], *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def hold(self, *, answers_only: bool = False) -> None:
        """Stop forwarding, in both directions or only the answers."""
        self._answering.clear()
        if not answers_only:
            self._asking.clear()

    def go_on(self) -> None:
        """Resume forwarding, including delayed data."""
        self._asking.set()
        self._answering.set()

    def cut(self) -> None:
        """Break every connection; delayed data is lost."""
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += (near, far)
                self._all += (near, far)
                for source, target, gate in ((near, far, self._asking), (far, near, self._answering)):
                    self._begin(_carry, source, target, gate)


def _carry(source: socket.socket, target: socket.socket, gate: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            gate.wait()
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)

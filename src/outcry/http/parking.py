"""Serves connections between requests without the event loop's transport, which would cost more than the response.

The loop calls a transport for each packet, and the transport writes at the end of the loop's turn. So a connection that
the fast path has answered is *parked*: its transport stops reading, and one poller for all parked connections reads
their packets and answers them. When a packet arrives that the fast path cannot answer, the transport takes the
connection back.

`parking.c` does the same faster, and a build that compiles modules uses it in place of this module (decision 0063).
"""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Protocol

from outcry.http.limits import Headers

#: Packets answered before the event loop continues, and bytes read at once: more than the fast path accepts.
_MOST, _READ_BYTES = 32, 4096
Serve = Callable[[bytes, Headers], bytes | None]


class Connection(Protocol):
    """Interface of a connection that can be parked, that is, wait for requests without its asyncio transport."""

    def unpark(self, received: bytes, unsent: bytes) -> None:
        """Return the connection to its asyncio transport: send `unsent`, and handle the bytes `received`."""
        ...

    def abort(self) -> None:
        """Close the connection at once, after an unexpected error."""
        ...


class DatedState(Protocol):
    """Interface of a server's state: its default headers, which change every second (`Date`)."""

    default_headers: Headers


class Parking:
    """All connections of a server that wait for their next request without a transport (parked).

    The event loop watches the one file descriptor `fileno()` and calls `run` when it is readable. `serve`: returns the
    response to received bytes, or None if it cannot; see `Responder.serve`.
    """

    def __init__(self, serve: Serve, state: DatedState, /) -> None:
        self._serve, self._state = serve, state
        self._epoll = select.epoll()
        self._parked: dict[int, Connection] = {}
        self._served_ns: dict[int, int] = {}

    def fileno(self) -> int:
        """Return the file descriptor that is readable when any parked connection has received something."""
        return self._epoll.fileno()

    def park(self, fd: int, connection: Connection, /) -> None:
        """Answer the requests of a connection from now on. Its asyncio transport must have stopped reading."""
        self._parked[fd], self._served_ns[fd] = connection, 0
        self._epoll.register(fd, select.EPOLLIN | select.EPOLLRDHUP)

    def served_ns(self, fd: int, /) -> int:
        """Return when a parked connection was last answered (ns of the monotonic clock), 0 if never."""
        return self._served_ns.get(fd, 0)

    def leave(self, fd: int, connection: Connection, /) -> None:
        """Stop answering a connection's requests. Nothing happens if its file descriptor belongs to another by now."""
        if self._parked.get(fd) is connection:
            del self._parked[fd], self._served_ns[fd]
            with suppress(OSError, ValueError):  # closed already
                self._epoll.unregister(fd)

    def run(self) -> None:
        """Answer the requests that parked connections have received."""
        for fd, _ in self._epoll.poll(0, _MOST):
            connection = self._parked.get(fd)
            if connection is not None:
                self._handle(fd, connection)

    def _handle(self, fd: int, connection: Connection) -> None:
        try:
            received = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the transport notices it too
            received = b""
        try:
            response = self._serve(received, self._state.default_headers) if received else None
            if response is None:
                self.leave(fd, connection)
                connection.unpark(received, b"")
                return
            sent = _send(fd, response)
            if sent < len(response):
                self.leave(fd, connection)
                connection.unpark(b"", response[sent:])
            else:
                self._served_ns[fd] = monotonic_ns()
        except BaseException:
            self.leave(fd, connection)
            connection.abort()
            raise

    def close(self) -> None:
        """Close the poller."""
        self._epoll.close()


def _send(fd: int, response: bytes) -> int:
    """Send as much of a response as the system takes at once; return how many bytes."""
    try:
        return os.write(fd, response)
    except OSError:  # the transport notices it too
        return 0

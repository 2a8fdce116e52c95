"""Runs an application with uvicorn and our HTTP protocol, with limits on connections and time.

With an untested version of uvicorn, its own protocol serves the requests: slower, and without these limits.

The server reports the port that it uses, so it can be started with port 0 (any free port). It logs through the event
log only.
"""

import asyncio
import errno
import gc
import logging
import select
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import uvicorn

from outcry.base.log_events import LogEvent
from outcry.base.open_files import allow_open_files, most_open_files
from outcry.http.connections import LOOPBACK, Connections
from outcry.http.edge import AsgiApp, Edge, Reply
from outcry.http.fastpath import FastPathCache
from outcry.http.logs import EventLogHandler
from outcry.http.parking import Parking
from outcry.http.requests import Request
from outcry.http.tested_uvicorn import RANGE, is_tested

BACKLOG = 2048
GC_THRESHOLD = 20_000
#: After this time a computing thread lets a waiting request run. The default of 5 ms shows in the slowest requests.
SWITCH_S = 0.0005


class Service(Protocol):
    """What a server runs: an application, the steps common to its requests (`Edge`), and its fast-path cache."""

    edge: Edge
    fast_path: FastPathCache

    @property
    def asgi(self) -> AsgiApp:
        """The ASGI application."""
        ...

    def answer_at_once(self, request: Request) -> Reply | None:
        """Return the response to a plain GET request from memory; None if it is not in memory."""
        ...

    def drain(self) -> None:
        """End responses that are event streams, because the server is about to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Binding:
    """The address on which to listen, and limits of connections.

    trusted_proxies: IP addresses whose `X-Forwarded-For` is trusted, comma-separated. connections_per_client: maximum
    per client IP address, 0 for no limit. Trusted proxies and the addresses in `uncapped` have no limit.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    fastpath: bool = True
    trusted_proxies: str | None = None
    connections_per_client: int = 512
    uncapped: str = LOOPBACK
    keep_alive_s: int = 30
    shutdown_s: int = 10


class Server(uvicorn.Server):
    """A uvicorn server that reports where it listens, and that any thread can stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        on_started: Callable[[str, int], None] | None,
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self.parking: Parking | None = None
        self._on_started = on_started
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server, then report the host and port in use."""
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        if self.parking is not None:
            asyncio.get_running_loop().add_reader(self.parking.fileno(), self.parking.run)
        await super().startup(sockets)
        if self.started and self._on_started is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_started(host, port)

    async def on_tick(self, counter: int) -> bool:
        """Check once a second whether file descriptors are running out.

        uvicorn calls this method ten times a second.
        """
        if counter % 10 == 0:
            self._connections.watch()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, then stop the server."""
        self._on_stopping()
        await super().shutdown(sockets)
        if self.parking is not None:
            asyncio.get_running_loop().remove_reader(self.parking.fileno())
            self.parking.close()

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a connection refused for lack of file descriptors; pass other errors to the default handler."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self._connections.exhausted()
        else:
            loop.default_exception_handler(context)

    def stop(self) -> None:
        """Request a graceful shutdown: open requests are finished first. Any thread may call it."""
        self.should_exit = True


def build_server(
    service: Service,
    binding: Binding,
    on_started: Callable[[str, int], None] | None = None,
    on_stopping: Callable[[], None] | None = None,
) -> Server:
    """Build a server for `run()`.

    The server calls `on_started(host, port)` once it accepts connections, and `on_stopping` before it stops accepting
    them.
    """
    uncapped = ",".join(filter(None, (binding.uncapped, binding.trusted_proxies)))
    connections = Connections(
        service.edge.event_log, binding.connections_per_client, uncapped, most_open_files()
    )
    fast_path = service.fast_path if binding.fastpath else None
    config = uvicorn.Config(
        service.asgi,  # pyright: ignore[reportArgumentType] - our scope is a plain dictionary
        host=binding.host,
        port=binding.port,
        loop=_loop(),
        ws="none",
        interface="asgi3",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=binding.trusted_proxies is not None,
        forwarded_allow_ips=binding.trusted_proxies,
        backlog=BACKLOG,
        timeout_keep_alive=binding.keep_alive_s,
        timeout_graceful_shutdown=binding.shutdown_s,
    )

    def stopping() -> None:
        if on_stopping is not None:
            on_stopping()
        service.drain()

    server = Server(config, connections, on_started, stopping)
    if not is_tested(uvicorn.__version__):
        config.http = "h11"  # uvicorn's strictest protocol, and always installed with it
        service.edge.event_log.warning(LogEvent.UNTESTED_UVICORN, version=uvicorn.__version__, tested=RANGE)
        return server
    from outcry.http.protocol import protocol_for  # noqa: PLC0415 - an untested version may lack what it imports

    if fast_path is not None and hasattr(select, "epoll"):
        server.parking = Parking(fast_path.serve, server.server_state)
    config.http = protocol_for(  # pyright: ignore[reportAttributeAccessIssue] - uvicorn only calls it
        service.edge, service.answer_at_once, fast_path, connections, server.parking
    )
    return server


def collect_rarely() -> None:
    """Make the garbage collector run rarely: loaded modules stay in memory, and requests leave no cycles.

    With default thresholds, garbage collection takes a sixteenth of the fast path's time.
    """
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


def serve(
    service: Service,
    binding: Binding,
    on_started: Callable[[str, int], None] | None = None,
    on_stopping: Callable[[], None] | None = None,
) -> None:
    """Run the HTTP server until a signal ends it.

    If the signal is one that ends the process, it is raised again afterwards. Code after this call may then not run.
    """
    logger = logging.getLogger("uvicorn.error")
    handler = EventLogHandler(service.edge.event_log)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    thresholds, switch_s = gc.get_threshold(), sys.getswitchinterval()
    allow_open_files()

    def started(host: str, port: int) -> None:
        collect_rarely()
        sys.setswitchinterval(SWITCH_S)
        if on_started is not None:
            on_started(host, port)

    try:
        with suppress(KeyboardInterrupt):  # uvicorn raises the signal again once it has stopped
            build_server(service, binding, started, on_stopping).run()
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_s)
        logger.removeHandler(handler)


def _loop() -> Literal["asyncio", "uvloop"]:
    """Return the event loop to use: uvloop if it is installed (it does not exist for Windows), else asyncio's."""
    return "asyncio" if find_spec("uvloop") is None else "uvloop"

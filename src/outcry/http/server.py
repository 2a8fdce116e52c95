"""Run an application with uvicorn and our HTTP protocol, with limits on connections and time.

The server reports the port that it actually uses, so port 0 works. It logs through the event log only.
"""

import asyncio
import errno
import gc
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

try:
    import resource
except ModuleNotFoundError:  # not on Windows, where there is no such limit
    resource = None

import uvicorn
from uvicorn.config import LoopFactoryType

from outcry.http.connections import LOOPBACK, Connections, most_descriptors
from outcry.http.edge import Answered, AsgiApp, Edge
from outcry.http.fastpath import FastPathCache
from outcry.http.logs import EventLogHandler
from outcry.http.protocol import protocol_for
from outcry.http.requests import Request

BACKLOG = 2048
GC_THRESHOLD = 20_000
#: After this time a computing thread lets a waiting request run. The default of 5 ms shows in the slowest requests.
SWITCH_S = 0.0005
MOST_OPEN_FILES = 65_536


class Service(Protocol):
    """What a server runs: an application, its edge and its fast-path cache."""

    edge: Edge
    fast_path: FastPathCache

    @property
    def asgi(self) -> AsgiApp:
        """The ASGI application."""
        ...

    def answer_at_once(self, request: Request) -> Answered | None:
        """Answer a plain request from memory, or return None."""
        ...

    def drain(self) -> None:
        """End streaming answers, because the server is about to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Binding:
    """Address to listen on, and limits of connections.

    trusted_proxies: IP addresses whose `X-Forwarded-For` is trusted, comma-separated. connections_per_client: maximum
    per client address, 0 for no limit. Trusted proxies and the addresses in `uncapped` have no limit.
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
    """A server that reports where it listens, and that any thread can stop."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        on_started: Callable[[str, int], None] | None,
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._on_started = on_started
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report the host and port in use."""
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        await super().startup(sockets)
        if self.started and self._on_started is not None:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._on_started(host, port)

    async def on_tick(self, counter: int) -> bool:
        """Check once a second whether file descriptors run out. uvicorn calls this ten times a second."""
        if counter % 10 == 0:
            self._connections.watch()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End streaming answers, then stop."""
        self._on_stopping()
        await super().shutdown(sockets)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a connection refused for lack of file descriptors; pass other errors to the default handler."""
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self._connections.exhausted()
        else:
            loop.default_exception_handler(context)

    def stop(self) -> None:
        """Request a graceful shutdown, which finishes open requests first."""
        self.should_exit = True


def build_server(
    service: Service,
    binding: Binding,
    on_started: Callable[[str, int], None] | None = None,
    on_stopping: Callable[[], None] | None = None,
) -> Server:
    """Build a server for `run()`.

    It calls `on_started(host, port)` once it accepts connections, and `on_stopping` before it stops accepting them.
    """
    uncapped = ",".join(filter(None, (binding.uncapped, binding.trusted_proxies)))
    connections = Connections(
        service.edge.event_log, binding.connections_per_client, uncapped, most_descriptors()
    )
    config = uvicorn.Config(
        service.asgi,  # pyright: ignore[reportArgumentType] - our scope is a plain dictionary
        host=binding.host,
        port=binding.port,
        loop=_loop(),
        http=protocol_for(
            service.edge, service.answer_at_once, service.fast_path if binding.fastpath else None, connections
        ),
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

    return Server(config, connections, on_started, stopping)


def allow_open_files() -> None:
    """Raise the limit of open files as far as the system allows.

    Each stream reader and each webhook delivery needs one, so the usual 1,024 are too few.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def collect_rarely() -> None:
    """Tune the garbage collector for serving: loaded modules stay, and requests leave no cycles.

    With default thresholds, collection takes a sixteenth of the fast path's time.
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

    A signal that ends the process is raised again afterwards, so code after this call may not run.
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


def _loop() -> LoopFactoryType:
    """Choose the event loop: uvloop if it is installed; it does not exist for Windows."""
    return "asyncio" if find_spec("uvloop") is None else "uvloop"

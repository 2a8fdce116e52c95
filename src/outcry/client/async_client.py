"""The asynchronous client: the methods of `Client` as coroutines.

Requests run in threads of the client over the same transport, so that both clients behave the same and neither needs a
library. A stream occupies one thread while it waits for its next event.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from outcry.client.decoding import decode, headers_of
from outcry.client.endpoints import AsyncEndpoints, Day
from outcry.client.errors import ApiError, Unreachable
from outcry.client.retrying import RetryPolicy
from outcry.client.stream import (
    IDLE_TIMEOUT_S,
    NETWORK_ERRORS,
    STREAM,
    Reconnects,
    StreamEvent,
    read_events,
    stream_query,
)  # fmt: skip
from outcry.client.transport import OpenStream, Query, Transport
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import Answer

A = TypeVar("A", bound=Answer)
T = TypeVar("T")
#: Requests and streams at the same time; more wait for one to end.
MOST_THREADS = 64


class AsyncClient(AsyncEndpoints):
    """Reads one service from an event loop. Parameters and errors are those of `Client`.

    Use it as `async with AsyncClient(url, key) as client:`, or call `close` at the end. A cancelled call ends at
    once; its response is discarded.
    """

    def __init__(
        self, url: str, key: str, *, timeout_s: float = 10.0, language: str = "en", retry_s: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._transport = Transport(url, headers_of(key, language), timeout_s=timeout_s, tls=tls)
        self._retry_policy = RetryPolicy(retry_s)
        self._threads = ThreadPoolExecutor(MOST_THREADS, "outcry-client")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the idle connections. Requests that are still running end in their threads."""
        self._transport.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def iter_alerts(
        self, symbol: str | None = None, first: Day = None, last: Day = None
    ) -> AsyncGenerator[AlertEntry]:
        """Yield all alerts of `alerts_history`, newest first; fetch the next page when it is needed."""
        before: int | None = None
        while True:
            page = await self.alerts_history(symbol, first, last, before=before)
            for alert in page.alerts:
                yield alert
            before = page.next_before
            if before is None:
                return

    async def stream(self, *symbols: str, last_id: str = "") -> AsyncGenerator[StreamEvent]:
        """Yield levels and alerts of the symbols, or of all, as they happen. The iterator never ends.

        It reconnects and resumes with the missed alerts. last_id: id of the last event of an earlier stream, to resume
        after it. Raises `ApiError` on a permanent error, and `Unreachable` if the first connection fails.
        """
        query, reconnects = stream_query(symbols), Reconnects(last_id)
        while True:
            try:
                async for event in self._one_connection(query, reconnects):
                    yield event
            except NETWORK_ERRORS as error:
                pause_s = reconnects.pause_s(error)
            else:
                pause_s = reconnects.pause_s(None)
            await asyncio.sleep(pause_s)

    async def _one_connection(self, query: Query, reconnects: Reconnects) -> AsyncGenerator[StreamEvent]:
        def connect() -> OpenStream:
            return self._transport.open(STREAM, query, reconnects.headers, IDLE_TIMEOUT_S)

        lines = await self._in_thread(connect)
        try:
            events = read_events(lines, reconnects.position)
            while (event := await self._in_thread(lambda: next(events, None))) is not None:
                reconnects.succeeded()
                yield event
        finally:
            lines.close()

    async def _call(self, method: str, path: str, answer: type[A], query: Query) -> A:
        retries = self._retry_policy.begin()
        while True:
            try:
                body = await self._in_thread(lambda: self._transport.request(method, path, query))
                found = decode(body, answer, self._transport.base)
            except (ApiError, Unreachable) as error:
                pause_s = retries.pause_s(error)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
            else:
                retries.succeeded()
                return found

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

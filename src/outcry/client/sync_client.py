"""The synchronous client: one method per endpoint, pages of alerts, and the event stream."""

import ssl
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Self, TypeVar

from outcry.client.decoding import decode, headers_of
from outcry.client.endpoints import Day, Endpoints
from outcry.client.errors import ApiError, Unreachable
from outcry.client.retrying import RetryPolicy
from outcry.client.stream import IDLE_TIMEOUT_S, STREAM, Reconnects, StreamEvent, follow, stream_query
from outcry.client.transport import OpenStream, Query, Transport
from outcry.wire.alerts import AlertEntry
from outcry.wire.answers import Answer

A = TypeVar("A", bound=Answer)


class Client(Endpoints):
    """Reads one service. Thread-safe; connections are kept until `close` or the end of a `with` block.

    url: base URL of the service (`https://host[:port][/prefix]`). key: an API key. timeout_s: limit of each wait for
    the network. language: of error messages, `en` or `de`. retry_s: how long one call may take for retries. 0 makes
    no retries. A call is sent again when a limit is used up or the service restarts, after the delay that the service
    asks for (`Retry-After`). tls: certificates to trust; None for those of the system.

    Methods raise a subclass of `ApiError` if the service returns an error, and `Unreachable` if it does not respond.
    The constructor raises `ValueError` for an invalid URL or key.
    """

    def __init__(
        self, url: str, key: str, *, timeout_s: float = 10.0, language: str = "en", retry_s: float = 60.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._transport = Transport(url, headers_of(key, language), timeout_s=timeout_s, tls=tls)
        self._retry_policy = RetryPolicy(retry_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def iter_alerts(
        self, symbol: str | None = None, first: Day = None, last: Day = None
    ) -> Iterator[AlertEntry]:
        """Yield all alerts of `alerts_history`, newest first; fetch the next page when it is needed."""
        before: int | None = None
        while True:
            page = self.alerts_history(symbol, first, last, before=before)
            yield from page.alerts
            before = page.next_before
            if before is None:
                return

    def stream(self, *symbols: str, last_id: str = "") -> Iterator[StreamEvent]:
        """Yield levels and alerts of the symbols, or of all, as they happen. The iterator never ends.

        It reconnects and resumes with the missed alerts. last_id: id of the last event of an earlier stream, to resume
        after it. Raises `ApiError` on a permanent error, and `Unreachable` if the first connection fails.
        """
        query = stream_query(symbols)

        def connect(headers: Mapping[str, str]) -> OpenStream:
            return self._transport.open(STREAM, query, headers, IDLE_TIMEOUT_S)

        return follow(connect, Reconnects(last_id), time.sleep)

    def _call(self, method: str, path: str, answer: type[A], query: Query) -> A:
        retries = self._retry_policy.begin()
        while True:
            try:
                found = decode(self._transport.request(method, path, query), answer, self._transport.base)
            except (ApiError, Unreachable) as error:
                pause_s = retries.pause_s(error)
                if pause_s is None:
                    raise
                time.sleep(pause_s)
            else:
                retries.succeeded()
                return found

"""What is older than the gateway replays, from Databento's historical service: a day at a time, a contract at a time.

Rules kept: it is charged by volume, so nothing is asked for but what a cursor asks for; it is cut by exchange time,
as the replay is, though the service cuts by its own time of receipt, a moment later.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from io import BytesIO
from typing import Any

import aiohttp
import numpy as np
from databento.common.dbnstore import DBNStore
from databento.historical.api.timeseries import TimeseriesHttpAPI
from databento_dbn import DBNError

from outcry.feeds.databento.rows import RECORD, Records
from outcry.feeds.databento.symbols import DATASET
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.feed import FeedLost

#: Where the vendor listens.
HISTORICAL = "https://hist.databento.com"
#: A trade is received by the vendor at most so long after it was made, or before, by its clock.
RECEIPT_NS = NANOS_PER_SECOND
#: The service may take so long to begin, or to go on.
TIMEOUT_S = 60.0
#: Requests at a time.
MAX_CONCURRENT_REQUESTS = 4
_PAGE_ROWS = 20_000
#: Bytes of a day of a contract as sent, packed in a way of the vendor's own: a multiple of the busiest day there was.
_LARGEST = 128 * 2**20
NO_RECORDS: Records = np.zeros(0, RECORD)
_OK, _UNAUTHORIZED, _TIMED_OUT, _TOO_MANY, _THEIR_FAULT = 200, 401, 408, 429, 500


class HistoryUnavailable(Exception):
    """The service does not have this, or not for this account."""


class _Service(TimeseriesHttpAPI):
    """The vendor's client, with a way of its own to fetch: the vendor's waits for a fixed time in all, however much is
    on its way, and names the key as aiohttp will not have it named for long."""

    def __init__(self, key: str, place: str, rush: float) -> None:
        super().__init__(key, place or HISTORICAL)
        self._secret = "Basic " + b64encode(f"{key}:".encode()).decode()
        self._limits = aiohttp.ClientTimeout(sock_connect=TIMEOUT_S / rush, sock_read=TIMEOUT_S / rush)

    async def _stream_async(self, url: str, data: Any, basic_auth: bool, path: Any = None) -> DBNStore:  # noqa: FBT001
        headers = {**self._headers, "Authorization": self._secret}
        async with (
            aiohttp.ClientSession(
                timeout=self._limits, trace_configs=refusing_redirects("Databento")
            ) as client,
            client.post(url, data=data, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != _OK:
                raise _refusal(answer.status)
            return DBNStore.from_bytes(BytesIO(await read_body(answer, _LARGEST)))


class History:
    """Trades of the past by one key."""

    def __init__(self, key: str, place: str, rush: float) -> None:
        self._service = _Service(key, place, rush)
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def pages(
        self, symbol: str, first_ns: int, end_ns: int
    ) -> AsyncGenerator[tuple[Records, int], None]:
        """Records made between two instants, in order, some thousand at a time, each page with the instant up to
        which all have come. Raises `NotKept`, `Rejected`, `FeedLost`."""
        while first_ns < end_ns:
            last_ns = min(first_ns + NANOS_PER_DAY, end_ns)
            try:
                async with self._turns:
                    store = await self._service.get_range_async(
                        DATASET, first_ns - RECEIPT_NS, last_ns + RECEIPT_NS, symbol, "trades"
                    )
                # decoded by the page: a day of a busy contract would hold everybody up for a tenth of a second
                for records in store.to_ndarray(count=_PAGE_ROWS):
                    times = records["ts_event"]
                    yield records[(times >= first_ns) & (times < last_ns)], first_ns
            except (aiohttp.ClientPayloadError, ValueError, DBNError) as problem:
                raise FeedLost(
                    "disconnected", f"the download of history failed: {type(problem).__name__}"
                ) from None
            except (aiohttp.ClientError, OSError, TimeoutError) as problem:
                raise FeedLost(
                    "unreachable", f"the request for history failed: {type(problem).__name__}"
                ) from None
            first_ns = last_ns
            yield NO_RECORDS, first_ns


def _refusal(status: int) -> Exception:
    """What an answer that is none comes to; what it says besides is not needed."""
    if status == _UNAUTHORIZED:
        return CredentialsRejected("login_refused", "the historical API rejected the key")
    if status == _TOO_MANY:
        return FeedLost("rate_limited", "the historical API limits the request rate")
    if status == _TIMED_OUT or not _OK < status < _THEIR_FAULT:
        return FeedLost("vendor_error", f"the historical API returned HTTP {status}")
    return HistoryUnavailable(f"the historical API returned HTTP {status}")

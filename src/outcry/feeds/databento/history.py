"""Download trades older than the gateway's replay from Databento's historical service, one contract day at a time.

The service charges by volume, so only the trades after the cursor (the time from which the reader needs trades) are
requested. The service selects trades by the time at which it received them, slightly after they were made. So this
module also selects the rows by exchange time, as for the replay.
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

from outcry.base.http_client import system_resolution
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.databento.rows import RECORD, Records
from outcry.feeds.databento.symbols import DATASET
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_SECOND
from outcry.trades.feed import FeedLost

#: Base URL of the vendor.
HISTORICAL = "https://hist.databento.com"
#: Largest difference between a trade's time and the vendor's receive time.
RECEIPT_NS = NANOS_PER_SECOND
#: Time limit for connecting and between two reads.
TIMEOUT_S = 60.0
#: Concurrent requests of one feed.
MAX_CONCURRENT_REQUESTS = 4
_PAGE_ROWS = 20_000
#: Limit in bytes of one compressed contract day, a multiple of the busiest day so far.
_LARGEST = 128 * 2**20
NO_RECORDS: Records = np.zeros(0, RECORD)
_OK, _UNAUTHORIZED, _TIMED_OUT, _TOO_MANY, _THEIR_FAULT = 200, 401, 408, 429, 500


class HistoryUnavailable(Exception):
    """The historical service does not have this data, or not for this account."""


class _Service(TimeseriesHttpAPI):
    """The vendor's HTTP client with a replaced download method.

    The library's method has a fixed total time limit, too short for a busy day, and an authentication that aiohttp
    deprecates.
    """

    def __init__(self, key: str, place: str, speedup: float) -> None:
        super().__init__(key, place or HISTORICAL)
        self._secret = "Basic " + b64encode(f"{key}:".encode()).decode()
        limit_s = answer_limit_s(TIMEOUT_S, speedup)
        self._limits = aiohttp.ClientTimeout(sock_connect=limit_s, sock_read=limit_s)

    async def _stream_async(self, url: str, data: Any, basic_auth: bool, path: Any = None) -> DBNStore:  # noqa: FBT001
        headers = {**self._headers, "Authorization": self._secret}
        async with (
            aiohttp.ClientSession(
                connector=system_resolution(),
                timeout=self._limits,
                trace_configs=refusing_redirects("Databento"),
            ) as client,
            client.post(url, data=data, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != _OK:
                raise _refusal(answer.status)
            return DBNStore.from_bytes(BytesIO(await read_body(answer, _LARGEST)))


class History:
    """Downloads past trades with one API key."""

    def __init__(self, key: str, place: str, speedup: float) -> None:
        self._service = _Service(key, place, speedup)
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def pages(
        self, symbol: str, first_ns: int, end_ns: int
    ) -> AsyncGenerator[tuple[Records, int], None]:
        """Yield trades made from `first_ns` to before `end_ns` (ns UTC), in order and in pages.

        Each page comes with a time before which all trades have been yielded. Raises `HistoryUnavailable`,
        `CredentialsRejected`, `FeedLost`.
        """
        while first_ns < end_ns:
            last_ns = min(first_ns + NANOS_PER_DAY, end_ns)
            try:
                async with self._turns:
                    store = await self._service.get_range_async(
                        DATASET, first_ns - RECEIPT_NS, last_ns + RECEIPT_NS, symbol, "trades"
                    )
                # decoded in pages: a busy day at once would block the event loop for 0.1 s
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
    """Return the error for an HTTP status other than 200."""
    if status == _UNAUTHORIZED:
        return CredentialsRejected("login_refused", "the historical API rejected the key")
    if status == _TOO_MANY:
        return FeedLost("rate_limited", "the historical API limits the request rate")
    if status == _TIMED_OUT or not _OK < status < _THEIR_FAULT:
        return FeedLost("vendor_error", f"the historical API returned HTTP {status}")
    return HistoryUnavailable(f"the historical API returned HTTP {status}")

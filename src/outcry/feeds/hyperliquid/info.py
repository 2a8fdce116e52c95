"""Hyperliquid's `info` endpoint: the list of coins, one-minute candles, and the vendor's clock.

Requests are spaced to half of the vendor's limit for an IP address, because other programs may share the address.
"""

import asyncio
from collections import deque

import msgspec

from outcry.base.clock import Clock
from outcry.feeds.hyperliquid.protocol import MAX_CANDLES, Asset, Candle, Meta, candle_rows, decode
from outcry.feeds.vendor_http import VendorHttp
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_MS
from outcry.trades.feed import FeedLost
from outcry.trades.records import Rows

#: The vendor allows a weight of 1200 per minute and IP address (page "Rate limits").
MAX_WEIGHT, PERIOD_S = 600, 60.0
#: Weight of a request, and the number of candles that cost one more.
REQUEST_WEIGHT, CANDLES_PER_WEIGHT = 20, 60


class WeightLimiter:
    """Spaces requests so that their weights in any `period_s` seconds add up to at most `most`."""

    def __init__(self, most: int, period_s: float) -> None:
        self._most, self._period_s = most, period_s
        self._spent: deque[tuple[float, int]] = deque()
        self._lock = asyncio.Lock()

    async def wait(self, weight: int) -> None:
        """Wait until a request of this weight may be sent. Requests are sent in the order of the calls."""
        loop = asyncio.get_running_loop()
        async with self._lock:
            while self._spent and sum(spent for _, spent in self._spent) + weight > self._most:
                await asyncio.sleep(self._spent[0][0] + self._period_s - loop.time())
                self._spent.popleft()
            self._spent.append((loop.time(), weight))


class InfoClient:
    """HTTP client of the `info` endpoint. url: `https://host/info`."""

    def __init__(self, url: str, clock: Clock, speedup: float) -> None:
        self._url, self._http = url, VendorHttp("Hyperliquid", clock, speedup)
        self._limiter = WeightLimiter(MAX_WEIGHT, PERIOD_S / speedup)
        #: Returns the current time by the vendor's clock (ns UTC), at most a second behind.
        self.vendor_ns = self._http.vendor_ns

    async def assets(self) -> dict[str, Asset]:
        """Return the perpetual futures by coin. Raises `FeedLost`."""
        body = await self._ask({"type": "meta"}, REQUEST_WEIGHT)
        return {asset.name: asset for asset in decode(body, Meta, "list of coins").universe}

    async def bars(self, coin: str, step_e9: int, first_ns: int, end_ns: int) -> Rows:
        """Return the one-minute bars in `[first_ns, end_ns)`, dtype `BAR`, in order of time. Raises `FeedLost`.

        A minute that is not over has its bar until now. A time before the vendor's history has no bars.
        """
        if first_ns >= end_ns:
            return candle_rows([], step_e9)
        request = {
            "type": "candleSnapshot",
            "req": {
                "coin": coin, "interval": "1m", "startTime": first_ns // NANOS_PER_MS,
                "endTime": (end_ns - 1) // NANOS_PER_MS,
            },
        }  # fmt: skip
        count = min(-((first_ns - end_ns) // NANOS_PER_MINUTE), MAX_CANDLES)
        body = await self._ask(request, REQUEST_WEIGHT + -(-count // CANDLES_PER_WEIGHT))
        candles = await asyncio.to_thread(decode, body, list[Candle], "candle")
        rows = candle_rows(candles, step_e9)
        return rows[(rows["ts_event"] >= first_ns) & (rows["ts_event"] < end_ns)]

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._http.close()

    async def _ask(self, request: object, weight: int) -> bytes:
        await self._limiter.wait(weight)
        status, body = await self._http.post(self._url, msgspec.json.encode(request), {})
        if status == 429:
            raise FeedLost("rate_limited", "too many requests to Hyperliquid from this IP address")
        if status != 200:
            raise FeedLost("vendor_error", f"Hyperliquid returned HTTP {status}")
        return body

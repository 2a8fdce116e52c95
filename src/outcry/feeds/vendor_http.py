"""HTTP requests to a vendor's API: one session, a time limit for each answer, and the vendor's clock."""

from collections.abc import Mapping

import aiohttp

from outcry.base.clock import Clock
from outcry.base.http_client import system_resolution
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.clock_skew import VendorClock
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.trades.feed import FeedLost

#: Longest wait for an answer.
ANSWER_TIMEOUT_S = 15.0


class VendorHttp:
    """HTTP client of one vendor, which never follows redirects. `vendor`: its name in errors.

    Errors contain neither the URL nor the body of an answer, because both may contain a secret.
    """

    def __init__(self, vendor: str, clock: Clock, speedup: float) -> None:
        self._vendor, self._speedup = vendor, speedup
        self._session: aiohttp.ClientSession | None = None
        self._clock = VendorClock(clock)
        #: Returns the vendor's time (ns UTC), as its answers state it.
        self.vendor_ns = self._clock.now_ns

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send a request with a JSON body; return the status and body of the answer. Raises `FeedLost`."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=answer_limit_s(ANSWER_TIMEOUT_S, self._speedup))
            self._session = aiohttp.ClientSession(
                connector=system_resolution(),
                timeout=timeout,
                trace_configs=refusing_redirects(self._vendor),
            )
        try:
            async with self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json", **headers},
                allow_redirects=False,
            ) as response:
                answered = await read_body(response)
                self._clock.note(response.headers.get("Date"))
                return response.status, answered
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            raise FeedLost("unreachable", f"cannot reach {self._vendor}: {type(problem).__name__}") from None

    async def close(self) -> None:
        """Close the HTTP connections."""
        if self._session is not None:
            await self._session.close()

"""ProjectX over HTTP: login, contract list, one-second bars, and the vendor's clock.

Requests for bars are spaced to the vendor's limit, and a rejected token is renewed once. No exception contains a URL or
a response body, because both may contain the token.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
import numpy as np

from outcry.base.clock import Clock
from outcry.feeds.projectx.protocol import Answer, ListedContract, bar_rows, login_problem, read_answer
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tokens import Token, TokenSource
from outcry.feeds.vendor_http import VendorHttp
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import FeedLost, FeedRefused
from outcry.trades.records import BAR, Rows

#: Lifetime of a token.
TOKEN_LIFE_S = 24 * 3600.0
#: Maximum bars per request; and requests per period, below the vendor's limit of fifty.
PAGE_BARS, MAX_REQUESTS, PERIOD_S = 20_000, 30, 30.0


class ProjectXRest:
    """HTTP client of one user's ProjectX account. `base` is `https://host`."""

    def __init__(self, user: str, key: str, base: str, clock: Clock, speedup: float) -> None:
        self._user, self._key, self._base = user, key, base
        self._clock, self._speedup = clock, speedup
        self.tokens = TokenSource(self._renew, clock)
        self._http = VendorHttp("ProjectX", clock, speedup)
        self._request_times: deque[float] = deque(maxlen=MAX_REQUESTS)
        self._pace_lock = asyncio.Lock()
        #: Returns the current time by the vendor's clock (ns UTC), at most a second behind.
        self.vendor_ns = self._http.vendor_ns

    async def contracts(self, text: str) -> list[ListedContract]:
        """Search contracts by name; the vendor returns at most twenty."""
        answer = await self._ask("/api/Contract/search", {"searchText": text, "live": False})
        return answer.contracts

    async def bars(self, contract_id: str, first_ns: int, end_ns: int) -> Rows:
        """Return all one-second bars in `[first_ns, end_ns)`, in order of time."""
        parts = await self._pages(contract_id, first_ns, end_ns)
        rows = np.concatenate([np.zeros(0, BAR), *parts])
        return rows[np.argsort(rows["ts_event"], kind="stable")]

    async def _pages(
        self, contract_id: str, first_ns: int, end_ns: int, *, newest_first: bool = False
    ) -> list[Rows]:
        """Fetch the bars of a time span page by page.

        A page with the maximum number of bars may lack some of the span, so the time before and after the page is
        requested too. The vendor seems to return the newest bars of a span. Once a response confirms this
        (`newest_first`), the time after a page is not requested again.
        """
        if first_ns >= end_ns:
            return []
        page = await self._page(contract_id, first_ns, end_ns)
        rows = page[(page["ts_event"] >= first_ns) & (page["ts_event"] < end_ns)]
        if len(page) < PAGE_BARS or not len(rows):
            return [rows]
        oldest_ns, newest_ns = int(rows["ts_event"][0]), int(rows["ts_event"][-1])
        after: list[Rows] = []
        if not newest_first:
            after = await self._pages(contract_id, newest_ns + NANOS_PER_SECOND, end_ns)
            newest_first = not any(len(part) for part in after)
        before = await self._pages(contract_id, first_ns, oldest_ns, newest_first=newest_first)
        return [*before, rows, *after]

    async def _page(self, contract_id: str, first_ns: int, end_ns: int) -> Rows:
        async with self._pace_lock:
            await self._wait_for_turn()
        body = {
            "contractId": contract_id, "live": False, "startTime": _text(first_ns), "endTime": _text(end_ns),
            "unit": 1, "unitNumber": 1, "limit": PAGE_BARS, "includePartialBar": False,
        }  # fmt: skip
        answer = await self._ask("/api/History/retrieveBars", body)
        if not answer.success:
            if answer.errorCode == 1:
                raise FeedRefused("unknown_contract", "ProjectX has no history of this contract")
            raise FeedLost("vendor_error", f"ProjectX returned no bars: error {answer.errorCode}")
        return await asyncio.to_thread(bar_rows, answer.bars or [])

    async def _wait_for_turn(self) -> None:
        loop = asyncio.get_running_loop()
        if len(self._request_times) == MAX_REQUESTS:
            await asyncio.sleep(max(0.0, self._request_times[0] + PERIOD_S / self._speedup - loop.time()))
        self._request_times.append(loop.time())

    # -- requests

    async def _renew(self, _last: Token | None) -> Token:
        status, body = await self._post(
            "/api/Auth/loginKey", {"userName": self._user, "apiKey": self._key}, ""
        )
        answer = read_answer(body) if status == 200 else Answer(errorCode=0 if status in {400, 401} else 8)
        if not answer.success or not answer.token:
            raise login_problem(answer)
        return Token(answer.token, self._clock.now_ns(), TOKEN_LIFE_S)

    async def _ask(self, path: str, body: Mapping[str, object]) -> Answer:
        for _ in range(2):
            token = await self.tokens.token()
            status, answered = await self._post(path, body, token)
            if status != 401:
                break
            self.tokens.refused(token)
        else:
            raise CredentialsRejected("login_expired", "ProjectX rejected its own token")
        if status == 429:
            raise FeedLost("rate_limited", "too many requests to ProjectX")
        if status != 200:
            raise FeedLost("vendor_error", f"ProjectX returned HTTP {status}")
        return read_answer(answered)

    async def _post(self, path: str, body: Mapping[str, object], token: str) -> tuple[int, bytes]:
        headers = {"Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return await self._http.post(self._base + path, msgspec.json.encode(body), headers)

    async def close(self) -> None:
        """Close the HTTP connections."""
        await self._http.close()


def _text(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NANOS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""tastytrade's REST interface: access tokens, quote tokens and the symbols of futures.

Tokens and credentials are only in requests, and errors repeat nothing of a response but the vendor's error code.
Redirects are not followed. The market data URL of a response is used only if its host is the vendor's or was
configured by the operator.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import msgspec
from yarl import URL

from outcry import __version__
from outcry.base.clock import Clock
from outcry.base.http_client import system_resolution
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tokens import Token, TokenSource
from outcry.trades.feed import FeedLost, FeedRefused

PRODUCTION_URL, SANDBOX_URL = "https://api.tastyworks.com", "https://api.cert.tastyworks.com"
#: Trusted hosts of market data: dxFeed, which serves it, and the vendor.
_TRUSTED_SUFFIXES = (".dxfeed.com", ".tastyworks.com", ".tastytrade.com")
#: The vendor rejects requests without a product and version with HTTP 401.
_HEADERS = {"User-Agent": f"outcry/{__version__}", "Accept": "application/json"}
_TIMEOUT_S = 15.0
#: Lifetime in seconds of an access token that states none.
_DEFAULT_LIFE_S = 900.0
#: Levels of market data that are not real-time.
_NOT_REAL_TIME = frozenset({"demo", "delayed"})
_MAX_CODE = 80

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The user's credentials; hidden in `repr`."""

    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class QuoteToken:
    """URL of the market data and the token for it, which is hidden in `repr`."""

    url: str
    token: str = field(repr=False)


class _HttpError(Exception):
    """An HTTP error status. `code` is the vendor's error code, truncated."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"status {status}" + (f" ({code})" if code else ""))
        self.status, self.code = status, code


class TastytradeRest:
    """REST client of one login. Its methods raise `CredentialsRejected`, `FeedLost` and `FeedRefused`."""

    def __init__(
        self, credentials: Credentials, places: Mapping[str, str], clock: Clock, speedup: float
    ) -> None:
        self._credentials, self._clock = credentials, clock
        self._base = places.get("api", SANDBOX_URL if credentials.sandbox else PRODUCTION_URL)
        self._trusted_places = {_place(URL(place)) for place in places.values()}
        self._timeout_s = answer_limit_s(_TIMEOUT_S, speedup)
        self._tokens = TokenSource(self._renew, clock)
        self._http: aiohttp.ClientSession | None = None

    @property
    def http(self) -> aiohttp.ClientSession:
        """The HTTP client, also used for the WebSocket."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=system_resolution(),
                headers=_HEADERS,
                trace_configs=refusing_redirects("tastytrade"),
            )
        return self._http

    async def close(self) -> None:
        """Close all connections."""
        if self._http is not None:
            await self._http.close()

    async def quote_token(self) -> QuoteToken:
        """Request the market data URL and a quote token, which is valid for a day."""
        try:
            answer = await self._get("/api-quote-tokens")
        except _HttpError as problem:
            if problem.code.startswith("quote_streamer."):
                raise FeedRefused("not_entitled", "tastytrade has no market data for this login") from None
            raise _vendor_error(problem) from None
        token, url, level = answer.get("token"), answer.get("dxlink-url"), answer.get("level")
        if not isinstance(token, str) or not isinstance(url, str):
            raise FeedLost("protocol", "tastytrade returned no quote token")
        if level in _NOT_REAL_TIME:
            raise FeedRefused(
                "not_entitled",
                f"tastytrade offers only {level} quotes for this login. "
                "Open an account there with real-time market data, then retry.",
            )
        if not self._is_trusted(url):
            raise FeedLost("protocol", "tastytrade returned a market data URL of another host")
        return QuoteToken(url, token)

    async def future(self, name: str) -> JsonObject | None:
        """Return the vendor's description of a future such as `ESZ6`; None if there is none."""
        try:
            return await self._get(f"/instruments/futures/{name}")
        except _HttpError as problem:
            if problem.status == 404:
                return None
            raise _vendor_error(problem) from None

    def _is_trusted(self, url: str) -> bool:
        try:
            place = URL(url)
        except ValueError:
            return False
        ours = place.scheme == "wss" and ("." + (place.host or "")).endswith(_TRUSTED_SUFFIXES)
        return (ours and place.explicit_port in (None, 443)) or _place(place) in self._trusted_places

    # -- requests

    async def _get(self, path: str) -> JsonObject:
        """Return the `data` of a response; renew a rejected token once. Raises `_HttpError`."""
        for again in (True, False):
            token = await self._tokens.token()
            try:
                answer = await self._request("GET", path, headers={"Authorization": f"Bearer {token}"})
            except _HttpError as problem:
                if problem.status != 401:
                    raise
                self._tokens.refused(token)
                if not again:
                    raise CredentialsRejected(
                        "login_refused", "tastytrade rejected an access token that it had just issued"
                    ) from None
                continue
            data = answer.get("data")
            if not isinstance(data, dict):
                break
            return cast("JsonObject", data)
        raise FeedLost("protocol", "tastytrade returned no data")

    async def _renew(self, _last: Token | None) -> Token:
        """Request a new access token with the refresh token."""
        asked_ns = self._clock.now_ns()
        body = {
            "grant_type": "refresh_token",
            "client_secret": self._credentials.client_secret,
            "refresh_token": self._credentials.refresh_token,
        }
        try:
            answer = await self._request("POST", "/oauth/token", json=body)
        except _HttpError as problem:
            raise _login_error(problem) from None
        text, life_s = answer.get("access_token"), answer.get("expires_in", _DEFAULT_LIFE_S)
        if not isinstance(text, str) or not isinstance(life_s, int | float) or not life_s > 0:
            raise FeedLost("protocol", "tastytrade returned no access token")
        return Token(text, asked_ns, float(life_s))

    async def _request(self, method: str, path: str, **more: Any) -> JsonObject:
        """Send a request and return the JSON object of the response. Raises `_HttpError`, `FeedLost`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self.http.request(method, self._base + path, **more) as reply:
                    answer = _read(await read_body(reply))
                    status = reply.status
        except TimeoutError:
            raise FeedLost("unreachable", "tastytrade did not answer in time") from None
        except (aiohttp.ClientError, OSError) as problem:
            raise FeedLost("unreachable", f"cannot reach tastytrade: {type(problem).__name__}") from None
        if status >= 300:
            raise _HttpError(status, _vendor_code(answer or {}))
        if answer is None:
            raise FeedLost("protocol", "tastytrade sent an unreadable response")
        return answer


def _read(body: bytes) -> JsonObject | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError):
        return None


def _vendor_code(answer: JsonObject) -> str:
    """Return the vendor's error code in a response. For OAuth, add its description, which distinguishes causes."""
    error = answer.get("error")
    if isinstance(error, dict):
        error = cast("JsonObject", error).get("code")
    found = error or answer.get("error_code")
    words = answer.get("error_description")
    text = " ".join(part for part in (found, words) if isinstance(part, str))
    return "".join(letter for letter in text if letter.isalnum() or letter in "_.- ")[:_MAX_CODE]


def _login_error(problem: _HttpError) -> Exception:
    """Return the error for a refused login."""
    if problem.status in (400, 401, 403):
        ended = any(word in problem.code.lower() for word in ("revoked", "expired"))
        code = "login_expired" if ended else "login_refused"
        return CredentialsRejected(code, f"tastytrade rejected the login: {problem}")
    return _vendor_error(problem)


def _vendor_error(problem: _HttpError) -> FeedLost:
    """Return the error for an HTTP error status outside of the login."""
    if problem.status == 429:
        return FeedLost("rate_limited", "too many requests to tastytrade")
    if problem.status == 403:
        return FeedRefused("not_allowed", f"tastytrade does not allow this: {problem}")
    return FeedLost("vendor_error", f"tastytrade returned {problem}")


def _place(url: URL) -> tuple[str | None, int | None]:
    return url.host, url.port

"""tastytrade's REST interface: an access token for a refresh token, a quote token, what a future is called.

Rules kept: tokens and entries go into requests and nowhere else, and nothing the vendor answered is repeated but its
own code of an error; a redirection is not followed; the market data address the vendor gives is believed only where it
is the vendor's own or one the operator named.
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
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tokens import Token, TokenSource
from outcry.trades.feed import FeedLost, FeedRefused

PRODUCTION_URL, SANDBOX_URL = "https://api.tastyworks.com", "https://api.cert.tastyworks.com"
#: Hosts of market data: dxFeed's, who serves it, and the vendor's own.
_STREAMERS = (".dxfeed.com", ".tastyworks.com", ".tastytrade.com")
#: Requests without a product and version are answered 401.
_HEADERS = {"User-Agent": f"outcry/{__version__}", "Accept": "application/json"}
_TIMEOUT_S = 15.0
#: Lives in seconds of an access token that does not say.
_ACCESS_S = 900.0
#: Levels of market data that are not of now.
_NOT_REAL_TIME = frozenset({"demo", "delayed"})
_LONGEST_CODE = 80

Told = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entries:
    """What a person has entered. Never printed."""

    client_secret: str = field(repr=False)
    refresh_token: str = field(repr=False)
    sandbox: bool = False


@dataclass(frozen=True, slots=True)
class Streamer:
    """Where market data is, and what lets one in. Never printed."""

    url: str
    token: str = field(repr=False)


class _Status(Exception):
    """An answer that is no success. `code`: the vendor's own, cut short."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"status {status}" + (f" ({code})" if code else ""))
        self.status, self.code = status, code


class Rest:
    """Asks the vendor. Its methods raise `Rejected`, `FeedLost` and `FeedRefused`."""

    def __init__(self, entries: Entries, places: Mapping[str, str], clock: Clock, rush: float) -> None:
        self._entries, self._clock = entries, clock
        self._base = places.get("api", SANDBOX_URL if entries.sandbox else PRODUCTION_URL)
        self._named = {_place(URL(place)) for place in places.values()}
        self._timeout_s = _TIMEOUT_S / rush
        self._tokens = TokenSource(self._renewed, clock)
        self._http: aiohttp.ClientSession | None = None

    @property
    def http(self) -> aiohttp.ClientSession:
        """The connections to the vendor, of whichever protocol."""
        if self._http is None:
            self._http = aiohttp.ClientSession(
                headers=_HEADERS, trace_configs=refusing_redirects("tastytrade")
            )
        return self._http

    async def close(self) -> None:
        """Let go of all connections."""
        if self._http is not None:
            await self._http.close()

    async def streamer(self) -> Streamer:
        """Where market data is now, with a quote token, which is good for a day."""
        try:
            told = await self._asked("/api-quote-tokens")
        except _Status as problem:
            if problem.code.startswith("quote_streamer."):
                raise FeedRefused("not_entitled", "tastytrade has no market data for this login") from None
            raise _failed(problem) from None
        token, url, level = told.get("token"), told.get("dxlink-url"), told.get("level")
        if not isinstance(token, str) or not isinstance(url, str):
            raise FeedLost("protocol", "tastytrade returned no quote token")
        if level in _NOT_REAL_TIME:
            raise FeedRefused(
                "not_entitled", f"tastytrade offers this login only quotes of the level {level}"
            )
        if not self._is_streamer(url):
            raise FeedLost("protocol", "tastytrade returned a market data URL of another host")
        return Streamer(url, token)

    async def future(self, name: str) -> Told | None:
        """What the vendor says of a future, `ESZ6`; None where it knows none of this name."""
        try:
            return await self._asked(f"/instruments/futures/{name}")
        except _Status as problem:
            if problem.status == 404:
                return None
            raise _failed(problem) from None

    def _is_streamer(self, url: str) -> bool:
        try:
            place = URL(url)
        except ValueError:
            return False
        ours = place.scheme == "wss" and ("." + (place.host or "")).endswith(_STREAMERS)
        return (ours and place.explicit_port in (None, 443)) or _place(place) in self._named

    # -- asking

    async def _asked(self, path: str) -> Told:
        """The `data` of an answer. A token refused before its time is renewed once. Raises `_Status`."""
        for again in (True, False):
            token = await self._tokens.token()
            try:
                told = await self._sent("GET", path, headers={"Authorization": f"Bearer {token}"})
            except _Status as problem:
                if problem.status != 401:
                    raise
                self._tokens.refused(token)
                if not again:
                    raise CredentialsRejected(
                        "login_refused", "tastytrade rejected its own access token"
                    ) from None
                continue
            data = told.get("data")
            if not isinstance(data, dict):
                break
            return cast("Told", data)
        raise FeedLost("protocol", "tastytrade returned no data")

    async def _renewed(self, _last: Token | None) -> Token:
        """A new access token for the refresh token."""
        asked_ns = self._clock.now_ns()
        body = {
            "grant_type": "refresh_token",
            "client_secret": self._entries.client_secret,
            "refresh_token": self._entries.refresh_token,
        }
        try:
            told = await self._sent("POST", "/oauth/token", json=body)
        except _Status as problem:
            raise _signed_out(problem) from None
        text, life_s = told.get("access_token"), told.get("expires_in", _ACCESS_S)
        if not isinstance(text, str) or not isinstance(life_s, int | float) or not life_s > 0:
            raise FeedLost("protocol", "tastytrade returned no access token")
        return Token(text, asked_ns, float(life_s))

    async def _sent(self, method: str, path: str, **more: Any) -> Told:
        """Send a request, return the JSON object of the answer. Raises `_Status`, `FeedLost`."""
        try:
            async with asyncio.timeout(self._timeout_s):
                async with self.http.request(method, self._base + path, **more) as reply:
                    told = _read(await read_body(reply))
                    status = reply.status
        except TimeoutError:
            raise FeedLost("unreachable", "tastytrade did not answer in time") from None
        except (aiohttp.ClientError, OSError) as problem:
            raise FeedLost("unreachable", f"cannot reach tastytrade: {type(problem).__name__}") from None
        if status >= 300:
            raise _Status(status, _code_of(told or {}))
        if told is None:
            raise FeedLost("protocol", "tastytrade sent an unreadable response")
        return told


def _read(body: bytes) -> Told | None:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, ValueError):
        return None


def _code_of(told: Told) -> str:
    """The vendor's code of what went wrong: of its interface, or of OAuth with the words that tell causes apart."""
    error = told.get("error")
    if isinstance(error, dict):
        error = cast("Told", error).get("code")
    found = error or told.get("error_code")
    words = told.get("error_description")
    text = " ".join(part for part in (found, words) if isinstance(part, str))
    return "".join(letter for letter in text if letter.isalnum() or letter in "_.- ")[:_LONGEST_CODE]


def _signed_out(problem: _Status) -> Exception:
    """What a refused sign-in means."""
    if problem.status in (400, 401, 403):
        ended = any(word in problem.code.lower() for word in ("revoked", "expired"))
        code = "login_expired" if ended else "login_refused"
        return CredentialsRejected(code, f"tastytrade rejected the login: {problem}")
    return _failed(problem)


def _failed(problem: _Status) -> FeedLost:
    """What an answer that is no success means, beside the sign-in."""
    if problem.status == 429:
        return FeedLost("rate_limited", "too many requests to tastytrade")
    if problem.status == 403:
        return FeedRefused("not_allowed", f"tastytrade does not allow this: {problem}")
    return FeedLost("vendor_error", f"tastytrade returned {problem}")


def _place(url: URL) -> tuple[str | None, int | None]:
    return url.host, url.port

"""Tradovate's REST requests: login, token renewal, and the vendor's id of a contract.

A session is renewed instead of replaced, because a new session may end another one of the user. After a rate limit, no
request is sent before the required pause is over. Errors never contain credentials.
"""

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from typing import NoReturn

import aiohttp
import msgspec

from outcry.base.clock import Clock
from outcry.feeds.response_body import read_body
from outcry.feeds.shared_session import CredentialsRejected
from outcry.feeds.tokens import Token
from outcry.feeds.tradovate.protocol import parse, to_ns
from outcry.market.units import NANOS_PER_MINUTE, NANOS_PER_SECOND
from outcry.trades.feed import FeedLost, FeedRefused

#: Base URL of the web requests and URL of the market data, by environment.
API = {"live": "https://live.tradovateapi.com/v1", "demo": "https://demo.tradovateapi.com/v1"}
MARKET = {
    "live": "wss://md.tradovateapi.com/v1/websocket",
    "demo": "wss://md-demo.tradovateapi.com/v1/websocket",
}
VERSION = "1.0"
TIMEOUT_S = 20.0
#: After HTTP 429 no request may be sent for an hour.
RATE_LIMIT_PAUSE_S = 3600.0
#: A token lives for eighty minutes. The vendor's expiry is limited to this range, because its clock may differ.
MIN_LIFE_NS, MAX_LIFE_NS = 5 * NANOS_PER_MINUTE, 90 * NANOS_PER_MINUTE
_MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Entries:
    """The user's credentials; hidden in `repr`."""

    user: str = field(repr=False)
    password: str = field(repr=False)
    cid: str = field(repr=False)
    secret: str = field(repr=False)
    app: str
    environment: str


class TokenAnswer(
    msgspec.Struct, rename={"p_ticket": "p-ticket", "p_time": "p-time", "p_captcha": "p-captcha"}
):
    """Response to a login or renewal; a refusal also has HTTP status 200."""

    accessToken: str = ""  # noqa: N815 - the vendor's own names
    mdAccessToken: str = ""  # noqa: N815
    expirationTime: datetime | None = None  # noqa: N815
    errorText: str | None = None  # noqa: N815
    p_ticket: str = ""
    p_time: float = 0.0
    p_captcha: bool = False


class ContractAnswer(msgspec.Struct):
    """A contract in the vendor's response."""

    id: int | None = None
    name: str = ""
    errorText: str | None = None  # noqa: N815


class Login:
    """Login of one user at Tradovate, and requests that need it.

    `api` is the base URL without a trailing slash. `device` is the same each time, because the vendor asks the user to
    approve each new device. Waits are divided by `speedup`.
    """

    def __init__(
        self,
        entries: Entries,
        http: aiohttp.ClientSession,
        api: str,
        device: str,
        clock: Clock,
        speedup: float,
    ) -> None:
        self._entries, self._http, self._api, self._device = entries, http, api, device
        self._clock, self._speedup = clock, speedup
        self._ticket = ""
        self._paused_until_s = 0.0
        self._market_token = ""

    def market_token(self, token: str) -> str:
        """Return the token for market data: the separate one if the vendor issued one, otherwise `token`."""
        return self._market_token or token

    def pause(self, seconds: float) -> None:
        """Send no requests for this many seconds."""
        self._paused_until_s = max(self._paused_until_s, _now_s() + seconds / self._speedup)

    def check_pause(self) -> None:
        """Raise `FeedLost("rate_limited")` during a pause."""
        if _now_s() < self._paused_until_s:
            raise FeedLost("rate_limited", "Tradovate limits logins for now")

    async def renew(self, last: Token | None) -> Token:
        """Return a valid token: the last one renewed, or that of a new login.

        Raises the errors of `SharedSession`'s `sign_in`.
        """
        self.check_pause()
        if last is not None:
            try:
                return self._granted(await self._ask("GET", "/auth/renewaccesstoken", token=last.text))
            except CredentialsRejected:
                pass  # expired: sign in again
        entries = self._entries
        body = {
            "name": entries.user, "password": entries.password, "appId": entries.app, "appVersion": VERSION,
            "deviceId": self._device, "cid": entries.cid, "sec": entries.secret,
        }  # fmt: skip
        if self._ticket:
            body["p-ticket"], self._ticket = self._ticket, ""
        return self._granted(await self._ask("POST", "/auth/accesstokenrequest", body=body))

    async def number(self, name: str, token: str) -> int:
        """Return the vendor's numeric id of a contract.

        Raises `FeedRefused("unknown_contract")` and the errors of `renew`.
        """
        self.check_pause()
        raw = await self._ask("GET", "/contract/find", token=token, query={"name": name})
        found = parse(msgspec.Raw(raw), ContractAnswer) if raw is not None else ContractAnswer()
        if found.id is None or found.errorText or found.name.upper() != name.upper():
            raise FeedRefused("unknown_contract", f"Tradovate has no contract {name}")
        return found.id

    def _granted(self, raw: bytes | None) -> Token:
        """Return the token in a login response, or raise the error that it reports."""
        grant = parse(msgspec.Raw(raw or b"{}"), TokenAnswer)
        if grant.p_captcha:
            raise _captcha()
        if grant.p_ticket:
            self._ticket = grant.p_ticket
            self.pause(grant.p_time)
            raise FeedLost(
                "rate_limited", f"too many logins: Tradovate requires a pause of {grant.p_time:g} s"
            )
        if grant.errorText:
            expired = "expired" in grant.errorText.lower()
            raise CredentialsRejected(
                "login_expired" if expired else "login_refused", self._shown(grant.errorText)
            )
        if not grant.accessToken:
            raise FeedLost("protocol", "Tradovate answered a login with neither a token nor a refusal")
        self._market_token = grant.mdAccessToken
        now_ns = self._clock.now_ns()
        life_ns = to_ns(grant.expirationTime) - now_ns if grant.expirationTime else MAX_LIFE_NS
        life_ns = min(max(life_ns, MIN_LIFE_NS), MAX_LIFE_NS)
        return Token(grant.accessToken, now_ns, life_ns / NANOS_PER_SECOND)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        token: str = "",
        query: dict[str, str] | None = None,
        body: dict[str, str] | None = None,
    ) -> bytes | None:
        """Return the body of a response; None for HTTP 404. Raises the errors of `renew`."""
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            async with self._http.request(
                method, self._api + path, params=query, json=body, headers=headers, allow_redirects=False
            ) as response:
                status, raw = response.status, await read_body(response)
        except (aiohttp.ClientError, OSError, TimeoutError) as problem:
            # the client's error text may quote the request, so only the error type is reported
            raise FeedLost("unreachable", f"cannot reach Tradovate ({type(problem).__name__})") from None
        return None if status == 404 else raw if status == 200 else self._refused(status)

    def _refused(self, status: int) -> NoReturn:
        if status in {401, 403}:
            raise CredentialsRejected("login_refused", "Tradovate rejected the login")
        if status == 423:
            raise _captcha()
        if status == 429:
            self.pause(RATE_LIMIT_PAUSE_S)
            raise FeedLost("rate_limited", "too many requests: Tradovate requires a pause of one hour")
        raise FeedLost("vendor_error", f"Tradovate returned HTTP {status}")

    def _shown(self, text: str) -> str:
        """Return a vendor's text for display, without any credentials it may repeat."""
        entries = self._entries
        for secret in (entries.password, entries.secret, entries.user):
            text = text.replace(secret, "…")
        return text[:_MAX_TEXT]


def _captcha() -> FeedRefused:
    return FeedRefused(
        "not_allowed",
        "Tradovate requires a human login. Sign in on its website, wait an hour, then try again",
    )


def _now_s() -> float:
    return asyncio.get_running_loop().time()

"""The Tradovate feed: one login and one socket, shared by the streams of all contracts.

Nothing is requested before a stream is read. If a token is rejected, a new one is requested first, to distinguish an
expired token from wrong credentials. Anything older than the requested history is reported as a gap.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TypeVar

import aiohttp

from outcry.base.http_client import system_resolution
from outcry.connections.broker_adapter import AdapterContext
from outcry.feeds.answer_limit import answer_limit_s
from outcry.feeds.redirects import refusing_redirects
from outcry.feeds.shared_session import CredentialsRejected, SharedSession
from outcry.feeds.tokens import Token, TokenSource
from outcry.feeds.tradovate.aggressor_cache import AggressorCache
from outcry.feeds.tradovate.history import RequestPacer
from outcry.feeds.tradovate.login import API, MARKET, RATE_LIMIT_PAUSE_S, TIMEOUT_S, Entries, Login
from outcry.feeds.tradovate.protocol import RateLimited
from outcry.feeds.tradovate.stream import TradovateStream
from outcry.feeds.tradovate.symbols import vendor_symbol
from outcry.feeds.tradovate.vendor_session import MAX_FRAME_BYTES, TradovateSession
from outcry.market.instruments import Contract
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import Cursor, Event, FeedCaps, FeedLost, FeedRefused, Gap, Status, Trades

T = TypeVar("T")


class TradovateFeed:
    """Live feed of Tradovate for one login. Implements `Feed`."""

    name = "tradovate"
    run = ""

    def __init__(self, entries: Entries, caps: FeedCaps, context: AdapterContext) -> None:
        self.caps, self._context, self._entries = caps, context, entries
        self._http: aiohttp.ClientSession | None = None
        self._login: Login | None = None
        self._tokens = TokenSource(self._renewed, context.clock)
        self._link: SharedSession[TradovateSession] = SharedSession(self._sign_in, speedup=context.speedup)
        self._pacer = RequestPacer(context.speedup)
        self._numbers: dict[str, int] = {}
        self._aggressors: dict[str, AggressorCache] = {}
        self._closed = False

    async def contracts(self) -> list[Contract]:
        """Return the contracts to subscribe to now."""
        return list(self._context.select_contracts())

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        await self._link.close()
        if self._http is not None:
            await self._http.close()

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        """Stream a contract from a cursor on. Raises `FeedLost`, `FeedRefused`."""
        now_ns = self._context.clock.now_ns()
        today = datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC).date()
        name = vendor_symbol(self._context.universe, contract, today)
        if name is None:
            raise FeedRefused("unknown_contract", f"Tradovate has no contract {contract.key}")
        session = await self._link.session()
        stream = TradovateStream(session, name, await self._number(name), self._turn, self._context.speedup)
        aggressors = self._aggressors.setdefault(name, AggressorCache())
        from_ns = max(since.since_ns, now_ns - self.caps.reach_ns)
        try:
            async with aclosing(stream.events(from_ns)) as events:
                async for event in events:
                    if isinstance(event, Trades):
                        aggressors.apply(event.rows)
                    yield event
                    if isinstance(event, Status):
                        self._link.worked()
                        if since.since_ns < from_ns:
                            yield Gap(since.since_ns, from_ns, "not_kept")
        except RateLimited as problem:
            self._login_client().pause(RATE_LIMIT_PAUSE_S)
            raise FeedLost(problem.code, str(problem)) from None
        except CredentialsRejected as problem:
            self._tokens.refused(session.token)
            raise self._link.rejected(problem) from None

    async def _turn(self) -> None:
        await self._pacer.turn()
        self._login_client().check_pause()

    # -- signing in

    def _client(self) -> aiohttp.ClientSession:
        if self._closed:
            raise FeedLost("closed")
        if self._http is None:
            timeout = aiohttp.ClientTimeout(total=answer_limit_s(TIMEOUT_S, self._context.speedup))
            self._http = aiohttp.ClientSession(
                connector=system_resolution(), timeout=timeout, cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=refusing_redirects("Tradovate"),
            )  # fmt: skip
        return self._http

    def _login_client(self) -> Login:
        if self._login is None:
            entries, context = self._entries, self._context
            api = context.endpoints.get("api") or API[entries.environment]
            # the same each time, because the vendor asks the user to approve each new device; the hash does not reveal
            # the entries
            device = hashlib.sha256(f"outcry\0{entries.user}\0{entries.cid}".encode()).hexdigest()
            self._login = Login(
                entries, self._client(), api.rstrip("/"), device, context.clock, context.speedup
            )
        return self._login

    async def _renewed(self, last: Token | None) -> Token:
        return await self._login_client().renew(last)

    async def _with_token(self, ask: Callable[[str], Awaitable[T]]) -> T:
        """Call `ask` with a token; after a rejection, retry once with a new token. Raises `CredentialsRejected`."""
        token = await self._tokens.token()
        try:
            return await ask(token)
        except CredentialsRejected:
            self._tokens.refused(token)
        token = await self._tokens.token()
        try:
            return await ask(token)
        except CredentialsRejected:
            self._tokens.refused(token)
            raise

    async def _sign_in(self) -> TradovateSession:
        return await self._with_token(self._connect)

    async def _connect(self, token: str) -> TradovateSession:
        url = self._context.endpoints.get("md") or MARKET[self._entries.environment]
        try:
            socket = await self._client().ws_connect(url, max_msg_size=MAX_FRAME_BYTES)
        except aiohttp.ClientError as problem:
            text = f"cannot reach Tradovate's market data ({type(problem).__name__})"
            raise FeedLost("unreachable", text) from None
        session = TradovateSession(socket, token, self._context.clock, self._context.speedup, self._keep)
        try:
            await session.begin(self._login_client().market_token(token))
        except BaseException:
            await session.close()
            raise
        return session

    async def _keep(self) -> None:
        """Renew the access token if it is due for renewal."""
        try:
            await self._tokens.token()
        except CredentialsRejected as problem:
            raise self._link.rejected(problem) from None

    async def _number(self, name: str) -> int:
        if name not in self._numbers:
            try:
                self._numbers[name] = await self._with_token(
                    lambda token: self._login_client().number(name, token)
                )
            except CredentialsRejected as problem:
                raise self._link.rejected(problem) from None
        return self._numbers[name]

"""Databento on loopback: the live gateway and the historical service, built from the vendor's installed library.

The library encodes the gateway's messages, its challenge and every record. Their sequence follows the vendor's
documentation: greeting and challenge, subscriptions, start, metadata, acknowledgements, symbol mappings and the replay.
The replay covers at most 24 hours by exchange time. After its end come live records and heartbeats. It shares no code
with the adapter except the `ADAPTER` that the tests request.
"""

# The stubs of the vendor's library require enumerations. Their values work too, and the gateway sends these.
# pyright: reportArgumentType=false

import asyncio
import base64
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import zstandard
from aiohttp import web
from databento.common import cram
from databento.live.gateway import (
    AuthenticationRequest,
    AuthenticationResponse,
    ChallengeRequest,
    Greeting,
    SessionStart,
    SubscriptionRequest,
    parse_gateway_message,
)
from databento_dbn import (
    Action,
    ErrorCode,
    ErrorMsg,
    Metadata,
    Schema,
    Side,
    SType,
    SymbolMappingMsg,
    SystemCode,
    SystemMsg,
    TradeMsg,
)

from outcry.feeds.databento.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

KEY = "db-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4"
LETTERS = "FGHJKMNQUVXZ"
DAY_NS = 86_400 * 10**9
#: Delay between a trade and the vendor's receipt.
RECEIPT_NS = 2_000_000
FOREVER = 2**64 - 1
SIDES = {b"A": Side.ASK, b"B": Side.BID, b"N": Side.NONE}


def symbol_of(contract: Contract) -> str:
    return f"{contract.root}{LETTERS[contract.month - 1]}{contract.year % 10}"


def _named(symbol: str, number: int, *range_ns: int) -> SimpleNamespace:
    """Return a symbol's instrument id for the days of a request (UTC, last not included), for a file header."""
    first, last = (datetime.fromtimestamp(at_ns // 10**9, UTC).date() for at_ns in range_ns)
    interval = SimpleNamespace(start_date=first, end_date=last + timedelta(days=1), symbol=str(number))
    return SimpleNamespace(raw_symbol=symbol, intervals=[interval])


@dataclass(eq=False)
class Caller:
    """One connection to the gateway. Data sent while the vendor is frozen waits in `held`."""

    peer: "DatabentoPeer"
    writer: asyncio.StreamWriter
    unsent: bytearray = field(default_factory=bytearray)
    asked: list[SubscriptionRequest] = field(default_factory=list)
    symbols: set[str] = field(default_factory=set)
    streams: bool = False

    def send(self, *messages: object) -> None:
        data = b"".join(bytes(message) for message in messages)  # pyright: ignore[reportArgumentType]
        if self.peer.frozen:
            self.unsent += data
        elif not self.writer.is_closing():
            self.writer.write(data)

    def thaw(self) -> None:
        if not self.writer.is_closing():
            self.writer.write(bytes(self.unsent))
        self.unsent.clear()

    def reset(self) -> None:
        """Break the connection as a failed machine does."""
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self.writer.transport.abort()


class DatabentoPeer:
    """Fake Databento. Implements `FakePeer`."""

    adapter = ADAPTER
    history = Quality.TICKS
    resolution_ns = 1

    def __init__(self) -> None:
        #: Seconds between heartbeats of `advance`; 0: a heartbeat each time.
        self.beat_s = self._beat_s = 0.0
        self.given: Mapping[str, str] = {"key": KEY}
        self.now_ns = 0
        self.logins = self.refusals = self.repeated = 0
        self.callers: set[Caller] = set()
        self.frozen = False
        #: Error text with which a login is refused; empty: logins succeed.
        self.login_error = ""
        #: Status and error case with which history is refused.
        self.history_error: tuple[int, str] | None = None
        #: Requested ranges of history: symbol, start, end.
        self.priced: list[tuple[str, int, int]] = []
        self.fetched: list[tuple[str, int, int]] = []
        self.replay_keeps_ns = DAY_NS
        #: Whether a replay that begins before the retained data is an error, or begins at the oldest retained data.
        self.ages_out = False
        self.sessions: list[list[SubscriptionRequest]] = []
        self._tapes: dict[str, Rows] = {}
        self._again_ns: dict[str, int] = {}
        self._burst = 0
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None
        self._ports = (0, 0)

    @property
    def places(self) -> Mapping[str, str]:
        gateway, historical = self._ports
        return {"gateway": f"127.0.0.1:{gateway}", "historical": f"http://127.0.0.1:{historical}"}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        app = web.Application()
        app.router.add_post("/v0/timeseries.get_range", self._get_range)
        app.router.add_post("/v0/metadata.get_cost", self._get_cost)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._ports = (self._server.sockets[0].getsockname()[1], self._runner.addresses[0][1])

    async def stop(self) -> None:
        self.freeze(on=False)
        for caller in list(self.callers):
            caller.reset()
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def tape(self, contract: Contract, rows: Rows) -> None:
        self._tapes[symbol_of(contract)] = rows

    # -- the gateway

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = Caller(self, writer)
        self.callers.add(caller)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            challenge = f"challenge{len(self.callers)}{self.logins}"
            caller.send(Greeting(lsg_version="0.6.5"), ChallengeRequest(cram=challenge))
            while line := await reader.readline():
                message = parse_gateway_message(line.decode())
                if isinstance(message, AuthenticationRequest):
                    self._authenticate(caller, challenge, message)
                elif isinstance(message, SubscriptionRequest):
                    caller.asked.append(message)
                elif isinstance(message, SessionStart):
                    self._begin(caller)
        except ConnectionError:
            pass
        finally:
            self.callers.discard(caller)
            self._tasks.discard(task)
            writer.transport.abort()

    def _authenticate(self, caller: Caller, challenge: str, message: AuthenticationRequest) -> None:
        self.logins += 1
        right = message.auth == cram.get_challenge_response(challenge, KEY)
        error = self.login_error or ("" if right else "Authentication failed.")
        if error:
            self.refusals += 1
            caller.send(AuthenticationResponse(success="0", error=error))
            self._hang_up(caller)
        else:
            caller.send(AuthenticationResponse(success="1", session_id="7001"))

    def _hang_up(self, caller: Caller) -> None:
        caller.writer.close()
        self.callers.discard(caller)

    def _begin(self, caller: Caller) -> None:
        self.sessions.append(caller.asked)
        caller.send(
            Metadata(
                dataset="GLBX.MDP3", start=self.now_ns, stype_in=None, stype_out=SType.INSTRUMENT_ID,
                schema=None, ts_out=False, version=3,
            ).encode()
        )  # fmt: skip
        earliest_ns = self.now_ns - self.replay_keeps_ns
        parts: list[tuple[str, Rows]] = []
        for ask in caller.asked:
            assert ask.schema == "trades"
            if ask.symbols not in self._tapes:
                text = f"Failed to resolve symbol {ask.symbols}"
                caller.send(ErrorMsg(self.now_ns, text, code=ErrorCode.SYMBOL_RESOLUTION_FAILED))
                continue
            start_ns = int(ask.start or self.now_ns)
            assert start_ns <= self.now_ns, "a replay cannot begin in the future"
            if self.ages_out and start_ns < earliest_ns:
                text = "Replay data is no longer retained"
                caller.send(ErrorMsg(self.now_ns, text, code=ErrorCode.REPLAY_DATA_AGED_OUT))
                return self._hang_up(caller)
            text = f"Subscription request {ask.id} for trades data succeeded"
            caller.send(SystemMsg(self.now_ns, text, code=SystemCode.SUBSCRIPTION_ACK))
            caller.send(self._mapping(ask.symbols))
            caller.symbols.add(ask.symbols)
            again_ns = self._again_ns.pop(ask.symbols, 0)
            rows = self._past(ask.symbols, max(start_ns - again_ns, earliest_ns))
            self.repeated += int((rows["ts_event"] < start_ns).sum())
            parts.append((ask.symbols, rows))
        caller.send(*self._records(parts))
        caller.send(SystemMsg(self.now_ns, "Finished trades replay", code=SystemCode.REPLAY_COMPLETED))
        caller.streams = True
        return None

    def _number(self, symbol: str) -> int:
        return 40_000 + list(self._tapes).index(symbol)

    def _mapping(self, symbol: str) -> SymbolMappingMsg:
        return SymbolMappingMsg(
            1, self._number(symbol), self.now_ns, SType.RAW_SYMBOL, symbol, SType.INSTRUMENT_ID, symbol,
            0, FOREVER,
        )  # fmt: skip

    def _past(self, symbol: str, from_ns: int) -> Rows:
        return self._between(symbol, from_ns, self.now_ns)

    def _between(self, symbol: str, from_ns: int, to_ns: int) -> Rows:
        tape = self._tapes[symbol]
        return tape[(tape["ts_event"] >= from_ns) & (tape["ts_event"] < to_ns)]

    def _records(self, parts: list[tuple[str, Rows]], *, burst: bool = False) -> list[TradeMsg]:
        """Return records of several contracts in order of time; the first ones of a burst in another order."""
        rows = [(int(row["ts_event"]), symbol, row) for symbol, part in parts for row in part]
        rows.sort(key=lambda one: one[0])
        if burst:
            head, rows = rows[: self._burst], rows[self._burst :]
            self._burst -= len(head)
            rows = head[::-1] + rows
        found: list[TradeMsg] = []
        newest_ns = 0
        for at_ns, symbol, row in rows:
            newest_ns = max(newest_ns, at_ns + RECEIPT_NS)
            found.append(
                TradeMsg(
                    1, self._number(symbol), at_ns, int(row["price"]), int(row["size"]), Action.TRADE,
                    SIDES[bytes(row["side"])], 0, newest_ns, sequence=int(row["sequence"]),
                )
            )  # fmt: skip
        return found

    # -- history

    def _refused(self, request: web.Request) -> web.Response | None:
        user = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        if user != f"{KEY}:" or self.login_error:
            self.refusals += 1
            return web.json_response(
                {"detail": {"case": "auth_invalid", "message": "no", "docs": ""}}, status=401
            )
        if self.history_error is not None:
            status, case = self.history_error
            return web.json_response({"detail": {"case": case, "message": "no", "docs": ""}}, status=status)
        return None

    async def _get_range(self, request: web.Request) -> web.StreamResponse:
        await self._thawed.wait()
        if (refused := self._refused(request)) is not None:
            return refused
        asked = await request.post()
        symbol = str(asked["symbols"])
        start_ns, end_ns = (int(str(asked[name])) for name in ("start", "end"))
        assert (asked["dataset"], asked["schema"], asked["stype_in"]) == ("GLBX.MDP3", "trades", "raw_symbol")
        assert end_ns <= self.now_ns, "what has not been traded cannot be asked for"
        self.fetched.append((symbol, start_ns, end_ns))
        rows = self._between(symbol, start_ns - RECEIPT_NS, end_ns - RECEIPT_NS)
        header = Metadata(
            dataset="GLBX.MDP3", start=start_ns, end=end_ns, stype_in=SType.RAW_SYMBOL,
            stype_out=SType.INSTRUMENT_ID, schema=Schema.TRADES, symbols=[symbol], ts_out=False, version=3,
            mappings=[_named(symbol, self._number(symbol), start_ns, end_ns)],
        ).encode()  # fmt: skip
        body = header + b"".join(map(bytes, self._records([(symbol, rows)])))
        return web.Response(body=zstandard.compress(body), content_type="application/octet-stream")

    async def _get_cost(self, request: web.Request) -> web.Response:
        if (refused := self._refused(request)) is not None:
            return refused
        asked = await request.post()
        self.priced.append((str(asked["symbols"]), int(str(asked["start"])), int(str(asked["end"]))))
        return web.json_response(1.25)

    # -- controls for tests

    async def advance(self, to_ns: int) -> None:
        from_ns, self.now_ns = self.now_ns, to_ns
        beat = SystemMsg(to_ns, "Heartbeat", code=SystemCode.HEARTBEAT)
        beats = asyncio.get_running_loop().time() >= self._beat_s
        if beats:
            self._beat_s = asyncio.get_running_loop().time() + self.beat_s
        streams = [caller for caller in self.callers if caller.streams]
        known = {symbol for caller in streams for symbol in caller.symbols}
        live = {symbol: self._between(symbol, from_ns, to_ns) for symbol in known}
        burst = self._burst
        for caller in streams:
            self._burst = burst
            caller.send(*self._records([(name, live[name]) for name in sorted(caller.symbols)], burst=True))
            if beats:
                caller.send(beat)
        await asyncio.sleep(0)

    async def drop(self) -> None:
        for caller in list(self.callers):
            if caller.streams and not self.frozen:
                half = np.frombuffer(
                    bytes(self._records([(s, self._tapes[s][:1]) for s in self._tapes])[0]), "u1"
                )
                caller.writer.write(half[: len(half) // 2].tobytes())
                await asyncio.sleep(0)
            caller.reset()
            self.callers.discard(caller)

    def freeze(self, *, on: bool) -> None:
        self.frozen = on
        if on:
            self._thawed.clear()
            return
        self._thawed.set()
        for caller in self.callers:
            caller.thaw()

    def repeat(self, seconds: float) -> None:
        self._again_ns = dict.fromkeys(self._tapes, round(seconds * 10**9))

    async def expire(self, *, on: bool) -> None:
        self.login_error = "API key deactivated." if on else ""
        if on:
            self.fault(ErrorCode.API_KEY_DEACTIVATED, "API key deactivated.")

    def fault(self, code: ErrorCode, text: str) -> None:
        """Send every session an error that ends it."""
        for caller in list(self.callers):
            caller.send(ErrorMsg(self.now_ns, text, code=code))
            self._hang_up(caller)

    def shuffle(self, burst: int) -> None:
        self._burst = burst

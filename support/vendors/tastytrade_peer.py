"""A fake tastytrade on loopback: OAuth and REST, and dxLink on a WebSocket.

Written from developer.tastytrade.com, the dxLink specification 1.0.2 and dxFeed's description of its events, without
code of the adapter. Snapshots are sent newest first. An event's index consists of its second, millisecond and a count.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiohttp import WSMsgType, web
from support.vendors.dxlink_frames import wrong_with, wrong_with_event

from outcry.feeds.tastytrade.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

CLIENT_SECRET, REFRESH_TOKEN = "tt-client-secret-0123456789", "tt.refresh-token.9876543210"
MS, MINUTE = 1_000_000, 60_000_000_000
LETTERS = "FGHJKMNQUVXZ"
EXCHANGES = {"ZN": "XCBT", "ZC": "XCBT", "CL": "XNYM", "GC": "XCEC"}
TICKS = {"ZN": "0.015625", "ZC": "0.0025", "CL": "0.01", "GC": "0.1", "6J": "0.0000005"}
BEGIN, END, REMOVE, SNIP = 0x04, 0x08, 0x02, 0x10
BATCH = 500
Json = dict[str, Any]


@dataclass
class Series:
    """One subscription: its event type and symbol."""

    kind: str
    symbol: str


@dataclass
class Room:
    """A channel. `fields`: fields sent for each type; `told`: whether that configuration was sent."""

    fields: dict[str, list[str]] = field(default_factory=dict)
    series: list[Series] = field(default_factory=list)
    compact: bool = True
    configured: bool = False


class Line:
    """One WebSocket."""

    def __init__(self, peer: "TastytradePeer", request: web.Request, ws: web.WebSocketResponse) -> None:
        self.peer, self.request, self.ws = peer, request, ws
        self.set_up = self.signed_in = False
        self.rooms: dict[int, Room] = {}

    async def send(self, frame: Json) -> None:
        problem = wrong_with(frame, of_client=False)
        assert not problem, f"the fake sent no dxLink: {problem}"
        if self.peer.thawed.is_set():
            with contextlib.suppress(ConnectionError):
                await self.ws.send_str(json.dumps(frame))

    async def fault(self, error: str, channel: int = 0) -> None:
        await self.send({"type": "ERROR", "channel": channel, "error": error, "message": f"it is {error}"})

    async def take(self, frame: Json) -> None:
        problem = wrong_with(frame, of_client=True)
        if problem:
            self.peer.complaints.append(problem)
            await self.fault("INVALID_MESSAGE")
            return
        kind, channel = frame["type"], frame["channel"]
        if kind == "SETUP":
            self.set_up = True
            await self.send(
                {"type": "SETUP", "channel": 0, "version": "1.0-fake", "keepaliveTimeout": 60,
                 "acceptKeepaliveTimeout": frame.get("keepaliveTimeout", 60)}
            )  # fmt: skip
            await self.send({"type": "AUTH_STATE", "channel": 0, "state": "UNAUTHORIZED"})
        elif kind == "AUTH":
            self.signed_in = self.set_up and frame["token"] in self.peer.quote_tokens
            state = "AUTHORIZED" if self.signed_in else "UNAUTHORIZED"
            await self.send({"type": "AUTH_STATE", "channel": 0, "state": state})
        elif kind == "KEEPALIVE":
            pass
        elif not self.signed_in:
            await self.fault("UNAUTHORIZED", channel)
        else:
            await self._serve(kind, channel, frame)

    async def _serve(self, kind: str, channel: int, frame: Json) -> None:
        room = self.rooms.get(channel)
        if kind == "CHANNEL_REQUEST" and room is None:
            self.rooms[channel] = Room()
            await self.send(
                {"type": "CHANNEL_OPENED", "channel": channel, "service": "FEED",
                 "parameters": frame["parameters"]}
            )  # fmt: skip
        elif room is None:
            await self.fault("BAD_ACTION", channel)
        elif kind == "CHANNEL_CANCEL":
            del self.rooms[channel]
            await self.send({"type": "CHANNEL_CLOSED", "channel": channel})
        elif kind == "FEED_SETUP":
            room.compact = frame.get("acceptDataFormat", "FULL") == "COMPACT" and not self.peer.full
            room.fields |= frame.get("acceptEventFields", {})
        elif kind == "FEED_SUBSCRIPTION":
            for asked in frame.get("remove", ()):
                room.series = [
                    s for s in room.series if (s.kind, s.symbol) != (asked["type"], asked["symbol"])
                ]
            for asked in frame.get("add", ()):
                await self._subscribe(channel, room, asked)

    async def _subscribe(self, channel: int, room: Room, asked: Json) -> None:
        kind, symbol, base = asked["type"], asked["symbol"], asked["symbol"].partition("{")[0]
        if base in self.peer.forbidden:
            await self.fault("UNAUTHORIZED", channel)
            return
        if base not in self.peer.tapes:
            return  # the real vendor sends nothing either
        room.series.append(Series(kind, symbol))
        if "fromTime" not in asked or (kind == "TimeAndSale" and not self.peer.grants):
            return
        asked_ns = int(asked["fromTime"]) * MS
        from_ns = asked_ns - self.peer.take_repeat(kind, base)
        if kind == "TimeAndSale":
            from_ns = max(from_ns, self.peer.now_ns - self.peer.keeps_ns)
        find = self.peer.sales_between if kind == "TimeAndSale" else self.peer.candles_between
        events = list(find(base, from_ns, self.peer.now_ns + self.peer.skew_ns))[::-1]
        events = [{**event, "eventSymbol": symbol} for event in events]
        limit = self.peer.most_sales if kind == "TimeAndSale" else len(events)
        end = SNIP if limit < len(events) else END
        events = events[:limit]
        if kind == self.peer.counted_by:
            self.peer.repeated += sum(event["time"] * MS < asked_ns for event in events)
        time = from_ns // MS
        if not events or (kind == "Candle" and events[-1]["time"] > time):  # a marker event reports the end
            none = dict.fromkeys(("open", "high", "low", "close", "volume", "price", "size"), "NaN")
            events.append(
                {"eventSymbol": symbol, "index": time << 22, "time": time, "eventFlags": REMOVE, **none}
            )
        events[0] = {**events[0], "eventFlags": events[0].get("eventFlags", 0) | BEGIN}
        events[-1] = {**events[-1], "eventFlags": events[-1].get("eventFlags", 0) | end}
        await self.tell(channel, kind, events)

    async def tell(self, channel: int, kind: str, events: list[Json]) -> None:
        """Send events in the channel's format, preceded by the configuration if it was not sent yet."""
        room = self.rooms[channel]
        if not room.configured:
            room.configured = True
            config = {"type": "FEED_CONFIG", "channel": channel, "aggregationPeriod": 0,
                      "dataFormat": "COMPACT" if room.compact else "FULL"}  # fmt: skip
            await self.send(config | ({"eventFields": room.fields} if room.fields else {}))
        for at in range(0, len(events), BATCH):
            await self.send(
                {
                    "type": "FEED_DATA",
                    "channel": channel,
                    "data": self._data(room, kind, events[at : at + BATCH]),
                }
            )

    def _data(self, room: Room, kind: str, events: list[Json]) -> list[Any]:
        whole = [{**DEFAULTS[kind], **event, "eventType": kind} for event in events]
        problem = wrong_with_event(whole[0])
        assert not problem, f"the fake sent no event: {problem}"
        if not room.compact:
            return whole
        names = room.fields.get(kind, list(whole[0]))
        return [kind, [event[name] for event in whole for name in names]]

    async def cut(self) -> None:
        """Send half of a frame and stop."""
        transport = self.request.transport
        if transport is None:
            return
        payload = json.dumps(
            {"type": "FEED_DATA", "channel": 1, "data": ["TimeAndSale", ["x"] * 40]}
        ).encode()
        transport.write(b"\x81\x7e" + struct.pack(">H", len(payload)) + payload[: len(payload) // 2])
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()


#: Every field of an event that a client may request, with its default value.
DEFAULTS: dict[str, Json] = {
    "TimeAndSale": {
        "eventTime": 0, "eventFlags": 0, "timeNanoPart": 0, "sequence": 0, "exchangeCode": "G", "bidPrice": "NaN",
        "askPrice": "NaN", "exchangeSaleConditions": "", "tradeThroughExempt": "\u0000", "aggressorSide": "UNDEFINED",
        "spreadLeg": False, "extendedTradingHours": False, "validTick": True, "type": "NEW", "buyer": "NaN",
        "seller": "NaN",
    },
    "Candle": {
        "eventTime": 0, "eventFlags": 0, "sequence": 0, "count": 1, "vwap": "NaN", "bidVolume": "NaN",
        "askVolume": "NaN", "impVolatility": "NaN", "openInterest": "NaN",
    },
}  # fmt: skip


class TastytradePeer:
    """Fake tastytrade. Implements `FakePeer`.

    `grants`: whether there is a history of sales. `full`: data includes field names. `most_sales`: maximum sales of a
    snapshot; truncation is reported. `keeps_ns`: maximum age of sales; truncation is not reported. `tokens_s`: lifetime
    of an access token. `level`: of market data.
    """

    adapter = ADAPTER
    given: Mapping[str, str] = {
        "client_secret": CLIENT_SECRET, "refresh_token": REFRESH_TOKEN, "environment": "production"
    }  # fmt: skip
    history = Quality.TICKS
    resolution_ns = 1_000_000
    grants, full, level = True, False, "api"
    most_sales = keeps_ns = 10**18
    tokens_s = 900

    def __init__(self) -> None:
        self.now_ns = self.skew_ns = self.logins = self.refusals = self.repeated = 0
        self.tapes: dict[str, Rows] = {}
        self.indexes: dict[str, list[int]] = {}
        self.forbidden: set[str] = set()
        self.lines: list[Line] = []
        self.complaints: list[str] = []
        self.access_tokens: dict[str, int] = {}
        self.quote_tokens: set[str] = set()
        self.thawed = asyncio.Event()
        self.thawed.set()
        self.expired = False
        self.dxlink_url = ""
        self._repeats_ns: dict[str, int] = {}
        self._burst = 0
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def places(self) -> Mapping[str, str]:
        return {"api": f"http://127.0.0.1:{self._port}", "dxlink": f"ws://127.0.0.1:{self._port}"}

    # -- lifecycle

    async def start(self) -> None:
        app = web.Application(middlewares=[self._judge])
        app.add_routes(
            [
                web.post("/oauth/token", self._sign_in),
                web.get("/api-quote-tokens", self._quote_token),
                web.get("/instruments/futures/{symbol}", self._future),
                web.get("/realtime", self._line),
            ]
        )
        self._runner = web.AppRunner(app, handle_signals=False, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        self.dxlink_url = f"ws://127.0.0.1:{self._port}/realtime"

    async def stop(self) -> None:
        self.thawed.set()
        for line in list(self.lines):
            if line.request.transport is not None:
                line.request.transport.abort()
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _judge(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        await self.thawed.wait()
        name, _, version = request.headers.get("User-Agent", "").partition("/")
        if not name or not version[:1].isdigit():
            return web.Response(
                status=401, text="<html>401 Authorization Required</html>", content_type="text/html"
            )
        if request.path == "/realtime" or request.path == "/oauth/token":
            return await handler(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.access_tokens.get(token, 0) <= self.now_ns:
            return _error(401, "token_invalid", "This token is invalid or has expired")
        return await handler(request)

    # -- REST

    async def _sign_in(self, request: web.Request) -> web.Response:
        self.logins += 1
        asked = await request.json()
        if asked["grant_type"] != "refresh_token" or asked["client_secret"] != CLIENT_SECRET:
            return self._refuse("Client secret mismatch")
        if asked["refresh_token"] != REFRESH_TOKEN or self.expired:
            return self._refuse("Grant revoked")
        token = f"tt-access-{self.logins}"
        self.access_tokens[token] = self.now_ns + self.tokens_s * 10**9
        return web.json_response({"access_token": token, "token_type": "Bearer", "expires_in": self.tokens_s})

    def _refuse(self, words: str) -> web.Response:
        self.refusals += 1
        return web.json_response({"error_code": "invalid_grant", "error_description": words}, status=400)

    async def _quote_token(self, _: web.Request) -> web.Response:
        if self.level == "none":
            return _error(404, "quote_streamer.customer_not_found_error", "You must be a customer")
        token = f"tt-quote-{len(self.quote_tokens) + 1}"
        self.quote_tokens.add(token)
        data = {"token": token, "dxlink-url": self.dxlink_url, "level": self.level}
        return web.json_response({"data": data, "context": "/api-quote-tokens"})

    async def _future(self, request: web.Request) -> web.Response:
        name = request.match_info["symbol"]
        streamed = next((s for s in self.tapes if _short(s) == name), None)
        if streamed is None:
            return _error(404, "record_not_found", "Couldn't find Future")
        return web.json_response({"data": _described(name, streamed), "context": request.path})

    # -- dxLink

    async def _line(self, request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse(autoping=False)
        await ws.prepare(request)
        line = Line(self, request, ws)
        self.lines.append(line)
        try:
            async for message in ws:
                await self.thawed.wait()
                if message.type is WSMsgType.PING:
                    await ws.pong(message.data)
                elif message.type is WSMsgType.TEXT:
                    await line.take(json.loads(message.data))
        except ConnectionError:
            pass
        finally:
            self.lines.remove(line)
        return ws

    # -- the tape

    def tape(self, contract: Contract, rows: Rows) -> None:
        letter = LETTERS[contract.month - 1]
        symbol = f"/{contract.root}{letter}{contract.year % 100:02}:{EXCHANGES.get(contract.root, 'XCME')}"
        self.tapes[symbol] = rows
        self._number(symbol)

    def _number(self, symbol: str) -> None:
        numbers: list[int] = []
        last_ms, count = -1, 0
        for at_ns in self.tapes[symbol]["ts_event"].tolist():
            ms = (at_ns + self.skew_ns) // MS
            count = count + 1 if ms == last_ms else 0
            last_ms = ms
            numbers.append(ms // 1000 << 32 | ms % 1000 << 22 | count)
        self.indexes[symbol] = numbers

    def sales_between(self, symbol: str, from_ns: int, to_ns: int) -> Iterator[Json]:
        """Return the sales with a timestamp in a span, oldest first."""
        rows, numbers = self.tapes[symbol], self.indexes[symbol]
        first, end = np.searchsorted(rows["ts_event"], [from_ns - self.skew_ns, to_ns - self.skew_ns])
        for at in range(int(first), int(end)):
            row = rows[at]
            stamp_ns = int(row["ts_event"]) + self.skew_ns
            yield {
                "eventSymbol": symbol,
                "index": numbers[at],
                "time": stamp_ns // MS,
                "timeNanoPart": stamp_ns % MS,
                "sequence": numbers[at] & (1 << 22) - 1,
                "price": _scaled(symbol, int(row["price"])),
                "bidPrice": _scaled(symbol, int(row["price"])),
                "askPrice": _scaled(symbol, int(row["price"])),
                "size": int(row["size"]),
                "aggressorSide": {b"B": "BUY", b"A": "SELL"}.get(row["side"], "UNDEFINED"),
            }

    def candles_between(self, symbol: str, from_ns: int, to_ns: int) -> Iterator[Json]:
        """Return the current one-minute candles that begin in a span, oldest first."""
        rows = self.tapes[symbol]
        times = rows["ts_event"] + self.skew_ns
        start_ns = from_ns // MINUTE * MINUTE
        rows, times = (part[(times >= start_ns) & (times < to_ns)] for part in (rows, times))
        for minute in np.unique(times // MINUTE).tolist():
            of_it = rows[times // MINUTE == minute]
            prices = of_it["price"].tolist()
            time = minute * MINUTE // MS
            yield {
                "eventSymbol": symbol,
                "index": time << 22,
                "time": time,
                "count": len(of_it),
                "open": _scaled(symbol, prices[0]),
                "high": _scaled(symbol, max(prices)),
                "low": _scaled(symbol, min(prices)),
                "close": _scaled(symbol, prices[-1]),
                "volume": int(of_it["size"].sum()),
            }

    async def advance(self, to_ns: int) -> None:
        before_ns, self.now_ns = self.now_ns + self.skew_ns, to_ns
        after_ns = to_ns + self.skew_ns
        fresh: dict[tuple[str, str], list[Json]] = {}
        for symbol in self.tapes:
            sales = list(self.sales_between(symbol, before_ns, after_ns))
            moved = min(self._burst, len(sales))
            self._burst -= moved
            fresh["TimeAndSale", symbol] = sales[:moved][::-1] + sales[moved:]
            if sales:
                fresh["Candle", symbol] = list(self.candles_between(symbol, before_ns, after_ns))
        for line in list(self.lines):
            if line.signed_in:
                await line.send({"type": "KEEPALIVE", "channel": 0})
                await self._tell(line, fresh)

    async def _tell(self, line: Line, fresh: dict[tuple[str, str], list[Json]]) -> None:
        for channel, room in list(line.rooms.items()):
            for series in list(room.series):
                events = fresh.get((series.kind, series.symbol.partition("{")[0]))
                if events and channel in line.rooms:
                    await line.tell(
                        channel, series.kind, [{**e, "eventSymbol": series.symbol} for e in events]
                    )

    async def say(self, symbol: str, event: Json) -> None:
        """Send another sale, or a change of one, to all subscribers."""
        for line in list(self.lines):
            await self._tell(line, {("TimeAndSale", symbol): [{"eventSymbol": symbol, **event}]})

    @property
    def counted_by(self) -> str:
        """Return the events that history consists of: candles if there is no history of sales."""
        return "TimeAndSale" if self.grants else "Candle"

    def take_repeat(self, kind: str, symbol: str) -> int:
        return self._repeats_ns.pop(symbol, 0) if kind == self.counted_by else 0

    # -- misbehaving

    async def drop(self) -> None:
        for line in list(self.lines):
            await line.cut()
        while self.lines:
            await asyncio.sleep(0.005)

    def freeze(self, *, on: bool) -> None:
        (self.thawed.clear if on else self.thawed.set)()

    def repeat(self, seconds: float) -> None:
        self._repeats_ns = dict.fromkeys(self.tapes, round(seconds * 1e9))

    async def expire(self, *, on: bool) -> None:
        self.expired = on
        if on:
            self.access_tokens.clear()
            self.quote_tokens.clear()
            for line in list(self.lines):
                line.signed_in = False
                await line.send({"type": "AUTH_STATE", "channel": 0, "state": "UNAUTHORIZED"})
                await line.ws.close()

    def shuffle(self, burst: int) -> None:
        self._burst = burst


class BarsOnlyPeer(TastytradePeer):
    """A fake tastytrade without a history of sales."""

    history = Quality.BARS_1M
    grants = False


def _short(streamed: str) -> str:
    """Return `ESZ6` for `/ESZ26:XCME`."""
    name = streamed[1:].partition(":")[0]
    return name[:-2] + name[-1]


def _root(symbol: str) -> str:
    return symbol[1:].partition(":")[0][:-3]


def _scaled(symbol: str, price_e9: int) -> float:
    """Return a price as the vendor's double; in dollars for corn."""
    return price_e9 / (10**11 if _root(symbol) == "ZC" else 10**9)


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"error": {"code": code, "message": message}}, status=status)


def _described(name: str, streamed: str) -> Json:
    """Return a future as the REST interface describes it."""
    root, exchange = _root(streamed), streamed.partition(":")[2]
    return {
        "symbol": f"/{name}", "product-code": root, "contract-size": "1.0", "tick-size": TICKS.get(root, "0.25"),
        "notional-multiplier": "50.0", "main-fraction": "0.0", "sub-fraction": "0.0", "display-factor": "0.01",
        "last-trade-date": "2026-12-18", "expiration-date": "2026-12-18", "closing-only-date": "2026-12-18",
        "active": True, "active-month": True, "next-active-month": False, "is-closing-only": False,
        "stops-trading-at": "2026-12-18T14:30:00.000+00:00", "expires-at": "2026-12-18T14:30:00.000+00:00",
        "product-group": "CME_ES", "exchange": "CME", "roll-target-symbol": "/ESH7",
        "streamer-exchange-code": exchange, "streamer-symbol": streamed, "back-month-first-calendar-symbol": True,
        "is-tradeable": True, "instrument-type": "Future",
    }  # fmt: skip

"""Tradovate on loopback, written from its partner documentation, its example programs and frames recorded by others.

It imitates these traits: refusals have the status of a success. A response's packets may precede it, newest first.
History and live ticks have two ids. A page of history contains the newest ticks and does not report that there are
more. A heartbeat of the vendor is a single `h`. It shares no code with the client.
"""

import asyncio
import itertools
import json
import random
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from aiohttp import WSMsgType, web

from outcry.feeds.tradovate.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.market.units import price_text
from outcry.trades.records import Quality, Rows
from outcry.trades.reference_tables import load_reference

MS = 1_000_000
TOKEN_LIFE_S = 80 * 60
#: Heartbeat interval, far shorter than the vendor's, to keep tests fast.
BEAT_S = 0.1
PACKET = 100
WRONG = "Incorrect username or password. Please try again, noting that passwords are case-sensitive."


@dataclass(eq=False)
class Client:
    """One open socket."""

    ws: web.WebSocketResponse
    request: web.Request
    charts: dict[int, str] = field(default_factory=dict)
    quotes: set[str] = field(default_factory=set)
    missed: bool = False
    authorized: bool = False

    @property
    def transport(self) -> asyncio.Transport | None:
        return self.request.transport


class TradovatePeer:
    """Fake Tradovate. Implements `peer.FakePeer`.

    page: maximum ticks of a response. shared_number: history and live ticks share an id, as some have observed. bare:
    history has no bid and ask. echo: number of ticks of history that are sent again as live ones.
    """

    adapter = ADAPTER
    given: Mapping[str, str] = {
        "user": "ada", "password": "analytical engine", "cid": "4711", "secret": "f00d-cafe-sec",
        "app": "Outcry", "environment": "demo",
    }  # fmt: skip
    history = Quality.TICKS
    resolution_ns = MS

    def __init__(self) -> None:
        #: Seconds between heartbeats of `advance`; 0: a heartbeat each time.
        self.beat_s = self._beat_s = 0.0
        self.now_ns = self.skew_ns = 0
        self.repeated = 0
        self.logins = self.refusals = self.renewals = self.requests = self.beats = self.sockets = 0
        self.page = 4096
        self.shared_number = False
        self.penalty_s = 0.0
        self.captcha = self.bare = False
        self.chart_penalty: dict[str, Any] = {}
        self.chart_status = 200
        self.echo = 0
        self.status = 200
        self.devices: set[str] = set()
        self.withheld: set[str] = set()
        self.asked: list[dict[str, Any]] = []
        #: Ids of open subscriptions.
        self.open_subscriptions: set[int] = set()
        self._tapes: dict[str, tuple[Rows, int]] = {}
        self._ids: dict[str, int] = {}
        self._tokens: dict[str, int] = {}
        self._tickets: set[str] = set()
        self._clients: set[Client] = set()
        self._numbers = itertools.count(31)
        self._frozen = self._expired = False
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._repeats: dict[str, float] = {}
        self._burst = 0
        self._advancing = asyncio.Lock()
        self._chance = random.Random(7)
        self._universe = load_reference().universe
        self._runner: web.AppRunner | None = None
        self._port = 0

    # -- lifecycle

    @property
    def places(self) -> Mapping[str, str]:
        return {
            "api": f"http://127.0.0.1:{self._port}/v1",
            "md": f"ws://127.0.0.1:{self._port}/v1/websocket",
        }

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/auth/accesstokenrequest", self._login)
        app.router.add_get("/v1/auth/renewaccesstoken", self._renew)
        app.router.add_get("/v1/contract/find", self._find)
        app.router.add_get("/v1/websocket", self._socket)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        self._frozen = False
        self._thawed.set()
        for client in list(self._clients):
            self._reset(client)
        if self._runner is not None:
            await self._runner.cleanup()

    # -- controls for tests

    def tape(self, contract: Contract, rows: Rows) -> None:
        step = self._universe.products[contract.root].tick_e9
        self._tapes[contract.short_key] = rows, step
        self._ids.setdefault(contract.short_key, 1_000_000 + 7 * len(self._ids))

    async def advance(self, to_ns: int) -> None:
        async with self._advancing:
            before_ns, self.now_ns = self.now_ns, to_ns
            for name in list(self._tapes):
                due = self._mixed(self._between(name, before_ns, to_ns))
                for client in list(self._clients):
                    await self._play(client, name, due)
            if asyncio.get_running_loop().time() >= self._beat_s:
                self._beat_s = asyncio.get_running_loop().time() + self.beat_s
                for client in list(self._clients):
                    await self._send(client, "h", missed=False)

    async def _play(self, client: Client, name: str, due: list[tuple[int, Any]]) -> None:
        for number in [number for number, charted in client.charts.items() if charted == name]:
            for at in range(0, len(due), PACKET):
                await self._event(
                    client, "chart", {"charts": [self._packet(name, number, due[at : at + PACKET])]}
                )
        if name in client.quotes and due:
            await self._event(client, "md", {"quotes": [self._quote(name)]})

    async def drop(self) -> None:
        for client in list(self._clients):
            if (transport := client.transport) is not None:
                text = b"a" + json.dumps([{"e": "chart", "d": {"charts": []}, "pad": "x" * 400}]).encode()
                frame = bytes([0x81, 126]) + struct.pack("!H", len(text)) + text
                transport.write(frame[: len(frame) // 2])
            self._reset(client)
        await asyncio.sleep(0)

    def freeze(self, *, on: bool) -> None:
        self._frozen = on
        if on:
            self._thawed.clear()
            return
        self._thawed.set()
        for client in list(self._clients):
            if client.missed:  # unsent data is lost, so such a connection cannot continue
                self._reset(client)

    def repeat(self, seconds: float) -> None:
        self._repeats = dict.fromkeys(self._tapes, seconds)

    async def expire(self, *, on: bool) -> None:
        self._expired = on
        if on:
            self._tokens.clear()
            for client in list(self._clients):
                await self._send(client, 'c[3000,"Go away!"]')
                await client.ws.close()

    def shuffle(self, burst: int) -> None:
        self._burst = burst

    async def evict(self) -> None:
        """End every session, as if the user opened another one."""
        for client in list(self._clients):
            await self._event(client, "shutdown", {"reasonCode": "ConnectionQuotaReached"})
            await client.ws.close()

    async def garble(self, name: str) -> None:
        """Send an invalid tick of a contract."""
        for client in list(self._clients):
            for number in [number for number, charted in client.charts.items() if charted == name]:
                packet = self._packet(name, number, self._between(name, 0, self.now_ns)[:1])
                packet["tks"][0]["s"] = 0.5
                await self._event(client, "chart", {"charts": [packet]})

    def expire_quietly(self) -> None:
        """Refuse logins and tokens from now on; open connections stay open."""
        self._expired = True
        self._tokens.clear()

    def revoke(self) -> None:
        """Revoke every token without notifying open connections."""
        self._tokens.clear()

    @property
    def watched(self) -> set[str]:
        """Return the contracts with at least one subscriber."""
        return {name for client in self._clients for name in (*client.charts.values(), *client.quotes)}

    # -- web requests

    async def _login(self, request: web.Request) -> web.Response:
        await self._thawed.wait()
        self.logins += 1
        if self.status != 200:
            return web.Response(status=self.status)
        asked = await request.json()
        self.devices.add(asked["deviceId"])
        if asked.get("p-ticket") in self._tickets:
            self.penalty_s = 0.0
        elif self.penalty_s or self.captcha:
            self._tickets.add(ticket := f"ticket-{self.logins}")
            captcha = {"p-captcha": True} if self.captcha else {}
            return web.json_response({"p-ticket": ticket, "p-time": self.penalty_s, **captcha})
        entered = {
            "user": asked["name"], "password": asked["password"], "cid": asked["cid"], "secret": asked["sec"],
            "app": asked["appId"],
        }  # fmt: skip
        if self._expired or any(self.given[name] != text for name, text in entered.items()):
            self.refusals += 1
            return web.json_response({"errorText": WRONG})
        return web.json_response(self._granted())

    async def _renew(self, request: web.Request) -> web.Response:
        await self._thawed.wait()
        if not self._known(request):
            self.refusals += 1
            return web.Response(status=401)
        self.renewals += 1
        return web.json_response(self._granted())

    def _granted(self) -> dict[str, Any]:
        token = f"secret-token-{len(self._tokens)}-{self.logins}-{self.renewals}"
        ends_ns = self.now_ns + self.skew_ns + TOKEN_LIFE_S * 1_000_000_000
        self._tokens[token] = self._tokens[f"md-{token}"] = ends_ns
        return {
            "accessToken": token, "mdAccessToken": f"md-{token}", "expirationTime": _text(ends_ns), "userId": 15,
            "name": "ada", "hasLive": True, "userStatus": "Active",
        }  # fmt: skip

    def _known(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return not self._expired and self._tokens.get(token, 0) > self.now_ns + self.skew_ns

    async def _find(self, request: web.Request) -> web.Response:
        await self._thawed.wait()
        if not self._known(request):
            return web.Response(status=401)
        name = request.query["name"]
        if name not in self._ids and name not in self.withheld:
            return web.Response(status=404)
        return web.json_response({"id": self._number(name), "name": name, "contractMaturityId": 23574})

    def _number(self, name: str) -> int:
        return 470_000 + sum(name.encode())

    # -- the socket

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        await self._thawed.wait()
        ws = web.WebSocketResponse(timeout=0.1)
        await ws.prepare(request)
        client = Client(ws, request)
        self._clients.add(client)
        self.sockets += 1
        beats = asyncio.create_task(self._beat(client))
        try:
            await self._send(client, "o")
            async for message in ws:
                if message.type is not WSMsgType.TEXT:
                    break
                if message.data == "[]":
                    self.beats += 1
                else:
                    await self._asked(client, message.data)
        finally:
            self._clients.discard(client)
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
        return ws

    async def _beat(self, client: Client) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            async with self._advancing:
                await self._send(client, "h", missed=False)

    async def _asked(self, client: Client, text: str) -> None:
        endpoint, number, _query, body = text.split("\n", 3)
        self.requests += 1
        if endpoint == "authorize":
            client.authorized = not self._expired and body in self._tokens and body.startswith("md-")
            await self._answer(client, number, 200 if client.authorized else 401)
            return
        if not client.authorized:
            await self._answer(client, number, 401, "Access is denied")
            return
        asked = json.loads(body)
        match endpoint:
            case "md/getChart":
                await self._chart(client, number, asked)
            case "md/cancelChart":
                client.charts.pop(asked["subscriptionId"], None)
                self.open_subscriptions.discard(asked["subscriptionId"])
                await self._answer(client, number, 200, {"ok": True})
            case "md/subscribeQuote":
                client.quotes.add(asked["symbol"])
                await self._answer(client, number, 200, {"mode": "RealTime"})
            case "md/unsubscribeQuote":
                client.quotes.discard(asked["symbol"])
                await self._answer(client, number, 200, {"ok": True})
            case _:
                await self._answer(client, number, 404, f"Not found: {endpoint}")

    async def _chart(self, client: Client, number: str, asked: dict[str, Any]) -> None:
        self.asked.append(asked)
        if self.chart_status != 200:
            await self._answer(client, number, self.chart_status)
            return
        if self.chart_penalty and asked.get("p-ticket") != self.chart_penalty["p-ticket"]:
            await self._answer(client, number, 200, self.chart_penalty)
            return
        name, reach, kind = asked["symbol"], asked["timeRange"], asked["chartDescription"]
        assert (kind["underlyingType"], kind["elementSize"], kind["elementSizeUnit"]) == (
            "Tick",
            1,
            "UnderlyingUnits",
        )
        if name not in self._tapes or name in self.withheld:
            refusal = {"errorText": "Symbol is inaccessible", "errorCode": "UnknownSymbol", "mode": "None"}
            await self._answer(client, number, 200, refusal)
            return
        first_ns = _nanos(reach["asFarAsTimestamp"]) - self.skew_ns
        asked_ns = first_ns
        first_ns -= round(self._repeats.pop(name, 0.0) * 1_000_000_000)
        last_ns = (
            _nanos(reach["closestTimestamp"]) - self.skew_ns if "closestTimestamp" in reach else self.now_ns
        )
        found = self._between(name, first_ns, min(last_ns, self.now_ns))[-self.page :]
        self.repeated += sum(int(row["ts_event"]) < asked_ns for _, row in found)
        live = next(self._numbers)
        past = live if self.shared_number else next(self._numbers)
        self.open_subscriptions |= {live, past}
        if "closestTimestamp" not in reach:
            client.charts[live] = name
        if self.bare:
            found = [(tick, _without_side(row)) for tick, row in found]
        packets = [self._packet(name, past, found[at : at + PACKET]) for at in range(0, len(found), PACKET)][
            ::-1
        ]
        if packets:  # packets may precede the response
            await self._event(client, "chart", {"charts": packets[:1]})
        await self._answer(
            client, number, 200, {"mode": "RealTime", "historicalId": past, "realtimeId": live}
        )
        for packet in packets[1:]:
            await self._event(client, "chart", {"charts": [packet]})
        await self._event(client, "chart", {"charts": [{"id": past, "eoh": True}]})
        if self.echo and found and "closestTimestamp" not in reach:
            await self._event(client, "chart", {"charts": [self._packet(name, live, found[-self.echo :])]})

    # -- sending

    def _between(self, name: str, first_ns: int, before_ns: int) -> list[tuple[int, Any]]:
        """Return the ticks in a span with their ids."""
        rows, _ = self._tapes[name]
        low, high = np.searchsorted(rows["ts_event"], [first_ns, before_ns]).tolist()
        return [(self._ids[name] + at, rows[at]) for at in range(low, high)]

    def _mixed(self, ticks: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Return the ticks with the first ones out of order, as many as requested."""
        burst = min(self._burst, len(ticks))
        self._burst -= burst
        first = ticks[:burst]
        self._chance.shuffle(first)
        return first + ticks[burst:]

    def _packet(self, name: str, number: int, ticks: list[tuple[int, Any]]) -> dict[str, Any]:
        step = self._tapes[name][1]
        base_ms = (int(ticks[0][1]["ts_event"]) + self.skew_ns) // MS
        base = int(ticks[0][1]["price"]) // step
        return {
            "id": number, "s": "db", "td": 20190718, "bp": base, "bt": base_ms, "ts": float(price_text(step)),
            "tks": [self._tick(row, base, base_ms, step) | {"id": tick} for tick, row in ticks],
        }  # fmt: skip

    def _tick(self, row: Any, base: int, base_ms: int, step: int) -> dict[str, Any]:
        price = int(row["price"]) // step - base
        assert int(row["price"]) % step == 0
        at_ms, rest = divmod(int(row["ts_event"]) + self.skew_ns, MS)
        assert rest == 0, "the vendor stamps milliseconds"
        tick = {"t": at_ms - base_ms, "p": price, "s": int(row["size"])}
        if row["side"] == b"B":
            return tick | {"b": price - 1, "a": price, "bs": 122, "as": 28}
        return tick | {"b": price, "a": price + 1, "bs": 122, "as": 28} if row["side"] == b"A" else tick

    def _quote(self, name: str) -> dict[str, Any]:
        rows, step = self._tapes[name]
        past = rows[: np.searchsorted(rows["ts_event"], self.now_ns)]
        return {
            "timestamp": _text(self.now_ns + self.skew_ns), "contractId": self._number(name),
            "entries": {
                "Trade": {"price": float(price_text(int(past["price"][-1]) // step * step)), "size": 1},
                "TotalTradeVolume": {"size": int(past["size"].sum())},
            },
        }  # fmt: skip

    async def _answer(self, client: Client, number: str, status: int, data: Any = None) -> None:
        answer = {"s": status, "i": int(number)} | ({} if data is None else {"d": data})
        await self._send(client, f"a{json.dumps([answer])}")

    async def _event(self, client: Client, event: str, data: Any) -> None:
        await self._send(client, f"a{json.dumps([{'e': event, 'd': data}])}")

    async def _send(self, client: Client, text: str, *, missed: bool = True) -> None:
        if self._frozen:
            client.missed |= missed
            return
        try:
            await client.ws.send_str(text)
        except (ConnectionError, RuntimeError):
            self._clients.discard(client)

    def _reset(self, client: Client) -> None:
        self._clients.discard(client)
        if (transport := client.transport) is not None:
            sock: socket.socket = transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()


def _without_side(row: Any) -> Any:
    bare = row.copy()
    bare["side"] = b"N"
    return bare


def _nanos(text: str) -> int:
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(at.timestamp() * 1000) * MS


def _text(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{at_ns // MS % 1000:03d}Z"
    )

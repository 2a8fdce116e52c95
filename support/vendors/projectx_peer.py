"""A fake ProjectX: its API and its market hub, from its documentation and the SignalR hub protocol."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import numpy as np
from aiohttp import web
from support.vendors.bars import bars_by_hand
from support.vendors.http_peer import LETTERS, HttpPeer, Line, price_text

from outcry.connections.broker_adapter import BrokerAdapter
from outcry.feeds.projectx.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

USER, KEY = "ann_of_topstep", "pX+k3y/4711_never_told="
SECOND = 1_000_000_000
END = "\x1e"
#: The vendor's product codes.
CODES = {"ES": "EP", "NQ": "ENQ", "6E": "EU6", "GC": "GCE"}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(at_ns: int) -> str:
    """Format a time as .NET does."""
    return (EPOCH + timedelta(microseconds=at_ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%f") + "0+00:00"


class ProjectXPeer(HttpPeer):
    """Fake ProjectX. `entitled`: account has market data. `most`: bars per request. `login_error`: why logins fail."""

    adapter: BrokerAdapter = ADAPTER
    given: Mapping[str, str] = {"firm": "topstepx", "user": USER, "key": KEY}
    history = Quality.BARS_1S
    resolution_ns = 1_000_000

    def __init__(self) -> None:
        super().__init__()
        self.entitled, self.dated = True, True
        self.login_error = 0
        self.tokens: set[str] = set()
        self.names: dict[str, str] = {}
        #: Which end of too many bars is returned. Its documentation shows the newest.
        self.oldest_first = False
        #: Delay of bars (s).
        self.behind_s = 0
        self.bar_requests: list[dict[str, object]] = []

    @property
    def places(self) -> Mapping[str, str]:
        base = f"http://127.0.0.1:{self.port}"
        return {"api": base, "hub": base}

    def name_of(self, contract: Contract) -> str:
        letter = LETTERS[contract.month - 1]
        name = f"CON.F.US.{CODES[contract.root]}.{letter}{contract.year % 100:02}"
        self.names[name] = f"{contract.root}{letter}{contract.year % 10}"
        return name

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/Auth/loginKey", self.login),
            web.post("/api/Contract/search", self.search),
            web.post("/api/History/retrieveBars", self.bars),
            web.post("/hubs/market/negotiate", self.negotiate),
            web.get("/hubs/market", self.hub),
        ]

    # -- the API

    def answer(self, text: str, status: int = 200) -> web.Response:
        headers = {}
        if self.dated:
            now = EPOCH + timedelta(seconds=self.now_ns // SECOND)
            headers["Date"] = now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        return web.Response(text=text, status=status, content_type="application/json", headers=headers)

    def allowed(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return token in self.tokens and not self.expired

    async def login(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.logins += 1
        error = self.login_error or (
            0 if (asked["userName"], asked["apiKey"]) == (USER, KEY) and not self.expired else 3
        )
        if error:
            self.refusals += 1
            return self.answer(f'{{"token":null,"success":false,"errorCode":{error},"errorMessage":null}}')
        token = f"eyJ.token.{self.logins}"
        self.tokens.add(token)
        return self.answer(f'{{"token":"{token}","success":true,"errorCode":0,"errorMessage":null}}')

    async def search(self, request: web.Request) -> web.Response:
        if not self.allowed(request):
            return self.answer("", 401)
        text = (await request.json())["searchText"]
        found = [
            {"id": id_, "name": name, "description": name, "tickSize": 0.25, "tickValue": 12.5,
             "activeContract": True, "symbolId": id_[4:-4]}
            for id_, name in self.names.items() if text in name
        ]  # fmt: skip
        return self.answer(
            json.dumps({"contracts": found[:20], "success": True, "errorCode": 0, "errorMessage": None})
        )

    async def bars(self, request: web.Request) -> web.Response:
        if not self.allowed(request):
            return self.answer("", 401)
        asked = await request.json()
        self.bar_requests.append(asked)
        assert (asked["unit"], asked["unitNumber"], asked["includePartialBar"]) == (1, 1, False)
        if asked["contractId"] not in self.tapes:
            return self.answer('{"bars":null,"success":false,"errorCode":1,"errorMessage":null}')
        first, end = (
            round((datetime.fromisoformat(asked[name]) - EPOCH).total_seconds()) * SECOND
            for name in ("startTime", "endTime")
        )
        over = (self.now_ns // SECOND - self.behind_s) * SECOND
        name = asked["contractId"]
        again_ns = self.repeats_ns.get(name, 0)
        rows = self.past(name, first - again_ns, min(end + SECOND, over))  # the end is included
        made = bars_by_hand(rows, SECOND)[:: 1 if self.oldest_first else -1][: min(asked["limit"], 20_000)]
        self.repeated += sum(bar[0] < first for bar in made)
        bars = ",".join(
            f'{{"t":"{stamp(start)}","o":{price_text(o)},"h":{price_text(h)},"l":{price_text(low)},'
            f'"c":{price_text(c)},"v":{v}}}'
            for start, o, h, low, c, v in made
        )
        return self.answer(f'{{"bars":[{bars}],"success":true,"errorCode":0,"errorMessage":null}}')

    # -- the hub

    def at_the_door(self, request: web.Request) -> bool:
        return request.query.get("access_token") in self.tokens and not self.expired

    async def negotiate(self, request: web.Request) -> web.Response:
        if not self.at_the_door(request):
            return self.answer("", 401)
        transports = [{"transport": "WebSockets", "transferFormats": ["Text", "Binary"]}]
        return self.answer(
            json.dumps({"connectionId": "c1", "negotiateVersion": 0, "availableTransports": transports})
        )

    async def hub(self, request: web.Request) -> web.StreamResponse:
        return await self.serve_line(request) if self.at_the_door(request) else self.answer("", 401)

    async def on_text(self, line: Line, text: str) -> None:
        for part in text.split(END)[:-1]:
            message = json.loads(part)
            if "protocol" in message:
                assert message == {"protocol": "json", "version": 1}
                line.signed_in = True
                await line.send("{}" + END)
            elif message["type"] == 1:
                await self.invoked(line, message)

    async def invoked(self, line: Line, message: Mapping[str, object]) -> None:
        done: dict[str, object] = {"type": 3, "invocationId": message["invocationId"]}
        arguments = message["arguments"]
        assert isinstance(arguments, list)
        if not self.entitled:
            done["error"] = "No market data subscription for this account."
        elif message["target"] == "SubscribeContractTrades":
            line.subscribed.add(arguments[0])
        await line.send(json.dumps(done) + END)

    def texts(self, name: str, rows: Rows) -> Iterator[str]:
        for at in range(0, len(rows), 3):
            trades = ",".join(
                f'{{"symbolId":"{name[4:-4]}","price":{price_text(int(row["price"]))},'
                f'"timestamp":"{stamp(int(row["ts_event"]))}","type":{0 if row["side"] == b"B" else 1},'
                f'"volume":{row["size"]}}}'
                for row in rows[at : at + 3]
            )
            yield f'{{"type":1,"target":"GatewayTrade","arguments":["{name}",[{trades}]]}}' + END

    async def advance(self, to_ns: int) -> None:
        await super().advance(to_ns)
        for line in list(self.lines):
            if not (line.signed_in and self.thawed.is_set()):
                continue
            for name in sorted(line.subscribed):
                tape = self.tapes[name]
                lots = int(np.sum(tape["size"][tape["ts_event"] < to_ns], dtype=np.int64))
                quote = {"symbol": name[4:-4], "volume": lots, "timestamp": stamp(to_ns)}
                await line.send(
                    json.dumps({"type": 1, "target": "GatewayQuote", "arguments": [name, quote]}) + END
                )
            await line.send('{"type":6}' + END)

    async def sign_out(self) -> None:
        """Sign the user out."""
        for line in list(self.lines):
            await line.send('{"type":1,"target":"GatewayLogout","arguments":[null]}' + END)

    # -- misbehaving

    def repeat(self, seconds: float) -> None:
        """Repeat rows from now on, for every request, because only the client knows which of them are history."""
        super().repeat(seconds)

    async def expire(self, *, on: bool) -> None:
        self.expired = on
        if on:
            self.tokens.clear()
            for line in list(self.lines):
                await line.send('{"type":7,"error":"Connection closed: token expired."}' + END)
                await line.ws.close()
            while self.lines:
                await asyncio.sleep(0.01)

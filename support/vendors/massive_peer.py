"""A fake Massive: its WebSocket for futures and its pages of trades, from its documentation."""

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping

from aiohttp import web
from support.vendors.http_peer import LETTERS, HttpPeer, Line, price_text

from outcry.connections.broker_adapter import BrokerAdapter
from outcry.feeds.massive.adapter import ADAPTER
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows

KEY = "mSv_k3y_4711_never_told"
MS = 1_000_000
#: Trades per frame.
FRAME = 40


class MassivePeer(HttpPeer):
    """Fake Massive.

    `page_rows`: maximum rows of a page of history. `entitled`: whether the plan includes real-time futures. `stumbles`:
    number of subscriptions answered with a vendor error.
    """

    adapter: BrokerAdapter = ADAPTER
    given: Mapping[str, str] = {"key": KEY}
    history = Quality.TICKS
    resolution_ns = MS

    def __init__(self) -> None:
        super().__init__()
        self.page_rows, self.entitled, self.stumbles = 500, True, 0
        #: Errors that answer the next requests for history.
        self.failures: list[tuple[int, dict[str, str]]] = []

    @property
    def places(self) -> Mapping[str, str]:
        return {"socket": f"ws://127.0.0.1:{self.port}", "rest": f"http://127.0.0.1:{self.port}"}

    def name_of(self, contract: Contract) -> str:
        return f"{contract.root}{LETTERS[contract.month - 1]}{contract.year % 10}"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/futures", self.serve_line),
            web.get("/futures/v1/trades/{ticker}", self.trades),
        ]

    # -- the socket

    async def greet(self, line: Line) -> None:
        await self.tell(line, "connected", "Connected Successfully")

    async def tell(self, line: Line, status: str, message: str) -> None:
        await line.send(json.dumps([{"ev": "status", "status": status, "message": message}]))

    async def on_text(self, line: Line, text: str) -> None:
        asked = json.loads(text)
        if asked["action"] == "auth":
            self.logins += 1
            if self.expired or asked["params"] != KEY:
                self.refusals += 1
                await self.tell(line, "auth_failed", "authentication failed")
                return
            line.signed_in = True
            await self.tell(line, "auth_success", "authenticated")
        elif asked["action"] == "subscribe" and line.signed_in:
            for channel in asked["params"].split(","):
                await self.subscribe(line, channel)

    async def subscribe(self, line: Line, channel: str) -> None:
        kind, _, name = channel.partition(".")
        if not self.entitled:
            await self.tell(line, "error", "You are not entitled to this data. Please upgrade your plan.")
        elif self.stumbles:
            self.stumbles -= 1
            await self.tell(line, "error", f"internal error, try again: {channel}")
        elif kind == "T":
            line.subscribed.add(name)
            await self.tell(line, "success", f"subscribed to: {channel}")

    def texts(self, name: str, rows: Rows) -> Iterator[str]:
        for at in range(0, len(rows), FRAME):
            trades = [
                f'{{"ev":"T","sym":"{name}","p":{price_text(int(row["price"]))},"s":{row["size"]},'
                f'"t":{row["ts_event"] // MS},"q":{row["sequence"]}}}'
                for row in rows[at : at + FRAME]
            ]
            yield f"[{','.join(trades)}]"

    async def evict(self) -> None:
        """Close the connection because another program connected with the same key."""
        for line in list(self.lines):
            await self.tell(line, "max_connections", "Maximum number of websocket connections exceeded.")
            await line.ws.close()

    # -- history

    async def trades(self, request: web.Request) -> web.Response:
        if self.expired or request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"status": "ERROR", "error": "Unknown API Key"}, status=401)
        if self.failures:
            status, body = self.failures.pop(0)
            return web.json_response(body, status=status)
        name, asked = request.match_info["ticker"], request.query
        if name not in self.tapes:
            return web.json_response({"status": "OK", "results": []})
        if "cursor" in asked:
            first_ns, skip = map(int, base64.b64decode(asked["cursor"]).decode().split("+"))
        else:
            skip, asked_ns = 0, int(asked["timestamp.gte"])
            first_ns = asked_ns - self.repeats_ns.pop(name, 0)
            self.repeated += len(self.past(name, first_ns, asked_ns))
        rows = self.past(name, first_ns, 2**63 - 1)
        page = rows[skip : skip + min(int(asked.get("limit", 10)), self.page_rows)]
        results = [
            f'{{"timestamp":{row["ts_event"]},"ticker":"{name}","price":{price_text(int(row["price"]))},'
            f'"size":{row["size"]},"channel":310,"session_end_date":"2026-01-01",'
            f'"report_sequence":{row["sequence"]},"sequence_number":{row["sequence"]}}}'
            for row in page
        ]
        more = ""
        if skip + len(page) < len(rows):
            cursor = base64.b64encode(f"{first_ns}+{skip + len(page)}".encode()).decode()
            path = f"/futures/v1/trades/{name}?cursor={cursor}&limit={asked.get('limit', 10)}"
            more = f',"next_url":"https://api.massive.com{path}"'
        body = f'{{"status":"OK","request_id":"1","results":[{",".join(results)}]{more}}}'
        return web.Response(text=body, content_type="application/json")

    # -- misbehaving

    async def expire(self, *, on: bool) -> None:
        self.expired = on
        if on:
            for line in list(self.lines):
                await line.ws.close(code=1008, message=b"key revoked")
            while self.lines:
                await asyncio.sleep(0.01)

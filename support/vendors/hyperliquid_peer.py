"""A fake Hyperliquid: its `info` endpoint and its WebSocket, from its published documentation.

Contracts of any product are its coins here, named by their roots, so that the suites of all vendors can play tapes.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from aiohttp import web
from support.vendors.bars import bars_by_hand
from support.vendors.http_peer import HttpPeer, Line, price_text

from outcry.connections.broker_adapter import AdapterContext, BrokerAdapter
from outcry.connections.model import Broker
from outcry.feeds.hyperliquid.adapter import CAPS
from outcry.feeds.hyperliquid.feed import HyperliquidFeed
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed
from outcry.trades.records import Quality, Rows

MS, SECOND = 1_000_000, 1_000_000_000
MINUTE = 60 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AnyProduct:
    """The adapter with coins that are named as products (`ES`), to run the suites of all vendors."""

    library = ""
    caps = CAPS
    broker = Broker(id="hyperliquid", name="Hyperliquid", fields=(), hosted=True)

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        return HyperliquidFeed(
            context.endpoints["api"], lambda product: product.root, context, self.broker.id, self.caps
        )


class HyperliquidPeer(HttpPeer):
    """Fake Hyperliquid.

    `decimals`: decimals of sizes by coin, and of each size text. `delisted`: coins that are no longer traded. `busy`:
    how many `info` requests it refuses with HTTP 429. `unsettled`: how many times the last candle lacks volume.
    """

    adapter: BrokerAdapter = AnyProduct()
    given: Mapping[str, str] = {}
    history = Quality.BARS_1M
    resolution_ns = MS

    def __init__(self) -> None:
        super().__init__()
        self.decimals: dict[str, int] = {}
        self.delisted: set[str] = set()
        self.busy = self.unsettled = 0
        self.asked: list[dict[str, object]] = []
        #: Trades that a new subscription receives first, although they are past.
        self.snapshot = 10
        self.pings = 0

    @property
    def places(self) -> Mapping[str, str]:
        return {"api": f"http://127.0.0.1:{self.port}"}

    def name_of(self, contract: Contract) -> str:
        return contract.root.removesuffix("-PERP")

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/info", self.info), web.get("/ws", self.socket)]

    # -- the info endpoint

    async def info(self, request: web.Request) -> web.Response:
        if self.expired:
            return self.answer([], 403)
        if self.busy:
            self.busy -= 1
            return self.answer([], 429)
        asked = await request.json()
        self.asked.append(asked)
        if asked["type"] == "meta":
            universe = [
                {"name": name, "szDecimals": self.decimals.get(name, 0), "isDelisted": name in self.delisted}
                for name in self.tapes
            ]
            return self.answer({"universe": universe, "marginTables": []})
        assert asked["type"] == "candleSnapshot"
        return self.answer(self.candles(**asked["req"]))

    def answer(self, value: object, status: int = 200) -> web.Response:
        now = (EPOCH + timedelta(seconds=self.now_ns // SECOND)).strftime("%a, %d %b %Y %H:%M:%S GMT")
        return web.json_response(value, status=status, headers={"Date": now})

    def candles(self, coin: str, interval: str, startTime: int, endTime: int) -> list[dict[str, object]]:  # noqa: N803
        assert interval == "1m"
        oldest_ns = (self.now_ns // MINUTE - 4_999) * MINUTE
        first_ns = max(startTime * MS - self.repeats_ns.get(coin, 0), oldest_ns) // MINUTE * MINUTE
        last_ns = endTime * MS // MINUTE * MINUTE
        made = bars_by_hand(self.past(coin, first_ns, last_ns + MINUTE), MINUTE)
        self.repeated += sum(bar[0] < startTime * MS // MINUTE * MINUTE for bar in made)
        found: list[dict[str, object]] = [
            {
                "t": start // MS, "T": (start + MINUTE) // MS - 1, "s": coin, "i": interval,
                "o": price_text(opened), "c": price_text(close), "h": price_text(high), "l": price_text(low),
                "v": self.size_text(coin, volume), "n": 1,
            }
            for start, opened, high, low, close, volume in made
        ]  # fmt: skip
        if self.unsettled and found:
            self.unsettled -= 1
            found[-1]["v"] = self.size_text(coin, 1)
        return found

    def size_text(self, coin: str, steps: int) -> str:
        decimals = self.decimals.get(coin, 0)
        digits = str(steps).rjust(decimals + 1, "0")
        return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else f"{digits}.0"

    # -- the WebSocket

    async def socket(self, request: web.Request) -> web.StreamResponse:
        if self.expired:
            self.refusals += 1
            return self.answer([], 403)
        self.logins += 1
        return await self.serve_line(request)

    async def on_text(self, line: Line, text: str) -> None:
        asked = json.loads(text)
        if asked == {"method": "ping"}:
            self.pings += 1
            await line.send('{"channel":"pong"}')
            return
        assert asked["method"] == "subscribe"
        wanted = asked["subscription"]
        assert wanted["type"] == "trades"
        coin = wanted["coin"]
        if coin not in self.tapes or coin in line.subscribed:
            await line.send(
                json.dumps({"channel": "error", "data": f"Invalid subscription {json.dumps(wanted)}"})
            )
            return
        await line.send(json.dumps({"channel": "subscriptionResponse", "data": asked}))
        rows = self.past(coin, 0, self.now_ns)[-self.snapshot :]
        line.subscribed.add(coin)
        for part in self.texts(coin, rows):
            await line.send(part)

    def texts(self, name: str, rows: Rows) -> Iterator[str]:
        numbers = {id_: at for at, id_ in enumerate(self.tapes[name]["ts_event"].tolist())}
        seen: dict[int, int] = {}
        for at in range(0, len(rows), 3):
            trades: list[dict[str, object]] = []
            for row in rows[at : at + 3]:
                time_ns = int(row["ts_event"])
                seen[time_ns] = seen.get(time_ns, 0) + 1
                trades.append(
                    {
                        "coin": name, "side": row["side"].decode(), "px": price_text(int(row["price"])),
                        "sz": self.size_text(name, int(row["size"])), "time": time_ns // MS, "hash": "0x0",
                        "tid": numbers[time_ns] * 1_000 + seen[time_ns], "users": ["0xa", "0xb"],
                    }
                )  # fmt: skip
            yield json.dumps({"channel": "trades", "data": trades})

    # -- misbehaving

    async def expire(self, *, on: bool) -> None:
        """While on, refuse this IP address, as the vendor does for some locations."""
        self.expired = on
        if on:
            for line in list(self.lines):
                await line.ws.close()
            while self.lines:
                await asyncio.sleep(0.01)

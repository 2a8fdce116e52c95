"""A fake Hyperliquid: its `info` endpoint and its WebSocket, from its published documentation.

Contracts of any product are its coins here, named by their roots, so that the suites of all vendors can play tapes.
"""

import asyncio
import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic

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

#: Published limits for an IP address: weight of requests a minute, connections, new ones and messages a minute.
MOST_WEIGHT, MOST_CONNECTIONS, MOST_NEW_CONNECTIONS, MOST_MESSAGES = 1_200, 10, 30, 2_000
#: Weight of a request, and the number of candles that cost one more.
REQUEST_WEIGHT, CANDLES_PER_WEIGHT = 20, 60
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
    `refused`: coins whose subscription it refuses. `unconfirmed`: coins whose subscription it does not confirm.
    `garbled`: how many `info` requests it answers with a page of a proxy. `limited`: whether it enforces its published
    limits for an IP address, by the real time: `over_limit` counts what it refused, `spent` has the weight of each
    request.
    """

    adapter: BrokerAdapter = AnyProduct()
    given: Mapping[str, str] = {}
    history = Quality.BARS_1M
    resolution_ns = MS

    def __init__(self) -> None:
        super().__init__()
        self.decimals: dict[str, int] = {}
        self.delisted: set[str] = set()
        self.busy = self.unsettled = self.garbled = 0
        self.limited = False
        self.over_limit = 0
        self.spent: list[tuple[float, int]] = []
        self._connected: list[float] = []
        self._messages: list[float] = []
        self.refused: set[str] = set()
        self.unconfirmed: set[str] = set()
        self.asked: list[dict[str, object]] = []
        #: Trades that a new subscription receives first, although they are past.
        self.snapshot = 10
        self.pings = 0
        self._late: list[tuple[Line, str]] = []

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
        if self.garbled:
            self.garbled -= 1
            return web.Response(text="<html>Attention required</html>", content_type="text/html")
        asked = await request.json()
        self.asked.append(asked)
        now_s = monotonic()
        self.spent.append((now_s, REQUEST_WEIGHT))
        if self.limited and sum(weight for at, weight in self.spent if at > now_s - 60) > MOST_WEIGHT:
            self.over_limit += 1
            return self.answer([], 429)
        if asked["type"] == "meta":
            universe = [
                {"name": name, "szDecimals": self.decimals.get(name, 0), "isDelisted": name in self.delisted}
                for name in self.tapes
            ]
            return self.answer({"universe": universe, "marginTables": []})
        assert asked["type"] == "candleSnapshot"
        candles = self.candles(**asked["req"])
        self.spent[-1] = (self.spent[-1][0], REQUEST_WEIGHT + len(candles) // CANDLES_PER_WEIGHT)
        return self.answer(candles)

    def most_weight(self) -> int:
        """Return the largest weight of the requests in any minute."""
        return max(
            (sum(w for at, w in self.spent if end - 60 < at <= end) for end, _ in self.spent), default=0
        )

    def _exceeds(self, times: list[float], most: int) -> bool:
        """Note an event; return whether it is more than the vendor allows in a minute."""
        now_s = monotonic()
        times[:] = [at for at in times if at > now_s - 60] + [now_s]
        refused = self.limited and len(times) > most
        self.over_limit += refused
        return refused

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
        too_many = len(self.lines) >= MOST_CONNECTIONS and self.limited
        self.over_limit += too_many
        if self._exceeds(self._connected, MOST_NEW_CONNECTIONS) or too_many:
            return self.answer([], 429)
        self.logins += 1
        return await self.serve_line(request)

    async def greet(self, line: Line) -> None:
        await line.send("Websocket connection established.")

    async def on_text(self, line: Line, text: str) -> None:
        self._exceeds(self._messages, MOST_MESSAGES)
        asked = json.loads(text)
        if asked == {"method": "ping"}:
            self.pings += 1
            await line.send('{"channel":"pong"}')
            return
        assert asked["method"] == "subscribe"
        wanted = asked["subscription"]
        assert wanted["type"] == "trades"
        coin = wanted["coin"]
        if coin in self.unconfirmed:
            return
        if coin not in self.tapes or coin in line.subscribed or coin in self.refused:
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

    @contextmanager
    def holding_trades(self) -> Generator[None]:
        """Answer everything but send no trades; at the end, send those that were held back."""
        held_ns, subscribed = self.now_ns, [(line, set(line.subscribed)) for line in self.lines]
        for line, _ in subscribed:
            line.subscribed.clear()
        yield
        for line, coins in subscribed:
            line.subscribed |= coins
            self._late += [
                (line, text)
                for coin in sorted(coins)
                for text in self.texts(coin, self.past(coin, held_ns, self.now_ns))
            ]

    async def advance(self, to_ns: int) -> None:
        late, self._late = self._late, []
        for line, text in late:
            await line.send(text)
        await super().advance(to_ns)

    async def expire(self, *, on: bool) -> None:
        """While on, refuse this IP address, as the vendor does for some locations."""
        self.expired = on
        if on:
            for line in list(self.lines):
                await line.ws.close()
            while self.lines:
                await asyncio.sleep(0.01)

"""Reads a vendor with the most used library for tastytrade, for comparison.

It is a program of its own, because the library leaves streams unclosed and loads much. It prints `ready` once
subscribed, and then everything it has read, as JSON. Arguments: the REST interface's URL, the first candle's start
(Unix seconds), the number of candles and of sales. The credentials are in `TT_SECRET` and `TT_REFRESH`, where the
library looks for them.
"""

import asyncio
import json
import sys
from datetime import UTC, datetime

import tastytrade.session
from tastytrade import DXLinkStreamer, Session
from tastytrade.dxfeed import Candle, TimeAndSale
from tastytrade.instruments import Future


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def read(base: str, from_s: int, candle_count: int, sale_count: int) -> None:
    tastytrade.session.API_URL = base
    async with Session() as session:
        future = await Future.get(session, "/ESZ6")
        async with DXLinkStreamer(session) as streamer:
            await streamer.subscribe(TimeAndSale, [future.streamer_symbol], refresh_interval=0)
            await streamer.subscribe_candle(
                [future.streamer_symbol],
                "1m",
                datetime.fromtimestamp(from_s, UTC),
                extended_trading_hours=True,
            )
            candles = [await streamer.get_event(Candle) for _ in range(candle_count)]
            say("ready")
            sales = [await streamer.get_event(TimeAndSale) for _ in range(sale_count)]
    found = {
        "symbol": future.streamer_symbol,
        "candles": [
            [c.time, str(c.open), str(c.high), str(c.low), str(c.close), int(c.volume or 0)] for c in candles
        ],
        "sales": [[s.index, s.time, s.time_nano_part, str(s.price), s.size, s.aggressor_side] for s in sales],
    }
    say(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(read(sys.argv[1], *map(int, sys.argv[2:])))

"""Parsers for Hyperliquid's WebSocket messages and `info` responses.

Prices and sizes are decimal texts and are never parsed through a float. Sizes become whole numbers of the product's
size step. Message forms: Hyperliquid's documentation, pages "Websocket", "Subscriptions" and "Info endpoint".
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import TypeVar

import msgspec
import numpy as np

from outcry.feeds.live_rows import rows_of
from outcry.feeds.number_parsing import parse_price_e9, parse_steps
from outcry.market.units import NANOS_PER_MS, PRICE_SCALE
from outcry.trades.feed import FeedLost
from outcry.trades.records import BAR, Rows

T = TypeVar("T")

#: A price has at most this many significant figures, and this many decimals less the decimals of the size. Whole
#: numbers are always allowed (page "Tick and lot size").
SIGNIFICANT_FIGURES, MAX_DECIMALS = 5, 6
_MOST_SIZE_DECIMALS = 9
#: The vendor has only the newest candles of an interval.
MAX_CANDLES = 5_000
#: Aggressor sides: `B` bought, `A` sold.
_SIDES = {"B": b"B", "A": b"A"}


class Message(msgspec.Struct):
    """A WebSocket message. The form of `data` depends on the channel."""

    channel: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class Trade(msgspec.Struct):
    """A trade: `px` price, `sz` size in coins, `time` in ms UTC, `tid` its id, `side` the aggressor's."""

    coin: str
    side: str
    px: Decimal
    sz: Decimal
    time: int
    tid: int


class _Subscription(msgspec.Struct, frozen=True):
    type: str = ""
    coin: str = ""


class Confirmation(msgspec.Struct):
    """The response to a subscription, which repeats it."""

    method: str = ""
    subscription: _Subscription = _Subscription()


class Candle(msgspec.Struct):
    """A candle: start in ms UTC, open, high, low, close, and volume in coins."""

    t: int
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741 - the vendor's name
    c: Decimal
    v: Decimal


class Asset(msgspec.Struct, rename={"size_decimals": "szDecimals", "delisted": "isDelisted"}):
    """A perpetual future in the vendor's list. Sizes have `size_decimals` decimals."""

    name: str
    size_decimals: int
    delisted: bool = False

    @property
    def size_step_e9(self) -> int:
        """Return the smallest size in 10⁻⁹ coins. Raises `FeedLost` for an impossible number of decimals."""
        if not 0 <= self.size_decimals <= _MOST_SIZE_DECIMALS:
            raise _unreadable("list of coins")
        return PRICE_SCALE // 10**self.size_decimals

    def price_step_e9(self, price_e9: int) -> int:
        """Return the smallest price step at a price, both in 10⁻⁹ dollars."""
        figures = (
            len(str(price_e9)) - len(str(PRICE_SCALE)) + 1
        )  # before the decimal point; negative below 0.1
        decimals = min(SIGNIFICANT_FIGURES - figures, MAX_DECIMALS - self.size_decimals)
        return PRICE_SCALE // 10 ** max(decimals, 0)


class Meta(msgspec.Struct):
    """The vendor's list of perpetual futures."""

    universe: list[Asset]


def decode(body: bytes | str | msgspec.Raw, kind: type[T], what: str) -> T:
    """Parse a message or response as `kind`. Raises `FeedLost`. what: names it in the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, ArithmeticError):  # the error's text may quote the message
        raise _unreadable(what) from None


def trade_rows(trades: Sequence[Trade], step_e9: int, received_ns: int) -> Rows:
    """Return trades as rows of dtype `LIVE_TRADE`; sizes are multiples of `step_e9`. Raises `FeedLost`."""
    try:
        return rows_of(
            (
                trade.time * NANOS_PER_MS, received_ns, parse_price_e9(trade.px), parse_steps(trade.sz, step_e9),
                _SIDES.get(trade.side, b"N"), 0, 0, trade.tid,
            )
            for trade in trades
        )  # fmt: skip
    except (ArithmeticError, ValueError):
        raise _unreadable("trade") from None


def candle_rows(candles: Sequence[Candle], step_e9: int) -> Rows:
    """Return candles with volume as rows of dtype `BAR`, in order of time. Raises `FeedLost`."""
    try:
        rows = [
            (
                candle.t * NANOS_PER_MS,
                *(parse_price_e9(price) for price in (candle.o, candle.h, candle.l, candle.c)),
                parse_steps(candle.v, step_e9),
            )
            for candle in candles
            if candle.v > 0
        ]
        table = np.array(rows, BAR)
    except (ArithmeticError, ValueError):
        raise _unreadable("candle") from None
    return table[np.argsort(table["ts_event"], kind="stable")]


def _unreadable(what: str) -> FeedLost:
    return FeedLost("protocol", f"Hyperliquid sent an unreadable {what}")

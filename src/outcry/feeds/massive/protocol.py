"""Parses Massive's messages: live and historical trades, statuses and errors.

Prices are parsed as decimals, not as binary floats. Times are truncated to milliseconds in both sources, because the
socket sends no more and a trade must look the same from either source.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec
import numpy as np

from outcry.feeds.number_parsing import parse_lots, parse_price_e9
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_MS
from outcry.trades.feed import LIVE_TRADE, FeedLost, FeedRefused, RowFlag
from outcry.trades.records import Rows

#: Statuses of success.
WELL = frozenset({"connected", "auth_success", "success"})
#: A larger time is in nanoseconds, a smaller one in milliseconds (up to the year 5138).
_LARGEST_MS = 10**14


class Message(msgspec.Struct):
    """One element of a frame: a status, or a trade (`ev` T): ticker, price, size, time, sequence."""

    ev: str = ""
    status: str = ""
    message: str = ""
    sym: str = ""
    p: Decimal | None = None
    s: Decimal = Decimal(0)
    t: int = 0
    q: int = 0


class Result(msgspec.Struct):
    """One trade in a page of history. `timestamp`: ns UTC."""

    timestamp: int
    price: Decimal
    size: Decimal
    sequence_number: int = 0


class Answer(msgspec.Struct):
    """Body of a response to a history request: a page of history, or an error."""

    results: list[Result] = []
    next_url: str = ""
    status: str = ""
    error: str = ""
    message: str = ""


class Page(NamedTuple):
    """A parsed page of history: its trades, and the query parameters of the next page."""

    rows: Rows
    following: dict[str, str] | None


_FRAME = msgspec.json.Decoder(list[Message])
_ANSWER = msgspec.json.Decoder(Answer)


def read_frame(text: str | bytes) -> list[Message]:
    """Parse the messages of a WebSocket frame. Raises `FeedLost`."""
    try:
        return _FRAME.decode(text)
    except msgspec.DecodeError as problem:
        raise FeedLost("protocol", f"unreadable message from Massive: {problem}") from None


def read_answer(text: str | bytes) -> Answer:
    """Parse a page of history from a response body. Raises `FeedLost`."""
    try:
        return _ANSWER.decode(text)
    except msgspec.DecodeError as problem:
        raise FeedLost("protocol", f"unreadable answer from Massive: {problem}") from None


def next_page(answer: Answer) -> dict[str, str] | None:
    """Return the query parameters of the next page; None after the last.

    Only the parameters of the vendor's URL are used, without an API key, so that it cannot choose the host.
    """
    asked = dict(parse_qsl(urlsplit(answer.next_url).query))
    asked.pop("apiKey", None)
    return asked or None


def live_rows(trades: Sequence[Message], received_ns: int) -> Rows:
    """Return live trades as `LIVE_TRADE` rows. Raises `FeedLost`."""
    trades = [m for m in trades if m.p is not None]
    times = [m.t * NANOS_PER_MS if m.t < _LARGEST_MS else m.t for m in trades]
    rows = _rows(
        times, [m.p for m in trades if m.p is not None], [m.s for m in trades], [m.q for m in trades]
    )
    rows["ts_recv"] = received_ns
    return rows


def history_rows(trades: Sequence[Result], received_ns: int) -> Rows:
    """Return historical trades as `LIVE_TRADE` rows. Raises `FeedLost`."""
    rows = _rows(
        [r.timestamp for r in trades],
        [r.price for r in trades],
        [r.size for r in trades],
        [r.sequence_number for r in trades],
    )
    rows["ts_recv"], rows["flags"] = received_ns, int(RowFlag.BACKFILL)
    return rows


def _rows(
    times: Sequence[int], prices: Sequence[Decimal], sizes: Sequence[Decimal], sequences: Sequence[int]
) -> Rows:
    rows = np.zeros(len(times), LIVE_TRADE)
    try:
        e9 = {price: parse_price_e9(price) for price in set(prices)}  # few distinct prices
        rows["price"] = [e9[price] for price in prices]
        rows["size"] = [parse_lots(size) for size in sizes]
        rows["ts_event"] = times
    except (
        ValueError,
        TypeError,
        OverflowError,
    ):  # a set cannot contain a signalling NaN
        raise FeedLost("protocol", "Massive sent an invalid trade") from None
    rows["ts_event"] -= rows["ts_event"] % NANOS_PER_MS
    rows["side"] = b"N"
    rows["sequence"] = [number & 0xFFFFFFFF for number in sequences]
    return rows[rows["size"] > 0]


def complaint(status: str, text: str) -> FeedLost | CredentialsRejected:
    """Return the feed error that matches the vendor's status or refusal.

    The texts are not stable, so keywords are matched.
    """
    lowered = f"{status} {text}".lower()
    for words, problem in (
        (("max_connections", "maximum number of websocket"), FeedRefused("too_many_sessions", text)),
        (("exceeded", "too many"), FeedLost("rate_limited", text)),
        (("slow_consumer",), FeedLost("seam_overflow", text)),
        (("not_authorized", "not authorized", "entitle", "upgrade", "plan", "access"), _not_entitled(text)),
        (("api key", "apikey", "auth_failed"), CredentialsRejected("login_refused", text)),
        (
            ("not_found", "not found", "unknown ticker", "invalid ticker"),
            FeedRefused("unknown_contract", text),
        ),
    ):
        if any(word in lowered for word in words):
            return problem
    return FeedLost("vendor_error", text or status)


def _not_entitled(text: str) -> FeedRefused:
    return FeedRefused("not_entitled", text or "the Massive plan does not include real-time futures")

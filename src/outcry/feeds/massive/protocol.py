"""Parses Massive's messages: live and historical trades, statuses and errors.

Prices are parsed as decimals, not as binary floats. Times are truncated to milliseconds in both sources, because the
socket sends no more and a trade must look the same from either source.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from outcry.feeds.live_rows import LiveValues, rows_of
from outcry.feeds.number_parsing import parse_lots, parse_price_e9
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_MS
from outcry.trades.feed import FeedLost, FeedRefused, RowFlag
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


#: A market has few distinct prices and sizes.
_price_e9, _lots = lru_cache(4096)(parse_price_e9), lru_cache(1024)(parse_lots)

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

    The vendor sends the next page's URL. Only the parameters of this URL are used, without an API key, so that the
    vendor cannot choose the host.
    """
    asked = dict(parse_qsl(urlsplit(answer.next_url).query))
    asked.pop("apiKey", None)
    return asked or None


def live_rows(trades: Sequence[Message], received_ns: int) -> Rows:
    """Return live trades as `LIVE_TRADE` rows. Raises `FeedLost`."""
    return _rows(
        (
            (m.t * NANOS_PER_MS if m.t < _LARGEST_MS else m.t, m.p, m.s, m.q)
            for m in trades
            if m.p is not None
        ),
        received_ns,
        0,
    )


def history_rows(trades: Sequence[Result], received_ns: int) -> Rows:
    """Return historical trades as `LIVE_TRADE` rows. Raises `FeedLost`."""
    return _rows(
        ((r.timestamp, r.price, r.size, r.sequence_number) for r in trades),
        received_ns,
        int(RowFlag.BACKFILL),
    )


def _rows(trades: Iterable[tuple[int, Decimal, Decimal, int]], received_ns: int, flags: int) -> Rows:
    """Return trades (time, price, size, sequence) as rows, without those of size 0. Raises `FeedLost`."""
    rows: list[LiveValues] = []
    try:
        for at_ns, price, size, sequence in trades:
            price_e9, lots = _price_e9(price), _lots(size)
            if lots:
                at_ms_ns = at_ns - at_ns % NANOS_PER_MS
                rows.append((at_ms_ns, received_ns, price_e9, lots, b"N", flags, sequence & 0xFFFFFFFF, 0))
        return rows_of(rows)
    except (ValueError, OverflowError, TypeError):  # a signalling NaN is no key of a cache
        raise FeedLost("protocol", "Massive sent an invalid trade") from None


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

"""Parsers for ProjectX's HTTP responses and hub messages.

Prices are parsed from their decimal digits, never through a float. A bar's time is its start. Errors are recognised by
the vendor's error codes.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from outcry.feeds.number_parsing import parse_lots, parse_price_e9
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_SECOND
from outcry.trades.feed import LIVE_TRADE, FeedLost, FeedRefused, VolumeCounter
from outcry.trades.records import BAR, Rows

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Aggressor sides by the vendor's code.
_SIDES = {0: b"B", 1: b"A"}


class ListedContract(msgspec.Struct):
    """A contract in the vendor's list.

    `name` is the exchange's symbol (`ESZ6`); `tickSize` is in the vendor's price unit.
    """

    id: str
    name: str = ""
    tickSize: Decimal = Decimal(0)  # noqa: N815 - the vendor's name


class Bar(msgspec.Struct):
    """A bar of history: start time, open, high, low, close and volume in lots."""

    t: str
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741 - the vendor's name
    c: Decimal
    v: Decimal


class Answer(msgspec.Struct):
    """Any HTTP response; which fields are set depends on the request."""

    success: bool = False
    errorCode: int = 0  # noqa: N815 - the vendor's name
    token: str | None = None
    contracts: list[ListedContract] = []
    bars: list[Bar] | None = None


_ANSWER = msgspec.json.Decoder(Answer)


def read_answer(body: bytes) -> Answer:
    """Parse an HTTP response. Raises `FeedLost`."""
    try:
        return _ANSWER.decode(body)
    except msgspec.DecodeError:  # its text may quote the response
        raise FeedLost("protocol", "ProjectX sent an unreadable response") from None


def login_problem(answer: Answer) -> CredentialsRejected | FeedLost:
    """Return the error for a login that the vendor refused."""
    match answer.errorCode:
        case 7:
            return FeedRefused(
                "not_allowed", "the platform's agreements are not signed. Sign in to the platform once"
            )
        case 9:
            return FeedRefused("not_entitled", "the account has no API subscription")
        case 10:
            return FeedRefused("not_allowed", "the firm has disabled API keys")
        case 8:
            return FeedLost("vendor_error", "ProjectX rejected the login without a reason")
        case _:
            return CredentialsRejected("login_refused", "ProjectX rejected the user name or API key")


def parse_time_ns(text: str) -> int:
    """Parse a .NET timestamp with up to nine decimals to ns UTC; UTC if it has no zone. Raises `FeedLost`."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise FeedLost("protocol", "ProjectX sent an unreadable time")
    whole, fraction, zone = found.groups()
    try:
        at = datetime.fromisoformat(whole + (zone or "+00:00")) - _EPOCH
    except ValueError:
        raise FeedLost("protocol", "ProjectX sent an invalid time") from None
    return (at.days * 86_400 + at.seconds) * NANOS_PER_SECOND + int((fraction or "0").ljust(9, "0"))


def bar_rows(bars: Sequence[Bar]) -> Rows:
    """Return one-second bars in order of time, dtype `BAR`, without bars of no volume. Raises `FeedLost`."""
    try:
        rows = [
            (
                parse_time_ns(bar.t),
                parse_price_e9(bar.o),
                parse_price_e9(bar.h),
                parse_price_e9(bar.l),
                parse_price_e9(bar.c),
                parse_lots(bar.v),
            )
            for bar in bars
            if bar.v > 0
        ]
        table = np.array(rows, BAR)
    except (ArithmeticError, ValueError):
        raise FeedLost("protocol", "ProjectX sent an invalid bar") from None
    return table[np.argsort(table["ts_event"], kind="stable")]


def trade_rows(data: object, received_ns: int) -> Rows:
    """Return one or more hub trades as rows, dtype `LIVE_TRADE`. Raises `FeedLost`."""
    found: Sequence[Mapping[str, Any]] = data if isinstance(data, list) else [data]  # pyright: ignore[reportAssignmentType] - checked by use
    try:
        rows = [
            (
                parse_time_ns(trade["timestamp"]), received_ns, parse_price_e9(trade["price"]),
                parse_lots(trade["volume"]),
                _SIDES.get(trade.get("type", -1), b"N"), 0, 0, 0,
            )
            for trade in found
        ]  # fmt: skip
        table = np.array(rows, LIVE_TRADE)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        raise FeedLost("protocol", "ProjectX sent an unreadable trade") from None
    return table[table["size"] > 0]


def parse_volume_counter(data: object) -> VolumeCounter | None:
    """Return the day's volume in a quote; None if the quote does not contain it.

    Quotes contain only the fields that changed.
    """
    try:
        volume, at = data["volume"], data["timestamp"]  # pyright: ignore[reportIndexIssue] - checked by use
        return VolumeCounter(parse_time_ns(at), parse_lots(volume))
    except (LookupError, TypeError, ValueError, FeedLost):
        return None

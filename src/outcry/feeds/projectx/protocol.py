"""What ProjectX sends, read: answers over HTTP, and trades and quotes of the hub.

Rules kept: prices are read from their digits, never through binary fractions; a bar is stamped at its start; refusals
are told by the vendor's own numbers.
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
#: Aggressors by the vendor's number: who bought, who sold.
_SIDES = {0: b"B", 1: b"A"}


class Listed(msgspec.Struct):
    """A contract as the vendor lists it. `name`: the exchange's key, `ESZ6`; `tickSize`: in the unit it quotes."""

    id: str
    name: str = ""
    tickSize: Decimal = Decimal(0)  # noqa: N815 - the vendor's name


class Bar(msgspec.Struct):
    """A bar of history: start, open, high, low, close, lots."""

    t: str
    o: Decimal
    h: Decimal
    l: Decimal  # noqa: E741 - the vendor's name
    c: Decimal
    v: Decimal


class Answer(msgspec.Struct):
    """Any answer; what it is of is told by what is in it."""

    success: bool = False
    errorCode: int = 0  # noqa: N815 - the vendor's name
    token: str | None = None
    contracts: list[Listed] = []
    bars: list[Bar] | None = None


_ANSWER = msgspec.json.Decoder(Answer)


def read_answer(body: bytes) -> Answer:
    """An answer over HTTP. Raises `FeedLost`."""
    try:
        return _ANSWER.decode(body)
    except msgspec.DecodeError:  # its text may quote what was answered
        raise FeedLost("protocol", "ProjectX sent an unreadable response") from None


def login_problem(answer: Answer) -> CredentialsRejected | FeedLost:
    """Why a login was refused."""
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


def ns_of(text: str) -> int:
    """A time as .NET writes it, with up to nine digits of a second; of no zone it is UTC. Raises `FeedLost`."""
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
    """Bars of a second in order of time; those in which nothing traded are left out. Raises `FeedLost`."""
    try:
        rows = [
            (
                ns_of(bar.t),
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
    """Trades of the hub, one or several, as `LIVE_TRADE` rows. Raises `FeedLost`."""
    found: Sequence[Mapping[str, Any]] = data if isinstance(data, list) else [data]  # pyright: ignore[reportAssignmentType] - checked by use
    try:
        rows = [
            (
                ns_of(trade["timestamp"]), received_ns, parse_price_e9(trade["price"]), parse_lots(trade["volume"]),
                _SIDES.get(trade.get("type", -1), b"N"), 0, 0, 0,
            )
            for trade in found
        ]  # fmt: skip
        table = np.array(rows, LIVE_TRADE)
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        raise FeedLost("protocol", "ProjectX sent an unreadable trade") from None
    return table[table["size"] > 0]


def counted(data: object) -> VolumeCounter | None:
    """The lots of the day that a quote tells of; a quote tells only what has changed, so there may be none."""
    try:
        volume, at = data["volume"], data["timestamp"]  # pyright: ignore[reportIndexIssue] - checked by use
        return VolumeCounter(ns_of(at), parse_lots(volume))
    except (LookupError, TypeError, ValueError, FeedLost):
        return None

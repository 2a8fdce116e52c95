"""Tradovate's WebSocket protocol: SockJS-like frames, requests as lines, ticks as packets.

A frame starts with a type character: `o` opened, `h` heartbeat, `a[…]` messages, `c[…]` closing. A request has four
lines: endpoint, id, query and body. Its response has the id in `i` and an HTTP status in `s`. A price is an integer
number of steps times the decimal step, so nothing is rounded.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from outcry.feeds.live_rows import rows_of
from outcry.feeds.number_parsing import parse_price_e9
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_MS, PRICE_SCALE
from outcry.trades.feed import FeedLost, FeedRefused
from outcry.trades.records import Rows

#: Heartbeat that a client sends.
CLIENT_HEARTBEAT = "[]"
#: Heartbeat that the vendor sends.
SERVER_HEARTBEAT = "h"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LOTS = 2**31
#: Modes of a response whose data is delayed.
_DELAYED_MODES = frozenset({"None", "Delayed", "DelayedOnly"})


class Message(msgspec.Struct):
    """A message of an `a` frame: a response (`i`, `s`) or an event (`e`), with its content in `d`."""

    e: str = ""
    i: int | str | None = None
    s: int = 0
    d: msgspec.Raw = msgspec.Raw(b"null")


class Answer(msgspec.Struct, rename={"p_ticket": "p-ticket", "p_time": "p-time", "p_captcha": "p-captcha"}):
    """Response to a subscription; a refusal also has HTTP status 200 and is reported in these fields."""

    historicalId: int | None = None  # noqa: N815 - the vendor's own names
    realtimeId: int | None = None  # noqa: N815
    subscriptionId: int | None = None  # noqa: N815
    mode: str = ""
    errorText: str | None = None  # noqa: N815
    errorCode: str | None = None  # noqa: N815
    p_ticket: str = ""
    p_time: float = 0.0
    p_captcha: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        """Return the ids of the subscription's packets. History and live packets may have one each, or share one."""
        found = (self.historicalId, self.realtimeId, self.subscriptionId)
        return frozenset(number for number in found if number is not None)

    @property
    def withheld(self) -> bool:
        """Return whether the vendor withholds the contract, because the user has no real-time access.

        The vendor reports such a contract as an unknown symbol.
        """
        return self.mode in _DELAYED_MODES or self.errorCode == "UnknownSymbol"


class Tick(msgspec.Struct):
    """A trade: time in ms and price in steps relative to its packet, lots and id; bid and ask if known."""

    t: int
    p: int
    s: float
    id: int
    b: int | None = None
    a: int | None = None


class Packet(msgspec.Struct):
    """Ticks of one subscription.

    `bp`: base price in steps; `bt`: base time in ms; `ts`: price step; `eoh`: history ends with this packet.
    """

    id: int
    eoh: bool = False
    bp: int = 0
    bt: int = 0
    ts: Decimal = Decimal(0)
    tks: list[Tick] = []


class Charts(msgspec.Struct):
    """The WebSocket event `chart`, which carries packets of ticks."""

    charts: list[Packet] = []


class Size(msgspec.Struct):
    """One entry of a Tradovate quote; only its size is used."""

    size: float | None = None


class Entries(msgspec.Struct):
    """The fields of a quote that are used here."""

    TotalTradeVolume: Size | None = None


class Quote(msgspec.Struct):
    """A quote of one contract, by the vendor's id."""

    contractId: int  # noqa: N815
    timestamp: datetime | None = None
    entries: Entries = msgspec.field(default_factory=Entries)


class Quotes(msgspec.Struct):
    """The WebSocket event `md`, which carries quotes."""

    quotes: list[Quote] = []


class Shutdown(msgspec.Struct):
    """The WebSocket event `shutdown`: the vendor is about to close the connection."""

    reasonCode: str = ""  # noqa: N815


T = TypeVar("T")
_MESSAGES = msgspec.json.Decoder(list[Message])


def parse_messages(frame: str) -> list[Message]:
    """Parse the messages of an `a` frame. Raises `FeedLost("protocol")`."""
    try:
        return _MESSAGES.decode(frame[1:])
    except msgspec.MsgspecError as problem:
        raise _unreadable(problem) from None


def parse(raw: msgspec.Raw, kind: type[T]) -> T:
    """Parse the content of a message as an object of type `kind`. Raises `FeedLost("protocol")`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as problem:
        raise _unreadable(problem) from None


def request(endpoint: str, number: int, body: object = None) -> str:
    """Return a request's text; a body of text is sent unchanged."""
    text = body if isinstance(body, str) else "" if body is None else msgspec.json.encode(body).decode()
    return f"{endpoint}\n{number}\n\n{text}"


def chart_request(name: str, from_ns: int, to_ns: int | None) -> dict[str, Any]:
    """Return the body of `md/getChart` for ticks between two times; without an end, live ticks follow."""
    reach = {"asFarAsTimestamp": format_timestamp(from_ns)}
    if to_ns is not None:
        reach["closestTimestamp"] = format_timestamp(to_ns)
    kind = {
        "underlyingType": "Tick",
        "elementSize": 1,
        "elementSizeUnit": "UnderlyingUnits",
        "withHistogram": False,
    }
    return {"symbol": name, "chartDescription": kind, "timeRange": reach}


def format_timestamp(at_ns: int) -> str:
    """Format a time as Tradovate does, rounded down to milliseconds."""
    seconds, rest = divmod(at_ns // NANOS_PER_MS, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def to_ns(at: datetime) -> int:
    """Convert a datetime to ns UTC exactly. A datetime without a zone counts as UTC."""
    passed = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400_000_000 + passed.seconds * 1_000_000 + passed.microseconds) * 1000


def parse_rows(packet: Packet, received_ns: int, flags: int) -> Rows:
    """Return the trades of a packet in its order, dtype `LIVE_TRADE`. Raises `FeedLost("protocol")`."""
    ticks = packet.tks
    step_e9 = _step_e9(packet.ts)
    if ticks and not step_e9:
        raise FeedLost("protocol", "Tradovate sent ticks with an invalid tick size")
    if any(not (0 < tick.s < _MAX_LOTS and tick.s.is_integer()) for tick in ticks):
        raise FeedLost("protocol", "Tradovate sent a trade with a fractional size")
    rows = [
        ((packet.bt + tick.t) * NANOS_PER_MS, received_ns, (packet.bp + tick.p) * step_e9, int(tick.s),
         _side(tick), flags, 0, tick.id)
        for tick in ticks
    ]  # fmt: skip
    try:
        return rows_of(rows)
    except OverflowError:
        raise FeedLost("protocol", "Tradovate sent an invalid time or price") from None


def _step_e9(step: Decimal) -> int:
    """Return a price step in units of 10⁻⁹; 0 if it is not a whole number of them."""
    try:
        step_e9 = parse_price_e9(step)
    except ValueError:
        return 0
    return step_e9 if 0 < step * PRICE_SCALE == step_e9 else 0


class RateLimited(FeedLost):
    """The vendor requires a pause of an hour."""


def refusal(status: int) -> Exception:
    """Return the error for the status of a response: `FeedLost`, `FeedRefused` or `CredentialsRejected`."""
    if status == 401:
        return CredentialsRejected("login_expired", "Tradovate no longer accepts the token")
    if status == 403:
        return FeedRefused(
            "not_allowed", "Tradovate does not allow this user to request market data through its API"
        )
    if status == 429:
        return RateLimited("rate_limited", "too many requests: Tradovate requires a pause of one hour")
    return FeedLost("vendor_error", f"Tradovate returned HTTP {status}")


def _side(tick: Tick) -> bytes:
    """Return the aggressor side of a tick by its quote.

    A trade at the ask or above is a buy (B), at the bid or below a sell (A); any other is unknown (N).
    """
    if tick.a is None or tick.b is None or tick.b >= tick.a:
        return b"N"
    return b"B" if tick.p >= tick.a else b"A" if tick.p <= tick.b else b"N"


def _unreadable(problem: Exception) -> FeedLost:
    return FeedLost("protocol", f"Tradovate sent unreadable data: {problem}")

"""Tradovate's web socket as bytes: frames in the manner of SockJS, requests as lines, ticks as packets.

A frame is one letter and what belongs to it: `o` opened, `h` the vendor lives, `a[…]` messages, `c[…]` closing. A
request is four lines, endpoint, number, query and body; its answer has the number in `i` and a status of HTTP in `s`.
Rule kept: a price is a whole number of steps times the step as it is written, so nothing is ever rounded.
"""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
import numpy as np

from outcry.feeds.number_parsing import parse_price_e9
from outcry.feeds.shared_session import CredentialsRejected
from outcry.market.units import NANOS_PER_MS, PRICE_SCALE
from outcry.trades.feed import LIVE_TRADE, FeedLost, FeedRefused
from outcry.trades.records import Rows

#: What a client sends to say that it lives.
CLIENT_HEARTBEAT = "[]"
#: What the vendor sends for the same.
SERVER_HEARTBEAT = "h"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LOTS = 2**31
#: Modes of an answer in which what comes is not of now.
_DELAYED_MODES = frozenset({"None", "Delayed", "DelayedOnly"})


class Message(msgspec.Struct):
    """One of an `a` frame: an answer (`i`, `s`) or an event (`e`), with what it says in `d`."""

    e: str = ""
    i: int | str | None = None
    s: int = 0
    d: msgspec.Raw = msgspec.Raw(b"null")


class Answer(msgspec.Struct, rename={"p_ticket": "p-ticket", "p_time": "p-time", "p_captcha": "p-captcha"}):
    """What the answer to a subscription may hold. A refusal has the status of a success, and says so here."""

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
        """Under which its packets come; history and what follows it may have one each, or share one."""
        found = (self.historicalId, self.realtimeId, self.subscriptionId)
        return frozenset(number for number in found if number is not None)

    @property
    def withheld(self) -> bool:
        """Whether the user may not have this now. Of a contract there is, the vendor says that it knows it not."""
        return self.mode in _DELAYED_MODES or self.errorCode == "UnknownSymbol"


class Tick(msgspec.Struct):
    """A trade: time in ms and price in steps from the packet's, lots, its number; bid and ask if they are known."""

    t: int
    p: int
    s: float
    id: int
    b: int | None = None
    a: int | None = None


class Packet(msgspec.Struct):
    """Ticks of one subscription. bp: steps, bt: ms since 1970, ts: the step; eoh: history is complete with this."""

    id: int
    eoh: bool = False
    bp: int = 0
    bt: int = 0
    ts: Decimal = Decimal(0)
    tks: list[Tick] = []


class Charts(msgspec.Struct):
    """The event `chart`."""

    charts: list[Packet] = []


class Size(msgspec.Struct):
    """An entry of a quote."""

    size: float | None = None


class Entries(msgspec.Struct):
    """Those of a quote that are of use here."""

    TotalTradeVolume: Size | None = None


class Quote(msgspec.Struct):
    """Of one contract, by the vendor's number."""

    contractId: int  # noqa: N815
    timestamp: datetime | None = None
    entries: Entries = msgspec.field(default_factory=Entries)


class Quotes(msgspec.Struct):
    """The event `md`."""

    quotes: list[Quote] = []


class Shutdown(msgspec.Struct):
    """The event `shutdown`: the vendor is about to hang up."""

    reasonCode: str = ""  # noqa: N815


T = TypeVar("T")
_MESSAGES = msgspec.json.Decoder(list[Message])


def parse_messages(frame: str) -> list[Message]:
    """Those of an `a` frame. Raises `FeedLost("protocol")`."""
    try:
        return _MESSAGES.decode(frame[1:])
    except msgspec.MsgspecError as problem:
        raise _unreadable(problem) from None


def parse(raw: msgspec.Raw, kind: type[T]) -> T:
    """What a message says. Raises `FeedLost("protocol")`."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as problem:
        raise _unreadable(problem) from None


def request(endpoint: str, number: int, body: object = None) -> str:
    """A request as it is sent; a body of text is sent as it is."""
    text = body if isinstance(body, str) else "" if body is None else msgspec.json.encode(body).decode()
    return f"{endpoint}\n{number}\n\n{text}"


def chart_request(name: str, from_ns: int, to_ns: int | None) -> dict[str, Any]:
    """The body of `md/getChart` for ticks between two instants, without an end for those to come as well."""
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
    """An instant as Tradovate writes it, to the millisecond at or before it."""
    seconds, rest = divmod(at_ns // NANOS_PER_MS, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def to_ns(at: datetime) -> int:
    """An instant that was read from text, exactly. Without a zone it is UTC."""
    passed = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return (passed.days * 86_400_000_000 + passed.seconds * 1_000_000 + passed.microseconds) * 1000


def parse_rows(packet: Packet, received_ns: int, flags: int) -> Rows:
    """The trades of a packet, in its order, as `LIVE_TRADE`. Raises `FeedLost("protocol")`."""
    ticks = packet.tks
    rows = np.zeros(len(ticks), LIVE_TRADE)
    step_e9 = _step_e9(packet.ts)
    if ticks and not step_e9:
        raise FeedLost("protocol", "Tradovate sent ticks with an invalid tick size")
    if any(not (0 < tick.s < _MAX_LOTS and tick.s.is_integer()) for tick in ticks):
        raise FeedLost("protocol", "Tradovate sent a trade with a fractional size")
    try:
        rows["ts_event"] = [(packet.bt + tick.t) * NANOS_PER_MS for tick in ticks]
        rows["price"] = [(packet.bp + tick.p) * step_e9 for tick in ticks]
        rows["id"] = [tick.id for tick in ticks]
    except OverflowError:
        raise FeedLost("protocol", "Tradovate sent an invalid time or price") from None
    rows["size"] = [int(tick.s) for tick in ticks]
    rows["side"] = [_side(tick) for tick in ticks]
    rows["ts_recv"], rows["flags"] = received_ns, flags
    return rows


def _step_e9(step: Decimal) -> int:
    """A step in 10⁻⁹; 0 for one that cannot be written in these."""
    try:
        step_e9 = parse_price_e9(step)
    except ValueError:
        return 0
    return step_e9 if 0 < step * PRICE_SCALE == step_e9 else 0


class RateLimited(FeedLost):
    """Nobody is to ask for an hour."""


def refusal(status: int) -> Exception:
    """What the status of an answer says, a success being none: `FeedLost`, `FeedRefused` or `Rejected`."""
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
    """Who took the initiative, by the quote beside the trade: at the ask or above a buyer, at the bid or below a
    seller; nobody knows between them, without a quote, or where bid and ask meet."""
    if tick.a is None or tick.b is None or tick.b >= tick.a:
        return b"N"
    return b"B" if tick.p >= tick.a else b"A" if tick.p <= tick.b else b"N"


def _unreadable(problem: Exception) -> FeedLost:
    return FeedLost("protocol", f"Tradovate sent unreadable data: {problem}")

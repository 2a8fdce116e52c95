"""What dxLink's events say: trades of `TimeAndSale`, bars of `Candle`, and the flags by which both are delivered.

Rules kept: a price is read from its decimal text, never by way of a float, and told in 10⁻⁹; a number that is none
(`NaN`) makes no trade. A sale that is no valid tick is none of the auction; a leg of a spread that is one, and a trade
in extended hours, are. (dxFeed, `TimeAndSale`, `IndexedEvent`.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from outcry.feeds import number_parsing
from outcry.market.units import NANOS_PER_MS
from outcry.trades.feed import FeedLost

SALE, CANDLE = "TimeAndSale", "Candle"

#: The fields asked for, in this order. The vendor says which it sends.
FIELDS: Mapping[str, tuple[str, ...]] = {
    SALE: (
        "eventSymbol", "eventFlags", "index", "time", "timeNanoPart", "price", "size", "aggressorSide", "validTick",
        "type",
    ),
    CANDLE: ("eventSymbol", "eventFlags", "index", "time", "count", "open", "high", "low", "close", "volume"),
}  # fmt: skip

#: Of a sale's index, the part that tells apart those of one millisecond.
_SEQUENCE = (1 << 22) - 1
_SIDES = {"BUY": b"B", "SELL": b"A"}
_MOST_LOTS = 2**31
#: No number of an event is as large as this: rows hold 63 bits.
_LIMIT = 2**63

Event = Mapping[str, Any]


#: Bits of `eventFlags` of an event of a series. Plain numbers, for there are half a million events in a day.
TX_PENDING = 0x01  # more of this change is to come
REMOVE_EVENT = 0x02  # there is no such event any more
SNAPSHOT_BEGIN = 0x04
SNAPSHOT_END = 0x08  # all that was asked for has been sent
SNAPSHOT_SNIP = 0x10  # the vendor sends no more, though there may be


@dataclass(slots=True)
class Sale:
    """One sale. `trade`: whether it is one of the auction's (now); `kind`: `NEW`, `CORRECTION` or `CANCEL`."""

    flags: int
    id: int
    at_ns: int
    price_e9: int
    size_lots: int
    side: bytes
    trade: bool
    kind: str

    @property
    def sequence(self) -> int:
        """What tells it apart from others of its millisecond."""
        return self.id & _SEQUENCE


@dataclass(slots=True)
class Candle:
    """One bar, stamped at its start. `bar`: open, high, low, close (10⁻⁹) and lots; None where nothing was traded.
    `count`: of how many sales."""

    flags: int
    at_ns: int
    bar: tuple[int, int, int, int, int] | None
    count: int = 0


def rows_of(data: Sequence[Any], fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Event]]:
    """The events of a `FEED_DATA` with their types, in either format. Raises `FeedLost` for what is neither."""
    if not data or isinstance(data[0], dict):
        for event in cast("Sequence[Event]", data):
            yield event.get("eventType", ""), event
        return
    if len(data) % 2:
        raise FeedLost("protocol", "dxLink sent values without an event type")
    for kind, values in zip(data[::2], data[1::2], strict=True):
        names = fields.get(kind, ())
        if not names or len(values) % len(names):
            raise FeedLost("protocol", "dxLink sent values that do not match its fields")
        for at in range(0, len(values), len(names)):
            yield kind, dict(zip(names, values[at : at + len(names)], strict=True))


def read_sale(event: Event, scale: Decimal) -> Sale:
    """A sale as sent. Raises `FeedLost` for one that names no time or index."""
    flags, number = _flags(event), _whole(event, "index")
    at_ns = _time_ns(event) + (_optional(event, "timeNanoPart") or 0) % NANOS_PER_MS
    price_e9, lots = _e9(event.get("price"), scale), _lots(event.get("size"))
    kind = str(event.get("type") or "NEW")
    trade = (
        event.get("validTick", True) is True
        and price_e9 is not None
        and 0 < lots < _MOST_LOTS
        and kind != "CANCEL"
        and not flags & REMOVE_EVENT
    )
    side = _SIDES.get(str(event.get("aggressorSide")), b"N")
    return Sale(flags, number, at_ns, price_e9 or 0, lots if trade else 0, side, trade, kind)


def read_candle(event: Event, scale: Decimal) -> Candle:
    """A candle as sent. Raises `FeedLost` for one that names no time."""
    flags, at_ns = _flags(event), _time_ns(event)
    prices = [_e9(event.get(name), scale) for name in ("open", "high", "low", "close")]
    lots = _lots(event.get("volume"))
    if flags & REMOVE_EVENT or lots < 1 or None in prices:
        return Candle(flags, at_ns, None)
    opened, high, low, close = cast("list[int]", prices)
    return Candle(flags, at_ns, (opened, high, low, close, lots), _lots(event.get("count")) or lots)


def _flags(event: Event) -> int:
    return _optional(event, "eventFlags") or 0


def _whole(event: Event, name: str) -> int:
    found = _optional(event, name)
    if found is None or not 0 <= found < _LIMIT:
        raise FeedLost("protocol", f"dxLink sent an event without {name}")
    return found


def _time_ns(event: Event) -> int:
    at_ns = _whole(event, "time") * NANOS_PER_MS
    if at_ns >= _LIMIT - NANOS_PER_MS:
        raise FeedLost("protocol", "dxLink sent an event with an invalid time")
    return at_ns


def _optional(event: Event, name: str) -> int | None:
    found = event.get(name)
    if type(found) is int:
        return found
    number = _number(found)
    if number is None or abs(number) >= _LIMIT or number != number.to_integral_value():
        return None
    return int(number)


def _number(told: object) -> Decimal | None:
    if type(told) is not Decimal:
        if type(told) is not int and type(told) is not str:
            return None
        try:
            told = Decimal(told)
        except (InvalidOperation, ValueError):
            return None
    return told if told.is_finite() else None


def _e9(told: object, scale: Decimal) -> int | None:
    """A price in 10⁻⁹: the vendor's doubles have more digits than prices have, so it is the nearest."""
    number = _number(told)
    try:
        return number_parsing.parse_price_e9(number * scale) if number is not None else None
    except (ArithmeticError, ValueError):
        return None


def _lots(told: object) -> int:
    number = _number(told)
    try:
        return number_parsing.parse_lots(number) if number is not None else 0
    except ValueError:
        return 0

"""Parsers for dxLink events: trades of `TimeAndSale`, bars of `Candle`, and the flags of their delivery.

Prices are parsed from decimal text to 10⁻⁹ units, never through a float; a price of `NaN` makes no trade. A sale (an
event of time and sales) counts as a trade only if the vendor marks it as a valid tick. Valid ticks of spread legs and
of extended hours count too. (dxFeed documentation of `TimeAndSale` and `IndexedEvent`.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from outcry.feeds import number_parsing
from outcry.market.units import NANOS_PER_MS
from outcry.trades.feed import FeedLost

SALE, CANDLE = "TimeAndSale", "Candle"

#: The requested fields, in this order. The vendor reports which it sends.
FIELDS: Mapping[str, tuple[str, ...]] = {
    SALE: (
        "eventSymbol", "eventFlags", "index", "time", "timeNanoPart", "price", "size", "aggressorSide", "validTick",
        "type",
    ),
    CANDLE: ("eventSymbol", "eventFlags", "index", "time", "count", "open", "high", "low", "close", "volume"),
}  # fmt: skip

#: The part of a sale's index that differs within one millisecond.
_SEQUENCE = (1 << 22) - 1
_SIDES = {"BUY": b"B", "SELL": b"A"}
_MAX_LOTS = 2**31
#: Larger numbers do not fit a row.
_LIMIT = 2**63

Event = Mapping[str, Any]


#: Bits of `eventFlags`. Plain ints, because an enum is too slow for half a million events a day.
TX_PENDING = 0x01  # more events of this transaction follow
REMOVE_EVENT = 0x02  # the event was removed
SNAPSHOT_BEGIN = 0x04
SNAPSHOT_END = 0x08  # all requested events have been sent
SNAPSHOT_SNIP = 0x10  # the snapshot is truncated


@dataclass(slots=True)
class Sale:
    """One event of the vendor's time and sales, the list of trades.

    `trade`: whether the event counts as a trade. `kind`: `NEW`, `CORRECTION` or `CANCEL`.
    """

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
        """Return a number that distinguishes this sale from others of the same millisecond."""
        return self.id & _SEQUENCE


@dataclass(slots=True)
class Candle:
    """One bar with the time of its start.

    `bar` has open, high, low, close (10⁻⁹) and lots; None if nothing traded. `count` is the number of sales in it.
    """

    flags: int
    at_ns: int
    bar: tuple[int, int, int, int, int] | None
    count: int = 0


def rows_of(data: Sequence[Any], fields: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Event]]:
    """Yield the events of a `FEED_DATA` message with their types. Raises `FeedLost`.

    The message may contain objects with names, or only the values in the order of `fields`.
    """
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
    """Parse a sale. Raises `FeedLost` for one without time or index."""
    flags, number = _flags(event), _whole(event, "index")
    at_ns = _time_ns(event) + (_optional(event, "timeNanoPart") or 0) % NANOS_PER_MS
    price_e9, lots = _e9(event.get("price"), scale), _lots(event.get("size"))
    kind = str(event.get("type") or "NEW")
    trade = (
        event.get("validTick", True) is True
        and price_e9 is not None
        and 0 < lots < _MAX_LOTS
        and kind != "CANCEL"
        and not flags & REMOVE_EVENT
    )
    side = _SIDES.get(str(event.get("aggressorSide")), b"N")
    return Sale(flags, number, at_ns, price_e9 or 0, lots if trade else 0, side, trade, kind)


def read_candle(event: Event, scale: Decimal) -> Candle:
    """Parse a candle. Raises `FeedLost` for one without a time."""
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


def _number(value: object) -> Decimal | None:
    if type(value) is not Decimal:
        if type(value) is not int and type(value) is not str:
            return None
        try:
            value = Decimal(value)
        except (InvalidOperation, ValueError):
            return None
    return value if value.is_finite() else None


def _e9(value: object, scale: Decimal) -> int | None:
    """Convert a price to units of 10⁻⁹, rounded: the vendor's doubles have more digits than a price."""
    number = _number(value)
    try:
        return number_parsing.parse_price_e9(number * scale) if number is not None else None
    except (ArithmeticError, ValueError):
        return None


def _lots(value: object) -> int:
    number = _number(value)
    try:
        return number_parsing.parse_lots(number) if number is not None else 0
    except ValueError:
        return 0

"""Wire format of a pushed feed: events that one process sends to another over HTTP, and their validation.

A push is one MessagePack map. It has the run (one continuous execution of the sender), the contract, the feed's
`FeedCaps`, the number of its first event, and events as `[kind, body]`. Rows are little-endian bytes. Events are
numbered from 0 in each run and contract, so the receiver recognises repeated events, even if they are grouped
differently. A push is accepted or rejected as a whole: decoding any bytes gives a `Push` or raises `InvalidRequest`.
"""

import re
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Protocol

import msgspec
import numpy as np

from outcry.base.errors import InvalidRequest
from outcry.market.instruments import Contract, Universe, UnknownName
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR, NANOS_PER_SECOND
from outcry.trades.contract_lifetime import lifetime_ns
from outcry.trades.feed import (
    LIVE_TRADE,
    Amend,
    Bars,
    CaughtUp,
    Ended,
    Event,
    FeedCaps,
    Gap,
    Heartbeat,
    Repaired,
    Replaced,
    Status,
    Trades,
    VolumeCounter,
)
from outcry.trades.records import BAR, Quality, Rows
from outcry.trades.validation import LATEST_NS, MOST_LOTS, fault_of

MEDIA_TYPE = "application/msgpack"
MOST_BODY_BYTES = 4 * 2**20
MOST_EVENTS = 10_000
#: How long the service waits for events to be accepted before it responds with its progress.
WAIT_S = 5.0
#: The same between processes of a service, shorter because the other process may have been killed.
OWNER_WAIT_S = 1.0
#: Trades of the last seconds (event time) that a sender keeps for repetition: more than twice the overlap the service
#: compares.
RECENT_NS = 5 * NANOS_PER_SECOND
#: A connection without data for this long is stale, so an idle sender sends keep-alives more often.
SILENCE_S = 15.0
KEEP_ALIVE_S = 4.0
#: Share of a quota from which its user is warned.
WARN_PERCENT = 80

_LONGEST_SESSION = 64
#: Windows cannot create folders with the names of devices.
_FEED_NAME = re.compile(r"(?!(?:con|prn|aux|nul|com[0-9]|lpt[0-9])\Z)[a-z][a-z0-9_-]{0,23}", re.ASCII)
_MOST_AHEAD_NS = NANOS_PER_HOUR  # a clock that is further off would put trades into another session


class Origin(StrEnum):
    """Kind of program that sent a push."""

    PROGRAM = "program"  #: a user's program with a key; it may not use names of the service's own feeds
    PROCESS = "process"  #: a process of the service
    RUNNER = "runner"  #: a process of the service that now runs this feed alone, in place of any earlier one


@dataclass(frozen=True, slots=True)
class Again:
    """Marks a push whose first events the service may have received before.

    This happens if the service has lost a run (one execution of the sender), or if the run continues an earlier one.
    until: events with smaller numbers may have been sent before. caught_up: set if history was complete then. after:
    the earlier run that this run continues. The sender of that run has ended, so the service need not wait for it.
    """

    until: int
    caught_up: CaughtUp | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class Push:
    """Consecutive events of one contract that a program sends to the service in one request.

    session: id of the run (execution of the sender) they belong to. first: number of the first event. again: set if the
    service must accept the run from `first` on, although `first` is not the first event of the run.
    """

    session: str
    contract: Contract
    caps: FeedCaps
    first: int
    events: tuple[Event, ...]
    again: Again | None = None

    @property
    def size_bytes(self) -> int:
        """Size of the push's rows in bytes, about the same as in the log."""
        return sum(event.rows.nbytes for event in self.events if isinstance(event, Trades | Bars | Replaced))


@dataclass(frozen=True, slots=True)
class Usage:
    """Disk space and number of streams that a user's pushed feeds use, with their limits.

    limit_bytes: 0 for no limit.
    """

    used_bytes: int
    limit_bytes: int
    streams: int
    limit_streams: int

    @property
    def is_near(self) -> bool:
        """Whether at least the warning share (80 %) of either limit is used."""
        return self._share_percent >= WARN_PERCENT

    @property
    def is_over(self) -> bool:
        """Whether the limit of disk space is reached."""
        return bool(self.limit_bytes) and self.used_bytes >= self.limit_bytes

    @property
    def _share_percent(self) -> int:
        of_bytes = 100 * self.used_bytes // self.limit_bytes if self.limit_bytes else 0
        return max(of_bytes, 100 * self.streams // self.limit_streams)


class Intake(Protocol):
    """Interface of a receiver of pushed events. universe: the products and contracts it accepts."""

    universe: Universe

    async def take(self, owner: int, feed: str, push: Push, origin: Origin = Origin.PROGRAM) -> int:
        """Accept pushed events; return the number of the first event that was not accepted.

        Waits up to about `WAIT_S`. Raises `InvalidRequest`, and `Occupied` if another push of this contract is in
        progress.
        """
        ...

    async def usage(self, owner: int) -> Usage | None:
        """Return how much disk space and how many streams an owner uses.

        Returns None if there is no quota, or if another process counts the usage.
        """
        ...


class _RowsBody(msgspec.Struct):
    rows: bytes


class _BarsBody(msgspec.Struct):
    rows: bytes
    quality: Quality
    backfill: bool = False


class _ReplacedBody(msgspec.Struct):
    from_ns: int
    to_ns: int
    rows: bytes


_KINDS: dict[str, type[Any]] = {
    "trades": _RowsBody, "bars": _BarsBody, "replaced": _ReplacedBody, "caught_up": CaughtUp, "gap": Gap,
    "repaired": Repaired, "amend": Amend, "heartbeat": Heartbeat, "volume": VolumeCounter, "status": Status,
    "ended": Ended,
}  # fmt: skip
_NAMES = {kind: name for name, kind in _KINDS.items()}
_DECODERS = {name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()}


class _WireEvent(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    kind: str
    body: msgspec.Raw


class _WirePush(msgspec.Struct, forbid_unknown_fields=True):
    session: Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z]{16,64}\Z")]
    contract: Annotated[str, msgspec.Meta(max_length=12)]
    caps: FeedCaps
    first: Annotated[int, msgspec.Meta(ge=0, le=MOST_LOTS)]
    events: Annotated[list[_WireEvent], msgspec.Meta(max_length=MOST_EVENTS)]
    again: Again | None = None


_PUSH = msgspec.msgpack.Decoder(_WirePush)
_EVENT = msgspec.msgpack.Decoder(_WireEvent)


def is_feed_name(name: str) -> bool:
    """Return whether a pushed feed may have this name. The name must also be valid as the name of a folder."""
    return _FEED_NAME.fullmatch(name) is not None


def write_push(push: Push) -> bytes:
    """Encode a push as the body of a request."""
    events = [_written(event) for event in push.events]
    key, caps = push.contract.key, push.caps
    return msgspec.msgpack.encode(_WirePush(push.session, key, caps, push.first, events, push.again))


def write_event(event: Event) -> bytes:
    """Encode one feed event as bytes, for a push or for storage."""
    return msgspec.msgpack.encode(_written(event))


def read_event(data: bytes) -> Event:
    """Decode the result of `write_event`, without validating the event. Raises `InvalidRequest`."""
    try:
        return _event(0, _EVENT.decode(data))
    except (ValueError, RecursionError) as problem:
        raise refused("unreadable") from problem


def read_push(body: bytes, universe: Universe, now_ns: int) -> Push:
    """Decode and validate a push.

    Raises `InvalidRequest`, with the reason and the number of the faulty event in its details.
    """
    if len(body) > MOST_BODY_BYTES:
        raise refused("too_large")
    try:
        wire = _PUSH.decode(body)
    except (ValueError, RecursionError) as problem:
        raise refused("unreadable") from problem
    try:
        contract = universe.contract(wire.contract)
    except UnknownName as problem:
        raise refused("unknown_contract") from problem
    listed = universe.products[contract.root].lists(contract.month)
    listed = listed and (not contract.is_dated or 1980 <= contract.year < 2200)
    if not listed or contract.key != wire.contract:
        raise refused("unknown_contract")
    resolution_ns, reach_ns = wire.caps.resolution_ns, wire.caps.reach_ns
    if wire.caps.invented or not (1 <= resolution_ns <= NANOS_PER_DAY and 0 <= reach_ns <= LATEST_NS):
        raise refused("caps")  # only the service's own simulator may simulate
    window_ns = lifetime_ns(universe, contract)
    if not wire.caps.own_clock and now_ns >= window_ns[1]:
        raise refused("expired")
    latest_ns = LATEST_NS if wire.caps.own_clock else min(LATEST_NS, now_ns + _MOST_AHEAD_NS)
    events = tuple(_read(number, event, latest_ns, window_ns) for number, event in enumerate(wire.events))
    if any(isinstance(event, Ended) for event in events[:-1]):
        raise refused("after_the_end")
    if wire.again is not None and (fault := _again_fault(wire.again, wire.first, latest_ns, window_ns)):
        raise refused(fault)
    return Push(wire.session, contract, wire.caps, wire.first, events, wire.again)


def keep_recent(recent: deque[Trades], newest: Trades) -> None:
    """Add trades to `recent`, the trades that each new reader receives first; drop trades older than `RECENT_NS`."""
    recent.append(newest)
    horizon_ns = int(newest.rows["ts_event"].max()) - RECENT_NS
    while int(recent[0].rows["ts_event"].max()) < horizon_ns:
        recent.popleft()


def refused(reason: str, **details: int) -> InvalidRequest:
    """Return the error for a refused push. reason: a stable code, for which the pages have a text."""
    return InvalidRequest(f"invalid_request.{reason}", reason=reason, **details)


def _written(event: Event) -> _WireEvent:
    match event:
        case Trades(rows):
            body: Any = _RowsBody(_bytes(rows, LIVE_TRADE))
        case Bars(rows, quality, backfill):
            body = _BarsBody(_bytes(rows, BAR), quality, backfill)
        case Replaced(from_ns, to_ns, rows):
            body = _ReplacedBody(from_ns, to_ns, _bytes(rows, LIVE_TRADE))
        case _:
            body = event
    return _WireEvent(_NAMES[type(body)], msgspec.Raw(msgspec.msgpack.encode(body)))


def _bytes(rows: Rows, dtype: np.dtype[Any]) -> bytes:
    if rows.dtype != dtype:
        raise TypeError(f"rows of {rows.dtype} where {dtype} were meant")
    return rows.tobytes()


def _read(number: int, wire: _WireEvent, latest_ns: int, window_ns: tuple[int, int]) -> Event:
    """Decode and validate one event. number: its index in the push."""
    event = _event(number, wire)
    fault = fault_of(event, latest_ns, window_ns)
    if fault:
        raise refused(fault, event=number)
    return event


def _event(number: int, wire: _WireEvent) -> Event:
    decoder = _DECODERS.get(wire.kind)
    if decoder is None:
        raise refused("kind", event=number)
    try:
        body = decoder.decode(wire.body)
    except (ValueError, RecursionError) as problem:
        raise refused("unreadable", event=number) from problem
    match body:
        case _RowsBody(rows):
            return Trades(_array(rows, LIVE_TRADE, number))
        case _BarsBody(rows, quality, backfill):
            return Bars(_array(rows, BAR, number), quality, backfill)
        case _ReplacedBody(from_ns, to_ns, rows):
            return Replaced(from_ns, to_ns, _array(rows, LIVE_TRADE, number, fewest=0))
        case _:
            return body


def _array(raw: bytes, dtype: np.dtype[Any], number: int, *, fewest: int = 1) -> Rows:
    if len(raw) % dtype.itemsize or len(raw) < fewest * dtype.itemsize:
        raise refused("rows", event=number)
    return np.frombuffer(raw, dtype)


def _again_fault(again: Again, first: int, latest_ns: int, window_ns: tuple[int, int]) -> str:
    if not first <= again.until <= MOST_LOTS or len(again.after) > _LONGEST_SESSION:
        return "again"
    return "" if again.caught_up is None else fault_of(again.caught_up, latest_ns, window_ns)

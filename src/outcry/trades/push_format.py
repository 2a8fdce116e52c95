"""The wire form of a pushed feed: a feed's events as one process sends them to another over HTTP, and what is
refused.

A push is one MessagePack map: whose run it is, the contract, the feed's `FeedCaps`, the number of its first event,
and events as `[kind, body]`; rows travel as their own little-endian bytes. Events are numbered from 0 in each run
and contract, so a push that comes twice is recognised, however it was cut.
Rule kept: a push is read whole or not at all; whatever bytes it holds, reading ends in a `Push` or `InvalidRequest`.
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
#: How long a service waits for events to be taken before it answers how far it has come.
WAIT_S = 5.0
#: The same between processes of a service, where whoever waits for one that was killed must not wait long.
OWNER_WAIT_S = 1.0
#: Trades of the last seconds (event time) are kept by whoever may have to repeat them: twice and more what the service
#: compares them with.
KEPT_NS = 5 * NANOS_PER_SECOND
#: A link over which nothing comes for this long is stale; so a pusher with nothing to say says so more often.
SILENCE_S = 15.0
KEEP_ALIVE_S = 4.0
#: From this share of a quota on its user is warned.
WARN_PERCENT = 80

_LONGEST_SESSION = 64
_FEED_NAME = re.compile(r"[a-z][a-z0-9_-]{0,23}", re.ASCII)
_MOST_AHEAD_NS = NANOS_PER_HOUR  # a clock this far off would place trades in another session


class Origin(StrEnum):
    """Who pushes, as the processes of a service tell one another."""

    PROGRAM = (
        "program"  #: somebody's own, with a key: names of feeds that the service brings itself are not for it
    )
    PROCESS = "process"  #: one of the service's
    RUNNER = "runner"  #: likewise, and it alone runs this feed now: whoever did before is through


@dataclass(frozen=True, slots=True)
class Again:
    """Said to a service that has forgotten a run, as after a restart, or of a run that goes on from another: events
    with numbers below `until` may have been sent before; history stood at `caught_up` then. after: the run it goes on
    from, whose pusher is no more: it need not be waited for."""

    until: int
    caught_up: CaughtUp | None = None
    after: str = ""


@dataclass(frozen=True, slots=True)
class Push:
    """Some events of one contract. `session` names the run they belong to; `first` is the number of the first.

    again: set where the run does not begin with `first`, and yet the service is to take it from there.
    """

    session: str
    contract: Contract
    caps: FeedCaps
    first: int
    events: tuple[Event, ...]
    again: Again | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of its rows, which is about what they take in the log."""
        return sum(event.rows.nbytes for event in self.events if isinstance(event, Trades | Bars | Replaced))


@dataclass(frozen=True, slots=True)
class Usage:
    """What a user's feeds have of the disk and of streams, and the most they may. limit_bytes: 0 for as many as fit."""

    used_bytes: int
    limit_bytes: int
    streams: int
    limit_streams: int

    @property
    def is_near(self) -> bool:
        """Whether 80 % of either is used."""
        return self._share_percent >= WARN_PERCENT

    @property
    def is_over(self) -> bool:
        """Whether no more bytes are taken."""
        return bool(self.limit_bytes) and self.used_bytes >= self.limit_bytes

    @property
    def _share_percent(self) -> int:
        of_bytes = 100 * self.used_bytes // self.limit_bytes if self.limit_bytes else 0
        return max(of_bytes, 100 * self.streams // self.limit_streams)


class Intake(Protocol):
    """Where pushes go. `universe`: the contracts it takes."""

    universe: Universe

    async def take(self, owner: int, feed: str, push: Push, origin: Origin = Origin.PROGRAM) -> int:
        """Hand over events and wait until they are taken, at most about `WAIT_S`; return the number of the first
        that is not. Raises `InvalidRequest`, and `Occupied` where a push of this contract is under way."""
        ...

    async def usage(self, owner: int) -> Usage | None:
        """What an owner has of a quota; None where there is none, or where it is counted elsewhere."""
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
    """Whether a pushed feed may go by this name: it names folders, too."""
    return _FEED_NAME.fullmatch(name) is not None


def write_push(push: Push) -> bytes:
    """Return a push as it travels."""
    events = [_written(event) for event in push.events]
    key, caps = push.contract.key, push.caps
    return msgspec.msgpack.encode(_WirePush(push.session, key, caps, push.first, events, push.again))


def write_event(event: Event) -> bytes:
    """Return one event as it travels."""
    return msgspec.msgpack.encode(_written(event))


def read_event(data: bytes) -> Event:
    """Read what `write_event` wrote. Raises `InvalidRequest`; what the event says is not judged."""
    try:
        return _event(0, _EVENT.decode(data))
    except (ValueError, RecursionError) as problem:
        raise refused("unreadable") from problem


def read_push(body: bytes, universe: Universe, now_ns: int) -> Push:
    """Read a push and check all of it. Raises `InvalidRequest`; its details say why, and at which event."""
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
    listed = universe.products[contract.root].lists(contract.month) and 1980 <= contract.year < 2200
    if not listed or contract.key != wire.contract:
        raise refused("unknown_contract")
    resolution_ns, reach_ns = wire.caps.resolution_ns, wire.caps.reach_ns
    if wire.caps.invented or not (1 <= resolution_ns <= NANOS_PER_DAY and 0 <= reach_ns <= LATEST_NS):
        raise refused("caps")  # nobody invents but the service's own simulator
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


def keep_recent(kept: deque[Trades], newest: Trades) -> None:
    """Add trades to those kept in case they must be repeated, and let go of what is older than `KEPT_NS`."""
    kept.append(newest)
    horizon_ns = int(newest.rows["ts_event"].max()) - KEPT_NS
    while int(kept[0].rows["ts_event"].max()) < horizon_ns:
        kept.popleft()


def refused(reason: str, **details: int) -> InvalidRequest:
    """Build the error of a refused push. `reason` is a stable code, and the catalogues have a message for each."""
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
    """Read and judge one event; `number` is its place in the push."""
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

"""Encoding of a stream's state for the processes that answer requests, and heartbeats of the stream's owner.

Each state contains the edition (version) of its encoding. `read_state` rejects a state of another edition.
"""

import zlib
from collections.abc import Sequence
from datetime import date

import msgspec

from outcry.live.registry import Availability, Channel
from outcry.market import live_view
from outcry.market.live_session import LiveView
from outcry.market.live_view import Capture

#: Version of the format of `State` and of the captures in it.
EDITION = f"1.{live_view.VERSION}"
#: The call name of heartbeats.
ALIVE = "alive"
#: Compression level: the fastest; it reduces a capture to a third.
_LEVEL = 1


class State(msgspec.Struct, array_like=True, frozen=True):
    """A stream as its owner publishes it. The order of fields is the wire format.

    edition: version of the wire format, which changes with the fields. by: name of the process that owns the stream.
    invented: whether the market is simulated. own_clock: whether the feed has its own clock. feed_code: the feed's
    status code. reason, market_ns, trade_date: see `Availability`. capture: the session's state, compressed; empty
    before its first trade.
    """

    edition: str
    by: str
    invented: bool
    own_clock: bool
    feed_code: str
    reason: str
    market_ns: int
    trade_date: date | None
    capture: bytes

    @property
    def availability(self) -> Availability:
        """Whether the stream is live, and if not, why."""
        return Availability(self.reason == "live", self.reason, self.market_ns, self.trade_date)

    def view(self) -> LiveView | None:
        """Decode the live session; None before its first trade. Takes one or two milliseconds."""
        return Capture.load(zlib.decompress(self.capture)).view() if self.capture else None


def state_of(channel: Channel, capture: Capture | None, by: str, *, own_clock: bool) -> bytes:
    """Encode the state of a channel (the live stream of one contract) for other processes."""
    availability = channel.availability
    packed = zlib.compress(capture.dump(), _LEVEL) if capture else b""
    state = State(
        EDITION, by, channel.simulated, own_clock, channel.feed_code, availability.reason, availability.market_ns,
        availability.trade_date, packed,
    )  # fmt: skip
    return msgspec.msgpack.encode(state)


def read_state(body: bytes) -> State:
    """Decode the result of `state_of`. Raises `ValueError`."""
    if msgspec.msgpack.decode(body, type=tuple[object, ...])[0] != EDITION:
        raise ValueError(f"a state of another edition than {EDITION}")
    return msgspec.msgpack.decode(body, type=State)


class ProcessHeartbeat(msgspec.Struct, array_like=True, frozen=True):
    """A heartbeat of process `by`. It says that the last published states of the streams in `partitions` are current.

    but: the exceptions, that is, streams whose newer state could not be published.
    """

    by: str
    partitions: Sequence[int]
    but: Sequence[str]

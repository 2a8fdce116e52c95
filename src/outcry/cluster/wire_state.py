"""The encoded state of a stream for the processes that answer requests, and the heartbeats of its owner.

A state of another edition is rejected, never interpreted.
"""

import zlib
from collections.abc import Sequence
from datetime import date

import msgspec

from outcry.live.registry import Availability, Channel
from outcry.market import live_view
from outcry.market.live_session import LiveView
from outcry.market.live_view import Capture

#: Of the form of `State`, and of the captures in it.
EDITION = f"1.{live_view.VERSION}"
#: The name under which signs of life are told.
ALIVE = "alive"
#: Of compression: the quickest; a capture becomes a third.
_LEVEL = 1


class State(msgspec.Struct, array_like=True, frozen=True):
    """A stream as its owner shows it. The order of fields is the form: change the edition with it.

    by: the process that owns it. Then what `Channel` and `Availability` hold. own_clock: whether the feed has a
    clock of its own. capture: compressed; empty before the session's first trade.
    """

    edition: str
    by: str
    invented: bool
    own_clock: bool
    told: str
    reason: str
    market_ns: int
    trade_date: date | None
    capture: bytes

    @property
    def availability(self) -> Availability:
        """How it stands."""
        return Availability(self.reason == "live", self.reason, self.market_ns, self.trade_date)

    def view(self) -> LiveView | None:
        """The session as it stood; None before its first trade. Takes a millisecond or two."""
        return Capture.load(zlib.decompress(self.capture)).view() if self.capture else None


def state_of(channel: Channel, capture: Capture | None, by: str, *, own_clock: bool) -> bytes:
    """Write what a channel says."""
    availability = channel.availability
    packed = zlib.compress(capture.dump(), _LEVEL) if capture else b""
    state = State(
        EDITION, by, channel.simulated, own_clock, channel.feed_code, availability.reason, availability.market_ns,
        availability.trade_date, packed,
    )  # fmt: skip
    return msgspec.msgpack.encode(state)


def read_state(body: bytes) -> State:
    """Read what `state_of` wrote. Raises `ValueError`."""
    if msgspec.msgpack.decode(body, type=tuple[object, ...])[0] != EDITION:
        raise ValueError(f"a state of another edition than {EDITION}")
    return msgspec.msgpack.decode(body, type=State)


class ProcessHeartbeat(msgspec.Struct, array_like=True, frozen=True):
    """A process's sign of life: of the partitions it owns, all streams are as it last said, but for those named, which
    have moved and cannot be told of."""

    by: str
    partitions: Sequence[int]
    but: Sequence[str]

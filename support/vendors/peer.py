"""What a fake vendor on loopback lets a test do: play a tape, and misbehave as vendors do.

A peer holds the whole tape of each contract and a present (`now_ns`). What lies before the present is history, which
it gives when asked, as the vendor would; `advance` moves the present on and sends what was traded in between to whoever
is subscribed. It speaks the vendor's protocol on a real socket, from the vendor's own parts where these exist.
"""

from collections.abc import Mapping
from typing import Protocol

from outcry.connections.broker_adapter import BrokerAdapter
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows


class FakePeer(Protocol):
    """A vendor. All times ns UTC. Made without arguments, inside a running event loop."""

    adapter: BrokerAdapter
    #: Entries that it accepts, for `BrokerAdapter.feed`.
    given: Mapping[str, str]
    #: What history of today it gives, and in what quality a session that was broken off is whole again.
    history: Quality
    #: Whether a trade taken late can be told by the time it is stamped with: whole seconds cannot tell order within.
    #: The resolution of the times it sends: a tape for it has times that are multiples of this.
    resolution_ns: int
    #: The vendor's present.
    now_ns: int
    #: Logins it was asked for, and how many of them it refused.
    logins: int
    refusals: int
    #: Rows given from before what was asked for, by `repeat`: trades, or bars where these are what history counts by.
    repeated: int

    @property
    def places(self) -> Mapping[str, str]:
        """Where it listens, for `AdapterContext.endpoints`; once started."""
        ...

    async def start(self) -> None:
        """Listen on free loopback ports."""
        ...

    async def stop(self) -> None:
        """Hang up on everybody, and leave no task and no socket."""
        ...

    def tape(self, contract: Contract, rows: Rows) -> None:
        """The whole tape of a contract: dtype `records.TRADE`, in order of time."""
        ...

    async def advance(self, to_ns: int) -> None:
        """Move the present on, sending what was traded meanwhile and a beat (whatever the vendor's is), in order. To
        the same present again it sends the beat alone."""
        ...

    async def drop(self) -> None:
        """Cut every connection in the middle of a record: half of it is sent, then the socket is reset."""
        ...

    def freeze(self, *, on: bool) -> None:
        """While on: connections stay open and new ones are accepted, and nothing is sent on any, not even beats."""
        ...

    def repeat(self, seconds: float) -> None:
        """When next asked for history of a contract, or to resume it, give this much from before what was asked for as
        well: with the rows that history is made of, not with others that are asked for beside them."""
        ...

    async def expire(self, *, on: bool) -> None:
        """While on: logins and tokens are refused; what is connected is told or cut off, as this vendor does."""
        ...

    def shuffle(self, burst: int) -> None:
        """Send the next `burst` live trades in another order than their times'."""
        ...

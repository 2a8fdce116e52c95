"""Interface of a fake vendor on loopback: a test plays a tape and triggers faults that vendors have.

A peer has the whole tape of each contract and a current time (`now_ns`). Earlier trades are history, which it returns
on request. `advance` moves the current time on and sends the trades in between to subscribers. It speaks the vendor's
protocol on a real socket, with the vendor's own library if there is one.
"""

from collections.abc import Mapping
from typing import Protocol

from outcry.connections.broker_adapter import BrokerAdapter
from outcry.market.instruments import Contract
from outcry.trades.records import Quality, Rows


class FakePeer(Protocol):
    """A fake vendor. All times ns UTC. Created without arguments, inside a running event loop."""

    adapter: BrokerAdapter
    #: Form entries that it accepts, for `BrokerAdapter.feed`.
    given: Mapping[str, str]
    #: Quality of its history of today, and of a session that is complete again after an interruption.
    history: Quality
    #: Resolution of its timestamps (ns). The times of a tape must be multiples of it. With whole seconds, a late trade
    #: cannot be recognised by its timestamp.
    resolution_ns: int
    #: The vendor's current time.
    now_ns: int
    #: Number of logins, and how many of them were refused.
    logins: int
    refusals: int
    #: Number of rows returned from before the requested time, by `repeat`: trades, or bars if history consists of bars.
    repeated: int

    @property
    def places(self) -> Mapping[str, str]:
        """Return its endpoints, for `AdapterContext.endpoints`; call after `start`."""
        ...

    async def start(self) -> None:
        """Listen on free loopback ports."""
        ...

    async def stop(self) -> None:
        """Close all connections, tasks and sockets."""
        ...

    def tape(self, contract: Contract, rows: Rows) -> None:
        """Set the whole tape of a contract: dtype `records.TRADE`, in order of time."""
        ...

    async def advance(self, to_ns: int) -> None:
        """Advance the current time; send the trades in between and the vendor's heartbeat, in order.

        A repeated time sends the heartbeat only.
        """
        ...

    async def drop(self) -> None:
        """Break every connection in the middle of a record: send half of it, then reset the socket."""
        ...

    def freeze(self, *, on: bool) -> None:
        """While on, accept and retain connections but send nothing, not even heartbeats."""
        ...

    def repeat(self, seconds: float) -> None:
        """Let the next history request of a contract also return this much from before the requested time.

        This applies to the rows that history consists of, not to other requests made beside them.
        """
        ...

    async def expire(self, *, on: bool) -> None:
        """While on, refuse logins and tokens; notify or close open connections, as this vendor does."""
        ...

    def shuffle(self, burst: int) -> None:
        """Send the next `burst` live trades out of order."""
        ...

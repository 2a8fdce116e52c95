"""Interface for vendors and brokers: an adapter creates a `Feed` from the credentials a user entered.

The description of an adapter (`broker`) needs no vendor library; the adapter loads the library when it creates a feed.
A feed connects to the vendor's own hosts unless the operator configures other `endpoints`. A user can name a host only
for brokers that run on the user's own machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outcry.base.clock import Clock
from outcry.connections.model import Broker
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import Feed, FeedCaps

#: Returns the contracts a connection subscribes to now: each product's front contract, and the next one near a roll.
ContractSelector = Callable[[], Sequence[Contract]]


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter needs to create a feed besides credentials.

    `endpoints`: addresses that replace the vendor's own, by the adapter's names (`{"gateway": "127.0.0.1:13000"}`).
    `speedup`: divides pauses and time limits, for tests.
    """

    universe: Universe
    clock: Clock
    select_contracts: ContractSelector
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    speedup: float = 1.0


class InvalidCredential(Exception):
    """An entry of the connection form is invalid. The adapter found that without asking the vendor.

    `code` is `missing` or `rejected`; `field` names the entry. Neither contains the entry itself.
    """

    def __init__(self, code: str, field: str) -> None:
        super().__init__(code)
        self.code, self.field = code, field


class BrokerAdapter(Protocol):
    """Creates feeds of one vendor or broker.

    `library`: the Python module to install for it, empty if none is needed.
    """

    broker: Broker
    caps: FeedCaps
    library: str

    def feed(self, given: Mapping[str, str], context: AdapterContext) -> Feed:
        """Create a feed from the entries of `broker.fields`, without contacting the vendor.

        The feed's name is `broker.id`, and its `contracts` returns those of `context.select_contracts`. A feed signs in
        once for all its contracts. Raises `InvalidCredential`, and `ImportError` if the library is missing.
        """
        ...

"""The port for vendors and brokers: an adapter makes a `Feed` of what a person has entered.

Rules kept: what an adapter says of itself needs no library of the vendor's, which is loaded when a feed is made; hosts
are the vendor's own, or the operator's choice (`places`), and never a user's, but for brokers that are reached on the
user's own machine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outcry.base.clock import Clock
from outcry.connections.model import Broker
from outcry.market.instruments import Contract, Universe
from outcry.trades.feed import Feed, FeedCaps

#: The contracts a connection is to bring now: the front one of each product chosen, and the next as a roll comes near.
ContractSelector = Callable[[], Sequence[Contract]]


@dataclass(frozen=True, slots=True)
class AdapterContext:
    """What an adapter is given. `places`: where a vendor is reached instead of its own addresses, by the adapter's own
    names for them (`{"gateway": "127.0.0.1:13000"}`). `rush`: pauses and time limits are this many times shorter."""

    universe: Universe
    clock: Clock
    wanted: ContractSelector
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    rush: float = 1.0


class InvalidCredential(Exception):
    """What was entered cannot be right, which is seen without asking the vendor. `code` says why (`missing`,
    `rejected`), `field` which entry; the entry itself is in neither."""

    def __init__(self, code: str, field: str) -> None:
        super().__init__(code)
        self.code, self.field = code, field


class BrokerAdapter(Protocol):
    """One vendor or broker. `library`: the module to be installed for it, empty where none is needed."""

    broker: Broker
    caps: FeedCaps
    library: str

    def feed(self, given: Mapping[str, str], kit: AdapterContext) -> Feed:
        """A feed of this vendor, by the entries of `broker.fields`; nothing is asked of the vendor yet.

        The feed is named `broker.id`. `contracts` gives what `kit.wanted` says. One feed signs in once, however many
        contracts are opened. Raises `BadEntry`; an `ImportError` where the library is missing.
        """
        ...

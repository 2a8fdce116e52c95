"""Creates the feeds of connections, and decides which brokers this service may connect."""

from collections.abc import Mapping
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.connections.broker_adapter import AdapterContext, BrokerAdapter
from outcry.connections.contract_selection import contract_selector
from outcry.connections.model import Broker, ConnectionRow
from outcry.connections.store import SqlConnectionStore
from outcry.connections.vault import Vault, VaultBroken
from outcry.live.partitions import partition_of
from outcry.market.instruments import Universe
from outcry.trades.feed import Feed


class ConnectionNotAllowed(Exception):
    """This service cannot connect a broker. `code`: one of those of `ConnectionRefused`."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class ConnectionPolicy:
    """Which brokers this service may connect.

    `local`: whether this service runs on the user's own machine. `closed`: whether it may connect no broker at all,
    because its market is simulated.
    """

    local: bool = False
    closed: bool = False

    def refusal(self, broker: Broker) -> str:
        """Return the code of the reason why this service cannot connect a broker; empty if it can."""
        if self.closed:
            return "invented"
        if not (broker.hosted or self.local):
            return "not_hosted"
        return "" if broker.installed else "not_installed"


@dataclass(frozen=True, slots=True)
class FeedFactory:
    """Creates the feeds of connections.

    `endpoints`: by broker, the addresses that replace the vendor's own. For `endpoints` and `speedup` see
    `AdapterContext`.
    """

    store: SqlConnectionStore
    vault: Vault
    adapters: Mapping[str, BrokerAdapter]
    universe: Universe
    clock: Clock
    endpoints: Mapping[str, Mapping[str, str]]
    rules: ConnectionPolicy = ConnectionPolicy()
    speedup: float = 1.0

    def context(self, row: ConnectionRow) -> AdapterContext:
        """Return what the adapter needs, besides credentials, to create the feed of a connection."""
        wanted = contract_selector(self.universe, row.symbols, self.clock)
        return AdapterContext(
            self.universe, self.clock, wanted, self.endpoints.get(row.broker, {}), self.speedup
        )

    def feed(self, row: ConnectionRow) -> Feed:
        """Create the feed of a connection from its stored credentials. Blocks.

        Raises `ConnectionNotAllowed`, `InvalidCredential`, `ImportError`, `VaultBroken`, `StoreBusy`.
        """
        adapter = self.adapters.get(row.broker)
        refusal = self.rules.refusal(adapter.broker) if adapter else "unknown_broker"
        if adapter is None or refusal:
            raise ConnectionNotAllowed(refusal)
        sealed_entries = self.store.entries(row.id)
        if sealed_entries is None:
            raise VaultBroken(f"connection {row.id} has no stored credentials")
        return adapter.feed(self.vault.open(row, sealed_entries), self.context(row))


def partition_of_feed(owner: int, feed: str) -> int:
    """Return the partition (share of a cluster's work) of a user's feed. The process that owns it runs the feed."""
    return partition_of(f"{owner}/{feed}")

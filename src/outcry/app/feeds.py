"""Where users' connections are put together: what is kept of them, what they are sealed with, and what runs them."""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from outcry.cluster.calls import Calls
from outcry.cluster.shared_connections import RemoteConnections
from outcry.connections.feed_factory import ConnectionPolicy, FeedFactory
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.feeds.adapters import adapters
from outcry.live.engine import Engine

if TYPE_CHECKING:
    from outcry.app.service import House


def connections_of(house: "House", engine: Engine) -> tuple[BrokerConnections, ConnectionSupervisor]:
    """Connections over a house, and what runs them on its engine."""
    parts = parts_of(house)
    supervisor = ConnectionSupervisor(engine, parts)
    return BrokerConnections(parts, supervisor, house.registry), supervisor


def connections_elsewhere(house: "House", calls: Calls) -> tuple[BrokerConnections, RemoteConnections]:
    """Connections over a house, run by other processes, and what tells them when something is to be looked at."""
    distant = RemoteConnections(calls)
    return BrokerConnections(parts_of(house), distant, house.registry), distant


def brokers_of(house: "House") -> Callable[[int], Collection[str]]:
    """Names of a user's feeds that are connections, asked of the store, which may block."""
    store = SqlConnectionStore(house.database)
    return lambda user_id: {row.broker for row in store.rows(user_id)} if user_id else ()


def parts_of(house: "House") -> FeedFactory:
    """What a house makes connections with."""
    settings = house.settings
    return FeedFactory(
        store=SqlConnectionStore(house.database), vault=house.vault, adapters=adapters(),
        universe=house.reference.universe, clock=house.clock, endpoints=settings.feed_places,
        rules=ConnectionPolicy(local=settings.local_brokers, closed=house.simulated),
    )  # fmt: skip

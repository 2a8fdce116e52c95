"""Where users' connections are put together: what is kept of them, what they are sealed with, and what runs them."""

from collections.abc import Callable, Collection

from outcry.app.installation import Installation
from outcry.connections.feed_factory import ConnectionPolicy, FeedFactory
from outcry.connections.service import BrokerConnections
from outcry.connections.store import SqlConnectionStore
from outcry.connections.supervisor import ConnectionSupervisor
from outcry.feeds.adapters import adapters
from outcry.live.engine import Engine


def connections_of(
    installation: Installation, engine: Engine
) -> tuple[BrokerConnections, ConnectionSupervisor]:
    """Connections over a house, and what runs them on its engine."""
    parts = parts_of(installation)
    supervisor = ConnectionSupervisor(engine, parts)
    return BrokerConnections(parts, supervisor, installation.registry), supervisor


def brokers_of(installation: Installation) -> Callable[[int], Collection[str]]:
    """Names of a user's feeds that are connections, asked of the store, which may block."""
    store = SqlConnectionStore(installation.database)
    return lambda user_id: {row.broker for row in store.rows(user_id)} if user_id else ()


def parts_of(installation: Installation) -> FeedFactory:
    """What a house makes connections with."""
    settings = installation.settings
    return FeedFactory(
        store=SqlConnectionStore(installation.database), vault=installation.vault, adapters=adapters(),
        universe=installation.reference.universe, clock=installation.clock, endpoints=settings.feed_places,
        rules=ConnectionPolicy(local=settings.local_brokers, closed=installation.simulated),
    )  # fmt: skip

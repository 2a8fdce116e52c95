"""Build users' broker connections from an installation: their store, credential vault and supervisor."""

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
    """Build the service of users' connections, and the supervisor that runs them on the engine."""
    parts = parts_of(installation)
    supervisor = ConnectionSupervisor(engine, parts)
    return BrokerConnections(parts, supervisor, installation.registry), supervisor


def brokers_of(installation: Installation) -> Callable[[int], Collection[str]]:
    """Return a function that looks up, by user id, the feed names of the user's connections.

    Each call of that function queries the database.
    """
    store = SqlConnectionStore(installation.database)
    return lambda user_id: {row.broker for row in store.rows(user_id)} if user_id else ()


def parts_of(installation: Installation) -> FeedFactory:
    """Build the factory that creates feeds from stored broker connections."""
    settings = installation.settings
    return FeedFactory(
        store=SqlConnectionStore(installation.database), vault=installation.vault, adapters=adapters(),
        universe=installation.reference.universe, clock=installation.clock, endpoints=settings.feed_places,
        rules=ConnectionPolicy(local=settings.local_brokers, closed=installation.simulated),
    )  # fmt: skip

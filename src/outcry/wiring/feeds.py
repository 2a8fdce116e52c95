"""Where users' connections are put together: what is kept of them, what they are sealed with, and what runs them."""

from typing import TYPE_CHECKING

from outcry.feeds.adapters import adapters
from outcry.services.connections.parts import Parts, Rules
from outcry.services.connections.service import BrokerConnections
from outcry.services.connections.supervisor import Supervisor
from outcry.services.live.engine import Engine
from outcry.store.connections import SqlConnectionStore

if TYPE_CHECKING:
    from outcry.wiring.house import House


def connections_of(house: "House", engine: Engine) -> tuple[BrokerConnections, Supervisor]:
    """Connections over a house, and what runs them on its engine."""
    settings = house.settings
    parts = Parts(
        streams=engine, store=SqlConnectionStore(house.database), vault=house.vault,
        adapters=adapters(), universe=house.reference.universe, clock=house.clock,
        places=settings.feed_places, rules=Rules(local=settings.local_brokers, closed=house.invented),
    )  # fmt: skip
    supervisor = Supervisor(parts)
    return BrokerConnections(parts, supervisor, house.board), supervisor

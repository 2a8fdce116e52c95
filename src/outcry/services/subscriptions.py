"""Webhook subscriptions of a person: made, changed, tested and looked at. Delivering is the business of a `Deliverer`.

Rules kept: an address is judged when it is saved and when it is tested; a signing secret is shown once, when it is
made; what is shown of an address afterwards does not let anybody use it.
"""

from outcry.ports.delivery import Deliverer, SubscriptionStore
from outcry.services.sealing import Seal


class Subscriptions:
    """A person's subscriptions. `seal`: what addresses and secrets are kept under."""

    def __init__(self, store: SubscriptionStore, deliverer: Deliverer, seal: Seal) -> None:
        self._store, self._deliverer, self._seal = store, deliverer, seal

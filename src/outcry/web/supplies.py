"""What the pages are made from: the parts of the house they ask, handed over by whoever puts it together."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from outcry.accounts.licences import Scope
from outcry.core.instruments import Universe
from outcry.http.logs import Journal
from outcry.ports.clock import Clock
from outcry.ports.connections import Connections
from outcry.ports.limiter import Limiter
from outcry.services.accounts import KeyRing, Licences
from outcry.services.datasets import Datasets
from outcry.services.identity.browsers import Browsers
from outcry.services.identity.service import Identity
from outcry.services.live.board import Board
from outcry.services.mail_consent import MailConsent
from outcry.services.opening_hours import OpeningHours
from outcry.services.pushing import Usage
from outcry.services.query import Query
from outcry.services.sink import Sink
from outcry.services.subscriptions import Subscriptions

#: What a user's pushed feeds have of the quota; None where there is none.
UsageOf = Callable[[int], Awaitable[Usage | None]]


async def not_counted(_user_id: int) -> Usage | None:
    """For a service that has no quota."""


@dataclass(frozen=True, slots=True)
class PageServices:
    """What the pages are made from. `clock`: the machine's, `market_clock`: that of the market shown. `visitor`: what
    somebody who is not signed in may see, None: nothing. `public_url`: where this service is known to be, empty: only
    on this machine and at the addresses it listens on. `openapi`: makes the document of the API. `consent`:
    asks whoever reads at an e-mail address before alerts go there. `sink`: the demonstration's own receiver of
    webhooks. `usage`: what a user's pushed feeds have of the quota."""

    query: Query
    hours: OpeningHours
    board: Board
    universe: Universe
    keys: KeyRing
    licences: Licences
    identity: Identity
    subscriptions: Subscriptions
    consent: MailConsent
    connections: Connections
    datasets: Datasets
    browsers: Browsers
    limiter: Limiter
    clock: Clock
    market_clock: Clock
    journal: Journal
    form_secret: bytes
    openapi: Callable[[], dict[str, Any]]
    visitor: Callable[[], Scope | None] = lambda: None
    public_url: str = ""
    demo: bool = False
    sink: Sink | None = None
    usage: UsageOf = not_counted

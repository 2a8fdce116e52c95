"""The services the pages use, passed in by the application."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from outcry.access.keys import ApiKeys
from outcry.access.licences import Licences, Scope
from outcry.access.limiter import Limiter
from outcry.answers.query import Query
from outcry.base.clock import Clock
from outcry.base.log_events import EventLog
from outcry.connections.service import BrokerConnections
from outcry.delivery.mail_consent import MailConsent
from outcry.delivery.sink import Sink
from outcry.delivery.subscriptions import Subscriptions
from outcry.live.registry import Registry
from outcry.market.instruments import Universe
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.preset_store import SqlPresets
from outcry.people.service import Identity
from outcry.sessions.datasets import Datasets
from outcry.sessions.instrument_tables import InstrumentTables
from outcry.sessions.opening_hours import OpeningHours
from outcry.trades.push_format import Usage

#: Returns the quota usage of a user's pushed feeds; None without a quota.
UsageOf = Callable[[int], Awaitable[Usage | None]]


async def not_counted(_user_id: int) -> Usage | None:
    """Return None (no usage), in place of the quota lookup, for a service without quotas."""


@dataclass(frozen=True, slots=True)
class PageServices:
    """The services that the pages use.

    `clock`: the machine's clock. `market_clock`: the clock of the market that is shown. `visitor`: returns the data
    that visitors may see, None for nothing. `public_url`: the service's public URL; empty if the service is reachable
    only on this machine and the addresses it listens on. `openapi`: creates the OpenAPI document. `consent`: asks a
    person for consent before alerts are sent to their email address. `sink`: the demo's webhook receiver. `usage`:
    returns how much of a user's feed quota is used. `tables`: the operator's own tables of instruments. `clustered`:
    whether other processes serve the same database.
    """

    query: Query
    hours: OpeningHours
    registry: Registry
    universe: Universe
    keys: ApiKeys
    licences: Licences
    identity: Identity
    subscriptions: Subscriptions
    consent: MailConsent
    connections: BrokerConnections
    datasets: Datasets
    tables: InstrumentTables
    browser_sessions: BrowserSessions
    presets: SqlPresets
    limiter: Limiter
    clock: Clock
    market_clock: Clock
    event_log: EventLog
    form_secret: bytes
    openapi: Callable[[], dict[str, Any]]
    visitor: Callable[[], Scope | None] = lambda: None
    public_url: str = ""
    demo: bool = False
    sink: Sink | None = None
    usage: UsageOf = not_counted
    clustered: bool = False

"""The side of the house that people come in by: who they are, and the pages.

Rule kept: each use of the server's secret has a key of its own.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from outcry.access.licences import Scope
from outcry.access.limiter import Limiter, PromptLimiter
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.app.delivery import delivery_of
from outcry.app.outside import mailer_of, provider_of
from outcry.app.secret import derived
from outcry.base.encryption import Encryptor
from outcry.base.log_events import EventLog, report_to_writer
from outcry.connections.model import Connections
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.mail_consent import HOURLY, WEEKLY, MailConsent
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.service import Delivery
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.delivery.subscriptions import Subscriptions
from outcry.http.auth import PageAuthenticator
from outcry.http.edge import AsgiApp
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.service import Identity
from outcry.people.store import SqlIdentityStore
from outcry.sessions.datasets import Datasets
from outcry.sessions.opening_hours import OpeningHours

if TYPE_CHECKING:
    from outcry.app.service import House
    from outcry.web.page_services import UsageOf


@dataclass(frozen=True)
class People:
    """People, the browsers they are signed in with, and what they look after."""

    house: "House"
    browser_sessions: BrowserSessions
    identity: Identity
    subscriptions: Subscriptions
    consent: MailConsent
    delivery: Delivery
    limiter: Limiter

    @property
    def authenticator(self) -> PageAuthenticator:
        """Who comes in by a page."""
        return PageAuthenticator(
            self.browser_sessions, self.house.clock, self.visitor, self.house.settings.public_url
        )

    def visitor(self) -> Scope | None:
        """What somebody who is not signed in may see."""
        house = self.house
        return house.licences.of_visitor() if house.settings.guests or house.simulated else None

    def pages(self, connections: Connections, usage: "UsageOf", event_log: EventLog) -> AsgiApp:
        """The pages over these parts. `connections`: users' own feeds; `usage`: what one has of the quota."""
        from outcry.api.openapi import build_document  # noqa: PLC0415
        from outcry.web.app import build_pages  # noqa: PLC0415
        from outcry.web.page_services import PageServices  # noqa: PLC0415

        house = self.house
        self.identity.report_to(report_to_writer(event_log))
        self.consent.report_to(report_to_writer(event_log))
        return build_pages(
            PageServices(
                query=house.query, hours=OpeningHours(house.reference.calendar), registry=house.registry,
                universe=house.reference.universe, keys=house.keys,
                licences=house.licences, identity=self.identity, subscriptions=self.subscriptions,
                consent=self.consent, browser_sessions=self.browser_sessions, connections=connections, usage=usage,
                datasets=Datasets(house.store, house.store, house.reference.universe.products),
                limiter=self.limiter, clock=house.clock, market_clock=house.market_clock,
                event_log=event_log, form_secret=derived(house.secret, "forms"), openapi=build_document,
                visitor=self.visitor, public_url=house.settings.public_url, demo=house.simulated,
                sink=house.sink,
            )
        )  # fmt: skip


def people_of(house: "House") -> People:
    """Put this side of the house together."""
    store = SqlIdentityStore(house.database)
    browser_sessions = BrowserSessions(store, derived(house.secret, "sessions"), house.clock)
    steady_ns = house.steady_ns
    tries: PromptLimiter = SlidingWindowLimiter(steady_ns)
    limiter: Limiter = SlidingWindowLimiter(steady_ns)
    if house.settings.cluster:
        tries, limiter = house.cluster.tries, house.cluster.limiter
    public_url = house.settings.public_url
    mailer = mailer_of(house.settings, house.clock)
    identity = Identity(
        store, browser_sessions, tries, house.clock, derived(house.secret, "identity"), mailer, public_url,
        openid=provider_of(house.settings, house.clock),
    )  # fmt: skip
    outbox, encryptor = SqlOutbox(house.database), Encryptor(house.secret, "subscriptions")
    links = ConsentLinks(derived(house.secret, "mail consent"), public_url, house.clock)
    delivery = delivery_of(house, store, outbox, encryptor, links)
    subscriptions = Subscriptions(SqlSubscriptionStore(house.database), outbox, delivery, encryptor)
    hourly = SlidingWindowLimiter(lambda: steady_ns() // HOURLY)
    weekly = SlidingWindowLimiter(lambda: steady_ns() // WEEKLY)
    consent = MailConsent(subscriptions, links, mailer, hourly, weekly)
    return People(house, browser_sessions, identity, subscriptions, consent, delivery, limiter)

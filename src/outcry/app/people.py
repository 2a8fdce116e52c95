"""Users, their sign-in and the pages, built from an installation.

Each use of the server's secret has its own derived key.
"""

from dataclasses import dataclass

from outcry.access.licences import Scope
from outcry.access.limiter import Limiter, PromptLimiter
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.api.openapi import build_document
from outcry.app.delivery import delivery_of
from outcry.app.installation import Installation
from outcry.app.outside import mailer_of, provider_of
from outcry.app.secret import derived
from outcry.base.encryption import Encryptor
from outcry.base.log_events import EventLog, report_to_writer
from outcry.connections.service import BrokerConnections
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
from outcry.web.app import build_pages
from outcry.web.page_services import PageServices, UsageOf


@dataclass(frozen=True)
class People:
    """The users' part of the service: sign-in, subscriptions, delivery, and the pages over them."""

    installation: Installation
    browser_sessions: BrowserSessions
    identity: Identity
    subscriptions: Subscriptions
    consent: MailConsent
    delivery: Delivery
    limiter: Limiter

    @property
    def authenticator(self) -> PageAuthenticator:
        """The authenticator of requests for pages."""
        settings, clock = self.installation.settings, self.installation.clock
        return PageAuthenticator(self.browser_sessions, clock, self.visitor, settings.public_url)

    def visitor(self) -> Scope | None:
        """Return what a visitor without a session may see; None for nothing."""
        installation = self.installation
        return (
            installation.licences.of_visitor()
            if installation.settings.guests or installation.simulated
            else None
        )

    def pages(self, connections: BrokerConnections, usage: UsageOf, event_log: EventLog) -> AsgiApp:
        """Build the pages. connections: users' own feeds. usage: how much of the quota a user has used."""
        installation, reference = self.installation, self.installation.reference
        self.identity.report_to(report_to_writer(event_log))
        self.consent.report_to(report_to_writer(event_log))
        return build_pages(
            PageServices(
                query=installation.query, hours=OpeningHours(reference.calendar), registry=installation.registry,
                universe=reference.universe, keys=installation.keys,
                licences=installation.licences, identity=self.identity, subscriptions=self.subscriptions,
                consent=self.consent, browser_sessions=self.browser_sessions, connections=connections, usage=usage,
                datasets=Datasets(installation.store, reference.universe.products),
                limiter=self.limiter, clock=installation.clock, market_clock=installation.market_clock,
                event_log=event_log, form_secret=derived(installation.secret, "forms"), openapi=build_document,
                visitor=self.visitor, public_url=installation.settings.public_url, demo=installation.simulated,
                sink=installation.sink,
            )
        )  # fmt: skip


def people_of(
    installation: Installation, tries: PromptLimiter | None = None, limiter: Limiter | None = None
) -> People:
    """Build users and delivery. tries, limiter: counters of sign-in attempts and requests; local ones if None."""
    store = SqlIdentityStore(installation.database)
    browser_sessions = BrowserSessions(store, derived(installation.secret, "sessions"), installation.clock)
    steady_ns = installation.steady_ns
    tries, limiter = tries or SlidingWindowLimiter(steady_ns), limiter or SlidingWindowLimiter(steady_ns)
    public_url = installation.settings.public_url
    mailer = mailer_of(installation.settings, installation.clock)
    identity = Identity(
        store, browser_sessions, tries, installation.clock, derived(installation.secret, "identity"), mailer,
        public_url, openid=provider_of(installation.settings, installation.clock),
    )  # fmt: skip
    outbox, encryptor = SqlOutbox(installation.database), Encryptor(installation.secret, "subscriptions")
    links = ConsentLinks(derived(installation.secret, "mail consent"), public_url, installation.clock)
    delivery = delivery_of(installation, store, outbox, encryptor, links)
    subscriptions = Subscriptions(SqlSubscriptionStore(installation.database), outbox, delivery, encryptor)
    hourly = SlidingWindowLimiter(lambda: steady_ns() // HOURLY)
    weekly = SlidingWindowLimiter(lambda: steady_ns() // WEEKLY)
    consent = MailConsent(subscriptions, links, mailer, hourly, weekly)
    return People(installation, browser_sessions, identity, subscriptions, consent, delivery, limiter)

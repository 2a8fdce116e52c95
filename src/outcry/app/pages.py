"""Build sign-in, subscriptions (webhooks and emails) and the pages from an installation.

`app.people` imports this module only when a page is first used, because this module imports all pages and sign-in
methods.
"""

from collections.abc import Callable
from dataclasses import dataclass

from outcry.access.licences import Scope
from outcry.access.limiter import Limiter, PromptLimiter
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.api.openapi import build_document
from outcry.app.installation import Installation
from outcry.app.outside import provider_of
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
from outcry.http.edge import AsgiApp
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.first_run import FirstRun
from outcry.people.preset_store import SqlPresets
from outcry.people.service import Identity
from outcry.people.smtp import SmtpMailer
from outcry.people.store import SqlIdentityStore
from outcry.sessions.datasets import Datasets
from outcry.sessions.opening_hours import OpeningHours
from outcry.web.app import build_pages
from outcry.web.page_services import PageServices, UsageOf


@dataclass(frozen=True)
class Accounts:
    """Users' accounts: sign-in, subscriptions, and the consent of people who receive alerts by email."""

    identity: Identity
    subscriptions: Subscriptions
    consent: MailConsent
    browser_sessions: BrowserSessions


def accounts_of(
    installation: Installation, browser_sessions: BrowserSessions, first_run: FirstRun, tries: PromptLimiter,
    mailer: SmtpMailer | None, delivery: Delivery, outbox: SqlOutbox, encryptor: Encryptor, links: ConsentLinks,
) -> Accounts:  # fmt: skip
    """Build sign-in, subscriptions and email consent. tries: counter of sign-in attempts. links: links in emails."""
    settings, clock, steady_ns = installation.settings, installation.clock, installation.steady_ns
    identity = Identity(
        SqlIdentityStore(installation.database), browser_sessions, tries, clock,
        derived(installation.secret, "identity"), mailer, settings.public_url,
        openid=provider_of(settings, clock), first_run=first_run,
    )  # fmt: skip
    subscriptions = Subscriptions(SqlSubscriptionStore(installation.database), outbox, delivery, encryptor)
    hourly = SlidingWindowLimiter(lambda: steady_ns() // HOURLY)
    weekly = SlidingWindowLimiter(lambda: steady_ns() // WEEKLY)
    consent = MailConsent(subscriptions, links, mailer, hourly, weekly)
    return Accounts(identity, subscriptions, consent, browser_sessions)


def pages_of(
    installation: Installation, accounts: Accounts, limiter: Limiter, visitor: Callable[[], Scope | None],
    connections: BrokerConnections, usage: UsageOf, event_log: EventLog,
) -> AsgiApp:  # fmt: skip
    """Build the pages. visitor: returns what a visitor without a session may see."""
    reference = installation.reference
    accounts.identity.report_to(report_to_writer(event_log))
    accounts.consent.report_to(report_to_writer(event_log))
    return build_pages(
        PageServices(
            query=installation.query, hours=OpeningHours(reference.calendar), registry=installation.registry,
            universe=reference.universe, keys=installation.keys,
            licences=installation.licences, identity=accounts.identity, subscriptions=accounts.subscriptions,
            consent=accounts.consent, browser_sessions=accounts.browser_sessions, connections=connections,
            usage=usage, datasets=Datasets(installation.store, reference.universe.products), tables=installation.tables,
            presets=SqlPresets(installation.database), limiter=limiter,
            clock=installation.clock, market_clock=installation.market_clock,
            event_log=event_log, form_secret=derived(installation.secret, "forms"), openapi=build_document,
            visitor=visitor, public_url=installation.settings.public_url, demo=installation.simulated,
            sink=installation.sink, clustered=bool(installation.settings.cluster),
        )
    )  # fmt: skip

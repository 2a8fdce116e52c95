"""Build the objects of a process that serve users: browser sessions, sign-in, subscriptions and delivery.

Each use of the server's secret has its own derived key. The code of sign-in and pages loads when it is first used.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from outcry.access.licences import Scope
from outcry.access.limiter import Limiter, PromptLimiter
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.app.delivery import delivery_of
from outcry.app.installation import Installation
from outcry.app.outside import mailer_of
from outcry.app.secret import derived
from outcry.base.deferred import Deferred
from outcry.base.encryption import Encryptor
from outcry.base.log_events import EventLog
from outcry.connections.service import BrokerConnections
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.service import Delivery
from outcry.http.auth import PageAuthenticator
from outcry.http.edge import AsgiApp, Receive, Send
from outcry.people.browser_sessions import BrowserSessions
from outcry.people.first_run import FirstRun
from outcry.people.links import Links
from outcry.people.store import SqlIdentityStore

if TYPE_CHECKING:
    from outcry.app.pages import Accounts
    from outcry.delivery.mail_consent import MailConsent
    from outcry.delivery.subscriptions import Subscriptions
    from outcry.people.service import Identity
    from outcry.web.page_services import UsageOf


@dataclass(frozen=True)
class People:
    """The objects of a process that serve users: browser sessions, sign-in, subscriptions and delivery.

    accounts: sign-in and subscriptions, which only pages and commands use.
    """

    installation: Installation
    browser_sessions: BrowserSessions
    first_run: FirstRun
    delivery: Delivery
    limiter: Limiter
    accounts: "Deferred[Accounts]"

    @property
    def identity(self) -> "Identity":
        """Sign-in with passwords, passkeys, emailed links or OpenID, second factors, and limits on attempts."""
        return self.accounts().identity

    @property
    def subscriptions(self) -> "Subscriptions":
        """The users' webhooks and email digests of alerts."""
        return self.accounts().subscriptions

    @property
    def consent(self) -> "MailConsent":
        """The service that asks people for consent before they receive alerts by email."""
        return self.accounts().consent

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

    def pages(self, connections: BrokerConnections, usage: "UsageOf", event_log: EventLog) -> AsgiApp:
        """Return the pages. connections: users' own feeds. usage: how much of the quota a user has used."""

        def load() -> AsgiApp:
            from outcry.app.pages import pages_of  # noqa: PLC0415 - imports all pages

            return pages_of(
                self.installation, self.accounts(), self.limiter, self.visitor, connections, usage, event_log
            )

        pages = Deferred(load)

        async def answer(scope: dict[str, Any], receive: Receive, send: Send) -> None:
            loaded = await pages.loaded()
            await loaded(scope, receive, send)

        return answer


def people_of(
    installation: Installation, tries: PromptLimiter | None = None, limiter: Limiter | None = None
) -> People:
    """Build sign-in, subscriptions and delivery.

    tries, limiter: limits on sign-in attempts and requests; None: counted in this process only.
    """
    store = SqlIdentityStore(installation.database)
    browser_sessions = BrowserSessions(store, derived(installation.secret, "sessions"), installation.clock)
    steady_ns, public_url = installation.steady_ns, installation.settings.public_url
    tries, limiter = tries or SlidingWindowLimiter(steady_ns), limiter or SlidingWindowLimiter(steady_ns)
    links = Links(store, installation.clock, derived(installation.secret, "identity"), public_url)
    first_run = FirstRun(store, links)
    outbox, encryptor = SqlOutbox(installation.database), Encryptor(installation.secret, "subscriptions")
    consent_links = ConsentLinks(derived(installation.secret, "mail consent"), public_url, installation.clock)
    mailer = mailer_of(installation.settings, installation.clock)
    delivery = delivery_of(installation, store, outbox, encryptor, consent_links, mailer)

    def accounts() -> "Accounts":
        from outcry.app.pages import accounts_of  # noqa: PLC0415 - imports all ways to sign in

        return accounts_of(
            installation,
            browser_sessions,
            first_run,
            tries,
            mailer,
            delivery,
            outbox,
            encryptor,
            consent_links,
        )

    return People(installation, browser_sessions, first_run, delivery, limiter, Deferred(accounts))

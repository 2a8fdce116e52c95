"""Delivery of alerts, built from an installation."""

import os
import secrets

from outcry.app.installation import Installation
from outcry.app.outside import mail_sender_of, mailer_of
from outcry.app.settings import Settings
from outcry.base.encryption import Encryptor
from outcry.base.log_events import LogEvent
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.discord import DiscordSender
from outcry.delivery.dispatcher import MOST_UNDER_WAY, Dispatcher, Parts
from outcry.delivery.egress import Egress, Limits
from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import Target
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Reader
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.sender import Sender
from outcry.delivery.service import Delivery
from outcry.delivery.slack import SlackSender
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import read_rule
from outcry.people.store import SqlIdentityStore

#: Slots reserved for tests of webhooks, so that deliveries cannot delay them.
_MOST_TESTS = 32


def delivery_of(
    installation: Installation,
    identity: SqlIdentityStore,
    outbox: SqlOutbox,
    encryptor: Encryptor,
    links: ConsentLinks,
) -> Delivery:
    """Build the delivery of alerts. links: unsubscribe links in emails. Raises `BadSettings`."""
    settings, clock = installation.settings, installation.clock
    egress = _egress(settings)
    senders: dict[Target, Sender] = {
        Target.HTTPS: HttpsSender(egress, installation.site, clock),
        Target.SLACK: SlackSender(egress, installation.site, clock),
        Target.DISCORD: DiscordSender(egress, installation.site, clock),
    }

    def reader_of(user_id: int) -> Reader:
        user = identity.user(user_id)
        assert user is not None  # only a user tests a subscription
        wishes = user.preferences
        return Reader(user.email, wishes.language, wishes.time_zone, wishes.digest_hour)

    def report(event: LogEvent, **fields: object) -> object:
        return dispatcher.report(event, **fields)

    mails = mail_sender_of(settings, links, clock, report)
    if mails is not None:
        senders[Target.EMAIL] = mails
    notices = OwnerNotices(identity, mailer_of(settings, clock), clock, installation.site, report)
    worker = f"{os.getpid()}-{secrets.token_hex(4)}"
    dispatcher = Dispatcher(Parts(outbox, senders, encryptor, clock, notices, worker))
    installation.registry.on_alerts(dispatcher.wake)
    admitted = [host.strip() for host in settings.private_hosts.split(",") if host.strip()]
    delivers = "deliver" in settings.roles
    return Delivery(dispatcher, outbox, senders, egress, clock, reader_of, admitted, delivers=delivers)


def _egress(settings: Settings) -> Egress:
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    private = system_trust(settings.private_ca) if settings.private_ca else None
    limits = Limits(at_once=MOST_UNDER_WAY + _MOST_TESTS)
    return Egress(GuardedResolver(rule), system_trust(), private, limits)

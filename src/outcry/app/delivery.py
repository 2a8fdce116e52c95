"""Where delivery is put together: what goes out and how, by whom it is judged, and who is told."""

import os
import secrets
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from outcry.app.service import House

#: Tests find a place however much is being delivered.
_MOST_TESTS = 32


def delivery_of(
    house: "House", identity: SqlIdentityStore, outbox: SqlOutbox, encryptor: Encryptor, links: ConsentLinks
) -> Delivery:
    """Put delivery together. `links`: by which readers of mail unsubscribe. Raises `BadSettings`."""
    settings, clock = house.settings, house.clock
    egress = _egress(settings)
    senders: dict[Target, Sender] = {
        Target.HTTPS: HttpsSender(egress, house.pages, clock),
        Target.SLACK: SlackSender(egress, house.pages, clock),
        Target.DISCORD: DiscordSender(egress, house.pages, clock),
    }

    def reader_of(user_id: int) -> Reader:
        user = identity.user(user_id)
        assert user is not None  # whoever tests a subscription is there
        wishes = user.preferences
        return Reader(user.email, wishes.language, wishes.time_zone, wishes.digest_hour)

    def report(event: LogEvent, **fields: object) -> object:
        return dispatcher.report(event, **fields)

    mails = mail_sender_of(settings, links, clock, report)
    if mails is not None:
        senders[Target.EMAIL] = mails
    notices = OwnerNotices(identity, mailer_of(settings, clock), clock, house.pages, report)
    worker = f"{os.getpid()}-{secrets.token_hex(4)}"
    dispatcher = Dispatcher(Parts(outbox, senders, encryptor, clock, notices, worker))
    house.registry.on_alerts(dispatcher.wake)
    admitted = [host.strip() for host in settings.private_hosts.split(",") if host.strip()]
    delivers = "deliver" in settings.roles
    return Delivery(dispatcher, outbox, senders, egress, clock, reader_of, admitted, delivers=delivers)


def _egress(settings: Settings) -> Egress:
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    private = system_trust(settings.private_ca) if settings.private_ca else None
    limits = Limits(at_once=MOST_UNDER_WAY + _MOST_TESTS)
    return Egress(GuardedResolver(rule), system_trust(), private, limits)

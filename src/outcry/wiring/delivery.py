"""Where delivery is put together: what goes out and how, by whom it is judged, and who is told."""

import os
import secrets
from typing import TYPE_CHECKING

from outcry.base.log_events import LogEvent
from outcry.deliver.address import read_rule
from outcry.deliver.delivery import Delivery
from outcry.deliver.discord import DiscordSender
from outcry.deliver.egress import Egress, Limits
from outcry.deliver.endpoint import HttpsSender
from outcry.deliver.names import NameService
from outcry.deliver.slack import SlackSender
from outcry.deliver.trust import system_trust
from outcry.ports.delivery import Target
from outcry.ports.outbox import Reader
from outcry.ports.sender import Sender
from outcry.services.consent_links import ConsentLinks
from outcry.services.dispatch.dispatcher import MOST_UNDER_WAY, Dispatcher, Parts
from outcry.services.dispatch.notices import OwnerNotices
from outcry.services.sealing import Seal
from outcry.settings import Settings
from outcry.store.identity import SqlIdentityStore
from outcry.store.outbox import SqlOutbox
from outcry.wiring.outside import mail_sender_of, mailer_of

if TYPE_CHECKING:
    from outcry.wiring.house import House

#: Tests find a place however much is being delivered.
_MOST_TESTS = 32


def delivery_of(
    house: "House", identity: SqlIdentityStore, outbox: SqlOutbox, seal: Seal, links: ConsentLinks
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
        return dispatcher.tell(event, **fields)

    mails = mail_sender_of(settings, links, clock, report)
    if mails is not None:
        senders[Target.EMAIL] = mails
    notices = OwnerNotices(identity, mailer_of(settings, clock), clock, house.pages, report)
    worker = f"{os.getpid()}-{secrets.token_hex(4)}"
    dispatcher = Dispatcher(Parts(outbox, senders, seal, clock, notices, worker))
    house.board.on_alerts(dispatcher.wake)
    admitted = [host.strip() for host in settings.private_hosts.split(",") if host.strip()]
    delivers = "deliver" in settings.roles
    return Delivery(dispatcher, outbox, senders, egress, clock, reader_of, admitted, delivers=delivers)


def _egress(settings: Settings) -> Egress:
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    private = system_trust(settings.private_ca) if settings.private_ca else None
    limits = Limits(at_once=MOST_UNDER_WAY + _MOST_TESTS)
    return Egress(rule, NameService(), system_trust(), private, limits)

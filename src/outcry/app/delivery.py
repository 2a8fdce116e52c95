"""Build the delivery of alerts from an installation. The code of its channels loads when it is first used."""

import os
import secrets

from outcry.app.installation import Installation
from outcry.base.encryption import Encryptor
from outcry.base.log_events import LogEvent
from outcry.delivery.channels import Channels, DeferredChannels
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.dispatcher import Dispatcher, Parts
from outcry.delivery.model import Target
from outcry.delivery.notices import OwnerNotices
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Reader
from outcry.delivery.sender import Sender
from outcry.delivery.service import Delivery
from outcry.people.smtp import SmtpMailer
from outcry.people.store import SqlIdentityStore


def delivery_of(
    installation: Installation, identity: SqlIdentityStore, outbox: SqlOutbox, encryptor: Encryptor,
    links: ConsentLinks, mailer: SmtpMailer | None,
) -> Delivery:  # fmt: skip
    """Build the delivery of alerts. links: unsubscribe links in emails. mailer: sends notices to users."""
    settings, clock = installation.settings, installation.clock

    def reader_of(user_id: int) -> Reader:
        user = identity.user(user_id)
        assert user is not None  # only a user tests a subscription
        wishes = user.preferences
        return Reader(user.email, wishes.language, wishes.time_zone, wishes.digest_hour)

    def report(event: LogEvent, **fields: object) -> object:
        return dispatcher.report(event, **fields)

    def load() -> Channels:
        from outcry.app.channels import channels_of  # noqa: PLC0415 - imports aiohttp, DNS and email

        return channels_of(settings, installation.site, clock, links, report)

    channels = DeferredChannels(load)
    targets = [target for target in Target if target is not Target.EMAIL or settings.smtp_url]
    senders: dict[Target, Sender] = {target: channels.sender(target) for target in targets}
    notices = OwnerNotices(identity, mailer, clock, installation.site, report)
    worker = f"{os.getpid()}-{secrets.token_hex(4)}"
    dispatcher = Dispatcher(Parts(outbox, senders, encryptor, clock, notices, worker))
    installation.registry.on_alerts(dispatcher.wake)
    admitted = [host.strip() for host in settings.private_hosts.split(",") if host.strip()]
    delivers = "deliver" in settings.roles
    return Delivery(dispatcher, outbox, senders, channels, clock, reader_of, admitted, delivers=delivers)

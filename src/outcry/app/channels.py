"""Build the channels that deliver alerts, such as webhook and Slack, from the settings.

`app.delivery` imports this module when the channels are first used.
"""

from outcry.app.outside import mail_from, mail_server
from outcry.app.settings import Settings
from outcry.base.clock import Clock
from outcry.base.log_events import Report
from outcry.delivery.channels import Channels
from outcry.delivery.consent_links import ConsentLinks
from outcry.delivery.discord import DiscordSender
from outcry.delivery.dispatcher import MOST_UNDER_WAY
from outcry.delivery.egress import Egress, Limits
from outcry.delivery.email_sender import MailSender
from outcry.delivery.https_webhook import HttpsSender
from outcry.delivery.model import Target
from outcry.delivery.resolver import GuardedResolver
from outcry.delivery.sender import Sender
from outcry.delivery.slack import SlackSender
from outcry.delivery.trust import system_trust
from outcry.delivery.url_rule import read_rule

#: Slots reserved for tests of webhooks, so that deliveries cannot delay them.
_MOST_TESTS = 32


def channels_of(settings: Settings, site: str, clock: Clock, links: ConsentLinks, report: Report) -> Channels:
    """Build the channels. site: URL of the pages. links: unsubscribe links in emails."""
    egress = _egress(settings)
    senders: dict[Target, Sender] = {
        Target.HTTPS: HttpsSender(egress, site, clock),
        Target.SLACK: SlackSender(egress, site, clock),
        Target.DISCORD: DiscordSender(egress, site, clock),
    }
    if settings.smtp_url:
        senders[Target.EMAIL] = MailSender(
            mail_server(settings), mail_from(settings), settings.public_url, links.unsubscribe, clock, report
        )
    return Channels(senders, egress)


def _egress(settings: Settings) -> Egress:
    rule = read_rule(settings.public_url, settings.private_hosts, settings.egress_denied)
    private = system_trust(settings.private_ca) if settings.private_ca else None
    limits = Limits(at_once=MOST_UNDER_WAY + _MOST_TESTS)
    return Egress(GuardedResolver(rule), system_trust(), private, limits)

"""What deliveries and addresses are said about in words: each code with what it means and what to do.

Rule kept: a code is the deliverer's, its words are the pages'; one without words is shown as it is.
"""

from collections.abc import Mapping
from typing import Literal

from outcry.core.units import NANOS_PER_DAY, NANOS_PER_HOUR
from outcry.ports.delivery import Severity, Target, Window
from outcry.services.mail_consent import Asked
from outcry.web.language import Words, later

TARGETS: Mapping[Target, str] = {
    Target.SLACK: later("Slack"),
    Target.DISCORD: later("Discord"),
    Target.HTTPS: later("HTTPS endpoint"),
    Target.EMAIL: later("E-mail digest"),
}
SEVERITIES: Mapping[Severity, str] = {
    "info": later("Info and above: every alert"),
    "warn": later("Warning and above"),
    "critical": later("Critical only"),
}
WINDOWS: Mapping[Window, str] = {
    "quarter": later("Every quarter of an hour"),
    "hour": later("Every hour"),
    "day": later("Once a day, at the hour of your preferences"),
}
#: How long a signing secret that is replaced signs on.
OVERLAPS: Mapping[str, tuple[int, str]] = {
    "0": (0, later("no time: it ends at once")),
    "1h": (NANOS_PER_HOUR, later("1 hour")),
    "24h": (NANOS_PER_DAY, later("24 hours")),
    "7d": (7 * NANOS_PER_DAY, later("7 days")),
}
USUAL_OVERLAP = "24h"
OUTCOMES: Mapping[str, str] = {
    "delivered": later("Delivered"),
    "pending": later("Tried again later"),
    "failed": later("Failed"),
    "dead": later("Given up"),
}

#: Of alerts that were kept as their receiver said that it is gone, where `failed` says of a test that it failed.
HELD = later("Failed; its alerts were held")

#: Why an address is refused.
_ADDRESSES: Mapping[str, str] = {
    "address_missing": later("Enter where alerts shall be sent."),
    "mail_not_set_up": later("This service sends no mail: its operator has named no mail server."),
    "email_form": later("This is not an e-mail address, such as ann@example.com."),
    "not_slack": later(
        "This is not an incoming webhook of Slack: those begin with https://hooks.slack.com/services/."
    ),
    "slack_trigger": later(
        "This starts a Slack workflow, which takes another form. Make an incoming webhook instead: its "
        "address begins with https://hooks.slack.com/services/."
    ),
    "not_discord": later(
        "This is not a webhook of Discord: those begin with https://discord.com/api/webhooks/. Copy the "
        "whole address from the channel's settings."
    ),
    "address_of_a_chat": later(
        "This is the webhook of a chat, which takes another form: choose Slack or Discord above."
    ),
    "endpoint_invalid": later(
        "This is not an address of the web. Enter one such as https://hooks.example.com/outcry, "
        "without a # part."
    ),
    "endpoint_not_https": later("Only https addresses are taken: alerts are not sent over an open line."),
    "endpoint_userinfo": later(
        "An address with a name or password before an @ is not taken. Put a secret into the path, "
        "or check the signature instead."
    ),
    "endpoint_port": later("Only port 443 is taken: leave the port out."),
    "endpoint_private": later(
        "This address is not public: it lies inside a network or is reserved. Alerts are sent to "
        "public hosts only."
    ),
    "endpoint_self": later("This address is this service itself."),
    "endpoint_unresolvable": later("No host of this name can be found. Is it spelt right?"),
}
#: What came of a delivery or a test.
_RESULTS: Mapping[str, str] = {
    "ok": later("It arrived."),
    "unconfirmed": later(
        "Nothing was sent: whoever reads at this address has not yet said that they want these mails."
    ),
    "store_busy": later("Nothing was sent: the service's database is busy. Try again in a moment."),
    "address_lost": later(
        "The address cannot be opened any more, because the service's secret has changed. Enter the "
        "address anew."
    ),
    "unresolvable": later("No host of this name was found. Is it spelt right, and is its name service up?"),
    "blocked_address": later(
        "The name leads to an address that is not public, so nothing was sent. Let it lead to a public one."
    ),
    "connect_refused": later(
        "The host does not accept connections. Is the receiving program running, on port 443?"
    ),
    "connect_timeout": later("The host did not answer within five seconds. A firewall may be in the way."),
    "tls_error": later(
        "No safe connection was possible: the host's certificate has run out, is for another name, or is "
        "vouched for by nobody known here."
    ),
    "connection_lost": later(
        "The connection broke before there was an answer. Whether the message arrived is not known."
    ),
    "answer_timeout": later(
        "The host took the request but did not answer within 15 seconds. Answer first, work afterwards."
    ),
    "bad_response": later("What came back is no answer of a web server. Is this the right program?"),
    "redirect": later("The host sent us on to another address. Enter that one: redirects are not followed."),
    "status": later("The host answered, but not with success: see what it said."),
    "gone": later("The receiver says that it is there no more (410), and wants nothing further."),
    "rate_limited": later("The host asks for fewer messages."),
    "aborted": later("The host asked that this message be dropped: it is not tried again."),
    "our_message": later(
        "The chat did not understand our message. That is a fault of this service: tell its operator."
    ),
    "our_fault": later(
        "This service broke while sending: that is no fault of the address. Its operator finds the reason in the log."
    ),
    "too_busy": later("Too much was under way at once, and nothing was sent. It is tried again in a moment."),
    "failing": later("Nothing has arrived for five days."),
    "expired": later("It is too old to be sent by itself: its tries were used up, or it waited too long."),
    "mail_refused": later("The mail server refused this recipient. Is the address right?"),
    "mail_failed": later("The mail could not be handed over. The operator finds the reason in the log."),
    "bounced": later("Three mails in a row were refused: nothing is sent to this address any more."),
    "unsubscribed": later("Whoever reads at this address has unsubscribed."),
}
_NEW_THERE = later(
    "The chat says that this webhook no longer exists. Make a new one there and enter its address."
)
#: What means something else of one target than of others.
_RESULTS_OF: Mapping[tuple[Target, str], str] = {
    (Target.SLACK, "gone"): _NEW_THERE,
    (Target.DISCORD, "gone"): _NEW_THERE,
    (Target.EMAIL, "ok"): later("The mail server took it. Whether it reaches the mailbox is seen there."),
}
#: The codes there are words for.
ADDRESS_CODES, RESULT_CODES = frozenset(_ADDRESSES), frozenset(_RESULTS)
#: What came of asking the reader of an e-mail address.
ASKED: Mapping[Asked | Literal["busy"], str] = {
    "asked": later("A mail with a link to confirm was sent to this address."),
    "often": later(
        "No further mail was sent: there were several within an hour, or one in the week since its reader "
        "unsubscribed. Wait, and look for those first."
    ),
    "busy": later(
        "No mail was sent: so much of yours is still under way to other hosts. Ask again in a moment."
    ),
    "mail_failed": later("The mail could not be handed over. The operator finds the reason in the log."),
    "mail_not_set_up": later("This service sends no mail: its operator has named no mail server."),
}
PHASES: Mapping[str, str] = {
    "dns": later("Finding the host"),
    "connect": later("Connecting"),
    "tls": later("Agreeing on encryption"),
    "answer": later("Waiting for the answer"),
}


def address_words(words: Words, code: str) -> str:
    """Why an address is refused."""
    found = _ADDRESSES.get(code)
    return words(found) if found else words("This address is not taken (%(code)s).", code=code)


def result_words(words: Words, code: str, target: Target | None = None) -> str:
    """What came of a delivery to such a target, and what to do."""
    special = _RESULTS_OF.get((target, code)) if target else None
    found = special or _RESULTS.get(code) or _ADDRESSES.get(code)
    return words(found) if found else words("It did not arrive (%(code)s).", code=code)

"""What deliveries and addresses are said about in words: each code with what it means and what to do.

Rule kept: a code is the deliverer's, its words are the pages'; one without words is shown as it is.
"""

from collections.abc import Mapping

from outcry.ports.delivery import Severity, Target
from outcry.web.language import Words

TARGETS: Mapping[Target, str] = {
    Target.SLACK: "Slack",
    Target.DISCORD: "Discord",
    Target.HTTPS: "HTTPS endpoint",
    Target.EMAIL: "E-mail digest",
}
SEVERITIES: Mapping[Severity, str] = {
    "info": "Info and above: every alert",
    "warn": "Warning and above",
    "critical": "Critical only",
}
OUTCOMES: Mapping[str, str] = {
    "delivered": "Delivered",
    "pending": "Tried again later",
    "failed": "Failed",
    "dead": "Given up",
}

#: Why an address is refused.
_ADDRESSES: Mapping[str, str] = {
    "address_missing": "Enter where alerts shall be sent.",
    "email_form": "This is not an e-mail address, such as ann@example.com.",
    "not_slack": "This is not an incoming webhook of Slack: those begin with https://hooks.slack.com/services/.",
    "slack_trigger": "This starts a Slack workflow, which takes another form. Make an incoming webhook instead: its "
    "address begins with https://hooks.slack.com/services/.",
    "not_discord": "This is not a webhook of Discord: those begin with https://discord.com/api/webhooks/. Copy the "
    "whole address from the channel's settings.",
    "endpoint_invalid": "This is not an address of the web. Enter one such as https://hooks.example.com/outcry, "
    "without a # part.",
    "endpoint_not_https": "Only https addresses are taken: alerts are not sent over an open line.",
    "endpoint_userinfo": "An address with a name or password before an @ is not taken. Put a secret into the path, "
    "or check the signature instead.",
    "endpoint_port": "Only port 443 is taken: leave the port out.",
    "endpoint_private": "This address is not public: it lies inside a network or is reserved. Alerts are sent to "
    "public hosts only.",
    "endpoint_self": "This address is this service itself.",
    "endpoint_unresolvable": "No host of this name can be found. Is it spelt right?",
}
#: What came of a delivery or a test.
_RESULTS: Mapping[str, str] = {
    "ok": "It arrived.",
    "delivery_not_running": "Nothing was sent: this service does not deliver yet. The address itself looks right.",
    "address_lost": "The address cannot be opened any more, because the service's secret has changed. Enter the "
    "address anew.",
    "connect_refused": "The host does not accept connections. Is the receiving program running, on port 443?",
    "connect_timeout": "The host did not answer within five seconds. A firewall may be in the way.",
    "tls": "No safe connection was possible: the host's certificate has run out, or is for another name.",
    "answer_timeout": "The host took the request but did not answer within 15 seconds. Answer first, work afterwards.",
    "redirect": "The host sent us on to another address. Enter that one: redirects are not followed.",
    "status": "The host answered, but not with success. What it said stands below.",
    "gone": "The host says that this webhook no longer exists. Make a new one there and enter its address.",
    "rate_limited": "The host asks for fewer messages. They are sent more slowly.",
    "mail_refused": "The mail server refused the message. Is the address right?",
    "mail_failed": "The mail could not be handed over. The operator finds the reason in the log.",
    "failing": "Nothing has arrived for five days.",
}
PHASES: Mapping[str, str] = {
    "dns": "Finding the host",
    "connect": "Connecting",
    "tls": "Agreeing on encryption",
    "answer": "Waiting for the answer",
}


def address_words(words: Words, code: str) -> str:
    """Why an address is refused."""
    found = _ADDRESSES.get(code)
    return words(found) if found else words("This address is not taken (%(code)s).", code=code)


def result_words(words: Words, code: str) -> str:
    """What came of a delivery, and what to do."""
    found = _RESULTS.get(code) or _ADDRESSES.get(code)
    return words(found) if found else words("It did not arrive (%(code)s).", code=code)

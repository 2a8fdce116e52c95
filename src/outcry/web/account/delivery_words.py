"""Texts for delivery codes: what each code means and what to do.

The delivery package defines the codes. If a code has no text here, the page shows the code.
"""

from collections.abc import Mapping
from typing import Literal

from outcry.delivery.mail_consent import ConsentRequest
from outcry.delivery.model import Severity, Target, Window
from outcry.market.units import NANOS_PER_DAY, NANOS_PER_HOUR
from outcry.web.language import Words, later

TARGETS: Mapping[Target, str] = {
    Target.SLACK: later("Slack"),
    Target.DISCORD: later("Discord"),
    Target.HTTPS: later("HTTPS endpoint"),
    Target.EMAIL: later("Email digest"),
}
SEVERITIES: Mapping[Severity, str] = {
    "info": later("Info and above (all alerts)"),
    "warn": later("Warning and above"),
    "critical": later("Critical only"),
}
WINDOWS: Mapping[Window, str] = {
    "quarter": later("Every 15 minutes"),
    "hour": later("Every hour"),
    "day": later("Once a day, at the digest hour in your preferences"),
}
#: Times that a rotated signing secret can stay valid.
OVERLAPS: Mapping[str, tuple[int, str]] = {
    "0": (0, later("0 hours (ends now)")),
    "1h": (NANOS_PER_HOUR, later("1 hour")),
    "24h": (NANOS_PER_DAY, later("24 hours")),
    "7d": (7 * NANOS_PER_DAY, later("7 days")),
}
USUAL_OVERLAP = "24h"
OUTCOMES: Mapping[str, str] = {
    "delivered": later("Delivered"),
    "pending": later("Retrying"),
    "failed": later("Failed"),
    "dead": later("Failed permanently"),
}

#: Outcome `failed` of an alert: the attempt disabled the webhook, so its alerts are on hold. A failed test holds none.
HELD = later("Failed, alerts on hold")

#: Reasons to reject a URL or email address.
_ADDRESSES: Mapping[str, str] = {
    "address_missing": later("Enter a URL or email address."),
    "mail_not_set_up": later("Email is not available: the operator has not set up a mail server."),
    "email_form": later("Enter an email address such as ann@example.com."),
    "not_slack": later(
        "This is not a Slack incoming webhook. Its URL starts with https://hooks.slack.com/services/."
    ),
    "slack_trigger": later(
        "This URL starts a Slack workflow, which expects another format. Create an incoming "
        "webhook instead; its URL starts with https://hooks.slack.com/services/."
    ),
    "not_discord": later(
        "This is not a Discord webhook. Its URL starts with https://discord.com/api/webhooks/. "
        "Copy the full URL from the channel's settings."
    ),
    "address_of_a_chat": later(
        "This is a chat webhook, which expects another format. Choose Slack or Discord above."
    ),
    "endpoint_invalid": later(
        "Not a valid URL. Enter one such as https://hooks.example.com/outcry, without a # part."
    ),
    "endpoint_not_https": later("Enter an https URL. We don't send alerts over unencrypted connections."),
    "endpoint_userinfo": later(
        "URLs with a user name or password before the @ are not supported. Put a secret in the "
        "path, or verify the signature."
    ),
    "endpoint_port": later("Only port 443 is supported. Remove the port."),
    "endpoint_private": later(
        "This host has a private or reserved IP address. We send alerts only to public hosts."
    ),
    "endpoint_self": later("This URL points to this service."),
    "endpoint_unresolvable": later("Host not found. Check the spelling."),
}
#: Results of a delivery or a test.
_RESULTS: Mapping[str, str] = {
    "ok": later("Delivered."),
    "unconfirmed": later("Nothing sent: the recipient has not confirmed yet."),
    "store_busy": later("Nothing sent: the service's database is busy. Try again in a moment."),
    "address_lost": later(
        "The stored URL can't be decrypted because the service's secret has changed. Enter the URL again."
    ),
    "unresolvable": later("Host not found. Check the spelling and the host's DNS records."),
    "blocked_address": later(
        "Nothing sent: the host resolves to a private IP address. Point it to a public one."
    ),
    "connect_refused": later("Connection refused. Check that your program is listening on port 443."),
    "connect_timeout": later("No connection within 5 seconds. A firewall may be blocking it."),
    "tls_error": later(
        "TLS failed: the host's certificate has expired, is for another name or is not trusted."
    ),
    "connection_lost": later(
        "The connection was lost before a response. The message may or may not have arrived."
    ),
    "answer_timeout": later("No response within 15 seconds. Respond first, then process the alert."),
    "bad_response": later("The response is not valid HTTP. Check that a web server runs at this URL."),
    "redirect": later("The endpoint redirected the request. We don't follow redirects. Enter the new URL."),
    "status": later("The endpoint returned an error. See its response."),
    "gone": later("The endpoint no longer exists (HTTP 410) and wants no more messages."),
    "rate_limited": later("The endpoint's rate limit was exceeded."),
    "aborted": later("The endpoint asked us to drop this message. We won't retry."),
    "our_message": later("The chat service rejected our message format. Please tell the operator."),
    "our_fault": later(
        "An internal error in this service stopped the delivery. The operator can find the reason in the log."
    ),
    "too_busy": later("Nothing sent: too many deliveries in progress. We'll retry in a moment."),
    "failing": later("No delivery has succeeded for 5 days."),
    "expired": later("Too old to retry: all attempts are used up, or it waited too long."),
    "mail_refused": later("The mail server rejected this recipient. Check the email address."),
    "mail_failed": later("The email could not be sent. The operator can find the reason in the log."),
    "bounced": later("Three emails in a row were rejected. We no longer send to this address."),
    "unsubscribed": later("The recipient unsubscribed."),
}
_NEW_THERE = later("This chat webhook no longer exists. Create a new one and enter its URL.")
#: Texts that differ for one target.
_RESULTS_OF: Mapping[tuple[Target, str], str] = {
    (Target.SLACK, "gone"): _NEW_THERE,
    (Target.DISCORD, "gone"): _NEW_THERE,
    (Target.EMAIL, "ok"): later(
        "The mail server accepted the email. Check the inbox to see whether it arrived."
    ),
}
#: Codes that have texts.
ADDRESS_CODES, RESULT_CODES = frozenset(_ADDRESSES), frozenset(_RESULTS)
#: Results of requesting the consent of an email recipient.
ASKED: Mapping[ConsentRequest | Literal["busy"], str] = {
    "asked": later("We sent a confirmation link to this email address."),
    "often": later(
        "Not sent: the limit is several emails an hour, or one a week after the recipient "
        "unsubscribed. Look for the earlier ones, or wait."
    ),
    "busy": later("No email sent: too many of your deliveries are in progress. Try again in a moment."),
    "mail_failed": later("The email could not be sent. The operator can find the reason in the log."),
    "mail_not_set_up": later("Email is not available: the operator has not set up a mail server."),
}
PHASES: Mapping[str, str] = {
    "dns": later("DNS lookup"),
    "connect": later("Connecting"),
    "tls": later("TLS handshake"),
    "answer": later("Waiting for response"),
}


def address_words(words: Words, code: str) -> str:
    """Return why a URL or email address is rejected."""
    found = _ADDRESSES.get(code)
    return words(found) if found else words("This URL or email address was rejected (%(code)s).", code=code)


def result_words(words: Words, code: str, target: Target | None = None, status: int | None = None) -> str:
    """Return the result of a delivery and what to do. `status`: HTTP status of the response, if there was one."""
    if code == "status" and status is not None:
        return words("The endpoint returned HTTP %(status)d.", status=status)
    special = _RESULTS_OF.get((target, code)) if target else None
    found = special or _RESULTS.get(code) or _ADDRESSES.get(code)
    return words(found) if found else words("Delivery failed (%(code)s).", code=code)

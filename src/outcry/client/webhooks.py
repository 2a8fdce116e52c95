"""Verify messages that the service sent to a webhook (Standard Webhooks 1.0)."""

import base64
import binascii
import hmac
from collections.abc import Mapping

import msgspec

from outcry.base.clock import SystemClock
from outcry.wire.webhooks import WebhookBody

TOLERANCE_S = 300
_MARK = "whsec_"


class InvalidWebhook(ValueError):
    """A request to a webhook does not come from the service, or is too old. Answer it with status 401."""


def verify_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, *, tolerance_s: float = TOLERANCE_S,
    now_s: float | None = None,
) -> WebhookBody:  # fmt: skip
    """Return the decoded body of a message if the service signed it recently.

    headers: of the request, names in any case. body: the exact bytes received. secret: the signing secret of the
    webhook (`whsec_…`). tolerance_s: how old the message may be, in seconds. now_s: current time (Unix seconds); None
    for the clock's. A message can arrive twice: store `webhook-id` and ignore one that is known. Raises
    `InvalidWebhook`, and `ValueError` if the secret is malformed.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, sent, signatures = (
            given[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")
        )
        sent_s = int(sent)
    except (KeyError, ValueError):
        raise InvalidWebhook(
            "The headers webhook-id, webhook-timestamp and webhook-signature are needed."
        ) from None
    if abs((SystemClock().now_ns() / 1e9 if now_s is None else now_s) - sent_s) > tolerance_s:
        raise InvalidWebhook("The message is too old, or this machine's clock is wrong.")
    content = f"{message_id}.{sent}.".encode() + body
    expected = base64.b64encode(hmac.digest(_key(secret), content, "sha256"))
    # two signatures while a secret is being replaced
    for signature in signatures.split():
        version, _, value = signature.partition(",")
        if version == "v1" and hmac.compare_digest(value.encode(), expected):
            break
    else:
        raise InvalidWebhook("The message is not signed with this secret.")
    try:
        return msgspec.json.decode(body, type=WebhookBody)
    except msgspec.DecodeError as error:
        raise InvalidWebhook(f"The body is not one of Outcry's: {error}") from error


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_MARK), validate=True)
    except binascii.Error:
        raise ValueError(
            "The secret is malformed. Copy it from the webhook's page; it begins with whsec_."
        ) from None

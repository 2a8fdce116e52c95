"""Signatures of the Standard Webhooks specification 1.0: HMAC-SHA256 over id, time and body.

The signature covers the exact bytes sent. There is one signature for each valid secret, so a receiver that knows only
one of them can verify the message. No header and no error contains a secret.
"""

import base64
import hmac
from collections.abc import Sequence

from outcry.delivery.signing_secrets import MARK
from outcry.market.units import NANOS_PER_SECOND


def signed(message_id: str, body: bytes, secrets: Sequence[str], now_ns: int) -> dict[str, str]:
    """Return the three HTTP headers that identify and sign a message.

    `secrets`: `whsec_` and Base64, newest first. Without secrets there is no signature.
    """
    stamp = str(now_ns // NANOS_PER_SECOND)
    headers = {"webhook-id": message_id, "webhook-timestamp": stamp}
    if secrets:
        content = f"{message_id}.{stamp}.".encode() + body
        headers["webhook-signature"] = " ".join(_signature(content, secret) for secret in secrets)
    return headers


def _signature(content: bytes, secret: str) -> str:
    key = base64.b64decode(secret.removeprefix(MARK))
    return "v1," + base64.b64encode(hmac.digest(key, content, "sha256")).decode()

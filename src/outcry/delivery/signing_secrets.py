"""Signing secrets of webhooks: the current one, and replaced ones that are still valid.

URLs and secrets are encrypted for their subscription. A secret is displayed once, when it is created. A replaced secret
still signs for a time that its owner chose, so that a receiver can switch without a gap.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import replace

from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.delivery.model import SubscriptionRow
from outcry.market.units import NANOS_PER_DAY

MARK = "whsec_"  # prefix of a secret in Standard Webhooks
#: How long a replaced secret is valid by default, and at most.
OVERLAP_NS, LONGEST_OVERLAP_NS = NANOS_PER_DAY, 7 * NANOS_PER_DAY
#: Replaced secrets that are valid at the same time. The oldest is dropped.
MOST_OLD = 3
_SECRET_BYTES = 32
_SHOWN = 4


def new_secret() -> str:
    """Return a new random secret of 256 bits in the form of Standard Webhooks."""
    return MARK + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def end_of(secret: str) -> str:
    """Return the last characters of a secret, which may be displayed."""
    return secret[-_SHOWN:]


def place_of(user_id: int, created_ns: int) -> str:
    """Return the encryption context (associated data) that binds a URL or secret to its subscription."""
    return f"subscription:{user_id}:{created_ns}"


def opened(encryptor: Encryptor, row: SubscriptionRow, now_ns: int) -> tuple[str, Sequence[str]]:
    """Decrypt a subscription's URL or email address and its valid secrets, newest first."""
    place = place_of(row.user_id, row.created_ns)
    newest = [encryptor.decrypt(row.sealed_secret, place)] if row.sealed_secret is not None else []
    old = [secret for until_ns, secret in _old(encryptor, row) if now_ns < until_ns]
    return encryptor.decrypt(row.sealed_address, place), newest + old


def rotated(
    encryptor: Encryptor, row: SubscriptionRow, secret: str, overlap_ns: int, now_ns: int
) -> SubscriptionRow:
    """Return the subscription with a new secret.

    The secret that it replaces stays valid for `overlap_ns`, and earlier ones until they expire. If a stored secret
    cannot be decrypted, all earlier ones are dropped.
    """
    place = place_of(row.user_id, row.created_ns)
    overlap_ns = min(max(overlap_ns, 0), LONGEST_OVERLAP_NS)
    try:
        old = [(until_ns, one) for until_ns, one in _old(encryptor, row) if now_ns < until_ns]
        if row.sealed_secret is not None and overlap_ns:
            old.insert(0, (now_ns + overlap_ns, encryptor.decrypt(row.sealed_secret, place)))
    except DecryptionFailed:
        old = []
    old = old[:MOST_OLD]
    lines = "\n".join(f"{until_ns} {one}" for until_ns, one in old)
    return replace(
        row,
        sealed_secret=encryptor.encrypt(secret, place),
        secret_last4=end_of(secret),
        sealed_old_secret=encryptor.encrypt(lines, place) if old else None,
        old_until_ns=max(until_ns for until_ns, _ in old) if old else None,
    )


def _old(encryptor: Encryptor, row: SubscriptionRow) -> list[tuple[int, str]]:
    """Decrypt the replaced secrets of a subscription, newest first, each with the time it expires."""
    if row.sealed_old_secret is None:
        return []
    lines = encryptor.decrypt(row.sealed_old_secret, place_of(row.user_id, row.created_ns)).splitlines()
    return [(int(until_ns), secret) for until_ns, _, secret in (line.partition(" ") for line in lines)]

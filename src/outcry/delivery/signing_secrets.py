"""The secrets a webhook's messages are signed with: the newest, and those before it that still hold.

Rules kept: an address and its secrets are sealed to the subscription they belong to; a secret is seen once, when it is
made; one that was replaced signs on for as long as its owner chose, so that a receiver is changed over without a gap.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import replace

from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.delivery.model import SubscriptionRow
from outcry.market.units import NANOS_PER_DAY

MARK = "whsec_"  # what a secret begins with, by the Standard Webhooks form
#: How long a secret that was replaced signs on, unless its owner chooses, and at most.
OVERLAP_NS, LONGEST_OVERLAP_NS = NANOS_PER_DAY, 7 * NANOS_PER_DAY
#: Replaced secrets that sign at once: the oldest gives way.
MOST_OLD = 3
_SECRET_BYTES = 32
_SHOWN = 4


def new_secret() -> str:
    """256 random bits, as the Standard Webhooks form writes them."""
    return MARK + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def end_of(secret: str) -> str:
    """What of a secret may be shown."""
    return secret[-_SHOWN:]


def place_of(user_id: int, created_ns: int) -> str:
    """What a subscription's address and secrets are sealed to."""
    return f"subscription:{user_id}:{created_ns}"


def opened(encryptor: Encryptor, row: SubscriptionRow, now_ns: int) -> tuple[str, Sequence[str]]:
    """A subscription's address, and the secrets it is signed with now, newest first. Raises `DecryptionFailed`."""
    place = place_of(row.user_id, row.created_ns)
    newest = [encryptor.decrypt(row.sealed_secret, place)] if row.sealed_secret is not None else []
    old = [secret for until_ns, secret in _old(encryptor, row) if now_ns < until_ns]
    return encryptor.decrypt(row.sealed_address, place), newest + old


def rotated(
    encryptor: Encryptor, row: SubscriptionRow, secret: str, overlap_ns: int, now_ns: int
) -> SubscriptionRow:
    """The subscription signed with another secret; those there were sign on, the newest of them for `overlap_ns`. One
    that cannot be opened any more signs nothing."""
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
    """Replaced secrets, newest first, each with until when it signs."""
    if row.sealed_old_secret is None:
        return []
    lines = encryptor.decrypt(row.sealed_old_secret, place_of(row.user_id, row.created_ns)).splitlines()
    return [(int(until_ns), secret) for until_ns, _, secret in (line.partition(" ") for line in lines)]

"""Second factor: codes of an authenticator (TOTP, RFC 6238), and recovery codes.

A TOTP code is valid for its 30 seconds and the intervals before and after, and only once. A recovery code is valid
once. The shared secret is stored encrypted, recovery codes as keyed digests.
"""

import binascii
import hashlib
import hmac
import secrets

from pyotp import random_base32
from pyotp.totp import TOTP

from outcry.base.clock import Clock
from outcry.base.encryption import DecryptionFailed, Encryptor
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.model import UserRow
from outcry.people.store import SqlIdentityStore

ISSUER = "Outcry"
STEP_S = 30
RECOVERY_CODES = 10
RECOVERY_LENGTH = 10
#: Without characters that are easily confused: 31 characters, 49 bits per code.
_SIGNS = "abcdefghjkmnpqrstuvwxyz23456789"
_SECRET_LENGTH = 32
_GROUP = 5


class SecondFactor:
    """Sets up the second factor and checks its codes."""

    def __init__(self, store: SqlIdentityStore, clock: Clock, secret: bytes) -> None:
        self._store, self._clock, self._secret = store, clock, secret
        self._encryptor = Encryptor(secret, "totp")

    def begin(self, email: str) -> tuple[str, str]:
        """Return a new TOTP secret in base32 and its `otpauth://` URI."""
        secret = random_base32(_SECRET_LENGTH)
        return secret, self.address(secret, email)

    def address(self, secret: str, email: str) -> str:
        """Return the `otpauth://` URI of a TOTP secret, for a QR code; empty if the secret is invalid."""
        secret = _read(secret)
        return TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER) if secret else ""

    def proved(self, secret: str, code: str) -> int | None:
        """Check a code against a TOTP secret that is not stored yet.

        Return the code's time step, None if the code is wrong.
        """
        secret = _read(secret)
        return self._step_of(secret, _digits(code)) if secret else None

    def turn_on(self, user: UserRow, secret: str, step: int) -> list[str]:
        """Store the TOTP secret of a user; return new recovery codes."""
        self._store.set_totp(user.id, self._encryptor.encrypt(_read(secret), f"totp:{user.id}"))
        self._store.use_totp_step(user.id, step)
        return self.renew(user)

    def turn_off(self, user: UserRow) -> None:
        """Delete the user's TOTP secret and recovery codes."""
        self._store.set_totp(user.id, None)
        self._store.set_recovery_codes(user.id, ())

    def renew(self, user: UserRow) -> list[str]:
        """Replace the recovery codes; return the new ones, grouped for display."""
        codes = [_chosen() for _ in range(RECOVERY_CODES)]
        self._store.set_recovery_codes(user.id, [self._digest(user.id, code) for code in codes])
        return [f"{code[:_GROUP]}-{code[_GROUP:]}" for code in codes]

    def use(self, user: UserRow, code: str, *, recovery_only: bool = False) -> str | None:
        """Check and use up a code of a user; return its kind, `totp` or `recovery`, or None if it is invalid."""
        typed = "".join(sign for sign in code.lower() if sign.isalnum())
        if len(typed) == RECOVERY_LENGTH and typed.isascii():
            used = self._store.use_recovery_code(user.id, self._digest(user.id, typed), self._clock.now_ns())
            return "recovery" if used else None
        if user.totp_sealed is None or recovery_only:
            return None
        try:
            secret = self._encryptor.decrypt(user.totp_sealed, f"totp:{user.id}")
        except DecryptionFailed:  # encrypted by another server or for another user, so no code can match
            return None
        step = self._step_of(secret, _digits(code))
        return "totp" if step is not None and self._store.use_totp_step(user.id, step) else None

    def _step_of(self, secret: str, code: str) -> int | None:
        """Return the time step for which a code is valid: the current one or a neighbour; None if it is wrong.

        Comparisons take constant time.
        """
        totp = TOTP(secret, interval=STEP_S)
        now = self._clock.now_ns() // NANOS_PER_SECOND // STEP_S
        found = [
            step
            for step in (now - 1, now, now + 1)
            if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode("utf-8", "replace"))
        ]
        return found[-1] if found else None

    def _digest(self, user_id: int, code: str) -> bytes:
        text = f"{user_id}:{code}".encode()
        return hashlib.blake2b(text, digest_size=32, key=self._secret, person=b"recovery").digest()


def _read(secret: str) -> str:
    """Convert a typed TOTP secret to its stored form; empty if it is invalid."""
    secret = "".join(secret.split()).upper()
    try:
        return secret if len(secret) == _SECRET_LENGTH and TOTP(secret).byte_secret() else ""
    except (binascii.Error, ValueError):
        return ""


def _chosen() -> str:
    return "".join(secrets.choice(_SIGNS) for _ in range(RECOVERY_LENGTH))


def _digits(code: str) -> str:
    """Remove separators from a typed code, such as `123 456`."""
    return "".join(code.split()).replace("-", "")

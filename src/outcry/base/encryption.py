"""Encrypt secrets, such as broker credentials, before they are stored, and decrypt them when they are needed.

A value is encrypted for one place, such as one column of one row, and cannot be decrypted for another. A value copied
to another row is therefore useless. The key is not in the database.
"""

import secrets
from hashlib import blake2b
from typing import TYPE_CHECKING

from outcry.base.deferred import Deferred

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE = 12
_VERSION = b"\x01"


class DecryptionFailed(Exception):
    """An encrypted value was altered, or was encrypted with another key or for another place (such as another row)."""


class Cipher:
    """AES-256-GCM with one key of 32 bytes. The library, 8 MB in memory, loads when it is first used."""

    def __init__(self, key: bytes) -> None:
        def load() -> "AESGCM":
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - loads OpenSSL

            return AESGCM(key)

        self._aes_gcm = Deferred(load)

    def encrypt(self, plain: bytes, place: str) -> bytes:
        """Encrypt bytes for one place, such as `totp:7`, so that they cannot be decrypted for another."""
        nonce = secrets.token_bytes(_NONCE)
        return _VERSION + nonce + self._aes_gcm().encrypt(nonce, plain, place.encode())

    def decrypt(self, sealed: bytes, place: str) -> bytes:
        """Decrypt bytes that were encrypted for this place. Raises `DecryptionFailed`."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - loads OpenSSL

        nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        if sealed[:1] != _VERSION or len(nonce) < _NONCE:
            raise DecryptionFailed("the encrypted value has an unknown version or is cut off")
        try:
            return self._aes_gcm().decrypt(nonce, rest, place.encode())
        except InvalidTag:
            raise DecryptionFailed("the encrypted value cannot be decrypted with this key") from None


class Encryptor:
    """Encrypts and decrypts texts with a key derived from the server's secret.

    `purpose`: separates the keys of different uses.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        derived = blake2b(purpose.encode(), digest_size=KEY_BYTES, key=secret, person=b"seal").digest()
        self._cipher = Cipher(derived)

    def encrypt(self, text: str, place: str) -> bytes:
        """Encrypt a text for one place."""
        return self._cipher.encrypt(text.encode(), place)

    def decrypt(self, sealed: bytes, place: str) -> str:
        """Decrypt a text that was encrypted for this place, such as one row. Raises `DecryptionFailed`."""
        return self._cipher.decrypt(sealed, place).decode()

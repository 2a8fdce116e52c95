"""Encrypt secrets that must be used again, such as broker credentials, for storage in the database.

A value is encrypted for one place, such as one column of one row, and cannot be decrypted for another. A copied cell is
therefore useless. The key is not in the database.
"""

import secrets
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
_VERSION = b"\x01"


class DecryptionFailed(Exception):
    """An encrypted value was altered, or was encrypted with another key or for another place."""


class Encryptor:
    """Encrypts and decrypts texts with AES-256-GCM and a key derived from the server's secret.

    `purpose`: separates the keys of different uses.
    """

    def __init__(self, secret: bytes, purpose: str) -> None:
        derived = blake2b(purpose.encode(), digest_size=32, key=secret, person=b"seal").digest()
        self._cipher = AESGCM(derived)

    def encrypt(self, text: str, place: str) -> bytes:
        """Encrypt a text for one place, such as `totp:7`, so that it cannot be decrypted for another."""
        nonce = secrets.token_bytes(_NONCE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, text.encode(), place.encode())

    def decrypt(self, sealed: bytes, place: str) -> str:
        """Decrypt a text that was encrypted for this place. Raises `DecryptionFailed`."""
        if sealed[:1] != _VERSION:
            raise DecryptionFailed("the encrypted value has an unknown version")
        nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, rest, place.encode()).decode()
        except InvalidTag:
            raise DecryptionFailed(
                "the encrypted value cannot be decrypted with the server's secret"
            ) from None

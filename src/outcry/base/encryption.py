"""Sealing what has to be used again: encrypted with a key outside the database, bound to the place it is kept in.

Rule kept: what was sealed for one row opens in no other, so a copied cell gives nothing away.
"""

import secrets
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12
_VERSION = b"\x01"


class SealBroken(Exception):
    """What was sealed cannot be opened: another key, another place, or it was altered."""


class Seal:
    """AES-256-GCM under a key derived from the server's secret. `purpose` keeps uses apart."""

    def __init__(self, secret: bytes, purpose: str) -> None:
        derived = blake2b(purpose.encode(), digest_size=32, key=secret, person=b"seal").digest()
        self._cipher = AESGCM(derived)

    def close(self, text: str, place: str) -> bytes:
        """Seal a text for a place, such as `totp:7`."""
        nonce = secrets.token_bytes(_NONCE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, text.encode(), place.encode())

    def open(self, sealed: bytes, place: str) -> str:
        """The text. Raises `SealBroken`."""
        if sealed[:1] != _VERSION:
            raise SealBroken("the encrypted value has an unknown version")
        nonce, rest = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, rest, place.encode()).decode()
        except InvalidTag:
            raise SealBroken("the encrypted value cannot be decrypted with the server's secret") from None

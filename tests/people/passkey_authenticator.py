"""A passkey authenticator in software: browser and device, with valid responses unless a test alters them.

Written from WebAuthn Level 3, sections 6.1 (authenticator data), 6.5 (attestation) and 5.8.1 (client data)."""

import base64
import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Authenticator:
    """One device with one passkey. `counts` False: a synchronised passkey, whose signature counter stays zero."""

    origin: str
    counts: bool = True
    sign_count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    user_handle: bytes = b""
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def create(self, options: str, *, flags: int = PRESENT | VERIFIED, **changed: Any) -> str:
        """Create the passkey; return the browser's response. `changed`: replacements for fields of the client data."""
        asked = json.loads(options)
        self.user_handle = unb64(asked["user"]["id"])
        point = self.key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        attested = (
            bytes(16) + struct.pack(">H", len(self.credential_id)) + self.credential_id + cbor2.dumps(cose)
        )
        data = self._data(asked["rp"]["id"], flags | ATTESTED) + attested
        client = self._client("webauthn.create", asked["challenge"], changed)
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        return self._answer(
            {"clientDataJSON": b64(client), "attestationObject": b64(attestation), "transports": ["internal"]}
        )

    def get(
        self, options: str, *, flags: int = PRESENT | VERIFIED, rp_id: str = "", handle: bytes | None = None,
        spoil: bool = False, **changed: Any,
    ) -> str:  # fmt: skip
        """Return the response to a sign-in challenge."""
        asked = json.loads(options)
        if self.counts:
            self.sign_count += 1
        data = self._data(rp_id or asked["rpId"], flags)
        client = self._client("webauthn.get", asked["challenge"], changed)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
        if spoil:
            signature = signature[:-1] + bytes([signature[-1] ^ 1])
        return self._answer(
            {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(data),
                "signature": b64(signature),
                "userHandle": b64(self.user_handle if handle is None else handle),
            }
        )

    def _data(self, rp_id: str, flags: int) -> bytes:
        return hashlib.sha256(rp_id.encode()).digest() + struct.pack(">BI", flags, self.sign_count)

    def _client(self, kind: str, challenge: str, changed: dict[str, Any]) -> bytes:
        client_data = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False}
        return json.dumps(client_data | changed).encode()

    def _answer(self, response: dict[str, Any]) -> str:
        number = b64(self.credential_id)
        return json.dumps({"id": number, "rawId": number, "type": "public-key", "response": response})

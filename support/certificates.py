"""New certificates for 127.0.0.1: one that signs itself, or a chain as public authorities issue it."""

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Certificate:
    """A TLS certificate. `server`: TLS context of a server; `path`: certificate file, for clients to trust."""

    server: ssl.SSLContext
    path: Path


def certificate(folder: Path, *names: str) -> Certificate:
    """Create a certificate for 127.0.0.1 and for these names, which signs itself."""
    signer = _Signer.new("127.0.0.1")
    made = signer.sign(signer, ca=True, names=names)
    return _installed(folder, [made], signer, made)


def chained_certificate(folder: Path, *names: str) -> Certificate:
    """Create a certificate for 127.0.0.1 and for these names, issued by an intermediate authority of a root."""
    root, intermediate, server = map(_Signer.new, ("root", "intermediate", "127.0.0.1"))
    chain = [intermediate.sign(server, ca=False, names=names), root.sign(intermediate, ca=True)]
    return _installed(folder, chain, server, root.sign(root, ca=True))


@dataclass(frozen=True)
class _Signer:
    """A name with its private key."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls, name: str) -> "_Signer":
        attribute = x509.NameAttribute(x509.NameOID.COMMON_NAME, name)
        return cls(x509.Name([attribute]), ec.generate_private_key(ec.SECP256R1()))

    def sign(self, other: "_Signer", *, ca: bool, names: Sequence[str] = ()) -> x509.Certificate:
        """Return a certificate for another name and its key, signed by this one."""
        now = datetime.now(UTC)  # noqa: TID251 - TLS itself goes by the machine's clock
        spoken_for = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, names)]
        return (
            x509.CertificateBuilder()
            .subject_name(other.name)
            .issuer_name(self.name)
            .public_key(other.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.SubjectAlternativeName(spoken_for), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )


def _installed(
    folder: Path, chain: Sequence[x509.Certificate], server: _Signer, trusted: x509.Certificate
) -> Certificate:
    """Write the files, and return the certificate with the TLS context of its server."""
    path, sent, secret = folder / "certificate.pem", folder / "chain.pem", folder / "key.pem"
    path.write_bytes(trusted.public_bytes(serialization.Encoding.PEM))
    sent.write_bytes(b"".join(made.public_bytes(serialization.Encoding.PEM) for made in chain))
    secret.touch(mode=0o600)
    secret.write_bytes(
        server.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sent, secret)
    return Certificate(context, path)

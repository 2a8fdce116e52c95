"""TLS contexts that trust the system's certificate authorities.

Environment variables such as `SSL_CERT_FILE` are ignored, because they would silently extend what a service trusts.
TLS 1.2 or later is required, and signatures made with SHA-1 are refused.
"""

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

#: Usual files of the system's authorities, for a Python build that does not look for them there.
_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


def system_trust(ca_file: str = "") -> ssl.SSLContext:
    """Return a TLS context that trusts the system's authorities and, if given, those in a PEM file.

    Raises `OSError` (`ssl.SSLError` is one) if the file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # checks certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("DEFAULT:!aNULL:!eNULL:@SECLEVEL=2")
    context.set_alpn_protocols(["http/1.1"])
    built_in = ssl.get_default_verify_paths()
    files = [path for path in (built_in.openssl_cafile, *_USUAL) if Path(path).is_file()][:1]
    folders = [path for path in (built_in.openssl_capath,) if Path(path).is_dir()]
    if files or folders:
        context.load_verify_locations(*files or [None], *folders)
    for certificate in _windows_authorities():
        with suppress(
            ssl.SSLError
        ):  # a certificate that OpenSSL does not accept, such as one with an old signature
            context.load_verify_locations(cadata=certificate)
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _windows_authorities() -> Iterator[bytes]:
    """Yield the DER certificates of authorities that Windows trusts to identify servers; none on other systems."""
    listed: Callable[[str], list[tuple[bytes, str, bool | set[str]]]] | None
    listed = getattr(ssl, "enum_certificates", None)
    if listed is None:
        return
    for store in ("CA", "ROOT"):
        for certificate, encoding, purposes in listed(store):
            is_trusted = purposes if isinstance(purposes, bool) else ssl.Purpose.SERVER_AUTH.oid in purposes
            if encoding == "x509_asn" and is_trusted:
                yield certificate

"""On Windows the trusted authorities are not in files: they come from its certificate stores."""

import ssl
from pathlib import Path

import pytest
from tests.delivery.loopback import Authority

from outcry.delivery.trust import system_trust

SERVER = ssl.Purpose.SERVER_AUTH.oid


def test_authorities_of_windows_are_trusted_for_the_purpose_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trusted: those for every purpose, and those for servers. Not: for e-mail only, and in another encoding."""
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    found = [Authority(tmp_path / str(number)) for number in range(4)]
    der = [ssl.PEM_cert_to_DER_cert(one.path.read_text()) for one in found]
    stores = {
        "CA": [(der[0], "x509_asn", True), (b"broken", "x509_asn", True)],
        "ROOT": [
            (der[1], "x509_asn", {SERVER}),
            (der[2], "x509_asn", {"1.3.6.1.5.5.7.3.4"}),
            (der[3], "pkcs_7_asn", True),
        ],
    }
    monkeypatch.setattr(ssl, "enum_certificates", stores.__getitem__, raising=False)
    trusted = system_trust().get_ca_certs(binary_form=True)
    assert [one in trusted for one in der] == [True, True, False, False]

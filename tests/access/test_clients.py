"""Networks by which client addresses are counted."""

import pytest

from outcry.access.client_address import network


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("", "unknown"),
        ("a unix socket", "a unix socket"),
        ("x" * 500, "x" * 64),
    ],
)
def test_an_address_counts_as_its_network(address: str, counted: str) -> None:
    assert network(address) == counted

"""Which email addresses can receive alerts."""

import pytest

from outcry.delivery.model import Target
from outcry.delivery.target_addresses import form_fault, mailbox_of, shown_of


@pytest.mark.parametrize(
    "address",
    [
        "ann@example.com", "Ann.Lee+es@mail.example.co.uk", "1@2.example", "a@b.c",
        "x" * 64 + "@example.com", "ann@xn--bcher-kva.example",
    ],
)  # fmt: skip
def test_a_valid_mailbox_is_accepted(address: str) -> None:
    assert form_fault(Target.EMAIL, address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "ann", "@example.com", "ann@", "ann@@example.com", "ann@example.com@example.net", "ann @example.com",
        "ann@example.com,ben", "ann,ben@example.com", "Ann<ann@example.com>", "<ann@example.com>", "ann:@example.com",
        '"ann"@example.com', "ann(x)@example.com", "ann;@example.com", ".ann@example.com", "ann.@example.com",
        "a..nn@example.com", "ann@.example.com", "ann@example.com.", "ann@-example.com", "ann@[127.0.0.1]",
        "änn@example.com", "ann@bücher.example", "ann@example.com\r\nBcc: ben@example.com", "ann@example.com\n",
        "ann@localhost", "a@b", "ann@127.0.0.1", "ann%example.net@example.com", "example.net!ann@example.com",
        "o'brien@example.com", "`ann`@example.com",
        "x" * 65 + "@example.com", "ann@" + "x." * 126 + "example", "ann@" + "x" * 64 + ".example",
    ],
)  # fmt: skip
def test_an_invalid_mailbox_is_refused(address: str) -> None:
    assert form_fault(Target.EMAIL, address) == "email_form"


def test_a_mailbox_is_the_same_under_every_tag() -> None:
    assert {mailbox_of(one) for one in ("ann@example.com", "Ann+es@Example.com", "ann++@example.com")} == {
        "ann@example.com"
    }
    assert mailbox_of("ann.lee+x@a.example.com") == "ann.lee@a.example.com"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://HOOKS.MySite.dev/x", "hooks.mysite.dev/…"),
        ("https://mysite.dev./x", "mysite.dev/…"),
        ("https://hooks.mysіte.dev/x", "hooks.xn--myste-p2e.dev/…"),  # one letter is Cyrillic
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("https://mysite。dev/x", "mysite.dev/…"),
        ("https://localhost:8443/in", "localhost:8443/…"),
        ("https://203.0.113.7/in", "203.0.113.7/…"),
        ("https://[2606:4700::1111]:8443/in", "[2606:4700::1111]:8443/…"),
        (f"https://{'t0psecret' * 5}.hooks.mysite.dev/in", "…ooks.mysite.dev/…"),
        (f"https://{'x' * 40}.mysite.dev/", f"{'x' * 40}.mysite.dev"),
    ],
)  # fmt: skip
def test_the_host_is_shown_as_it_is_looked_up(address: str, shown: str) -> None:
    assert shown_of(Target.HTTPS, address) == shown

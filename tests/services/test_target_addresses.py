"""Which e-mail addresses alerts are mailed to."""

import pytest

from outcry.ports.delivery import Target
from outcry.services.target_addresses import form_fault


@pytest.mark.parametrize(
    "address",
    [
        "ann@example.com", "Ann.Lee+es@mail.example.co.uk", "o'brien@example.com", "a@b", "1@2.example",
        "x" * 64 + "@example.com", "ann@xn--bcher-kva.example",
    ],
)  # fmt: skip
def test_a_mailbox_is_taken(address: str) -> None:
    assert form_fault(Target.EMAIL, address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "ann", "@example.com", "ann@", "ann@@example.com", "ann@example.com@example.net", "ann @example.com",
        "ann@example.com,ben", "ann,ben@example.com", "Ann<ann@example.com>", "<ann@example.com>", "ann:@example.com",
        '"ann"@example.com', "ann(x)@example.com", "ann;@example.com", ".ann@example.com", "ann.@example.com",
        "a..nn@example.com", "ann@.example.com", "ann@example.com.", "ann@-example.com", "ann@[127.0.0.1]",
        "änn@example.com", "ann@bücher.example", "ann@example.com\r\nBcc: ben@example.com", "ann@example.com\n",
        "x" * 65 + "@example.com", "ann@" + "x." * 126 + "example", "ann@" + "x" * 64 + ".example",
    ],
)  # fmt: skip
def test_what_is_more_or_less_than_a_mailbox_is_not(address: str) -> None:
    assert form_fault(Target.EMAIL, address) == "email_form"

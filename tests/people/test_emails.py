"""Which email addresses are accepted; cases from RFC 5321, 5322, 2047 and 3490, worked by hand."""

import socket

import pytest

from outcry.people.email_address import is_email, read_email, spellings


@pytest.mark.parametrize(
    "text",
    [
        "<x@example.com>",
        "a<b@example.com>",
        "=?utf-8?q?ann?=@example.com",
        "=?iso-8859-1?q?ann=40example.net?=@example.com",
        "x@example..com",
        ".x@example.com",
        "x.@example.com",
        "x..y@example.com",
        "Ann <ann@example.com>",
        "ann@example.com, bob@example.com",
        "ann@example.com\r\nBcc: bob@example.com",
        "ann@exam\u200bple.com",
        "ann@-example.com",
        "ann@example.com.",
        "ann@[127.0.0.1]",
        '"ann"@example.com',
        "jörg@example.com",  # our emails use ASCII addresses only
        "ann@",
        "@example.com",
        "ann",
        "",
        f"{'a' * 65}@example.com",  # RFC 5321, 4.5.3.1.1
        f"ann@{'a' * 64}.com",
    ],
)
def test_invalid_addresses_are_refused(text: str) -> None:
    assert not is_email(text)


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("ann@example.com", "ann@example.com"),
        ("  Ann.Smith+desk@Example.COM ", "ann.smith+desk@example.com"),
        ("o'brien@example.com", "o'brien@example.com"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),  # the example of RFC 3492's registry
        ("ann@BÜCHER.example", "ann@xn--bcher-kva.example"),
        ("ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"),
        ("ann@mailhost", "ann@mailhost"),
        ("ann@nas.local", "ann@nas.local"),
        ("ann@nas.home.arpa", "ann@nas.home.arpa"),
        ("ann@localhost", "ann@localhost"),
        ("a=?b@example.com", "a=?b@example.com"),
    ],
)
def test_an_address_is_stored_in_one_form(text: str, stored: str) -> None:
    assert read_email(text) == stored
    assert read_email(stored) == stored


def test_an_invalid_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(socket.socket, "connect", fail)
    assert is_email("ann@no-such-domain-7341.example")


def test_a_user_is_looked_up_as_typed_and_as_stored() -> None:
    assert spellings(" ANN@Bücher.example ") == ("ann@bücher.example", "ann@xn--bcher-kva.example")
    assert spellings("Ann@example.com") == ("ann@example.com",)
    assert spellings("<X@example.com>") == ("<x@example.com>",)  # account created under older rules

"""Email addresses of people: which ones are accepted, and the form in which they are stored and compared.

Rules kept: `email-validator` judges the syntax, without asking the network. Addresses within a private network count
(`ann@nas.local`, `ann@nas.home.arpa`, `ann@mailhost`), since a service may run and send mail there. A domain in other
letters is stored in its ASCII form, so that one address has one form and can be mailed. What somebody signs in with is
only looked up, never judged: accounts made under older rules stay usable.
"""

import re

import email_validator

#: The documented way to accept names that are reserved for private networks; `arpa` for `home.arpa` (RFC 8375).
for _name in ("local", "localhost", "arpa"):
    if _name in email_validator.SPECIAL_USE_DOMAIN_NAMES:
        email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(_name)
#: `=?utf-8?q?…?=` is made of allowed characters, but mail programs decode it to another address (RFC 2047).
_ENCODED_WORD = re.compile(r"=\?.*\?=")


def read_email(text: str) -> str:
    """Return an address as it is stored: in lower case, its domain in ASCII. Raises `ValueError` where it is none."""
    typed = text.strip()
    if _ENCODED_WORD.search(typed):
        raise ValueError("encoded words are not allowed in an email address")
    found = email_validator.validate_email(
        typed, check_deliverability=False, globally_deliverable=False, allow_smtputf8=False, strict=True
    )
    assert found.ascii_email is not None  # without SMTPUTF8 there always is one
    return found.ascii_email.lower()


def is_email(text: str) -> bool:
    """Whether this is an email address that a new account can have."""
    try:
        read_email(text)
    except ValueError:
        return False
    return True


def spellings(text: str) -> tuple[str, ...]:
    """Return the forms in which the address that somebody typed may be stored: as typed, in lower case, then as
    `read_email` returns it if that differs."""
    plain = text.strip().lower()
    try:
        stored = read_email(plain)
    except ValueError:
        return (plain,)
    return (plain,) if stored == plain else (plain, stored)

"""Email addresses of users: which are accepted, and how they are stored and compared.

`email-validator` checks the syntax without network access. Email addresses in private networks are accepted
(`ann@nas.local`, `ann@nas.home.arpa`, `ann@mailhost`), because a service may run there. Internationalised domains are
stored in their ASCII form. An email address typed at sign-in is only looked up, not validated, so that accounts created
under older rules still work.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from email_validator import ValidatedEmail

#: Names reserved for private networks that are accepted; `arpa` is for `home.arpa` (RFC 8375).
_PRIVATE = ("local", "localhost", "arpa")
#: `=?utf-8?q?…?=` has only allowed characters, but email programs decode it to another email address (RFC 2047).
_ENCODED_WORD = re.compile(r"=\?.*\?=")


@cache
def _validator() -> "Callable[..., ValidatedEmail]":
    """Return the library's check, configured as its documentation describes to accept names in private networks."""
    import email_validator  # noqa: PLC0415 - compiles large patterns, and most starts read no email address

    for name in _PRIVATE:
        if name in email_validator.SPECIAL_USE_DOMAIN_NAMES:
            email_validator.SPECIAL_USE_DOMAIN_NAMES.remove(name)
    return email_validator.validate_email


def read_email(text: str) -> str:
    """Return an email address as it is stored: in lower case, its domain in ASCII.

    Raises `ValueError` if it is invalid.
    """
    typed = text.strip()
    if _ENCODED_WORD.search(typed):
        raise ValueError("encoded words are not allowed in an email address")
    found = _validator()(
        typed, check_deliverability=False, globally_deliverable=False, allow_smtputf8=False, strict=True
    )
    assert found.ascii_email is not None  # always set without SMTPUTF8
    return found.ascii_email.lower()


def is_email(text: str) -> bool:
    """Return whether a new account can have this email address."""
    try:
        read_email(text)
    except ValueError:
        return False
    return True


def spellings(text: str) -> tuple[str, ...]:
    """Return the forms in which a typed email address may be stored.

    They are its lower-case form and, if different, the result of `read_email`.
    """
    plain = text.strip().lower()
    try:
        stored = read_email(plain)
    except ValueError:
        return (plain,)
    return (plain,) if stored == plain else (plain, stored)

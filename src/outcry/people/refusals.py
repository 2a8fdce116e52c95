"""Refusals of sign-in and account changes. Each has a stable code; the pages' catalogues have a text for each.

A refusal reveals nothing useful to an attacker: neither whether an email address has an account, nor which part of a
sign-in was wrong.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Stable code of why a sign-in or account change was refused."""

    WRONG = "wrong"  # email address, password, code or passkey, without naming which
    LINK = "link"  # the link or token is used, expired, unknown, or from another browser
    TOO_OFTEN = "too_often"
    DISABLED = "disabled"
    CHANGED = "changed"  # the credentials changed while the user signed in
    EMAIL_TAKEN = "email_taken"
    EMAIL_FORM = "email_form"
    PASSWORD_SHORT = "password_short"  # noqa: S105 - a code
    PASSWORD_LONG = "password_long"  # noqa: S105 - a code
    PASSWORD_COMMON = "password_common"  # noqa: S105 - a code
    SET_UP = "set_up"  # the service already has an operator
    NO_MAIL = "no_mail"
    MAIL_FAILED = "mail_failed"
    LAST_WAY_IN = "last_way_in"  # the credential to remove is the only way to sign in
    LAST_OPERATOR = "last_operator"
    PASSKEY = "passkey"
    CODE = "code"  # wrong authenticator or recovery code
    NOT_INVITED = "not_invited"  # signed in at the OpenID provider, but has no account or invitation here
    SIGN_IN_SERVICE = "sign_in_service"  # the OpenID provider
    CODE_TOO = "code_too"  # signed in at the OpenID provider, but the second factor is missing


class Refused(Exception):
    """A sign-in or account change was refused.

    `field`: the invalid form field, if any; `retry_after_s`: wait time of `too_often`.
    """

    def __init__(self, reason: Reason, field: str = "", retry_after_s: int = 0) -> None:
        super().__init__(reason.value)
        self.reason, self.field, self.retry_after_s = reason, field, retry_after_s

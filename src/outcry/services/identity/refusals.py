"""What identity refuses, each with a stable code that has words in the pages' catalogues.

Rule kept: a refusal says nothing a stranger could use: whether an address has an account, or which half of a sign-in
was wrong.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why not."""

    WRONG = "wrong"  # address or password, code or passkey: never which
    LINK = "link"  # a link or token that is spent, over, unknown, or of another browser
    TOO_OFTEN = "too_often"
    DISABLED = "disabled"
    CHANGED = "changed"  # credentials changed between the proof and the session
    EMAIL_TAKEN = "email_taken"
    EMAIL_FORM = "email_form"
    PASSWORD_SHORT = "password_short"  # noqa: S105 - a code
    PASSWORD_LONG = "password_long"  # noqa: S105 - a code
    PASSWORD_COMMON = "password_common"  # noqa: S105 - a code
    SET_UP = "set_up"  # there is an operator already
    NO_MAIL = "no_mail"
    MAIL_FAILED = "mail_failed"
    LAST_WAY_IN = "last_way_in"  # what is to be removed is the only way to sign in
    LAST_OPERATOR = "last_operator"
    PASSKEY = "passkey"
    CODE = "code"  # of an authenticator or recovery
    NOT_INVITED = "not_invited"  # proved at the provider, but without account or invitation here
    SIGN_IN_SERVICE = "sign_in_service"  # the OpenID provider
    CODE_TOO = "code_too"  # the OpenID provider's word alone, of somebody who has a second factor here


class Refused(Exception):
    """Identity says no. `field`: the form's entry at fault, if it is one; `retry_after_s`: of `too_often`."""

    def __init__(self, reason: Reason, field: str = "", retry_after_s: int = 0) -> None:
        super().__init__(reason.value)
        self.reason, self.field, self.retry_after_s = reason, field, retry_after_s

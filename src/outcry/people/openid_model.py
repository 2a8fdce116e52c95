"""The interface of an OpenID provider.

Results are validated (signature, issuer, audience, time, nonce), so that the use cases never handle tokens.
"""

from dataclasses import dataclass


class OpenIdFailed(Exception):
    """The provider did not identify the person. The message explains why for the operator's log, without secrets."""


@dataclass(frozen=True, slots=True)
class OpenIdRequest:
    """One sign-in request.

    `state`, `nonce` and `verifier` are random and used once. The provider sends the browser back to `callback`.
    `fresh`: the person must authenticate again even if signed in there.
    """

    callback: str
    state: str
    nonce: str
    verifier: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class OpenIdAnswer:
    """The person that the provider identified.

    `issuer` and `subject` never change, whereas an email address can pass to another person. `email` is empty and
    `authenticated_ns` (UTC) None if the provider does not report them.
    """

    issuer: str
    subject: str
    email: str
    email_verified: bool
    authenticated_ns: int | None

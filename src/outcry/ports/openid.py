"""The port for an OpenID provider: somebody else who says who a person is.

Rule kept: what comes out of it has been checked (signature, issuer, audience, time, nonce); the use cases know no
token.
"""

from dataclasses import dataclass
from typing import Protocol


class OpenIdFailed(Exception):
    """The provider did not say who it is; says why in words fit for the operator's log. Holds no secret."""


@dataclass(frozen=True, slots=True)
class OpenIdRequest:
    """One question to the provider. `state`, `nonce` and `verifier` are random and this question's alone. `callback`:
    where the browser comes back to; `fresh`: the person has to prove it anew, whether or not known there already."""

    callback: str
    state: str
    nonce: str
    verifier: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class OpenIdAnswer:
    """Who it is. `issuer` and `subject`: whom the provider speaks of, the same for as long as that person is there;
    the address may become another's. `email` empty where the provider does not say; `authenticated_ns`: when it was
    proved there, UTC; None where the provider does not say."""

    issuer: str
    subject: str
    email: str
    email_verified: bool
    authenticated_ns: int | None


class OpenIdProvider(Protocol):
    """One provider, as the operator has set it up."""

    @property
    def name(self) -> str:
        """What it is called, for people."""
        ...

    def address(self, request: OpenIdRequest) -> str:
        """Where to send the browser. May block; raises `OpenIdFailed`."""
        ...

    def answer(self, code: str, request: OpenIdRequest) -> OpenIdAnswer:
        """Redeem the code the browser came back with. May block for ten seconds; raises `OpenIdFailed`."""
        ...

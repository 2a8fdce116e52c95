"""Users, their credentials and audit log: records, and the interface of their store.

No secret is stored in plain text: session tokens, one-time links and recovery codes as keyed digests, TOTP secrets
encrypted, passwords as argon2id hashes. Every method of the store may raise `StoreBusy`. Changes that may happen only
once are atomic: `spend`, `use_recovery_code`, `use_totp_step`, `first_operator`. So are changes that must not remove
the last operator or the last credential: `change_user`, `remove_passkey`. When `add_session` and `confirm_session`
write, they fail if the credentials have changed since they were checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from outcry.access.model import Tier

UserRole = Literal["member", "operator"]
Theme = Literal["auto", "dark", "light"]
#: Purpose of a one-time token; `passkey`: an answered challenge, `shown`: a secret that was displayed.
Purpose = Literal["setup", "invite", "reset", "sign_in", "email", "passkey", "shown"]


#: One-time links that belong to a user: a changed password, a reset and disabling revoke them.
OF_A_USER: Sequence[Purpose] = ("reset", "sign_in", "email")
#: Which credentials count: `own` is a password or passkey, `any` includes a linked OpenID provider.
Ways = Literal["own", "any"]


@dataclass(frozen=True, slots=True)
class Preferences:
    """A user's preferences.

    `language`: empty to follow the browser. `time_zone`: IANA name. `digest_hour`: 0 to 23 in that zone. `shortcuts`:
    whether single-key shortcuts are enabled (WCAG 2.1.4).
    """

    language: str = ""
    time_zone: str = "America/New_York"
    theme: Theme = "auto"
    digest_hour: int = 17
    shortcuts: bool = True


@dataclass(frozen=True, slots=True)
class UserRow:
    """A stored user. `email` is in lower case.

    `password_hash` None: no password. `totp_sealed`: encrypted TOTP secret; None: no second factor. `handle`: 32 random
    bytes that identify the user to passkeys. `tier`: of the user's keys. `openid`: issuer and subject at the OpenID
    provider, separated by a blank; None: not linked. `credentials_version`: increases with every change that must end
    sign-ins in progress: a new password, second factor or email address, a removed passkey, and disabling.
    """

    id: int
    email: str
    role: UserRole
    tier: Tier
    created_ns: int
    disabled_ns: int | None
    password_hash: str | None
    totp_sealed: bytes | None
    handle: bytes
    preferences: Preferences = Preferences()
    openid: str | None = None
    credentials_version: int = 0


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser session.

    `digest`: keyed digest of its token. `seen_ns`: last use, accurate to minutes. `confirmed_ns`: last confirmation of
    identity. `ended_ns`: when it was ended.
    """

    id: int
    user_id: int
    digest: bytes
    created_ns: int
    seen_ns: int
    confirmed_ns: int
    address: str
    agent: str
    ended_ns: int | None


@dataclass(frozen=True, slots=True)
class PasskeyRow:
    """A stored passkey (WebAuthn credential). `credential_id` and `public_key` are as the authenticator sent them."""

    id: int
    user_id: int
    credential_id: bytes
    public_key: bytes
    sign_count: int
    transports: tuple[str, ...]
    label: str
    created_ns: int
    last_used_ns: int | None


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A one-time token, stored as a digest.

    `user_id` and `email`: the person who may use it. `details`: depend on the purpose, such as tier and role of an
    invitation. `browser`: digest of the only browser that may use it; None: any.
    """

    id: int
    purpose: Purpose
    digest: bytes
    user_id: int | None
    email: str
    details: Mapping[str, str]
    browser: bytes | None
    created_ns: int
    expires_ns: int
    spent_ns: int | None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An entry of the audit log.

    `event`: a code of `people.audit`. `details`: never contain secrets. `address` and `agent`: the origin, empty for
    the command line.
    """

    id: int
    user_id: int
    at_ns: int
    event: str
    details: Mapping[str, str]
    address: str
    agent: str

"""Users, their credentials and audit log: records, and the interface of their store.

No secret is stored in plain text: session tokens, one-time links and recovery codes as keyed digests, TOTP secrets
encrypted, passwords as argon2id hashes. Every method may raise `StoreBusy`. Changes that may happen only once are
atomic: `spend`, `use_recovery_code`, `use_totp_step`, `first_operator`. So are changes that must not affect the last
operator or credential: `change_user`, `remove_passkey`. `add_session` and `confirm_session` compare the version of the
credentials that were checked, in the transaction that writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

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

    `user_id` and `email`: whom it is for. `details`: by purpose, such as tier and role of an invitation. `browser`:
    digest of the only browser that may use it; None: any.
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


class IdentityStore(Protocol):
    """Store of users, their sessions, passkeys, tokens and audit log."""

    def revision(self) -> int:
        """Return a number that increases with every committed change.

        Uses, recovery codes, tokens and audit lines do not change it.
        """
        ...

    # -- users

    def user(self, user_id: int) -> UserRow | None:
        """Return the user with an id."""
        ...

    def user_named(self, email: str) -> UserRow | None:
        """Return the user with an email address, compared in lower case."""
        ...

    def user_of_openid(self, openid: str) -> UserRow | None:
        """Return the user linked to a provider's subject."""
        ...

    def set_openid(self, user_id: int, openid: str | None, instead_of: str | None) -> bool:
        """Link a user to a subject of the OpenID provider, or unlink with None.

        Return False if the current link is not `instead_of`, or the subject is linked to another user.
        """
        ...

    def users(self) -> Sequence[UserRow]:
        """Return all users, oldest first."""
        ...

    def add_user(self, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int) -> UserRow | None:
        """Store a new user; return None if the email address is taken."""
        ...

    def admit(
        self, token_id: int, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int, *, claims: bool,
        password_hash: str | None = None, openid: str | None = None,
    ) -> UserRow | Literal["spent", "taken"]:  # fmt: skip
        """Mark an invitation as used and create its account with a credential, atomically.

        `claims`: use an existing account with that email address if it is enabled and has no credentials. Return
        `spent` if the invitation was used or has expired, `taken` if the email address is taken.
        """
        ...

    def change_user(
        self,
        user_id: int,
        *,
        email: str | None = None,
        role: UserRole | None = None,
        tier: Tier | None = None,
        disabled_ns: int | None = None,
        leaving: Ways | None = None,
    ) -> bool:
        """Change the given fields of a user.

        A new tier also applies to the user's live keys. `disabled_ns` 0 enables the user again. Disabling also stops
        the user's keys and ends the user's sessions and one-time links. `leaving`: require another operator with such
        credentials. Return False if there is none, the email address is taken, or the user is unknown.
        """
        ...

    def set_password(
        self, user_id: int, password_hash: str | None, now_ns: int, *, by: int | None = None
    ) -> UserRow | None:
        """Store a password hash, or None for no password; end the user's sessions and one-time links.

        Both happen in one transaction. `by`: id of the session that makes the change and continues. Return the updated
        user; None if the user is unknown or the session `by` has ended.
        """
        ...

    def rehash_password(self, user_id: int, instead_of: str, password_hash: str) -> bool:
        """Replace the hash of an unchanged password; return False if the stored hash is not `instead_of`."""
        ...

    def set_totp(self, user_id: int, sealed: bytes | None) -> None:
        """Store a user's encrypted TOTP secret, or None for no second factor.

        This resets the last used time step.
        """
        ...

    def use_totp_step(self, user_id: int, step: int) -> bool:
        """Record that the code of a 30-second time step was used.

        Return False if this or a later step was used before.
        """
        ...

    def first_operator(self, user_id: int, password_hash: str) -> UserRow | None:
        """Make a user the operator, with a password; return the updated user, or None if there already is one."""
        ...

    def set_preferences(self, user_id: int, preferences: Preferences) -> None:
        """Store a user's preferences."""
        ...

    # -- recovery codes

    def set_recovery_codes(self, user_id: int, digests: Sequence[bytes]) -> None:
        """Replace all recovery codes of a user."""
        ...

    def recovery_codes_left(self, user_id: int) -> int:
        """Return the number of unused recovery codes."""
        ...

    def use_recovery_code(self, user_id: int, digest: bytes, now_ns: int) -> bool:
        """Use a recovery code; return False if the user has no such unused code."""
        ...

    # -- passkeys

    def passkeys(self, user_id: int) -> Sequence[PasskeyRow]:
        """Return a user's passkeys, oldest first."""
        ...

    def passkey(self, credential_id: bytes) -> PasskeyRow | None:
        """Return the passkey with a credential id."""
        ...

    def add_passkey(
        self, user_id: int, credential_id: bytes, public_key: bytes, sign_count: int, transports: Sequence[str],
        label: str, now_ns: int, *, most: int | None = None,
    ) -> bool:  # fmt: skip
        """Store a passkey; return False if the credential is stored already, or the user has `most` passkeys."""
        ...

    def used_passkey(self, passkey_id: int, sign_count: int, now_ns: int, *, after: int) -> bool:
        """Record a sign-in with a passkey and its new counter.

        Return False if the passkey was removed, or its stored counter is not `after`.
        """
        ...

    def remove_passkey(self, user_id: int, passkey_id: int, *, leaving: Ways | None = None) -> bool:
        """Remove a user's passkey; return False if nothing was removed.

        That is so if there is no such passkey, or if no credential of a kind in `leaving` would remain.
        """
        ...

    # -- browser sessions

    def add_session(
        self, user: UserRow, digest: bytes, address: str, agent: str, now_ns: int, *, most: int | None = None
    ) -> int | None:
        """Store a new session of a user who has just been authenticated; return its id.

        `user`: as read when the credentials were checked. Return None if the credentials have changed since, or the
        user is disabled. With more than `most` sessions, the user's least recently used one ends.
        """
        ...

    def sessions(self, begun_ns: int = 0, seen_ns: int = 0) -> Sequence[BrowserSession]:
        """Return the sessions of all users that have not ended.

        Leave out those started before `begun_ns` or last used before `seen_ns` (ns UTC).
        """
        ...

    def seen(self, times: Mapping[int, int]) -> None:
        """Store when sessions were last used, by id (ns UTC). Does not change `revision`."""
        ...

    def confirm_session(self, session_id: int, user: UserRow, digest: bytes, now_ns: int) -> bool:
        """Record that a session's user confirmed their identity, and replace the session's token.

        `user`: as read when the credentials were checked. Return False if the session has ended, the credentials have
        changed since, or the user is disabled.
        """
        ...

    def end_sessions(
        self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None
    ) -> int:
        """End all browser sessions of a user, `only` one, or all `but` one; return how many ended."""
        ...

    # -- one-time tokens

    def add_token(self, row: TokenRow) -> int:
        """Store a new token (its id is ignored); return its id. Raises `StoreBusy` if its digest exists already."""
        ...

    def token(self, purpose: Purpose, digest: bytes) -> TokenRow | None:
        """Return the one-time token with a digest, used or not."""
        ...

    def tokens(self, purpose: Purpose) -> Sequence[TokenRow]:
        """Return all unused one-time tokens of a purpose, newest first."""
        ...

    def spend(self, token_id: int, now_ns: int) -> bool:
        """Mark a one-time token as used; return False if it was used before or has expired."""
        ...

    def revoke_token(self, token_id: int, now_ns: int) -> bool:
        """Revoke an unused one-time token."""
        ...

    # -- the audit log

    def note(
        self, user_id: int, event: str, details: Mapping[str, str], address: str, agent: str, now_ns: int
    ) -> None:
        """Add an entry to the audit log. Entries are never changed or removed."""
        ...

    def noted(self, user_id: int, events: Sequence[str], way: str, since_ns: int) -> int:
        """Return how many audit entries a user has with these events and this `way` in their details.

        Only entries later than `since_ns` (UTC) count.
        """
        ...

    def audit(self, user_id: int | None, before: int | None, limit: int) -> Sequence[AuditRow]:
        """Return audit entries of a user (None: of all) with ids less than `before`, newest first."""
        ...

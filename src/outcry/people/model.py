"""The port for people: who they are, how they prove it, and what was done in their name.

Rules kept: no secret is kept as it is. What only has to be recognised (session tokens, one-time links, recovery codes)
is kept as a keyed digest, what has to be used again (a TOTP secret) sealed, a password as its argon2id hash. Every
method may raise `StoreBusy`. What may happen once only (`spend`, `use_recovery_code`, `use_totp_step`,
`first_operator`), and what must not happen to the last (`change_user`, `remove_passkey`), is found out and done in one
turn: of two at the same instant one succeeds. A proof counts for the version of the credentials it was checked against:
`add_session` and `confirm_session` compare that version in the transaction that writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from outcry.access.model import Tier

UserRole = Literal["member", "operator"]
Theme = Literal["auto", "dark", "light"]
#: What a one-time link or token is for; `passkey`: a challenge that was answered, `shown`: a secret that was.
Purpose = Literal["setup", "invite", "reset", "sign_in", "email", "passkey", "shown"]


#: One-time links that belong to a user: a changed password, a reset and disabling revoke them.
OF_A_USER: Sequence[Purpose] = ("reset", "sign_in", "email")
#: What counts as a way in: a password and a passkey, or the OpenID provider too, for whoever has come in by it.
Ways = Literal["own", "any"]


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a person wants things shown. `language` empty: as the browser asks; `time_zone`: IANA name; `digest_hour`: 0
    to 23 in that zone; `shortcuts`: whether single keys do things (WCAG 2.1.4)."""

    language: str = ""
    time_zone: str = "America/New_York"
    theme: Theme = "auto"
    digest_hour: int = 17
    shortcuts: bool = True


@dataclass(frozen=True, slots=True)
class UserRow:
    """A person. `email` in lower case; `password_hash` None: no password, signs in another way or not at all (a user
    made with `outcry keys create`). `totp_sealed`: the shared secret, sealed; None: no second factor. `handle`: 32
    random bytes that passkeys know the user by. `tier`: of the keys the user makes. `openid`: issuer and subject, a
    blank between, by which an OpenID provider knows the user; None: has not come in by one. `credentials_version`:
    increases with every change that must end sign-ins in progress: a new password, second factor or email address, a
    removed passkey, and disabling."""

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
    """A browser signed in. `digest`: of its token, keyed. `seen_ns`: last use, kept to within some minutes.
    `confirmed_ns`: when who it is was last proved. `ended_ns`: signed out, or ended for another reason."""

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
    """A WebAuthn credential: `credential_id` and `public_key` as the authenticator gave them."""

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
    """A one-time token, kept as `digest`. `user_id` and `email`: whom it is for; `details`: what goes with its purpose
    (of an invitation the tier and role). `browser`: digest of the browser that asked, where only it may use it."""

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
    """Something that was done in a person's name: `event` is a stable code (`accounts.audit`), `details` say what to
    (never a secret), `address` and `agent` where from; empty on the machine itself."""

    id: int
    user_id: int
    at_ns: int
    event: str
    details: Mapping[str, str]
    address: str
    agent: str


class IdentityStore(Protocol):
    """People, their sessions, passkeys, tokens and the audit log."""

    def revision(self) -> int:
        """A number that changes whenever anything in the store was committed, but for what no other process need hear
        of at once: uses (`seen`, `used_passkey`, a TOTP step), recovery codes, tokens and notes."""
        ...

    # -- people

    def user(self, user_id: int) -> UserRow | None:
        """The user of that id."""
        ...

    def user_named(self, email: str) -> UserRow | None:
        """The user of that address, compared in lower case."""
        ...

    def user_of_openid(self, openid: str) -> UserRow | None:
        """The user whom a provider knows as that."""
        ...

    def set_openid(self, user_id: int, openid: str | None, instead_of: str | None) -> bool:
        """Keep by what a provider knows a user, or that none does; False where it is not `instead_of` that any more, or
        somebody else is known by it."""
        ...

    def users(self) -> Sequence[UserRow]:
        """Everyone, oldest first."""
        ...

    def add_user(self, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int) -> UserRow | None:
        """Keep a new user; None where the address is taken."""
        ...

    def admit(
        self, token_id: int, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int, *, claims: bool,
        password_hash: str | None = None, openid: str | None = None,
    ) -> UserRow | Literal["spent", "taken"]:  # fmt: skip
        """Spend an invitation and make the account it is for, with its way in: both or neither. `claims`: an account of
        that address that is not disabled and has no way in is made this one. `spent`: the invitation was, or its time
        is over; `taken`: the address is."""
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
        """Change what is given; a new tier is that of the user's live keys too, and a disabled user's keys stop.
        `disabled_ns` 0: enable again. Disabling also ends the user's sessions and one-time links. False where the
        address is taken or the user unknown, and where `leaving` an operator who has one of these ways in is asked for
        and this one is the last."""
        ...

    def set_password(
        self, user_id: int, password_hash: str | None, now_ns: int, *, by: int | None = None
    ) -> UserRow | None:
        """Store a password's hash, or that there is none; end the user's sessions and one-time links in the same
        transaction. `by`: the id of the session that makes the change, which stays signed in. Return the user as
        written; None for an unknown user, and where the session `by` has ended."""
        ...

    def rehash_password(self, user_id: int, instead_of: str, password_hash: str) -> bool:
        """Replace the hash of an unchanged password; False where the stored hash is no longer `instead_of`."""
        ...

    def set_totp(self, user_id: int, sealed: bytes | None) -> None:
        """Keep the shared secret, sealed, or that there is none; what step was used last is forgotten."""
        ...

    def use_totp_step(self, user_id: int, step: int) -> bool:
        """Note that the code of a time step was used; False where that one or a later one was used before."""
        ...

    def first_operator(self, user_id: int, password_hash: str) -> UserRow | None:
        """Make this user the operator, with this password, and return the user as written; None where there is an
        operator already."""
        ...

    def set_preferences(self, user_id: int, preferences: Preferences) -> None:
        """Keep how a user wants things shown."""
        ...

    # -- recovery codes

    def set_recovery_codes(self, user_id: int, digests: Sequence[bytes]) -> None:
        """Put these in the place of all before."""
        ...

    def recovery_codes_left(self, user_id: int) -> int:
        """How many are unused."""
        ...

    def use_recovery_code(self, user_id: int, digest: bytes, now_ns: int) -> bool:
        """Spend one; False where it is none of this user's, or used."""
        ...

    # -- passkeys

    def passkeys(self, user_id: int) -> Sequence[PasskeyRow]:
        """A user's, oldest first."""
        ...

    def passkey(self, credential_id: bytes) -> PasskeyRow | None:
        """The one of that credential id."""
        ...

    def add_passkey(
        self, user_id: int, credential_id: bytes, public_key: bytes, sign_count: int, transports: Sequence[str],
        label: str, now_ns: int, *, most: int | None = None,
    ) -> bool:  # fmt: skip
        """Keep one; False where the credential is known already, and where the user has `most`."""
        ...

    def used_passkey(self, passkey_id: int, sign_count: int, now_ns: int, *, after: int) -> bool:
        """Record a use and the new counter; False where the passkey was removed, or its counter is not `after`."""
        ...

    def remove_passkey(self, user_id: int, passkey_id: int, *, leaving: Ways | None = None) -> bool:
        """Forget one of this user's; False where it is none of them, and where `leaving` one of these ways in is asked
        for and none remains."""
        ...

    # -- browsers signed in

    def add_session(
        self, user: UserRow, digest: bytes, address: str, agent: str, now_ns: int, *, most: int | None = None
    ) -> int | None:
        """Store a new session, its user confirmed now; return its id. `user`: as read when the proof was checked. None
        where that user's credentials have changed since, or the user is disabled. Of more than `most` sessions the
        user's longest unused ends."""
        ...

    def sessions(self, begun_ns: int = 0, seen_ns: int = 0) -> Sequence[BrowserSession]:
        """All that have not ended, of everyone, that were begun and last used no earlier than then (ns UTC)."""
        ...

    def seen(self, times: Mapping[int, int]) -> None:
        """Note when sessions were last used, by id (ns UTC). Does not move `revision`."""
        ...

    def confirm_session(self, session_id: int, user: UserRow, digest: bytes, now_ns: int) -> bool:
        """Record that its user was confirmed again, and give it a new token: the old one no longer counts. `user`: as
        read when the proof was checked. False where the session has ended, that user's credentials have changed since,
        or the user is disabled."""
        ...

    def end_sessions(
        self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None
    ) -> int:
        """End a user's sessions: `only` that one, or all `but` one; return how many were ended."""
        ...

    # -- one-time tokens

    def add_token(self, row: TokenRow) -> int:
        """Keep a new one (its id is ignored); return its id. Raises `StoreBusy` where its digest is known."""
        ...

    def token(self, purpose: Purpose, digest: bytes) -> TokenRow | None:
        """The one of that digest, spent or not."""
        ...

    def tokens(self, purpose: Purpose) -> Sequence[TokenRow]:
        """All of a purpose that are not spent, newest first."""
        ...

    def spend(self, token_id: int, now_ns: int) -> bool:
        """Spend one; False where it was spent already or its time is over."""
        ...

    def revoke_token(self, token_id: int, now_ns: int) -> bool:
        """Take one back that is not spent."""
        ...

    # -- the audit log

    def note(
        self, user_id: int, event: str, details: Mapping[str, str], address: str, agent: str, now_ns: int
    ) -> None:
        """Add a line; none is ever changed or removed."""
        ...

    def noted(self, user_id: int, events: Sequence[str], way: str, since_ns: int) -> int:
        """How many lines of these events, with that `way` among their details, a user has from later than then (ns
        UTC)."""
        ...

    def audit(self, user_id: int | None, before: int | None, limit: int) -> Sequence[AuditRow]:
        """A user's lines, everyone's for None, newest first, with ids less than `before`."""
        ...

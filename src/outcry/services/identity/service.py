"""Coming in and staying in: set-up, sign-in, second factors, links, invitations, and the audit log of all of it.

Rules kept: no default password and no open registration; every proof is tried a bounded number of times; a stranger
cannot learn whether an address has an account; what is done in a person's name is noted where that person can read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outcry.ports.clock import Clock
from outcry.ports.identity import (
    AuditRow,
    IdentityStore,
    PasskeyRow,
    Preferences,
    SessionRow,
    TokenRow,
    UserRole,
    UserRow,
)
from outcry.ports.limiter import Limiter
from outcry.ports.mailer import Mailer
from outcry.ports.store import Tier
from outcry.services.identity.browsers import Browsers, Origin, Signed


@dataclass(frozen=True, slots=True)
class HalfWay:
    """The password was right and a second factor is wanted: `ticket` names this, for five minutes, in a cookie."""

    ticket: str


class Identity:
    """Everything about people. All methods may block and raise `StoreBusy`; those that take proofs raise `Refused`."""

    def __init__(
        self, store: IdentityStore, browsers: Browsers, limiter: Limiter, clock: Clock, secret: bytes,
        mailer: Mailer | None = None, public_url: str = "",
    ) -> None:  # fmt: skip
        raise NotImplementedError

    # -- first run

    def needs_set_up(self) -> bool:
        """Whether there is no operator yet."""
        raise NotImplementedError

    def set_up_token(self) -> str:
        """Make the one-time token the first operator is made with; tokens made before it no longer count. For the log
        and a file only its owner can read."""
        raise NotImplementedError

    def set_up(self, token: str, email: str, password: str, origin: Origin) -> Signed:
        """Make the first operator. Two at once: one succeeds."""
        raise NotImplementedError

    # -- signing in

    def sign_in(self, email: str, password: str, origin: Origin) -> Signed | HalfWay:
        """By password."""
        raise NotImplementedError

    def second_factor(self, ticket: str, code: str, origin: Origin) -> Signed:
        """Finish a sign-in with a code of the authenticator or a recovery code."""
        raise NotImplementedError

    def sign_out(self, session: SessionRow, origin: Origin) -> None:
        """End this browser's session."""
        raise NotImplementedError

    def confirm(self, session: SessionRow, password: str, code: str, origin: Origin) -> str:
        """Prove anew who it is, by password (and code, where there is a second factor); return the browser's new
        token."""
        raise NotImplementedError

    def mail_works(self) -> bool:
        """Whether mail is configured."""
        raise NotImplementedError

    def send_link(self, email: str, browser: str, origin: Origin) -> None:
        """Mail a link to sign in with, if that address has an account; nobody can tell which from outside."""
        raise NotImplementedError

    def follow_link(self, token: str, browser: str, origin: Origin) -> Signed | HalfWay:
        """Sign in with a mailed link, in the browser that asked for it."""
        raise NotImplementedError

    def send_reset(self, email: str, origin: Origin) -> None:
        """Mail a link to choose a new password with, if that address has an account."""
        raise NotImplementedError

    def reset(self, token: str, password: str, origin: Origin) -> Signed | HalfWay:
        """Choose a new password with a mailed link; every session is ended."""
        raise NotImplementedError

    # -- passkeys. `options` are JSON for the browser, `answer` the JSON it gave; `host` and `origin_url` of this site

    def passkey_options(self, host: str) -> tuple[str, str]:
        """Options for signing in with a passkey, and the ticket that names the challenge, for five minutes."""
        raise NotImplementedError

    def passkey_sign_in(self, ticket: str, answer: str, host: str, origin_url: str, origin: Origin) -> Signed:
        """Sign in with a passkey."""
        raise NotImplementedError

    def passkey_confirm(
        self, session: SessionRow, ticket: str, answer: str, host: str, origin_url: str, origin: Origin
    ) -> str:
        """Prove anew who it is with a passkey of this user's; return the browser's new token."""
        raise NotImplementedError

    def new_passkey_options(self, user: UserRow, host: str) -> tuple[str, str]:
        """Options for making a passkey, and the ticket that names the challenge."""
        raise NotImplementedError

    def add_passkey(
        self, user: UserRow, ticket: str, answer: str, label: str, host: str, origin_url: str, origin: Origin
    ) -> None:
        """Keep a passkey just made."""
        raise NotImplementedError

    def passkeys(self, user: UserRow) -> Sequence[PasskeyRow]:
        """A user's."""
        raise NotImplementedError

    def remove_passkey(self, user: UserRow, passkey_id: int, origin: Origin) -> None:
        """Forget one. Refused where it is the last way in."""
        raise NotImplementedError

    # -- password and second factor, of somebody confirmed

    def change_password(self, user: UserRow, session: SessionRow, password: str, origin: Origin) -> None:
        """Choose a new one; every other session is ended."""
        raise NotImplementedError

    def begin_totp(self, user: UserRow) -> tuple[str, str]:
        """A new shared secret in base32, and the `otpauth://` address of it; nothing is kept until it is proved."""
        raise NotImplementedError

    def finish_totp(self, user: UserRow, secret: str, code: str, origin: Origin) -> list[str]:
        """Turn the second factor on; return ten recovery codes, the only time they are seen."""
        raise NotImplementedError

    def stop_totp(self, user: UserRow, origin: Origin) -> None:
        """Turn it off; recovery codes go too."""
        raise NotImplementedError

    def new_recovery_codes(self, user: UserRow, origin: Origin) -> list[str]:
        """Ten new ones in the place of those before."""
        raise NotImplementedError

    def recovery_codes_left(self, user: UserRow) -> int:
        """How many are unused."""
        raise NotImplementedError

    def begin_email(self, user: UserRow, email: str, origin: Origin) -> None:
        """Mail a link to the new address, and a notice to the old one. Refused with `no_mail` without mail."""
        raise NotImplementedError

    def finish_email(self, token: str, origin: Origin) -> None:
        """The link was followed: the address is the new one."""
        raise NotImplementedError

    # -- preferences, sessions, log

    def prefer(self, user: UserRow, preferences: Preferences) -> None:
        """Keep how a user wants things shown."""
        raise NotImplementedError

    def sessions(self, user: UserRow) -> Sequence[SessionRow]:
        """A user's, newest use first."""
        raise NotImplementedError

    def end_session(self, user: UserRow, session_id: int, origin: Origin) -> None:
        """End one of them."""
        raise NotImplementedError

    def end_other_sessions(self, user: UserRow, session: SessionRow, origin: Origin) -> int:
        """Sign out everywhere else."""
        raise NotImplementedError

    def note(self, user: UserRow, event: str, origin: Origin, **details: str) -> None:
        """Add a line to a user's audit log: for what other parts do in the user's name."""
        raise NotImplementedError

    def audit(self, user: UserRow, before: int | None, limit: int = 50) -> Sequence[AuditRow]:
        """A user's own lines, newest first."""
        raise NotImplementedError

    # -- of an operator

    def users(self) -> Sequence[UserRow]:
        """Everyone."""
        raise NotImplementedError

    def invite(self, operator: UserRow, email: str, role: UserRole, tier: Tier, origin: Origin) -> str:
        """Make an invitation, good for a week; return its link, mailed too where mail is configured."""
        raise NotImplementedError

    def invitations(self) -> Sequence[TokenRow]:
        """Those still open."""
        raise NotImplementedError

    def withdraw(self, operator: UserRow, token_id: int, origin: Origin) -> None:
        """Take an invitation back."""
        raise NotImplementedError

    def invited(self, token: str) -> TokenRow | None:
        """The invitation of a link, if it still holds."""
        raise NotImplementedError

    def accept(self, token: str, email: str, password: str, origin: Origin) -> Signed:
        """Come in by an invitation. Its address is the account's, where it names one."""
        raise NotImplementedError

    def change_user(
        self, operator: UserRow, user_id: int, origin: Origin, *, role: UserRole | None = None,
        tier: Tier | None = None, disabled: bool | None = None,
    ) -> None:  # fmt: skip
        """Change what a user may do; a disabled one is signed out everywhere and its keys stop. Refused for the last
        operator."""
        raise NotImplementedError

    def reset_link(self, operator: UserRow, user_id: int, origin: Origin) -> str:
        """A link with which that user can choose a new password, for services without mail."""
        raise NotImplementedError

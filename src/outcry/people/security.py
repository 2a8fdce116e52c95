"""Changes that users make to their own accounts (password, second factor, sessions, preferences), and the audit log.

A new password ends all other sessions and revokes all links sent before.
"""

from collections.abc import Sequence

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin
from outcry.people.identity_base import IdentityBase
from outcry.people.model import AuditRow, BrowserSession, Preferences, UserRow
from outcry.people.refusals import Reason, Refused

LONGEST_PAGE = 200


class Security(IdentityBase):
    """The changes that users make to their own accounts, such as a new password or second factor."""

    def change_password(self, user: UserRow, session: BrowserSession, password: str, origin: Origin) -> None:
        """Change the password; this ends every other session."""
        self._passwords.accept(password, user.email)
        hashed, now_ns = self._passwords.hashed(password), self._clock.now_ns()
        if self._store.set_password(user.id, hashed, now_ns, by=session.id) is None:
            raise Refused(Reason.CHANGED)  # another change of the password ended this session meanwhile
        self._browser_sessions.refresh(now_ns, force=True)
        self.note(user, Event.PASSWORD_CHANGED, origin)

    # -- second factor

    def begin_totp(self, user: UserRow) -> tuple[str, str]:
        """Return a new TOTP secret in base32 and its `otpauth://` URI. Nothing is stored until a code confirms it."""
        return self._codes.begin(user.email)

    def totp_address(self, user: UserRow, secret: str) -> str:
        """Return the `otpauth://` URI of a secret from `begin_totp`."""
        return self._codes.address(secret, user.email)

    def finish_totp(self, user: UserRow, secret: str, code: str, origin: Origin) -> list[str]:
        """Enable the second factor; return ten recovery codes, which cannot be read again."""
        self._attempts.take(origin, "code", str(user.id))
        step = self._codes.proved(secret, code)
        if step is None:
            raise Refused(Reason.CODE, "code")
        codes = self._codes.turn_on(user, secret, step)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)
        self.note(user, Event.TOTP_ON, origin)
        return codes

    def stop_totp(self, user: UserRow, origin: Origin) -> None:
        """Disable the second factor (TOTP) and delete its recovery codes."""
        self._codes.turn_off(user)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)
        self.note(user, Event.TOTP_OFF, origin)

    def new_recovery_codes(self, user: UserRow, origin: Origin) -> list[str]:
        """Replace the user's recovery codes and return the new ones.

        Raises `Refused` if the user has no second factor.
        """
        now = self._store.user(user.id)
        if now is None or now.totp_sealed is None:
            raise Refused(Reason.CODE)
        codes = self._codes.renew(user)
        self.note(user, Event.RECOVERY_RENEWED, origin)
        return codes

    def recovery_codes_left(self, user: UserRow) -> int:
        """Return the number of unused recovery codes."""
        return self._store.recovery_codes_left(user.id)

    # -- preferences, sessions, log

    def prefer(self, user: UserRow, preferences: Preferences) -> None:
        """Store a user's preferences."""
        self._store.set_preferences(user.id, preferences)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)

    def sessions(self, user: UserRow) -> Sequence[BrowserSession]:
        """Return a user's sessions, most recently used first."""
        return self._browser_sessions.of(user.id, self._clock.now_ns())

    def end_session(self, user: UserRow, session_id: int, origin: Origin) -> None:
        """End one of the user's sessions."""
        mine = {row.id: row for row in self.sessions(user)}
        if session_id in mine and self._browser_sessions.end(user.id, self._clock.now_ns(), only=session_id):
            ended = mine[session_id]
            self.note(user, Event.SESSION_ENDED, origin, agent=ended.agent, address=ended.address)

    def end_other_sessions(self, user: UserRow, session: BrowserSession, origin: Origin) -> int:
        """End all of the user's sessions except this one; return how many ended."""
        ended = self._browser_sessions.end(user.id, self._clock.now_ns(), but=session.id)
        self.note(user, Event.SESSIONS_ENDED, origin, count=str(ended))
        return ended

    def audit(self, user: UserRow, before: int | None, limit: int = 50) -> Sequence[AuditRow]:
        """Return a user's audit log, newest first."""
        return self._store.audit(user.id, before, min(max(limit, 1), LONGEST_PAGE))

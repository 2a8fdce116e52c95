"""What a person changes about the own account once confirmed: password, second factor, sessions; and its log.

Rule kept: a changed password leaves no other browser signed in, and no link that was sent before.
"""

from collections.abc import Sequence

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin
from outcry.people.identity_base import IdentityBase
from outcry.people.model import AuditRow, BrowserSession, Preferences, UserRow
from outcry.people.refusals import Reason, Refused

LONGEST_PAGE = 200


class Security(IdentityBase):
    """Looking after the own account."""

    def change_password(self, user: UserRow, session: BrowserSession, password: str, origin: Origin) -> None:
        """Choose a new one; every other session is ended."""
        self._passwords.accept(password, user.email)
        hashed, now_ns = self._passwords.hashed(password), self._clock.now_ns()
        if self._store.set_password(user.id, hashed, now_ns, by=session.id) is None:
            raise Refused(
                Reason.CHANGED
            )  # this session was ended meanwhile, by another change of the password
        self._browser_sessions.refresh(now_ns, force=True)
        self.note(user, Event.PASSWORD_CHANGED, origin)

    # -- second factor

    def begin_totp(self, user: UserRow) -> tuple[str, str]:
        """A new shared secret in base32, and the `otpauth://` address of it; nothing is kept until it is proved."""
        return self._codes.begin(user.email)

    def totp_address(self, user: UserRow, secret: str) -> str:
        """The `otpauth://` address of a secret that was begun with."""
        return self._codes.address(secret, user.email)

    def finish_totp(self, user: UserRow, secret: str, code: str, origin: Origin) -> list[str]:
        """Turn the second factor on; return ten recovery codes, the only time they are seen."""
        self._attempts.take(origin, "code", str(user.id))
        step = self._codes.proved(secret, code)
        if step is None:
            raise Refused(Reason.CODE, "code")
        codes = self._codes.turn_on(user, secret, step)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)
        self.note(user, Event.TOTP_ON, origin)
        return codes

    def stop_totp(self, user: UserRow, origin: Origin) -> None:
        """Turn it off; recovery codes go too."""
        self._codes.turn_off(user)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)
        self.note(user, Event.TOTP_OFF, origin)

    def new_recovery_codes(self, user: UserRow, origin: Origin) -> list[str]:
        """Ten new ones in the place of those before. Refused where there is no second factor they could stand for."""
        now = self._store.user(user.id)
        if now is None or now.totp_sealed is None:
            raise Refused(Reason.CODE)
        codes = self._codes.renew(user)
        self.note(user, Event.RECOVERY_RENEWED, origin)
        return codes

    def recovery_codes_left(self, user: UserRow) -> int:
        """How many are unused."""
        return self._store.recovery_codes_left(user.id)

    # -- preferences, sessions, log

    def prefer(self, user: UserRow, preferences: Preferences) -> None:
        """Keep how a user wants things shown."""
        self._store.set_preferences(user.id, preferences)
        self._browser_sessions.refresh(self._clock.now_ns(), force=True)

    def sessions(self, user: UserRow) -> Sequence[BrowserSession]:
        """A user's, newest use first."""
        return self._browser_sessions.of(user.id, self._clock.now_ns())

    def end_session(self, user: UserRow, session_id: int, origin: Origin) -> None:
        """End one of them."""
        mine = {row.id: row for row in self.sessions(user)}
        if session_id in mine and self._browser_sessions.end(user.id, self._clock.now_ns(), only=session_id):
            ended = mine[session_id]
            self.note(user, Event.SESSION_ENDED, origin, agent=ended.agent, address=ended.address)

    def end_other_sessions(self, user: UserRow, session: BrowserSession, origin: Origin) -> int:
        """Sign out everywhere else."""
        ended = self._browser_sessions.end(user.id, self._clock.now_ns(), but=session.id)
        self.note(user, Event.SESSIONS_ENDED, origin, count=str(ended))
        return ended

    def audit(self, user: UserRow, before: int | None, limit: int = 50) -> Sequence[AuditRow]:
        """A user's own lines, newest first."""
        return self._store.audit(user.id, before, min(max(limit, 1), LONGEST_PAGE))

"""Browser sessions: a random token in a cookie. Only its keyed digest is stored.

A session ends 14 days after its last use and 90 days after its start. Ending it takes effect everywhere within a
second. Secrets are shown or changed only if the user confirmed their identity within the last 10 minutes. A session
starts or is confirmed only if the credentials have not changed since they were checked.
"""

import hashlib
import secrets
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.database.errors import StoreBusy
from outcry.database.revision_cache import RevisionCache
from outcry.market.units import NANOS_PER_MINUTE
from outcry.people.model import BrowserSession, UserRow
from outcry.people.refusals import Reason, Refused
from outcry.people.store import SqlIdentityStore

_DAY_NS = 24 * 60 * NANOS_PER_MINUTE
IDLE_NS = 14 * _DAY_NS
LONGEST_NS = 90 * _DAY_NS
RECENT_NS = 10 * NANOS_PER_MINUTE
#: How often uses are stored. A last use accurate to the day is enough for users, and page views then write nothing.
NOTED_NS = 5 * NANOS_PER_MINUTE
#: Maximum per user, so that repeated sign-ins do not fill the memory. Beyond it the least recently used session ends.
MOST_SESSIONS = 50
_TOKEN_BYTES = 32
_LONGEST_AGENT = 300


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a request: client address, user agent, and whether it uses https."""

    address: str = ""
    agent: str = ""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A browser that has just signed in. `token`: the value of its cookie, which is not stored."""

    token: str
    user: UserRow


class BrowserSessions(RevisionCache):
    """All browser sessions by keyed digest, in memory.

    `secret`: key of the digests, 16 to 64 bytes. `clock`: decides when sessions end.
    """

    def __init__(self, store: SqlIdentityStore, secret: bytes, clock: Clock) -> None:
        super().__init__(store.revision)
        self._store, self._secret, self._clock = store, secret, clock
        self._sessions: dict[bytes, BrowserSession] = {}
        self._users: dict[int, UserRow] = {}
        self._seen: dict[int, int] = {}
        self._unwritten: set[int] = set()
        self._active: set[int] = set()
        self._next_end_ns: int | None = None

    def digest(self, token: str, *, secure: bool) -> bytes:
        """Return the keyed digest of a token. A token issued over https is not valid over plain http."""
        person = b"session, https" if secure else b"session"
        text = token.encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=32, key=self._secret, person=person).digest()

    def find(self, token: str, now_ns: int, *, secure: bool = False) -> tuple[BrowserSession, UserRow] | None:
        """Return the session of a token and its user, from memory.

        None if the session has ended, its user is disabled, or it was started over https and this request is not
        (`secure`).
        """
        row = self._sessions.get(self.digest(token, secure=secure)) if token else None
        if row is None or not self.is_active(row, now_ns):
            return None
        user = self._users.get(row.user_id)
        if user is None or user.disabled_ns is not None:
            return None
        if now_ns - max(row.seen_ns, self._seen.get(row.id, 0)) > NOTED_NS:
            self._seen[row.id] = now_ns
            self._unwritten.add(row.id)
        return row, user

    def find_expired(self, token: str, now_ns: int, *, secure: bool = False) -> BrowserSession | None:
        """Return the session of a token if it has expired, was not ended otherwise, and its user is not disabled.

        The sign-in page uses it to recognise the user. It does not authenticate the browser.
        """
        row = self._sessions.get(self.digest(token, secure=secure)) if token else None
        user = self._users.get(row.user_id) if row is not None else None
        enabled = user is not None and user.disabled_ns is None
        return row if row is not None and enabled and not self.is_active(row, now_ns) else None

    def active_user(self, session_id: int, now_ns: int) -> UserRow | None:
        """Return the user of an active session by its id; None if it has ended."""
        for row in self._sessions.values():
            if row.id == session_id:
                user = self._users.get(row.user_id)
                enabled = user is not None and user.disabled_ns is None
                return user if enabled and self.is_active(row, now_ns) else None
        return None

    def is_active(self, row: BrowserSession, now_ns: int) -> bool:
        """Return whether a session has neither been ended nor expired."""
        return row.ended_ns is None and now_ns < self._end_ns(row)

    def _end_ns(self, row: BrowserSession) -> int:
        """Return when a session expires if it is not used again."""
        seen_ns = max(row.seen_ns, self._seen.get(row.id, 0))
        return min(seen_ns + IDLE_NS, row.created_ns + LONGEST_NS)

    def is_recently_confirmed(self, row: BrowserSession, now_ns: int) -> bool:
        """Return whether the user's identity was confirmed within the last 10 minutes."""
        return 0 <= now_ns - row.confirmed_ns < RECENT_NS

    def open(self, user: UserRow, origin: Origin, now_ns: int) -> SignedIn:
        """Start a session whose user has just been authenticated. `user`: as read when the credentials were checked.

        Raises `Refused` if the credentials have changed since, or the user is disabled.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        agent = origin.agent[:_LONGEST_AGENT]
        digest = self.digest(token, secure=origin.secure)
        if self._store.add_session(user, digest, origin.address, agent, now_ns, most=MOST_SESSIONS) is None:
            raise self._outdated(user)
        self.refresh(now_ns, force=True)
        return SignedIn(token, user)

    def confirm(self, row: BrowserSession, user: UserRow, origin: Origin, now_ns: int) -> str:
        """Record that a session's user confirmed their identity; return the session's new token.

        `user`: as read when the credentials were checked. Raises `Refused` as `open` does.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        digest = self.digest(token, secure=origin.secure)
        if not self._store.confirm_session(row.id, user, digest, now_ns):
            raise self._outdated(user)
        self.refresh(now_ns, force=True)
        return token

    def _outdated(self, user: UserRow) -> Refused:
        """Return the error for a user whose credentials have changed, or who was disabled, since they were checked."""
        now = self._store.user(user.id)
        disabled = now is not None and now.disabled_ns is not None
        return Refused(Reason.DISABLED if disabled else Reason.CHANGED)

    def of(self, user_id: int, now_ns: int) -> list[BrowserSession]:
        """Return a user's active sessions, most recently used first."""
        mine = [
            row for row in self._sessions.values() if row.user_id == user_id and self.is_active(row, now_ns)
        ]
        return sorted(mine, key=lambda row: -max(row.seen_ns, self._seen.get(row.id, 0)))

    def end(self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None) -> int:
        """End all sessions of a user, only the session `only`, or all except `but` (ids); return how many ended."""
        ended = self._store.end_sessions(user_id, now_ns, only=only, but=but)
        self.refresh(now_ns, force=True)
        return ended

    def write_seen(self) -> None:
        """Store when sessions were last used. If the database is unavailable, the next call stores these times."""
        unwritten, self._unwritten = self._unwritten, set()
        try:
            self._store.seen(
                {number: self._seen[number] for number in list(unwritten) if number in self._seen}
            )
        except StoreBusy:
            self._unwritten |= unwritten
            raise

    def _load(self) -> bool:
        # Keep sessions for a day after they expired, so that the sign-in page knows the browser's user.
        over_ns = self._clock.now_ns() - _DAY_NS
        rows = self._store.sessions(begun_ns=over_ns - LONGEST_NS, seen_ns=over_ns - IDLE_NS)
        sessions = {row.digest: row for row in rows}
        users = {user.id: user for user in self._store.users()}
        fewer = bool(self._sessions.keys() - sessions.keys()) or any(
            users.get(number) != user for number, user in self._users.items()
        )
        self._sessions, self._users = sessions, users
        self._seen = {row.id: self._seen[row.id] for row in sessions.values() if row.id in self._seen}
        self._update_expiry()
        return fewer  # cached callers are outdated only if a session or user was removed or changed

    def _lapse(self) -> bool:
        if self._next_end_ns is None or self._clock.now_ns() < self._next_end_ns:
            return False
        before = self._active
        self._update_expiry()
        return bool(before - self._active)

    def _update_expiry(self) -> None:
        """Recompute which sessions are active and when the next of them expires."""
        now_ns = self._clock.now_ns()
        live = [row for row in self._sessions.values() if self.is_active(row, now_ns)]
        self._active = {row.id for row in live}
        self._next_end_ns = min((self._end_ns(row) for row in live), default=None)

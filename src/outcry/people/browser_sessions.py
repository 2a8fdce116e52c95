"""Browsers signed in: a random token in a cookie, its keyed digest here.

Rules kept: a session ends fourteen days after its last use and ninety after it began, and everywhere within a second of
being ended; who it is must have been proved within ten minutes before anything secret is shown or changed. A session
begins, or is confirmed, only if the credentials that were proved are still the stored ones.
"""

import hashlib
import secrets
from dataclasses import dataclass

from outcry.base.clock import Clock
from outcry.database.errors import StoreBusy
from outcry.database.revision_cache import RevisionCache
from outcry.market.units import NANOS_PER_MINUTE
from outcry.people.model import BrowserSession, IdentityStore, UserRow
from outcry.people.refusals import Reason, Refused

_DAY_NS = 24 * 60 * NANOS_PER_MINUTE
IDLE_NS = 14 * _DAY_NS
LONGEST_NS = 90 * _DAY_NS
RECENT_NS = 10 * NANOS_PER_MINUTE
#: Uses are written down this often: for a person "today" is near enough, and reading a page writes nothing.
NOTED_NS = 5 * NANOS_PER_MINUTE
#: Of one user, so that signing in again and again fills no memory; the one unused for longest gives way.
MOST_SESSIONS = 50
_TOKEN_BYTES = 32
_LONGEST_AGENT = 300


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a request came from: client address, what the browser calls itself, and whether over https."""

    address: str = ""
    agent: str = ""
    secure: bool = False


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A browser signed in just now. `token`: for its cookie, the only time it is seen."""

    token: str
    user: UserRow


class BrowserSessions(RevisionCache):
    """All sessions by keyed digest, from memory. `secret`: what digests are keyed with, 16 to 64 bytes. `clock`: what
    sessions end by."""

    def __init__(self, store: IdentityStore, secret: bytes, clock: Clock) -> None:
        super().__init__(store.revision)
        self._store, self._secret, self._clock = store, secret, clock
        self._sessions: dict[bytes, BrowserSession] = {}
        self._users: dict[int, UserRow] = {}
        self._seen: dict[int, int] = {}
        self._unwritten: set[int] = set()
        self._in_force: set[int] = set()
        self._next_end_ns: int | None = None

    def digest(self, token: str, *, secure: bool) -> bytes:
        """What is kept of a token: one that was given over https is none on an open line."""
        person = b"session, https" if secure else b"session"
        text = token.encode("utf-8", "replace")
        return hashlib.blake2b(text, digest_size=32, key=self._secret, person=person).digest()

    def find(self, token: str, now_ns: int, *, secure: bool = False) -> tuple[BrowserSession, UserRow] | None:
        """The session of a token and its user, from memory; None where it has ended, its user is disabled, or it was
        begun over https and this is not (`secure`)."""
        row = self._sessions.get(self.digest(token, secure=secure)) if token else None
        if row is None or not self.in_force(row, now_ns):
            return None
        user = self._users.get(row.user_id)
        if user is None or user.disabled_ns is not None:
            return None
        if now_ns - max(row.seen_ns, self._seen.get(row.id, 0)) > NOTED_NS:
            self._seen[row.id] = now_ns
            self._unwritten.add(row.id)
        return row, user

    def lapsed(self, token: str, now_ns: int, *, secure: bool = False) -> BrowserSession | None:
        """The session of a token whose time is over, if nobody ended it and its user is not disabled: it opens nothing,
        but says whose browser this was."""
        row = self._sessions.get(self.digest(token, secure=secure)) if token else None
        user = self._users.get(row.user_id) if row is not None else None
        enabled = user is not None and user.disabled_ns is None
        return row if row is not None and enabled and not self.in_force(row, now_ns) else None

    def still(self, session_id: int, now_ns: int) -> UserRow | None:
        """The user of a session by its id, as both stand now; None where it has ended."""
        for row in self._sessions.values():
            if row.id == session_id:
                user = self._users.get(row.user_id)
                enabled = user is not None and user.disabled_ns is None
                return user if enabled and self.in_force(row, now_ns) else None
        return None

    def in_force(self, row: BrowserSession, now_ns: int) -> bool:
        """Whether a session's time is not over."""
        return row.ended_ns is None and now_ns < self._end_ns(row)

    def _end_ns(self, row: BrowserSession) -> int:
        """When it ends by itself, if it is not used again."""
        seen_ns = max(row.seen_ns, self._seen.get(row.id, 0))
        return min(seen_ns + IDLE_NS, row.created_ns + LONGEST_NS)

    def recent(self, row: BrowserSession, now_ns: int) -> bool:
        """Whether its user was confirmed within ten minutes."""
        return 0 <= now_ns - row.confirmed_ns < RECENT_NS

    def open(self, user: UserRow, origin: Origin, now_ns: int) -> SignedIn:
        """Sign a browser in, its user confirmed. `user`: as read when the proof was checked. Raises `Refused` where the
        credentials have changed since, or the user is disabled."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        agent = origin.agent[:_LONGEST_AGENT]
        digest = self.digest(token, secure=origin.secure)
        if self._store.add_session(user, digest, origin.address, agent, now_ns, most=MOST_SESSIONS) is None:
            raise self._outdated(user)
        self.refresh(now_ns, force=True)
        return SignedIn(token, user)

    def confirm(self, row: BrowserSession, user: UserRow, origin: Origin, now_ns: int) -> str:
        """Record that its user was confirmed again; return the session's new token. `user` and what is raised: as for
        `open`."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        digest = self.digest(token, secure=origin.secure)
        if not self._store.confirm_session(row.id, user, digest, now_ns):
            raise self._outdated(user)
        self.refresh(now_ns, force=True)
        return token

    def _outdated(self, user: UserRow) -> Refused:
        """Explain why a proof no longer counts."""
        now = self._store.user(user.id)
        disabled = now is not None and now.disabled_ns is not None
        return Refused(Reason.DISABLED if disabled else Reason.CHANGED)

    def of(self, user_id: int, now_ns: int) -> list[BrowserSession]:
        """A user's sessions in force, newest use first."""
        mine = [
            row for row in self._sessions.values() if row.user_id == user_id and self.in_force(row, now_ns)
        ]
        return sorted(mine, key=lambda row: -max(row.seen_ns, self._seen.get(row.id, 0)))

    def end(self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None) -> int:
        """End a user's sessions: `only` that one, or all `but` one."""
        ended = self._store.end_sessions(user_id, now_ns, only=only, but=but)
        self.refresh(now_ns, force=True)
        return ended

    def write_seen(self) -> None:
        """Keep when sessions were last used. What could not be kept is tried again with the next."""
        unwritten, self._unwritten = self._unwritten, set()
        try:
            self._store.seen(
                {number: self._seen[number] for number in list(unwritten) if number in self._seen}
            )
        except StoreBusy:
            self._unwritten |= unwritten
            raise

    def _load(self) -> bool:
        # Those that have just lapsed still say whose browser it was; a use is written down long before a day is over.
        over_ns = self._clock.now_ns() - _DAY_NS
        rows = self._store.sessions(begun_ns=over_ns - LONGEST_NS, seen_ns=over_ns - IDLE_NS)
        sessions = {row.digest: row for row in rows}
        users = {user.id: user for user in self._store.users()}
        fewer = bool(self._sessions.keys() - sessions.keys()) or any(
            users.get(number) != user for number, user in self._users.items()
        )
        self._sessions, self._users = sessions, users
        self._seen = {row.id: self._seen[row.id] for row in sessions.values() if row.id in self._seen}
        self._reckon()
        return fewer  # who came is looked up anyway; who went must be forgotten everywhere

    def _lapse(self) -> bool:
        if self._next_end_ns is None or self._clock.now_ns() < self._next_end_ns:
            return False
        before = self._in_force
        self._reckon()
        return bool(before - self._in_force)

    def _reckon(self) -> None:
        """Find out which sessions are in force now, and when the next of them would end, were none used again."""
        now_ns = self._clock.now_ns()
        live = [row for row in self._sessions.values() if self.in_force(row, now_ns)]
        self._in_force = {row.id for row in live}
        self._next_end_ns = min((self._end_ns(row) for row in live), default=None)

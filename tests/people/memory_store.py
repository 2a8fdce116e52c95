"""A store of users in memory, with a clock moved by the test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Literal

from outcry.access.model import Tier
from outcry.database.errors import StoreBusy
from outcry.people.model import (
    AuditRow,
    BrowserSession,
    PasskeyRow,
    Preferences,
    Purpose,
    TokenRow,
    UserRole,
    UserRow,
    Ways,
)
from outcry.people.smtp import Mail, MailFailed

DAY_NS = 24 * 3600 * 10**9
RETENTION_NS = 100 * DAY_NS


@dataclass
class HandClock:
    """A clock that moves only when a test moves it."""

    at_ns: int = 1_790_000_000_000_000_000

    def now_ns(self) -> int:
        return self.at_ns

    def pass_s(self, seconds: float) -> None:
        self.at_ns += int(seconds * 1_000_000_000)


@dataclass
class PostBox:
    """Store emails instead of sending them, or fail."""

    mails: list[Mail] = field(default_factory=list)
    broken: bool = False

    def send(self, mail: Mail) -> None:
        if self.broken:
            raise MailFailed("the mail server at mail.example.com does not answer")
        self.mails.append(mail)

    def link(self, to: str) -> str:
        """Return the token in the newest email to a recipient."""
        mail = next(mail for mail in reversed(self.mails) if mail.to == to)
        return mail.text.partition("?token=")[2].split()[0]


class MemoryIdentity:
    """`SqlIdentityStore` in memory."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._revision = 0
        self._users: dict[int, UserRow] = {}
        self._steps: dict[int, int] = {}
        self._codes: dict[int, dict[bytes, int | None]] = {}
        self._passkeys: dict[int, PasskeyRow] = {}
        self._sessions: dict[int, BrowserSession] = {}
        self._tokens: dict[int, TokenRow] = {}
        self.lines: list[AuditRow] = []
        self._next = 0

    def revision(self) -> int:
        return self._revision

    def _number(self) -> int:
        self._next += 1
        return self._next

    # -- users

    def user(self, user_id: int) -> UserRow | None:
        return self._users.get(user_id)

    def user_named(self, email: str) -> UserRow | None:
        return next((user for user in self._users.values() if user.email == email.strip().lower()), None)

    def user_of_openid(self, openid: str) -> UserRow | None:
        return next((user for user in self._users.values() if user.openid == openid), None)

    def set_openid(self, user_id: int, openid: str | None, instead_of: str | None) -> bool:
        with self._lock:
            user, known = self._users.get(user_id), self.user_of_openid(openid) if openid else None
            if user is None or user.openid != instead_of or known not in (None, user):
                return False
            self._keep(replace(user, openid=openid))
            return True

    def users(self) -> Sequence[UserRow]:
        return list(self._users.values())

    def add_user(self, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int) -> UserRow | None:
        with self._lock:
            if self.user_named(email) is not None:
                return None
            if any(user.handle == handle for user in self._users.values()):
                raise StoreBusy("a user of that handle is known")
            number = self._number()
            user = UserRow(number, email.strip().lower(), role, tier, now_ns, None, None, None, handle)
            self._users[number] = user
            self._revision += 1
            return user

    def admit(
        self, token_id: int, email: str, role: UserRole, tier: Tier, handle: bytes, now_ns: int, *, claims: bool,
        password_hash: str | None = None, openid: str | None = None,
    ) -> UserRow | Literal["spent", "taken"]:  # fmt: skip
        known = self.user_named(email)
        if known is not None and (
            not claims or self._comes_in(known, "any") or known.disabled_ns is not None
        ):
            return "taken"
        if not self.spend(token_id, now_ns):
            return "spent"
        user = known or self.add_user(email, role, tier, handle, now_ns)
        assert user is not None
        user = replace(user, role=role, tier=tier, password_hash=password_hash, openid=openid)
        return self._change(user) if known else self._keep(user)

    def change_user(
        self, user_id: int, *, email: str | None = None, role: UserRole | None = None, tier: Tier | None = None,
        disabled_ns: int | None = None, leaving: Ways | None = None,
    ) -> bool:  # fmt: skip
        with self._lock:
            user = self._users.get(user_id)
            other = self.user_named(email) if email else None
            if user is None or (other is not None and other.id != user_id):
                return False
            operators = [
                one for one in self._users.values() if one.role == "operator" and one.disabled_ns is None
            ]
            if leaving and user in operators:
                others = (one for one in operators if one.id != user_id)
                if not any(self._comes_in(one, leaving) for one in others):
                    return False
            changed = replace(
                user, email=email.lower() if email else user.email, role=role or user.role, tier=tier or user.tier,
                disabled_ns=user.disabled_ns if disabled_ns is None else disabled_ns or None,
            )  # fmt: skip
            (self._change if email or disabled_ns else self._keep)(changed)
            if disabled_ns:
                self._end_all(user_id, disabled_ns)
            return True

    def _comes_in(self, user: UserRow, ways: Ways, but_passkey: int | None = None) -> bool:
        passkeys = [row for row in self.passkeys(user.id) if row.id != but_passkey]
        by_openid = ways == "any" and user.openid is not None
        return bool(passkeys) or by_openid or user.password_hash is not None

    def _keep(self, user: UserRow) -> UserRow:
        self._users[user.id] = user
        self._revision += 1
        return user

    def _change(self, user: UserRow) -> UserRow:
        return self._keep(replace(user, credentials_version=user.credentials_version + 1))

    def _end_all(self, user_id: int, now_ns: int, but: int | None = None) -> None:
        self.end_sessions(user_id, now_ns, but=but)
        for row in self._tokens.values():
            if row.user_id == user_id and row.purpose in ("reset", "sign_in", "email"):
                self.revoke_token(row.id, now_ns)

    def _in_force(self, session_id: int, user_id: int) -> bool:
        return any(row.id == session_id and row.user_id == user_id for row in self.sessions())

    def _as_proved(self, user: UserRow) -> bool:
        now = self._users.get(user.id)
        same = now is not None and now.credentials_version == user.credentials_version
        return same and now is not None and now.disabled_ns is None

    def set_password(
        self, user_id: int, password_hash: str | None, now_ns: int, *, by: int | None = None
    ) -> UserRow | None:
        if user_id not in self._users or (by is not None and not self._in_force(by, user_id)):
            return None
        changed = self._change(replace(self._users[user_id], password_hash=password_hash))
        self._end_all(user_id, now_ns, but=by)
        return changed

    def rehash_password(self, user_id: int, instead_of: str, password_hash: str) -> bool:
        user = self._users.get(user_id)
        if user is None or user.password_hash != instead_of:
            return False
        self._keep(replace(user, password_hash=password_hash))
        return True

    def set_totp(self, user_id: int, sealed: bytes | None) -> None:
        self._steps.pop(user_id, None)
        self._change(replace(self._users[user_id], totp_sealed=sealed))

    def use_totp_step(self, user_id: int, step: int) -> bool:
        with self._lock:
            if self._steps.get(user_id, -1) >= step:
                return False
            self._steps[user_id] = step
            return True

    def first_operator(self, user_id: int, password_hash: str) -> UserRow | None:
        with self._lock:
            if any(user.role == "operator" for user in self._users.values()):
                return None
            return self._change(replace(self._users[user_id], role="operator", password_hash=password_hash))

    def set_preferences(self, user_id: int, preferences: Preferences) -> None:
        self._keep(replace(self._users[user_id], preferences=preferences))

    # -- recovery codes

    def set_recovery_codes(self, user_id: int, digests: Sequence[bytes]) -> None:
        self._codes[user_id] = dict.fromkeys(digests)

    def recovery_codes_left(self, user_id: int) -> int:
        return sum(used is None for used in self._codes.get(user_id, {}).values())

    def use_recovery_code(self, user_id: int, digest: bytes, now_ns: int) -> bool:
        with self._lock:
            mine = self._codes.get(user_id, {})
            if mine.get(digest, 0) is not None:
                return False
            mine[digest] = now_ns
            return True

    # -- passkeys

    def passkeys(self, user_id: int) -> Sequence[PasskeyRow]:
        return [row for row in self._passkeys.values() if row.user_id == user_id]

    def passkey(self, credential_id: bytes) -> PasskeyRow | None:
        return next((row for row in self._passkeys.values() if row.credential_id == credential_id), None)

    def add_passkey(
        self, user_id: int, credential_id: bytes, public_key: bytes, sign_count: int, transports: Sequence[str],
        label: str, now_ns: int, *, most: int | None = None,
    ) -> bool:  # fmt: skip
        if self.passkey(credential_id) is not None:
            return False
        if most is not None and len(self.passkeys(user_id)) >= most:
            return False
        number = self._number()
        self._passkeys[number] = PasskeyRow(
            number, user_id, credential_id, public_key, sign_count, tuple(transports), label, now_ns, None
        )
        return True

    def used_passkey(self, passkey_id: int, sign_count: int, now_ns: int, *, after: int) -> bool:
        row = self._passkeys.get(passkey_id)
        if row is None or row.sign_count != after:
            return False
        self._passkeys[passkey_id] = replace(row, sign_count=sign_count, last_used_ns=now_ns)
        return True

    def remove_passkey(self, user_id: int, passkey_id: int, *, leaving: Ways | None = None) -> bool:
        with self._lock:
            row = self._passkeys.get(passkey_id)
            if row is None or row.user_id != user_id:
                return False
            if leaving and not self._comes_in(self._users[user_id], leaving, but_passkey=passkey_id):
                return False
            del self._passkeys[passkey_id]
            self._change(self._users[user_id])
            return True

    # -- sessions

    def add_session(
        self, user: UserRow, digest: bytes, address: str, agent: str, now_ns: int, *, most: int | None = None
    ) -> int | None:
        if not self._as_proved(user):
            return None
        over = [row.id for row in self._sessions.values() if row.created_ns < now_ns - RETENTION_NS]
        for row_id in over:
            del self._sessions[row_id]
        number = self._number()
        self._sessions[number] = BrowserSession(
            number, user.id, digest, now_ns, now_ns, now_ns, address, agent, None
        )
        if most is not None:
            others = [row for row in self.sessions() if row.user_id == user.id and row.id != number]
            for row in sorted(others, key=lambda row: (-row.seen_ns, -row.id))[most - 1 :]:
                self._sessions[row.id] = replace(row, ended_ns=now_ns)
        self._revision += 1
        return number

    def sessions(self, begun_ns: int = 0, seen_ns: int = 0) -> Sequence[BrowserSession]:
        return [
            row
            for row in self._sessions.values()
            if row.ended_ns is None and row.created_ns >= begun_ns and row.seen_ns >= seen_ns
        ]

    def seen(self, times: Mapping[int, int]) -> None:
        for number, at_ns in times.items():
            row = self._sessions.get(number)
            if row is not None and row.seen_ns < at_ns:
                self._sessions[number] = replace(row, seen_ns=at_ns)

    def confirm_session(self, session_id: int, user: UserRow, digest: bytes, now_ns: int) -> bool:
        if not self._as_proved(user) or not self._in_force(session_id, user.id):
            return False
        self._sessions[session_id] = replace(self._sessions[session_id], digest=digest, confirmed_ns=now_ns)
        self._revision += 1
        return True

    def end_sessions(
        self, user_id: int, now_ns: int, *, only: int | None = None, but: int | None = None
    ) -> int:
        ended = [
            row
            for row in self.sessions()
            if row.user_id == user_id and (only is None or row.id == only) and (but is None or row.id != but)
        ]
        for row in ended:
            self._sessions[row.id] = replace(row, ended_ns=now_ns)
        self._revision += 1
        return len(ended)

    # -- one-time tokens

    def add_token(self, row: TokenRow) -> int:
        with self._lock:
            if any(known.digest == row.digest for known in self._tokens.values()):
                raise StoreBusy("a token of that digest is known")
            for over in [
                known.id
                for known in self._tokens.values()
                if known.expires_ns < row.created_ns - RETENTION_NS
            ]:
                del self._tokens[over]
            number = self._number()
            self._tokens[number] = replace(row, id=number)
            return number

    def token(self, purpose: Purpose, digest: bytes) -> TokenRow | None:
        found = (row for row in self._tokens.values() if row.purpose == purpose and row.digest == digest)
        return next(found, None)

    def tokens(self, purpose: Purpose) -> Sequence[TokenRow]:
        rows = [row for row in self._tokens.values() if row.purpose == purpose and row.spent_ns is None]
        return rows[::-1]

    def spend(self, token_id: int, now_ns: int) -> bool:
        with self._lock:
            row = self._tokens[token_id]
            if row.spent_ns is not None or row.expires_ns <= now_ns:
                return False
            self._tokens[token_id] = replace(row, spent_ns=now_ns)
            return True

    def revoke_token(self, token_id: int, now_ns: int) -> bool:
        with self._lock:
            row = self._tokens.get(token_id)
            if row is None or row.spent_ns is not None:
                return False
            self._tokens[token_id] = replace(row, spent_ns=now_ns)
            return True

    # -- the audit log

    def note(
        self, user_id: int, event: str, details: Mapping[str, str], address: str, agent: str, now_ns: int
    ) -> None:
        self.lines.append(AuditRow(self._number(), user_id, now_ns, event, dict(details), address, agent))

    def noted(self, user_id: int, events: Sequence[str], way: str, since_ns: int) -> int:
        return sum(
            row.user_id == user_id
            and row.event in events
            and row.details.get("way") == way
            and row.at_ns > since_ns
            for row in self.lines
        )

    def audit(self, user_id: int | None, before: int | None, limit: int) -> Sequence[AuditRow]:
        rows = [
            row
            for row in reversed(self.lines)
            if user_id in (None, row.user_id) and (before is None or row.id < before)
        ]
        return rows[:limit]

"""Sign-in under test: identity with users in a store in memory."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from argon2 import PasswordHasher
from support.events import tell_into
from tests.people.memory_store import HandClock, MemoryIdentity, PostBox

from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.people.browser_sessions import BrowserSessions, Origin, SignedIn
from outcry.people.model import BrowserSession, UserRow
from outcry.people.openid_provider import WebOpenIdProvider
from outcry.people.refusals import Reason, Refused
from outcry.people.service import Identity

SITE = "https://outcry.example.com"
SECRET = b"a secret of the server, 32 bytes"
OWNER, MEMBER = "owner@example.com", "ann@example.com"
PASSWORD, OTHER_PASSWORD = "slow green kettle drum", "seven brass lanterns"
HERE = Origin("192.0.2.1", "Firefox on Linux")


@dataclass
class IdentityHarness:
    """The identity service with its collaborators.

    Deferred work runs at once, unless `held` is a list that collects it. Password hashing is cheap unless a test asks
    for production cost."""

    clock: HandClock = field(default_factory=HandClock)
    store: MemoryIdentity = field(default_factory=MemoryIdentity)
    post: PostBox | None = field(default_factory=PostBox)
    reports: list[str] = field(default_factory=list)
    held: list[Callable[[], None]] | None = None
    openid: WebOpenIdProvider | None = None
    costly: bool = False

    def __post_init__(self) -> None:
        self.browser_sessions = BrowserSessions(self.store, SECRET, self.clock)
        self.identity = Identity(
            self.store, self.browser_sessions, SlidingWindowLimiter(self.clock.now_ns), self.clock, SECRET, self.post,
            SITE if self.post else "", later=self._later, openid=self.openid,
        )  # fmt: skip
        self.identity.report_to(tell_into(self.reports))
        if not self.costly:
            cheap = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
            self.identity._passwords._hasher = cheap

    def _later(self, work: Callable[[], None]) -> None:
        if self.held is None:
            work()
        else:
            self.held.append(work)

    # -- users and sessions

    def owner(self) -> SignedIn:
        """Create the operator by first setup."""
        return self.identity.set_up(self.identity.first_run.new_token(), OWNER, PASSWORD, HERE)

    def member(self, email: str = MEMBER) -> SignedIn:
        """Return a user whom the operator invited; create the user if necessary."""
        owner = self.store.user_named(OWNER) or self.owner().user
        token = self.identity.invite(owner, email, "member", "free", HERE).partition("?token=")[2]
        return self.identity.accept(token, email, PASSWORD, HERE)

    def session(self, signed: SignedIn) -> BrowserSession:
        """Return the session of a token."""
        found = self.browser_sessions.find(signed.token, self.clock.now_ns())
        assert found is not None
        return found[0]

    def user(self, user: UserRow | SignedIn) -> UserRow:
        """Return the stored user."""
        found = self.store.user(user.user.id if isinstance(user, SignedIn) else user.id)
        assert found is not None
        return found

    def in_force(self, token: str) -> bool:
        """Return whether a session token is valid."""
        return self.browser_sessions.find(token, self.clock.now_ns()) is not None

    def events(self, user: UserRow | SignedIn) -> list[str]:
        """Return the events in a user's audit log, oldest first."""
        number = user.user.id if isinstance(user, SignedIn) else user.id
        return [line.event for line in reversed(self.store.audit(number, None, 1000))]


def refusal(reason: Reason, field: str | None = None) -> "pytest.RaisesExc[Refused]":
    """Expect a refusal with this reason and, if given, for this field of the form."""
    return pytest.RaisesExc(
        Refused, check=lambda no: no.reason is reason and (field is None or no.field == field)
    )

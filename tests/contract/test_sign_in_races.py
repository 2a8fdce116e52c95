"""A change of credentials ends sign-ins in progress, on the real stores.

The change commits after the proof was checked and before the session is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from argon2 import PasswordHasher
from pyotp import TOTP
from tests.contract.databases import Place
from tests.contract.test_identity_store import NOW, at_once, user_of
from tests.people.passkey_authenticator import Authenticator
from tests.people.sign_in_harness import HERE, MEMBER, PASSWORD, SITE, IdentityHarness

from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.model import UserRow
from outcry.people.openid_model import OpenIdAnswer, OpenIdRequest
from outcry.people.refusals import Reason, Refused
from outcry.people.service import SecondFactorRequired
from outcry.people.store import SqlIdentityStore

HOST = SITE.removeprefix("https://")
NEW_PASSWORD, NEWEST_PASSWORD = "eleven tin weathercocks", "copper wire and old maps"
THERE = Origin("198.51.100.7", "the other browser")


class Interleaved:
    """Store on which another process acts right before the next write of a session."""

    def __init__(self, store: SqlIdentityStore) -> None:
        self._store = store
        self.before_session: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("add_session", "confirm_session"):
            return method

        def write(*given: Any, **more: Any) -> Any:
            act, self.before_session = self.before_session, None
            if act is not None:
                act()
            return method(*given, **more)

        return write


class Provider:
    """OpenID provider that always returns the member."""

    name = "Example"

    def address(self, asked: OpenIdRequest) -> str:
        return f"https://id.example.com/?state={asked.state}"

    def answer(self, code: str, _asked: OpenIdRequest) -> OpenIdAnswer:
        return OpenIdAnswer(
            "https://id.example.com", code, MEMBER, email_verified=True, authenticated_ns=None
        )


@dataclass
class Race:
    """Two processes on one database: `here` a sign-in is in progress, `there` the credentials change."""

    here: IdentityHarness
    there: IdentityHarness
    store: Interleaved
    member: UserRow
    keeper: SignedIn
    device: Authenticator

    def change(self) -> None:
        """Change the password in the browser that is signed in there."""
        user = self.there.user(self.member)
        self.there.identity.change_password(user, self.there.session(self.keeper), NEW_PASSWORD, THERE)

    def reset(self) -> None:
        """Set a password with the operator's link; the session that this creates is signed out again."""
        link = self.there.identity.reset_link(None, self.member.id, THERE)
        came = self.there.identity.reset(link.partition("?token=")[2], NEW_PASSWORD, THERE)
        if isinstance(came, SignedIn):
            self.there.identity.sign_out(self.there.session(came), THERE)

    def disable(self) -> None:
        self.there.identity.change_user(None, self.member.id, THERE, disabled=True)

    def disable_and_enable(self) -> None:
        self.disable()
        self.there.identity.change_user(None, self.member.id, THERE, disabled=False)

    def sessions(self) -> set[str]:
        """Return the browsers in which the member is signed in."""
        return {row.agent for row in self.store.sessions() if row.user_id == self.member.id}


@pytest.fixture
def race(place: Place) -> Race:
    store = Interleaved(SqlIdentityStore(place.open()))
    here = IdentityHarness(store=store, openid=Provider())  # type: ignore[arg-type]
    there = IdentityHarness(store=SqlIdentityStore(place.open()), clock=here.clock, post=here.post)  # type: ignore[arg-type]
    here.owner()
    link = here.identity.invite(None, MEMBER, "member", "free", HERE)
    keeper = there.identity.accept(link.partition("?token=")[2], MEMBER, PASSWORD, THERE)
    device = Authenticator(SITE)
    options, ticket = here.identity.new_passkey_options(keeper.user, HOST)
    here.identity.add_passkey(keeper.user, ticket, device.create(options), "Phone", HOST, SITE, HERE)
    return Race(here, there, store, keeper.user, keeper, device)


# -- ways to sign in


def by_password(race: Race) -> object:
    return race.here.identity.sign_in(MEMBER, PASSWORD, HERE)


def by_worn_password(race: Race) -> object:
    """Sign in with a hash of another cost than today's, so that the sign-in stores a new hash."""
    race.here.identity._passwords._hasher = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    return race.here.identity.sign_in(MEMBER, PASSWORD, HERE)


def by_passkey(race: Race) -> object:
    options, ticket = race.here.identity.passkey_options(HOST)
    return race.here.identity.passkey_sign_in(ticket, race.device.get(options), HOST, SITE, HERE)


def by_link(race: Race) -> object:
    race.here.identity.send_link(MEMBER, "a browser", HERE)
    assert race.here.post is not None
    return race.here.identity.follow_link(race.here.post.link(MEMBER), "a browser", HERE)


def by_openid(race: Race) -> object:
    address, ticket = race.here.identity.begin_openid("/")
    given = {"state": address.partition("state=")[2], "code": "member-7"}
    return race.here.identity.finish_openid(ticket, given, None, HERE)


def by_reset(race: Race) -> object:
    token = race.here.identity.reset_link(None, race.member.id, HERE).partition("?token=")[2]
    return race.here.identity.reset(token, NEWEST_PASSWORD, HERE)


def by_code(race: Race) -> object:
    """Enable a second factor, then sign in with it."""
    identity, clock = race.here.identity, race.here.clock
    secret, _ = identity.begin_totp(race.member)
    identity.finish_totp(race.member, secret, TOTP(secret).at(clock.at_ns // 10**9), HERE)
    clock.pass_s(60)
    came = identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(came, SecondFactorRequired)
    return identity.second_factor(came.ticket, TOTP(secret).at(clock.at_ns // 10**9), HERE)


WAYS = (by_password, by_worn_password, by_passkey, by_link, by_openid, by_reset, by_code)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", [Race.change, Race.reset, Race.disable, Race.disable_and_enable])
def test_a_sign_in_in_progress_ends_when_the_credentials_change(
    race: Race, way: Callable[[Race], object], change: Callable[[Race], None]
) -> None:
    race.store.before_session = lambda: change(race)
    with pytest.raises(Refused) as refused:
        way(race)
    assert race.store.before_session is None  # the credentials changed
    assert HERE.agent not in race.sessions()
    assert refused.value.reason is (Reason.DISABLED if change is Race.disable else Reason.CHANGED)
    assert "sign_in_failed" in race.here.events(race.member)


@pytest.mark.parametrize("way", WAYS)
def test_undisturbed_each_way_signs_in(race: Race, way: Callable[[Race], object]) -> None:
    """Each way signs in without a change; otherwise a way that always fails would pass the test above."""
    way(race)
    assert HERE.agent in race.sessions()


def test_an_invited_newcomer_who_is_disabled_meanwhile_does_not_come_in(race: Race) -> None:
    store = race.store

    def disable() -> None:
        newcomer = store.user_named("new@example.com")
        race.there.identity.change_user(None, newcomer.id, THERE, disabled=True)

    link = race.here.identity.invite(None, "new@example.com", "member", "free", HERE)
    store.before_session = disable
    with pytest.raises(Refused) as refused:
        race.here.identity.accept(link.partition("?token=")[2], "", PASSWORD, HERE)
    assert refused.value.reason is Reason.DISABLED
    newcomer = store.user_named("new@example.com")
    assert not [row for row in store.sessions() if row.user_id == newcomer.id]


@pytest.mark.parametrize("change", [Race.change, Race.reset, Race.disable])
def test_a_new_password_is_not_overwritten_by_a_new_hash_of_the_old_one(
    race: Race, change: Callable[[Race], None]
) -> None:
    """The sign-in has checked the old password and rehashes it while the password changes."""
    hasher = PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
    stored = list[str | None]()

    class Changing:
        verify = staticmethod(hasher.verify)
        check_needs_rehash = staticmethod(hasher.check_needs_rehash)

        def hash(self, password: bytes) -> str:
            change(race)
            stored.append(race.here.user(race.member).password_hash)
            return hasher.hash(password)

    race.here.identity._passwords._hasher = Changing()  # type: ignore[assignment]
    with pytest.raises(Refused):
        race.here.identity.sign_in(MEMBER, PASSWORD, HERE)
    now = race.here.user(race.member)
    assert HERE.agent not in race.sessions()
    if change is not Race.disable:
        assert [now.password_hash] == stored
        race.there.clock.pass_s(60)
        assert isinstance(race.there.identity.sign_in(MEMBER, NEW_PASSWORD, THERE), SignedIn)


@pytest.mark.parametrize("change", [Race.change, Race.reset, Race.disable])
def test_the_old_password_confirms_nobody_once_it_changed(race: Race, change: Callable[[Race], None]) -> None:
    """The browser that changes the password stays signed in; the old password must not confirm its session again."""
    session = race.there.session(race.keeper)
    race.here.browser_sessions.refresh(race.here.clock.at_ns, force=True)
    race.store.before_session = lambda: change(race)
    with pytest.raises(Refused):
        race.here.identity.confirm(session, PASSWORD, "", HERE)
    assert [row.digest for row in race.store.sessions() if row.id == session.id] in ([], [session.digest])


def test_a_removed_passkey_cannot_sign_in(race: Race) -> None:
    def remove() -> None:
        (passkey,) = race.there.identity.passkeys(race.member)
        race.there.identity.remove_passkey(race.member, passkey.id, THERE)

    race.store.before_session = remove
    with pytest.raises(Refused) as refused:
        by_passkey(race)
    assert refused.value.reason is Reason.CHANGED
    assert race.sessions() == {THERE.agent}


def test_of_two_browsers_that_change_the_password_at_once_the_later_one_does_not(race: Race) -> None:
    """A password change of an attacker's confirmed session is refused after the owner's change has signed it out."""
    thief = race.here.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(thief, SignedIn)
    session = race.here.session(thief)
    race.change()
    with pytest.raises(Refused) as refused:
        race.here.identity.change_password(thief.user, session, NEWEST_PASSWORD, HERE)
    assert refused.value.reason is Reason.CHANGED
    assert race.sessions() == {THERE.agent}
    assert isinstance(race.there.identity.sign_in(MEMBER, NEW_PASSWORD, THERE), SignedIn)


def test_of_many_sign_ins_at_the_instant_of_a_change_none_remains(place: Place) -> None:
    here, elsewhere = SqlIdentityStore(place.open()), SqlIdentityStore(place.open())
    ann = user_of(here)
    for n in range(5):
        proved = here.user(ann.id)
        assert proved is not None
        keeper = here.add_session(proved, b"keeper %d" % n, "", "", NOW)

        def sign_in(store: SqlIdentityStore, name: bytes, proved: UserRow = proved) -> bool:
            store.add_session(proved, name, "", "", NOW)
            return True

        def change(keeper: int | None = keeper, n: int = n) -> bool:
            return elsewhere.set_password(ann.id, f"hash {n}", NOW, by=keeper) is not None

        browser_sessions = (
            lambda store=store, k=k, n=n: sign_in(store, b"%d %d" % (n, k))
            for k, store in enumerate((here, elsewhere, here, elsewhere))
        )
        assert at_once(*browser_sessions, change) == 5
        assert [row.id for row in here.sessions()] == [keeper]
        here.end_sessions(ann.id, NOW)

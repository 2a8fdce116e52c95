"""Contract of user stores: single-use values are used once under concurrency, and users reach only their own rows."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.contract.databases import KINDS, Place, Places, upgrade
from tests.people.memory_store import MemoryIdentity

from outcry.access.account_store import SqlAccounts
from outcry.database import migrate as migration
from outcry.database.database import Database
from outcry.database.errors import StoreBusy
from outcry.people.model import Preferences, TokenRow, UserRow
from outcry.people.store import SqlIdentityStore
from outcry.sessions.store import SqlStore

DAY_NS = 24 * 3600 * 10**9
NOW = 1_767_366_245_123_456_789
TOKEN = TokenRow(
    id=0, purpose="invite", digest=b"t" * 32, user_id=None, email="new@example.com",
    details={"tier": "pro", "role": "member", "note": "für Ännchen"}, browser=b"b" * 32, created_ns=NOW,
    expires_ns=NOW + 100, spent_ns=None,
)  # fmt: skip


@dataclass
class People:
    """A user store as opened by two processes, and the key store of the same database."""

    store: SqlIdentityStore
    elsewhere: SqlIdentityStore
    accounts: SqlAccounts


@pytest.fixture
def people(place: Place) -> People:
    here = place.open()
    return People(SqlIdentityStore(here), SqlIdentityStore(place.open()), SqlStore(here))


@pytest.fixture(params=[*KINDS, "memory"])
def store(request: pytest.FixtureRequest, places: Places, tmp_path: Path) -> Iterator[SqlIdentityStore]:
    """Create the store of one process; the identity tests use the in-memory one."""
    if request.param == "memory":
        yield MemoryIdentity()
    else:
        with places.place(request.param, tmp_path) as place:
            yield SqlIdentityStore(place.open())


def user_of(store: SqlIdentityStore, email: str = "ann@example.com") -> UserRow:
    made = store.add_user(email, "member", "free", email.encode(), NOW)
    assert made is not None
    return made


def at_once(*works: Callable[[], bool]) -> int:
    """Return how many of the calls succeed when all start concurrently."""
    gate, results, faults = threading.Barrier(len(works)), list[bool](), list[BaseException]()

    def run(work: Callable[[], bool]) -> None:
        gate.wait(10)
        try:
            results.append(work())
        except BaseException as fault:  # noqa: BLE001 - told to the test
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not faults
    assert len(results) == len(works)
    return sum(results)


# -- users


def test_a_user_is_read_back_whole(store: SqlIdentityStore) -> None:
    made = store.add_user(" Ann@Example.com ", "operator", "pro", b"handle" * 5, NOW)
    assert made == UserRow(
        id=1, email="ann@example.com", role="operator", tier="pro", created_ns=NOW, disabled_ns=None,
        password_hash=None, totp_sealed=None, handle=b"handle" * 5, preferences=Preferences(),
    )  # fmt: skip
    assert store.user(1) == store.user_named("ANN@example.com ") == made
    assert store.user(2) is store.user_named("bob@example.com") is None
    other = user_of(store, "bob@example.com")
    assert list(store.users()) == [made, other]


def test_an_address_is_one_users(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    assert store.add_user("ANN@example.com", "member", "free", b"other", NOW) is None
    assert store.change_user(bob.id, email=" Ann@example.com") is False
    assert store.change_user(ann.id, email="ANN@example.com") is True
    assert store.change_user(bob.id, email="Robert@Example.com") is True
    assert store.user_named("robert@example.com") == replace(
        bob, email="robert@example.com", credentials_version=1
    )
    made = at_once(
        lambda: store.add_user("eve@example.com", "member", "free", b"1", NOW) is not None,
        lambda: people.elsewhere.add_user("eve@example.com", "member", "free", b"2", NOW) is not None,
    )
    assert made == 1


def test_one_handle_is_never_two_users(store: SqlIdentityStore) -> None:
    user_of(store)
    with pytest.raises(StoreBusy):
        store.add_user("bob@example.com", "member", "free", b"ann@example.com", NOW)
    assert len(store.users()) == 1


def test_what_is_not_given_is_not_changed(store: SqlIdentityStore) -> None:
    user = user_of(store)
    assert store.change_user(user.id) is True
    assert store.change_user(99, role="operator") is False
    assert store.change_user(99) is False
    assert store.change_user(user.id, role="operator", tier="admin") is True
    assert store.change_user(user.id, disabled_ns=NOW) is True
    changed = replace(user, role="operator", tier="admin", disabled_ns=NOW, credentials_version=1)
    assert store.user(user.id) == changed
    assert store.change_user(user.id, disabled_ns=0) is True
    assert store.user(user.id) == replace(changed, disabled_ns=None)


def test_password_second_factor_and_preferences(store: SqlIdentityStore) -> None:
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    shown = Preferences("de", "Europe/Berlin", "dark", 0, shortcuts=False)
    store.set_password(ann.id, "$argon2id$…", NOW)
    store.set_totp(ann.id, b"\x01sealed\x00")
    store.set_preferences(ann.id, shown)
    assert store.user(ann.id) == replace(
        ann, password_hash="$argon2id$…", totp_sealed=b"\x01sealed\x00", preferences=shown,
        credentials_version=2,
    )  # fmt: skip
    assert store.user(bob.id) == bob
    store.set_password(ann.id, None, NOW)
    store.set_totp(ann.id, None)
    assert store.user(ann.id) == replace(ann, preferences=shown, credentials_version=4)


def test_a_time_step_counts_once_and_none_before_it(people: People) -> None:
    store = people.store
    user = user_of(store)
    assert [store.use_totp_step(user.id, step) for step in (7, 7, 6, 8, 8)] == [
        True, False, False, True, False
    ]  # fmt: skip
    assert store.use_totp_step(99, 1) is False
    assert store.use_totp_step(user_of(store, "bob@example.com").id, 7) is True
    store.set_totp(user.id, b"anew")
    assert store.use_totp_step(user.id, 5) is True
    for step in range(10, 30):
        assert at_once(
            lambda step=step: store.use_totp_step(user.id, step),
            lambda step=step: people.elsewhere.use_totp_step(user.id, step),
        ) == 1  # fmt: skip


def test_there_is_one_first_operator(people: People) -> None:
    store = people.store
    users = [user_of(store, f"{n}@example.com") for n in range(4)]
    assert store.first_operator(99, "hash") is None
    assert at_once(
        *(lambda n=n, user=user: (store, people.elsewhere)[n % 2].first_operator(user.id, f"hash {user.id}")
          is not None for n, user in enumerate(users))
    ) == 1  # fmt: skip
    assert [user.role for user in store.users()].count("operator") == 1
    assert not any(store.first_operator(user.id, "other") for user in users)
    (first,) = (user.id for user in store.users() if user.role == "operator")
    assert [user.password_hash for user in store.users()] == [
        f"hash {user.id}" if user.id == first else None for user in users
    ]
    store.change_user(first, role="member")
    again = store.first_operator(users[0].id, "hash")
    assert again == store.user(users[0].id)
    assert again is not None
    assert (again.role, again.password_hash) == ("operator", "hash")


def test_the_last_operator_does_not_go(store: SqlIdentityStore) -> None:
    ann, bob, eve = (user_of(store, f"{name}@example.com") for name in ("ann", "bob", "eve"))
    for user in (ann, bob):
        store.change_user(user.id, role="operator")
    store.set_password(ann.id, "hash", NOW)
    assert store.change_user(eve.id, role="member", leaving="own") is True  # has no effect
    assert store.change_user(ann.id, disabled_ns=NOW, leaving="own") is False  # Bob cannot sign in
    assert store.user(ann.id) == replace(ann, role="operator", password_hash="hash", credentials_version=1)
    assert store.change_user(bob.id, role="member", leaving="own") is True
    store.change_user(bob.id, role="operator", disabled_ns=NOW)
    assert store.change_user(ann.id, role="member", leaving="any") is False  # Bob is disabled
    assert store.change_user(bob.id, role="member", leaving="any") is True
    store.change_user(bob.id, role="operator", disabled_ns=0)
    store.add_passkey(bob.id, b"bob", b"", 0, [], "", NOW)
    assert store.change_user(ann.id, role="member", leaving="own") is True
    assert store.change_user(bob.id, role="member", leaving="any") is False
    store.change_user(eve.id, role="operator")
    assert store.set_openid(eve.id, "https://id.example.com eve", None) is True
    # Eve signs in with the provider only.
    assert store.change_user(bob.id, role="member", leaving="own") is False
    assert store.change_user(bob.id, role="member", leaving="any") is True
    assert store.change_user(eve.id, role="member") is True


def test_of_two_operators_who_take_it_from_each_other_one_remains(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    for user in (ann, bob):
        store.set_password(user.id, "hash", NOW)
    for n in range(20):
        for user in (ann, bob):
            store.change_user(user.id, role="operator", disabled_ns=0)
        change: dict[str, Any] = {"role": "member"} if n % 2 else {"disabled_ns": NOW}
        assert at_once(
            lambda change=change: store.change_user(ann.id, leaving="any", **change),
            lambda change=change: people.elsewhere.change_user(bob.id, leaving="any", **change),
        ) == 1  # fmt: skip


def test_one_the_provider_knows_is_one_user(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    assert store.user_of_openid("https://id.example.com 7") is None
    assert store.set_openid(ann.id, "https://id.example.com 7", "https://id.example.com 6") is False
    assert store.set_openid(ann.id, "https://id.example.com 7", None) is True
    assert store.user_of_openid("https://id.example.com 7") == replace(ann, openid="https://id.example.com 7")
    assert store.set_openid(ann.id, "https://id.example.com 8", None) is False
    assert store.set_openid(bob.id, "https://id.example.com 7", None) is False
    assert store.set_openid(99, "https://id.example.com 9", None) is False
    assert store.set_openid(ann.id, "https://id.example.com 8", "https://id.example.com 7") is True
    for n in range(10):
        zoe, max_ = (user_of(store, f"{name}{n}@example.com") for name in ("zoe", "max"))
        assert at_once(
            lambda zoe=zoe, n=n: store.set_openid(zoe.id, f"it {n}", None),
            lambda max_=max_, n=n: people.elsewhere.set_openid(max_.id, f"it {n}", None),
        ) == 1  # fmt: skip


def test_nobody_has_more_passkeys_than_may_be_had_however_many_are_added_at_once(people: People) -> None:
    ann, bob = user_of(people.store), user_of(people.store, "bob@example.com")
    people.store.add_passkey(bob.id, b"bob", b"", 0, [], "", NOW)
    assert at_once(
        *(lambda n=n: (people.store, people.elsewhere)[n % 2].add_passkey(
            ann.id, b"%d" % n, b"", 0, [], "", NOW, most=3) for n in range(8))
    ) == 3  # fmt: skip
    assert len(people.store.passkeys(ann.id)) == 3
    assert people.store.add_passkey(bob.id, b"other", b"", 0, [], "", NOW, most=2) is True


def test_the_last_passkey_goes_only_where_there_is_a_password(people: People) -> None:
    store = people.store
    user = user_of(store)
    for _ in range(10):
        for name in (b"one", b"two"):
            store.add_passkey(user.id, name, b"", 0, [], "", NOW)
        one, two = (row.id for row in store.passkeys(user.id))
        assert store.remove_passkey(99, one, leaving="own") is False
        assert at_once(
            lambda one=one: store.remove_passkey(user.id, one, leaving="own"),
            lambda two=two: people.elsewhere.remove_passkey(user.id, two, leaving="own"),
        ) == 1  # fmt: skip
        (left,) = (row.id for row in store.passkeys(user.id))
        assert store.remove_passkey(user.id, left, leaving="own") is False
        store.set_password(user.id, "hash", NOW)
        assert store.remove_passkey(user.id, left, leaving="own") is True
        store.set_password(user.id, None, NOW)


# -- recovery codes


def test_recovery_codes_are_spent_one_by_one(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    store.set_recovery_codes(ann.id, [b"1", b"2", b"3"])
    store.set_recovery_codes(bob.id, [b"1"])
    assert store.use_recovery_code(ann.id, b"1", NOW) is True
    assert store.use_recovery_code(ann.id, b"1", NOW) is False
    assert store.use_recovery_code(ann.id, b"4", NOW) is False
    assert (store.recovery_codes_left(ann.id), store.recovery_codes_left(bob.id)) == (2, 1)
    assert at_once(
        lambda: store.use_recovery_code(ann.id, b"2", NOW),
        lambda: people.elsewhere.use_recovery_code(ann.id, b"2", NOW),
    ) == 1  # fmt: skip
    store.set_recovery_codes(ann.id, [b"1", b"5"])
    assert store.recovery_codes_left(ann.id) == 2
    assert store.use_recovery_code(ann.id, b"3", NOW) is False
    assert store.use_recovery_code(ann.id, b"1", NOW) is True
    store.set_recovery_codes(ann.id, [])
    assert store.recovery_codes_left(ann.id) == 0
    assert store.use_recovery_code(bob.id, b"1", NOW) is True


# -- passkeys


def test_passkeys_are_kept_by_credential_and_removed_by_their_user_alone(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    assert (
        store.add_passkey(ann.id, b"\x00one", b"key", 2**32 - 1, ["usb", "nfc"], "Gelber Schlüssel", NOW)
        is True
    )
    assert store.add_passkey(bob.id, b"\x00one", b"key", 0, [], "", NOW) is False
    assert store.add_passkey(ann.id, b"two", b"key", 0, [], "", NOW) is True
    one, two = store.passkeys(ann.id)
    assert (one.credential_id, one.public_key, one.sign_count) == (b"\x00one", b"key", 2**32 - 1)
    assert (one.transports, one.label, one.created_ns) == (("usb", "nfc"), "Gelber Schlüssel", NOW)
    assert (one.user_id, one.last_used_ns, two.transports) == (ann.id, None, ())
    assert store.used_passkey(two.id, 5, NOW + 1, after=0) is True
    assert store.used_passkey(two.id, 6, NOW + 2, after=0) is False  # answered by another process meanwhile
    assert store.used_passkey(99, 6, NOW + 2, after=0) is False
    assert store.passkey(b"two") == replace(two, sign_count=5, last_used_ns=NOW + 1)
    assert store.passkey(b"one") is None
    assert store.remove_passkey(bob.id, one.id) is False
    assert store.remove_passkey(ann.id, one.id) is True
    assert store.remove_passkey(ann.id, one.id) is False
    assert [row.credential_id for row in store.passkeys(ann.id)] == [b"two"]
    assert list(store.passkeys(bob.id)) == []
    assert at_once(
        lambda: store.add_passkey(ann.id, b"three", b"", 0, [], "", NOW),
        lambda: people.elsewhere.add_passkey(bob.id, b"three", b"", 0, [], "", NOW),
    ) == 1  # fmt: skip


# -- signed-in browsers


def test_a_session_is_read_back_whole_until_it_ends(store: SqlIdentityStore) -> None:
    user = user_of(store)
    number = store.add_session(user, b"digest", "2001:db8::1", "Firefox – Ä", NOW)
    (row,) = store.sessions()
    assert (row.id, row.user_id, row.digest, row.address, row.agent) == (
        number, user.id, b"digest", "2001:db8::1", "Firefox – Ä"
    )  # fmt: skip
    assert (row.created_ns, row.seen_ns, row.confirmed_ns, row.ended_ns) == (NOW, NOW, NOW, None)
    assert store.confirm_session(number, user, b"anew", NOW + 5) is True
    (after,) = store.sessions()
    assert after == replace(row, digest=b"anew", confirmed_ns=NOW + 5)


def test_sessions_are_ended_one_or_all_but_one(store: SqlIdentityStore) -> None:
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    numbers = [store.add_session(ann, b"%d" % n, "", "", NOW) for n in range(4)]
    other = store.add_session(bob, b"bob", "", "", NOW)
    assert store.end_sessions(ann.id, NOW, only=other) == 0
    assert store.end_sessions(ann.id, NOW, only=numbers[0]) == 1
    assert store.end_sessions(ann.id, NOW, only=numbers[0]) == 0
    assert store.end_sessions(ann.id, NOW, but=numbers[2]) == 2
    assert [row.id for row in store.sessions()] == [numbers[2], other]
    assert store.end_sessions(ann.id, NOW) == 1
    assert [row.id for row in store.sessions()] == [other]


def test_of_too_many_sessions_the_one_unused_for_longest_ends(people: People) -> None:
    store = people.store
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    other = store.add_session(bob, b"bob", "", "", NOW)
    first, second, third = (store.add_session(ann, b"%d" % n, "", "", NOW + n, most=3) for n in range(3))
    store.seen({first: NOW + 9})
    fourth = store.add_session(ann, b"4", "", "", NOW + 5, most=3)
    assert [row.id for row in store.sessions()] == [other, first, third, fourth]
    fifth = store.add_session(ann, b"5", "", "", NOW - 5, most=3)  # the clock was set back
    assert [row.id for row in store.sessions()] == [other, first, fourth, fifth]
    assert store.end_sessions(ann.id, NOW, only=second) == 0
    assert at_once(
        *(lambda n=n: (store, people.elsewhere)[n % 2].add_session(
            ann, b"at once %d" % n, "", "", NOW + 20, most=3) > 0 for n in range(8))
    ) == 8  # fmt: skip
    assert len([row for row in store.sessions() if row.user_id == ann.id]) == 3


def test_sessions_long_over_are_not_read(store: SqlIdentityStore) -> None:
    user = user_of(store)
    old, unused, used = (store.add_session(user, b"%d" % n, "", "", NOW + n) for n in range(3))
    store.seen({old: NOW + 90, used: NOW + 50})
    assert [row.id for row in store.sessions(begun_ns=NOW + 1, seen_ns=NOW + 50)] == [used]
    assert [row.id for row in store.sessions(begun_ns=NOW + 1)] == [unused, used]
    assert [row.id for row in store.sessions(seen_ns=NOW + 50)] == [old, used]


def test_a_use_is_noted_and_never_goes_back(store: SqlIdentityStore) -> None:
    user = user_of(store)
    one, two = (store.add_session(user, digest, "", "", NOW) for digest in (b"1", b"2"))
    store.seen({one: NOW + 9, two: NOW - 9, 99: NOW})
    store.seen({one: NOW + 3})
    store.seen({})
    assert {row.id: row.seen_ns for row in store.sessions()} == {one: NOW + 9, two: NOW}


def test_sessions_and_tokens_long_over_are_forgotten(store: SqlIdentityStore) -> None:
    user = user_of(store)
    store.add_session(user, b"old", "", "", NOW)
    store.add_token(TOKEN)
    store.add_session(user, b"new", "", "", NOW + 100 * DAY_NS)
    assert len(store.sessions()) == 2
    store.add_session(user, b"newest", "", "", NOW + 100 * DAY_NS + 1)
    assert [row.digest for row in store.sessions()] == [b"new", b"newest"]
    later = replace(
        TOKEN, digest=b"later", created_ns=TOKEN.expires_ns + 100 * DAY_NS, expires_ns=NOW + 200 * DAY_NS
    )
    store.add_token(later)
    assert len(store.tokens("invite")) == 2
    store.add_token(replace(later, digest=b"latest", created_ns=later.created_ns + 1))
    assert [row.digest for row in store.tokens("invite")] == [b"latest", b"later"]


# -- one-time tokens


def test_a_token_is_read_back_whole_by_its_purpose(store: SqlIdentityStore) -> None:
    user = user_of(store)
    number = store.add_token(TOKEN)
    assert store.token("invite", TOKEN.digest) == replace(TOKEN, id=number)
    assert store.token("reset", TOKEN.digest) is None
    assert store.token("invite", b"other") is None
    bare = replace(TOKEN, purpose="reset", digest=b"r", user_id=user.id, email="", details={}, browser=None)
    again = store.add_token(bare)
    assert store.token("reset", b"r") == replace(bare, id=again)
    assert [row.id for row in store.tokens("invite")] == [number]


def test_a_token_is_spent_once_and_not_when_its_time_is_over(people: People) -> None:
    store = people.store
    one = store.add_token(TOKEN)
    two = store.add_token(replace(TOKEN, digest=b"2"))
    assert store.spend(one, TOKEN.expires_ns) is False
    assert store.spend(99, NOW) is False
    assert store.spend(one, TOKEN.expires_ns - 1) is True
    assert store.spend(one, TOKEN.expires_ns - 1) is False
    spent = store.token("invite", TOKEN.digest)
    assert spent is not None
    assert spent.spent_ns == TOKEN.expires_ns - 1
    assert [row.id for row in store.tokens("invite")] == [two]
    for n in range(20):
        number = store.add_token(replace(TOKEN, digest=b"race %d" % n))
        assert at_once(
            lambda number=number: store.spend(number, NOW),
            lambda number=number: people.elsewhere.spend(number, NOW),
        ) == 1  # fmt: skip


def test_an_invitation_and_its_account_are_one(store: SqlIdentityStore) -> None:
    """A used email address leaves the invitation valid; a used invitation creates no account."""
    ann = user_of(store)
    store.set_password(ann.id, "hash", NOW)
    invitation = store.add_token(TOKEN)

    def admit(email: str, handle: bytes = b"h", *, claims: bool = True, **way: str) -> UserRow | str:
        return store.admit(invitation, email, "operator", "pro", handle, NOW, claims=claims, **way)  # type: ignore[arg-type]

    assert admit(ann.email) == "taken"
    assert store.token("invite", TOKEN.digest) == replace(TOKEN, id=invitation)
    keyed = user_of(store, "keyed@example.com")
    assert admit(keyed.email, claims=False) == "taken"
    store.change_user(keyed.id, disabled_ns=NOW)
    assert admit(keyed.email) == "taken"
    store.change_user(keyed.id, disabled_ns=0)
    claimed = admit(keyed.email, password_hash="hashed")
    assert claimed == replace(
        keyed, role="operator", tier="pro", password_hash="hashed", credentials_version=2
    )
    assert store.user(keyed.id) == claimed
    assert admit("new@example.com") == "spent"
    assert store.user_named("new@example.com") is None
    invitation = store.add_token(replace(TOKEN, digest=b"2"))
    made = admit("New@example.com", b"n", openid="issuer subject")
    assert isinstance(made, UserRow)
    assert (made.email, made.openid, made.password_hash, made.handle) == (
        "new@example.com", "issuer subject", None, b"n"
    )  # fmt: skip
    assert store.user_of_openid("issuer subject") == made


def test_of_several_who_come_by_one_invitation_one_does(people: People) -> None:
    for n in range(10):
        number = people.store.add_token(replace(TOKEN, digest=b"race %d" % n))
        came = at_once(
            *(lambda number=number, place=place, email=email: isinstance(place.admit(
                number, email, "member", "free", email.encode(), NOW, claims=True, password_hash="x"), UserRow)
              for place, email in ((people.store, f"a{n}@example.com"), (people.elsewhere, f"b{n}@example.com")))
        )  # fmt: skip
        assert came == 1
    assert len(people.store.users()) == 10


def test_keys_of_a_claimed_account_are_of_its_tier(people: People) -> None:
    user = user_of(people.store)
    people.accounts.add_key(user.id, "free", "outcry_1", b"1", NOW)
    before, invitation = people.accounts.revision(), people.store.add_token(TOKEN)
    people.store.admit(invitation, user.email, "member", "pro", b"", NOW, claims=True, password_hash="x")
    assert [row.tier for row in people.accounts.keys_since(before)] == ["pro"]


def test_a_token_taken_back_is_spent_by_nobody(people: People) -> None:
    store = people.store
    number = store.add_token(TOKEN)
    assert store.revoke_token(number, TOKEN.expires_ns + 5) is True
    assert store.revoke_token(number, NOW) is False
    assert store.spend(number, NOW) is False
    assert list(store.tokens("invite")) == []
    raced = store.add_token(replace(TOKEN, digest=b"raced"))
    assert at_once(
        lambda: store.spend(raced, NOW), lambda: people.elsewhere.revoke_token(raced, NOW)
    ) == 1  # fmt: skip


# -- the audit log


def test_the_log_is_read_newest_first_by_user_and_page(store: SqlIdentityStore) -> None:
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    for n in range(5):
        store.note(ann.id, "sign_in", {"n": str(n), "wer": "Ä"}, "192.0.2.1", "Firefox", NOW + n)
    store.note(bob.id, "key_created", {}, "", "", NOW)
    lines = store.audit(ann.id, None, 3)
    assert [line.details for line in lines] == [{"n": n, "wer": "Ä"} for n in "432"]
    newest = lines[0]
    assert (newest.user_id, newest.at_ns, newest.event, newest.address, newest.agent) == (
        ann.id, NOW + 4, "sign_in", "192.0.2.1", "Firefox"
    )  # fmt: skip
    assert [line.details["n"] for line in store.audit(ann.id, lines[-1].id, 9)] == ["1", "0"]
    assert [line.user_id for line in store.audit(None, None, 2)] == [bob.id, ann.id]
    assert len(store.audit(None, None, 99)) == 6


def test_lines_are_counted_by_user_event_way_and_time(store: SqlIdentityStore) -> None:
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    failed = ("sign_in_failed", "confirm_failed")
    store.note(ann.id, "sign_in_failed", {"way": "code"}, "", "", NOW)
    store.note(ann.id, "confirm_failed", {"by": "Ä", "way": "code"}, "", "", NOW + 1)
    store.note(ann.id, "sign_in_failed", {"way": "password"}, "", "", NOW + 1)
    store.note(ann.id, "sign_in_failed", {"agent": '"way": "code"'}, "", "", NOW + 1)
    store.note(ann.id, "sign_in_failed", {"way": "codeword"}, "", "", NOW + 1)
    store.note(ann.id, "sign_in", {"way": "code"}, "", "", NOW + 1)
    store.note(bob.id, "sign_in_failed", {"way": "code"}, "", "", NOW + 1)
    assert store.noted(ann.id, failed, "code", NOW - 1) == 2
    assert store.noted(ann.id, failed, "code", NOW) == 1
    assert store.noted(ann.id, failed, "code", NOW + 1) == 0
    assert store.noted(ann.id, failed, "co_e", NOW - 1) == 0
    assert store.noted(bob.id, failed, "code", NOW - 1) == 1


# -- changes seen by other processes and cached answers


def test_a_sign_in_is_seen_elsewhere_and_no_answer_is_computed_anew_for_it(people: People) -> None:
    """Cached answers depend on the revision of accounts, sign-ins on the revision of users."""
    store, answers = people.store, people.accounts.revision()
    seen = [people.elsewhere.revision()]
    user = user_of(store)

    def now() -> UserRow:
        return store.users()[0]

    for write in (
        lambda: store.set_password(user.id, "hash", NOW),
        lambda: store.set_preferences(user.id, Preferences()),
        lambda: store.add_session(now(), b"1", "", "", NOW),
        lambda: store.confirm_session(1, now(), b"2", NOW),
        lambda: store.end_sessions(user.id, NOW),
        lambda: store.first_operator(user.id, "hash"),
    ):
        seen.append(people.elsewhere.revision())
        write()
    seen.append(people.elsewhere.revision())
    assert seen == sorted(set(seen))
    assert people.accounts.revision() == answers


def test_notes_uses_tokens_and_codes_move_nothing(people: People) -> None:
    store = people.store
    user = user_of(store)
    store.add_session(user, b"1", "", "", NOW)
    store.add_passkey(user.id, b"1", b"", 0, [], "", NOW)
    before = store.revision()
    store.seen({1: NOW + 1})
    assert store.used_passkey(1, 1, NOW, after=0) is True
    store.use_totp_step(user.id, 1)
    store.set_recovery_codes(user.id, [b"1"])
    store.use_recovery_code(user.id, b"1", NOW)
    store.spend(store.add_token(TOKEN), NOW)
    store.note(user.id, "sign_in", {}, "", "", NOW)
    assert store.revision() == before


def test_keys_follow_their_users_tier_and_standing(people: People) -> None:
    """The revision of accounts changes, so that processes reload cached keys."""
    store, accounts = people.store, people.accounts
    ann, bob = user_of(store), user_of(store, "bob@example.com")
    for n, user in enumerate((ann, ann, bob)):
        accounts.add_key(user.id, "free", f"outcry_{n}", b"%d" % n, NOW)
    accounts.revoke_key_of(ann.id, accounts.keys(ann.id)[1].id, NOW)
    before = accounts.revision()
    store.change_user(ann.id, tier="pro")
    assert accounts.revision() > before
    assert [row.tier for row in accounts.keys(ann.id)] == ["pro", "free"]
    assert [row.tier for row in accounts.keys(bob.id)] == ["free"]
    before = accounts.revision()
    store.change_user(ann.id, disabled_ns=NOW)
    assert accounts.revision() > before
    listed = accounts.keys()
    assert [row.disabled_ns for row in listed] == [NOW, NOW, None]
    assert [row.is_live(NOW) for row in listed] == [False, False, True]


def test_whoever_had_a_key_before_there_were_people_is_a_member_with_a_handle(empty_place: Place) -> None:
    engine = empty_place.engine()
    upgrade(engine, "0002")
    with engine.begin() as connection:
        for n in range(3):
            connection.execute(text(f"INSERT INTO users (email, created_ns) VALUES ('{n}@example.com', {n})"))
        connection.execute(
            text(
                "INSERT INTO keys (user_id, tier, prefix, digest, created_ns) VALUES (2, 'pro', 'outcry_a', 'd', 1)"
            )
        )
    assert migration.migrate(engine)
    store = SqlIdentityStore(Database(engine))
    users = store.users()
    assert [(user.role, user.tier, user.disabled_ns, user.preferences) for user in users] == [
        ("member", "free", None, Preferences())
    ] * 3
    assert len({user.handle for user in users}) == 3
    assert {len(user.handle) for user in users} == {32}
    (key,) = SqlStore(Database(engine)).keys()
    assert (key.email, key.label, key.expires_ns, key.last_used_ns, key.replaced_by) == (
        "1@example.com", "", None, None, None
    )  # fmt: skip


def test_somebody_with_a_password_signs_in_after_the_migration_that_counts_credentials(
    empty_place: Place,
) -> None:
    """Rows of the previous version start at version 0, which the session compares."""
    engine = empty_place.engine()
    upgrade(engine, "0008")
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO users (email, created_ns, password_hash, handle) VALUES ('a@example.com', 1, 'hash', 'h')"
            )
        )
    assert migration.migrate(engine)
    store = SqlIdentityStore(Database(engine))
    (user,) = store.users()
    assert (user.password_hash, user.credentials_version) == ("hash", 0)
    assert store.add_session(user, b"1", "", "", NOW) is not None
    assert store.set_password(user.id, "other", NOW) == replace(
        user, password_hash="other", credentials_version=1
    )
    assert store.add_session(user, b"2", "", "", NOW) is None
    assert list(store.sessions()) == []

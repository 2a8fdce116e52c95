"""First setup, password sign-in, confirming identity, and signing out: each rule."""

import contextlib
import time
from threading import Event, Thread

import pytest
from argon2 import PasswordHasher
from tests.people.sign_in_harness import (
    HERE,
    MEMBER,
    OTHER_PASSWORD,
    OWNER,
    PASSWORD,
    IdentityHarness,
    refusal,
)
from tests.timeouts import wait_until

from outcry.people.browser_sessions import IDLE_NS, LONGEST_NS, Origin, SignedIn
from outcry.people.passwords import LANES, MEMORY_KIB, PASSES
from outcry.people.refusals import Reason, Refused
from outcry.people.service import SecondFactorRequired


@pytest.fixture
def harness() -> IdentityHarness:
    return IdentityHarness(costly=True)


# -- first setup


def test_setup_creates_the_first_operator_and_signs_in(harness: IdentityHarness) -> None:
    assert harness.identity.first_run.is_pending()
    signed = harness.identity.set_up(
        harness.identity.first_run.new_token(), " Owner@Example.com ", PASSWORD, HERE
    )
    assert (signed.user.email, signed.user.role) == (OWNER, "operator")
    assert harness.in_force(signed.token)
    assert not harness.identity.first_run.is_pending()
    assert harness.events(signed) == ["set_up", "sign_in"]


def test_set_up_needs_the_newest_token_within_a_day(harness: IdentityHarness) -> None:
    older = harness.identity.first_run.new_token()
    token = harness.identity.first_run.new_token()
    with refusal(Reason.LINK, "token"):
        harness.identity.set_up(older, OWNER, PASSWORD, HERE)
    harness.clock.pass_s(24 * 3600)
    with refusal(Reason.LINK, "token"):
        harness.identity.set_up(token, OWNER, PASSWORD, HERE)


def test_an_invalid_address_or_password_does_not_spend_the_token(harness: IdentityHarness) -> None:
    token = harness.identity.first_run.new_token()
    with refusal(Reason.EMAIL_FORM, "email"):
        harness.identity.set_up(token, "owner", PASSWORD, HERE)
    with refusal(Reason.PASSWORD_SHORT, "password"):
        harness.identity.set_up(token, OWNER, "short", HERE)
    assert harness.identity.set_up(token, OWNER, PASSWORD, HERE).user.role == "operator"


def test_of_two_set_ups_at_once_one_succeeds(harness: IdentityHarness) -> None:
    token, made, refused = harness.identity.first_run.new_token(), list[SignedIn](), list[Refused]()

    def set_up(email: str) -> None:
        try:
            made.append(harness.identity.set_up(token, email, PASSWORD, HERE))
        except Refused as no:
            refused.append(no)

    threads = [Thread(target=set_up, args=(f"person{number}@example.com",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(made), len(refused)) == (1, 3)
    assert [user.email for user in harness.store.users() if user.role == "operator"] == [made[0].user.email]
    assert all(user.password_hash is None for user in harness.store.users() if user.role != "operator")


def test_set_up_is_over_once_there_is_an_operator(harness: IdentityHarness) -> None:
    harness.owner()
    with refusal(Reason.SET_UP):
        harness.identity.set_up(harness.identity.first_run.new_token(), "other@example.com", PASSWORD, HERE)


def test_set_up_claims_an_account_created_with_a_key_but_none_in_use(harness: IdentityHarness) -> None:
    made = harness.store.add_user(OWNER, "member", "pro", b"h" * 32, harness.clock.now_ns())
    signed = harness.owner()
    assert made is not None
    assert (signed.user.id, signed.user.role) == (made.id, "operator")
    other = IdentityHarness()
    used = other.store.add_user(OWNER, "member", "pro", b"h" * 32, other.clock.now_ns())
    assert used is not None
    other.store.set_password(
        used.id, PasswordHasher(time_cost=1, memory_cost=64).hash("a password of theirs"), 0
    )
    with refusal(Reason.EMAIL_TAKEN, "email"):
        other.owner()


# -- signing in


def test_sign_in_by_password(harness: IdentityHarness) -> None:
    user = harness.member().user
    signed = harness.identity.sign_in("  ANN@example.com", PASSWORD, HERE)
    assert isinstance(signed, SignedIn)
    assert signed.user.id == user.id
    session = harness.session(signed)
    assert (session.address, session.agent) == (HERE.address, HERE.agent)
    assert harness.events(user)[-1] == "sign_in"


def test_every_sign_in_has_its_own_token_stored_as_a_digest(harness: IdentityHarness) -> None:
    first = harness.member()
    second = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(second, SignedIn)
    assert first.token != second.token
    assert len(second.token) >= 43  # 256 bits in base 64
    stored = b"".join(row.digest for row in harness.store.sessions())
    assert second.token.encode() not in stored


def test_a_wrong_password_and_an_unknown_address_get_the_same_error(harness: IdentityHarness) -> None:
    user = harness.member().user
    for email, password in ((MEMBER, OTHER_PASSWORD), ("nobody@example.com", PASSWORD), (MEMBER, "")):
        with refusal(Reason.WRONG, ""):
            harness.identity.sign_in(email, password, HERE)
    assert harness.events(user)[-2:] == ["sign_in_failed", "sign_in_failed"]
    assert {line.user_id for line in harness.store.lines if line.event == "sign_in_failed"} == {user.id}


def test_an_unknown_address_or_missing_password_costs_a_hash_too(harness: IdentityHarness) -> None:
    """Counted, not timed: the hasher verifies a hash that costs as much as a current one."""
    harness.member()
    harness.store.add_user("keys@example.com", "member", "free", b"k" * 32, harness.clock.now_ns())
    asked = list[tuple[int, int, int]]()
    verify = harness.identity._passwords._hasher.verify

    class Counting:
        def verify(self, stored: str, password: bytes) -> bool:
            parts = dict(part.split("=") for part in stored.split("$")[3].split(","))
            asked.append((int(parts["m"]), int(parts["t"]), int(parts["p"])))
            return verify(stored, password)

    harness.identity._passwords._hasher = Counting()  # type: ignore[assignment]
    for email in (MEMBER, "nobody@example.com", "keys@example.com"):
        with refusal(Reason.WRONG):
            harness.identity.sign_in(email, OTHER_PASSWORD, HERE)
    assert asked == [(64 * 1024, 3, 1)] * 3


def test_a_failure_is_logged_after_the_response() -> None:
    harness = IdentityHarness()
    user = harness.member().user
    harness.held = []
    with refusal(Reason.WRONG):
        harness.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE)
    assert "sign_in_failed" not in harness.events(user)
    harness.held.pop()()
    assert harness.events(user)[-1] == "sign_in_failed"


def test_at_most_two_hashes_run_at_once(harness: IdentityHarness) -> None:
    harness.member()
    working, most = 0, 0
    verify = harness.identity._passwords._hasher.verify

    class Slow:
        def verify(self, stored: str, password: bytes) -> bool:
            nonlocal working, most
            working += 1
            most = max(most, working)
            time.sleep(0.02)
            try:
                return verify(stored, password)
            finally:
                working -= 1

    harness.identity._passwords._hasher = Slow()  # type: ignore[assignment]

    def sign_in(number: int) -> None:
        with contextlib.suppress(Refused):
            harness.identity.sign_in(f"n{number}@example.com", PASSWORD, Origin(f"192.0.2.{number}"))

    threads = [Thread(target=sign_in, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_full_queue_refuses_sign_ins_at_once() -> None:
    """Two hashes run and six wait.

    That is half of the threads that serve pages, so the other half stays available."""
    harness = IdentityHarness()
    harness.member()
    go_on = Event()

    class BlockedHasher:
        def verify(self, stored: str, password: bytes) -> bool:
            return go_on.wait(600) and False

    harness.identity._passwords._hasher = BlockedHasher()  # type: ignore[assignment]
    reasons = list[Reason]()

    def sign_in(number: int) -> None:
        try:
            harness.identity.sign_in(f"n{number}@example.com", PASSWORD, Origin(f"192.0.2.{number}"))
        except Refused as no:
            reasons.append(no.reason)

    threads = [Thread(target=sign_in, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(reasons) >= 12)
    with refusal(Reason.TOO_OFTEN):
        harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    go_on.set()
    for thread in threads:
        thread.join()
    assert sorted(reasons) == [Reason.TOO_OFTEN] * 12 + [Reason.WRONG] * 8


def test_a_cheaper_hash_is_upgraded_at_sign_in(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.store.set_password(
        user.id, PasswordHasher(time_cost=1, memory_cost=8192, parallelism=1).hash(PASSWORD), 0
    )
    harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    stored = harness.user(user).password_hash or ""
    assert stored.startswith(f"$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}$")
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)


def test_equivalent_unicode_forms_of_a_password_are_equal(harness: IdentityHarness) -> None:
    owner = harness.owner().user
    token = harness.identity.invite(owner, MEMBER, "member", "free", HERE).partition("?token=")[2]
    harness.identity.accept(token, MEMBER, "größer als Fünfzehn", HERE)  # umlauts as one character
    # Each umlaut is two characters here.
    assert isinstance(harness.identity.sign_in(MEMBER, "größer als Fünfzehn", HERE), SignedIn)


def test_a_disabled_account_is_reported_only_after_its_password(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.identity.change_user(None, user.id, HERE, disabled=True)
    with refusal(Reason.WRONG):
        harness.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE)
    with refusal(Reason.DISABLED):
        harness.identity.sign_in(MEMBER, PASSWORD, HERE)


# -- rate limits


def test_five_attempts_a_minute_for_an_account_known_or_not(harness: IdentityHarness) -> None:
    harness.member()
    for email in (MEMBER, "nobody@example.com"):
        for number in range(5):
            with refusal(Reason.WRONG):
                harness.identity.sign_in(email, OTHER_PASSWORD, Origin(f"198.51.100.{number}"))
        with pytest.raises(Refused) as no:
            harness.identity.sign_in(email.upper(), PASSWORD, Origin("198.51.100.9"))
        assert (no.value.reason, no.value.retry_after_s) == (Reason.TOO_OFTEN, 60)
    harness.clock.pass_s(60)
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (["203.0.113.5"] * 20, "203.0.113.6"),
        ([f"2001:db8:1:2::{number:x}" for number in range(20)], "2001:db8:1:3::1"),  # one network
    ],
)
def test_twenty_attempts_a_minute_from_a_client(
    harness: IdentityHarness, addresses: list[str], other: str
) -> None:
    harness.member()
    for number, address in enumerate(addresses):
        with refusal(Reason.WRONG):
            harness.identity.sign_in(f"n{number}@example.com", PASSWORD, Origin(address))
    with refusal(Reason.TOO_OFTEN):
        harness.identity.sign_in(MEMBER, PASSWORD, Origin(addresses[0]))
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, Origin(other)), SignedIn)


# -- confirming identity, signing out


def test_confirming_rotates_the_token_and_lasts_ten_minutes(harness: IdentityHarness) -> None:
    signed = harness.member()
    harness.clock.pass_s(601)
    session = harness.session(signed)
    assert not harness.browser_sessions.is_recently_confirmed(session, harness.clock.now_ns())
    token = harness.identity.confirm(session, PASSWORD, "", HERE)
    assert not harness.in_force(signed.token)
    session = harness.session(SignedIn(token, signed.user))
    assert harness.browser_sessions.is_recently_confirmed(session, harness.clock.now_ns())
    harness.clock.pass_s(600)
    assert not harness.browser_sessions.is_recently_confirmed(session, harness.clock.now_ns())


def test_confirming_with_a_wrong_password_is_refused_logged_and_counted(harness: IdentityHarness) -> None:
    signed = harness.member()
    session = harness.session(signed)
    for _ in range(5):
        with refusal(Reason.WRONG, "password"):
            harness.identity.confirm(session, OTHER_PASSWORD, "", HERE)
    with refusal(Reason.TOO_OFTEN):
        harness.identity.confirm(session, PASSWORD, "", HERE)
    assert harness.events(signed).count("confirm_failed") == 5
    assert harness.in_force(signed.token)


def test_a_session_that_has_ended_cannot_be_confirmed(harness: IdentityHarness) -> None:
    signed = harness.member()
    session = harness.session(signed)
    harness.identity.sign_out(session, HERE)
    with refusal(Reason.WRONG):
        harness.identity.confirm(session, PASSWORD, "", HERE)


def test_signing_out_ends_only_this_browsers_session(harness: IdentityHarness) -> None:
    first = harness.member()
    second = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(second, SignedIn)
    harness.identity.sign_out(harness.session(first), HERE)
    assert (harness.in_force(first.token), harness.in_force(second.token)) == (False, True)
    assert harness.events(first)[-1] == "sign_out"


def test_a_session_ends_fourteen_days_after_its_last_use_and_ninety_after_it_began(
    harness: IdentityHarness,
) -> None:
    signed = harness.member()
    harness.clock.at_ns += IDLE_NS - 1
    assert harness.in_force(signed.token)  # counts as use
    harness.clock.at_ns += IDLE_NS
    assert not harness.in_force(signed.token)
    other = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(other, SignedIn)
    began_ns = harness.clock.at_ns
    while harness.clock.at_ns < began_ns + LONGEST_NS - IDLE_NS:
        harness.clock.at_ns += IDLE_NS - 1
        assert harness.in_force(other.token)
    harness.clock.at_ns = began_ns + LONGEST_NS
    assert not harness.in_force(other.token)


def test_a_user_has_at_most_fifty_sessions() -> None:
    harness = IdentityHarness()
    first = harness.member()
    unused = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(unused, SignedIn)
    for _ in range(49):
        harness.clock.pass_s(400)
        assert harness.in_force(first.token)  # counts as use
        harness.browser_sessions.write_seen()
        assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)
    assert len(harness.identity.sessions(first.user)) == 50
    assert (harness.in_force(first.token), harness.in_force(unused.token)) == (True, False)


def test_expired_sessions_are_dropped_from_memory() -> None:
    harness = IdentityHarness()
    first = harness.member()
    harness.clock.at_ns += IDLE_NS
    harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert harness.browser_sessions.find_expired(first.token, harness.clock.now_ns()) is not None, (
        "it is over just now"
    )
    harness.clock.pass_s(25 * 3600)
    harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert len(harness.browser_sessions._sessions) == 2
    assert harness.browser_sessions.find_expired(first.token, harness.clock.now_ns()) is None


def test_without_a_second_factor_sign_in_has_one_step(harness: IdentityHarness) -> None:
    harness.member()
    assert not isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SecondFactorRequired)
    with refusal(Reason.LINK):
        harness.identity.second_factor("no ticket of ours", "123456", HERE)

"""Invitations, actions of an operator, and changes of a user's own account."""

import pytest
from argon2 import PasswordHasher
from tests.people.sign_in_harness import (
    HERE,
    MEMBER,
    OTHER_PASSWORD,
    OWNER,
    PASSWORD,
    SITE,
    IdentityHarness,
    refusal,
)

from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.password_rules import Fault, judge
from outcry.people.refusals import Reason


@pytest.fixture
def harness() -> IdentityHarness:
    return IdentityHarness()


def invited(harness: IdentityHarness, email: str = MEMBER) -> str:
    owner = harness.store.user_named(OWNER) or harness.owner().user
    return harness.identity.invite(owner, email, "member", "pro", HERE).partition("?token=")[2]


# -- invitations


def test_an_invitation_makes_an_account_of_its_address_role_and_tier(harness: IdentityHarness) -> None:
    token = invited(harness)
    row = harness.identity.invited(token)
    assert row is not None
    assert (row.email, row.details["tier"]) == (MEMBER, "pro")
    signed = harness.identity.accept(token, "other@example.com", PASSWORD, HERE)
    assert (signed.user.email, signed.user.role, signed.user.tier) == (MEMBER, "member", "pro")
    assert harness.in_force(signed.token)
    assert harness.identity.invited(token) is None
    with refusal(Reason.LINK):
        harness.identity.accept(token, MEMBER, PASSWORD, HERE)


def test_an_invitation_is_mailed_and_its_link_returned(harness: IdentityHarness) -> None:
    owner = harness.owner().user
    link = harness.identity.invite(owner, MEMBER, "member", "free", HERE)
    assert harness.post is not None
    assert link == f"{SITE}/invite?token={harness.post.link(MEMBER)}"
    assert harness.events(owner)[-1] == "invited"


def test_anyone_with_the_link_can_use_an_invitation_without_address(harness: IdentityHarness) -> None:
    token = invited(harness, " ")
    with refusal(Reason.EMAIL_FORM, "email"):
        harness.identity.accept(token, "", PASSWORD, HERE)
    assert harness.identity.accept(token, "zoe@example.com", PASSWORD, HERE).user.email == "zoe@example.com"


def test_an_invitation_expires_after_seven_days_or_when_revoked(harness: IdentityHarness) -> None:
    token, other = invited(harness), invited(harness, "zoe@example.com")
    owner = harness.store.user_named(OWNER)
    assert owner is not None
    withdrawn = next(row for row in harness.identity.invitations() if row.email == "zoe@example.com")
    harness.identity.withdraw(owner, withdrawn.id, HERE)
    assert [row.email for row in harness.identity.invitations()] == [MEMBER]
    with refusal(Reason.LINK):
        harness.identity.accept(other, "", PASSWORD, HERE)
    harness.clock.pass_s(7 * 24 * 3600)
    assert harness.identity.invitations() == []
    with refusal(Reason.LINK):
        harness.identity.accept(token, "", PASSWORD, HERE)


def test_an_account_made_with_a_key_is_claimed_by_an_invitation_that_names_it_only(
    harness: IdentityHarness,
) -> None:
    owner = harness.owner().user
    made = harness.store.add_user("keys@example.com", "member", "free", b"k" * 32, harness.clock.now_ns())
    assert made is not None
    anybodys = harness.identity.invite(owner, "", "member", "free", HERE).partition("?token=")[2]
    with refusal(Reason.EMAIL_TAKEN, "email"):
        harness.identity.accept(anybodys, "keys@example.com", PASSWORD, HERE)
    signed = harness.identity.accept(invited(harness, "keys@example.com"), "", PASSWORD, HERE)
    assert (signed.user.id, signed.user.tier) == (made.id, "pro")


def test_an_account_in_use_is_never_invited_or_transferred(harness: IdentityHarness) -> None:
    anybodys = invited(harness, "")
    harness.member()
    with refusal(Reason.EMAIL_TAKEN, "email"):
        invited(harness)
    with refusal(Reason.EMAIL_TAKEN, "email"):
        harness.identity.accept(anybodys, MEMBER, OTHER_PASSWORD, HERE)
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)


def test_an_invitation_is_refused_once_the_account_has_a_password(harness: IdentityHarness) -> None:
    """An account is invited while it has no password, and then gets one through a reset link."""
    made = harness.store.add_user(MEMBER, "member", "free", b"k" * 32, harness.clock.now_ns())
    assert made is not None
    token = invited(harness)
    hashed = PasswordHasher(time_cost=1, memory_cost=64).hash(PASSWORD)
    harness.store.set_password(made.id, hashed, harness.clock.now_ns())
    with refusal(Reason.EMAIL_TAKEN):
        harness.identity.accept(token, "", OTHER_PASSWORD, HERE)


# -- actions of an operator


def test_a_disabled_user_is_signed_out_everywhere_until_enabled(harness: IdentityHarness) -> None:
    owner, signed = harness.owner().user, harness.member()
    harness.identity.change_user(owner, signed.user.id, HERE, disabled=True)
    assert not harness.in_force(signed.token)
    harness.identity.change_user(owner, signed.user.id, HERE, disabled=False)
    assert not harness.in_force(signed.token)
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)
    changes = [line.details for line in harness.store.lines if line.event == "user_changed"]
    assert changes == [{"email": MEMBER, "disabled": value} for value in ("true", "true", "false", "false")]


def test_the_last_operator_cannot_lose_the_role(harness: IdentityHarness) -> None:
    owner, other = harness.owner().user, harness.member().user
    for change in ({"role": "member"}, {"disabled": True}):
        with refusal(Reason.LAST_OPERATOR):
            harness.identity.change_user(owner, owner.id, HERE, **change)  # type: ignore[arg-type]
    harness.identity.change_user(owner, other.id, HERE, role="operator")
    harness.identity.change_user(owner, owner.id, HERE, role="member")
    assert [user.email for user in harness.identity.users() if user.role == "operator"] == [MEMBER]
    with refusal(Reason.LAST_OPERATOR):
        harness.identity.change_user(None, other.id, HERE, disabled=True)


def test_an_operator_who_cannot_sign_in_does_not_count(harness: IdentityHarness) -> None:
    owner = harness.owner().user
    made = harness.store.add_user("keys@example.com", "operator", "free", b"k" * 32, harness.clock.now_ns())
    assert made is not None
    with refusal(Reason.LAST_OPERATOR):
        harness.identity.change_user(owner, owner.id, HERE, role="member")
    with refusal(Reason.LAST_OPERATOR):
        harness.identity.change_user(owner, owner.id, HERE, disabled=True)
    assert harness.user(owner) == owner
    harness.store.add_passkey(made.id, b"key", b"", 0, [], "", harness.clock.now_ns())
    harness.identity.change_user(owner, owner.id, HERE, role="member")
    assert harness.user(owner).role == "member"


def test_an_operators_reset_link_works_for_an_account_without_password(
    harness: IdentityHarness,
) -> None:
    owner = harness.owner().user
    made = harness.store.add_user("keys@example.com", "member", "free", b"k" * 32, harness.clock.now_ns())
    assert made is not None
    link = harness.identity.reset_link(owner, made.id, HERE)
    assert link.startswith(f"{SITE}/reset/new?token=")
    signed = harness.identity.reset(link.partition("?token=")[2], PASSWORD, HERE)
    assert isinstance(signed, SignedIn)
    assert signed.user.id == made.id
    assert "reset_link_made" in harness.events(owner)
    harness.identity.change_user(owner, made.id, HERE, disabled=True)
    with refusal(Reason.DISABLED):
        harness.identity.reset_link(owner, made.id, HERE)


def test_the_owner_of_the_operators_keys_is_not_a_user(harness: IdentityHarness) -> None:
    harness.owner()
    harness.store.add_user("operator", "member", "free", b"o" * 32, harness.clock.now_ns())
    assert [user.email for user in harness.identity.users()] == [OWNER]


# -- the user's own account


def test_a_changed_password_ends_every_other_session_and_every_link(harness: IdentityHarness) -> None:
    here = harness.member()
    elsewhere = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(elsewhere, SignedIn)
    harness.identity.send_reset(MEMBER, HERE)
    assert harness.post is not None
    harness.identity.change_password(here.user, harness.session(here), OTHER_PASSWORD, HERE)
    assert (harness.in_force(here.token), harness.in_force(elsewhere.token)) == (True, False)
    with refusal(Reason.LINK):
        harness.identity.reset(harness.post.link(MEMBER), PASSWORD, HERE)
    with refusal(Reason.WRONG):
        harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(harness.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE), SignedIn)


def test_sessions_are_listed_and_ended_one_by_one_or_all_others(harness: IdentityHarness) -> None:
    first = harness.member()
    harness.clock.pass_s(400)
    others = [
        harness.identity.sign_in(MEMBER, PASSWORD, Origin("192.0.2.9", f"browser {n}")) for n in range(3)
    ]
    rows = harness.identity.sessions(first.user)
    assert len(rows) == 4
    assert rows[-1].id == harness.session(first).id
    ended = rows[0].id
    harness.identity.end_session(first.user, ended, HERE)
    assert ended not in {row.id for row in harness.identity.sessions(first.user)}
    assert harness.store.lines[-1].details["address"] == "192.0.2.9"
    assert harness.identity.end_other_sessions(first.user, harness.session(first), HERE) == 2
    assert harness.in_force(first.token)
    assert not any(isinstance(other, SignedIn) and harness.in_force(other.token) for other in others)


def test_a_user_cannot_end_another_users_session(harness: IdentityHarness) -> None:
    owner, member = harness.owner(), harness.member()
    harness.identity.end_session(member.user, harness.session(owner).id, HERE)
    assert harness.in_force(owner.token)


def test_a_user_reads_only_own_audit_entries_page_by_page(harness: IdentityHarness) -> None:
    owner, member = harness.owner().user, harness.member().user
    for number in range(7):
        harness.identity.note(member, "key_created", HERE, prefix=f"outcry_{number}")
    newest = harness.identity.audit(member, None, 4)
    older = harness.identity.audit(member, newest[-1].id, 4)
    assert [line.details["prefix"] for line in (*newest, *older) if line.event == "key_created"] == [
        f"outcry_{number}" for number in range(6, -1, -1)
    ]
    assert {line.user_id for line in (*newest, *older)} == {member.id}
    assert (newest[0].address, newest[0].agent) == (HERE.address, HERE.agent)
    assert member.id not in {line.user_id for line in harness.identity.audit(owner, None, 100)}


def test_the_audit_log_contains_no_secrets(harness: IdentityHarness) -> None:
    signed = harness.member()
    harness.identity.send_link(MEMBER, "browser", HERE)
    harness.identity.reset(
        harness.identity.reset_link(None, signed.user.id, HERE).partition("=")[2], OTHER_PASSWORD, HERE
    )
    secret, _ = harness.identity.begin_totp(signed.user)
    assert harness.post is not None
    lines = repr(harness.store.lines)
    for secret_text in (PASSWORD, OTHER_PASSWORD, secret, signed.token, harness.post.link(MEMBER)):
        assert secret_text not in lines


# -- which passwords


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("elevenchars", Fault.SHORT),
        (
            "Ⅻ" * 11,
            Fault.COMMON,
        ),  # NFKC expands this character (XII) to three letters: thirty-three repetitions are too long
        ("twelve chars", None),
        ("x y z " * 43, Fault.LONG),
        ("slow green kettle drum " * 11 + "end", None),
        ("password1234", Fault.COMMON),
        ("P@ssword1234", Fault.COMMON),
        ("Passwort1234!", Fault.COMMON),
        ("qwerty 123456", Fault.COMMON),
        ("aaaaaaaaaaaaaaaa", Fault.COMMON),
        ("abcabcabcabcab", Fault.COMMON),
        ("my Outcry login", Fault.COMMON),
        ("hello annabel 99", Fault.COMMON),
        ("correct horse battery staple", Fault.COMMON),
        ("größer als fünf", None),
        ("七転び八起き石の上にも三年", None),
    ],
)
def test_which_passwords_are_accepted(password: str, fault: Fault | None) -> None:
    """Worked by hand: the address is annabel@example.com; 12 to 256 characters; common passwords are refused."""
    assert judge(password, "annabel@example.com") is fault


def test_a_password_may_contain_a_short_name_within_a_word() -> None:
    assert judge("an evening in june", "an@example.com") is None

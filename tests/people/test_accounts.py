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
    IdentityStage,
    refusal,
)

from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.password_rules import Fault, judge
from outcry.people.refusals import Reason


@pytest.fixture
def stage() -> IdentityStage:
    return IdentityStage()


def invited(stage: IdentityStage, email: str = MEMBER) -> str:
    owner = stage.store.user_named(OWNER) or stage.owner().user
    return stage.identity.invite(owner, email, "member", "pro", HERE).partition("?token=")[2]


# -- invitations


def test_an_invitation_makes_an_account_of_its_address_role_and_tier(stage: IdentityStage) -> None:
    token = invited(stage)
    row = stage.identity.invited(token)
    assert row is not None
    assert (row.email, row.details["tier"]) == (MEMBER, "pro")
    signed = stage.identity.accept(token, "other@example.com", PASSWORD, HERE)
    assert (signed.user.email, signed.user.role, signed.user.tier) == (MEMBER, "member", "pro")
    assert stage.in_force(signed.token)
    assert stage.identity.invited(token) is None
    with refusal(Reason.LINK):
        stage.identity.accept(token, MEMBER, PASSWORD, HERE)


def test_an_invitation_is_mailed_and_its_link_returned(stage: IdentityStage) -> None:
    owner = stage.owner().user
    link = stage.identity.invite(owner, MEMBER, "member", "free", HERE)
    assert stage.post is not None
    assert link == f"{SITE}/invite?token={stage.post.link(MEMBER)}"
    assert stage.events(owner)[-1] == "invited"


def test_an_invitation_without_address_is_for_whoever_has_the_link(stage: IdentityStage) -> None:
    token = invited(stage, " ")
    with refusal(Reason.EMAIL_FORM, "email"):
        stage.identity.accept(token, "", PASSWORD, HERE)
    assert stage.identity.accept(token, "zoe@example.com", PASSWORD, HERE).user.email == "zoe@example.com"


def test_an_invitation_holds_seven_days_unless_it_is_withdrawn(stage: IdentityStage) -> None:
    token, other = invited(stage), invited(stage, "zoe@example.com")
    owner = stage.store.user_named(OWNER)
    assert owner is not None
    withdrawn = next(row for row in stage.identity.invitations() if row.email == "zoe@example.com")
    stage.identity.withdraw(owner, withdrawn.id, HERE)
    assert [row.email for row in stage.identity.invitations()] == [MEMBER]
    with refusal(Reason.LINK):
        stage.identity.accept(other, "", PASSWORD, HERE)
    stage.clock.pass_s(7 * 24 * 3600)
    assert stage.identity.invitations() == []
    with refusal(Reason.LINK):
        stage.identity.accept(token, "", PASSWORD, HERE)


def test_an_account_made_with_a_key_is_claimed_by_an_invitation_that_names_it_only(
    stage: IdentityStage,
) -> None:
    owner = stage.owner().user
    made = stage.store.add_user("keys@example.com", "member", "free", b"k" * 32, stage.clock.now_ns())
    assert made is not None
    anybodys = stage.identity.invite(owner, "", "member", "free", HERE).partition("?token=")[2]
    with refusal(Reason.EMAIL_TAKEN, "email"):
        stage.identity.accept(anybodys, "keys@example.com", PASSWORD, HERE)
    signed = stage.identity.accept(invited(stage, "keys@example.com"), "", PASSWORD, HERE)
    assert (signed.user.id, signed.user.tier) == (made.id, "pro")


def test_an_account_in_use_is_never_invited_or_handed_over(stage: IdentityStage) -> None:
    anybodys = invited(stage, "")
    stage.member()
    with refusal(Reason.EMAIL_TAKEN, "email"):
        invited(stage)
    with refusal(Reason.EMAIL_TAKEN, "email"):
        stage.identity.accept(anybodys, MEMBER, OTHER_PASSWORD, HERE)
    assert isinstance(stage.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)


def test_an_invitation_overtaken_by_a_password_is_refused(stage: IdentityStage) -> None:
    """Invited while it had none, the account got a password by a link meanwhile."""
    made = stage.store.add_user(MEMBER, "member", "free", b"k" * 32, stage.clock.now_ns())
    assert made is not None
    token = invited(stage)
    hashed = PasswordHasher(time_cost=1, memory_cost=64).hash(PASSWORD)
    stage.store.set_password(made.id, hashed, stage.clock.now_ns())
    with refusal(Reason.EMAIL_TAKEN):
        stage.identity.accept(token, "", OTHER_PASSWORD, HERE)


# -- what an operator does


def test_one_disabled_is_signed_out_everywhere_and_back_when_enabled(stage: IdentityStage) -> None:
    owner, signed = stage.owner().user, stage.member()
    stage.identity.change_user(owner, signed.user.id, HERE, disabled=True)
    assert not stage.in_force(signed.token)
    stage.identity.change_user(owner, signed.user.id, HERE, disabled=False)
    assert not stage.in_force(signed.token)
    assert isinstance(stage.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)
    told = [line.details for line in stage.store.lines if line.event == "user_changed"]
    assert told == [{"email": MEMBER, "disabled": value} for value in ("true", "true", "false", "false")]


def test_the_last_operator_stays_one(stage: IdentityStage) -> None:
    owner, other = stage.owner().user, stage.member().user
    for change in ({"role": "member"}, {"disabled": True}):
        with refusal(Reason.LAST_OPERATOR):
            stage.identity.change_user(owner, owner.id, HERE, **change)  # type: ignore[arg-type]
    stage.identity.change_user(owner, other.id, HERE, role="operator")
    stage.identity.change_user(owner, owner.id, HERE, role="member")
    assert [user.email for user in stage.identity.users() if user.role == "operator"] == [MEMBER]
    with refusal(Reason.LAST_OPERATOR):
        stage.identity.change_user(None, other.id, HERE, disabled=True)


def test_an_operator_who_cannot_come_in_does_not_count(stage: IdentityStage) -> None:
    owner = stage.owner().user
    made = stage.store.add_user("keys@example.com", "operator", "free", b"k" * 32, stage.clock.now_ns())
    assert made is not None
    with refusal(Reason.LAST_OPERATOR):
        stage.identity.change_user(owner, owner.id, HERE, role="member")
    with refusal(Reason.LAST_OPERATOR):
        stage.identity.change_user(owner, owner.id, HERE, disabled=True)
    assert stage.user(owner) == owner
    stage.store.add_passkey(made.id, b"key", b"", 0, [], "", stage.clock.now_ns())
    stage.identity.change_user(owner, owner.id, HERE, role="member")
    assert stage.user(owner).role == "member"


def test_a_reset_link_of_the_operators_chooses_a_password_even_where_there_was_none(
    stage: IdentityStage,
) -> None:
    owner = stage.owner().user
    made = stage.store.add_user("keys@example.com", "member", "free", b"k" * 32, stage.clock.now_ns())
    assert made is not None
    link = stage.identity.reset_link(owner, made.id, HERE)
    assert link.startswith(f"{SITE}/reset/new?token=")
    signed = stage.identity.reset(link.partition("?token=")[2], PASSWORD, HERE)
    assert isinstance(signed, SignedIn)
    assert signed.user.id == made.id
    assert "reset_link_made" in stage.events(owner)
    stage.identity.change_user(owner, made.id, HERE, disabled=True)
    with refusal(Reason.DISABLED):
        stage.identity.reset_link(owner, made.id, HERE)


def test_what_the_operators_own_keys_are_filed_under_is_nobody(stage: IdentityStage) -> None:
    stage.owner()
    stage.store.add_user("operator", "member", "free", b"o" * 32, stage.clock.now_ns())
    assert [user.email for user in stage.identity.users()] == [OWNER]


# -- the own account


def test_a_changed_password_ends_every_other_session_and_every_link(stage: IdentityStage) -> None:
    here = stage.member()
    elsewhere = stage.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(elsewhere, SignedIn)
    stage.identity.send_reset(MEMBER, HERE)
    assert stage.post is not None
    stage.identity.change_password(here.user, stage.session(here), OTHER_PASSWORD, HERE)
    assert (stage.in_force(here.token), stage.in_force(elsewhere.token)) == (True, False)
    with refusal(Reason.LINK):
        stage.identity.reset(stage.post.link(MEMBER), PASSWORD, HERE)
    with refusal(Reason.WRONG):
        stage.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(stage.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE), SignedIn)


def test_sessions_are_listed_and_ended_one_by_one_or_all_others(stage: IdentityStage) -> None:
    first = stage.member()
    stage.clock.pass_s(400)
    others = [stage.identity.sign_in(MEMBER, PASSWORD, Origin("192.0.2.9", f"browser {n}")) for n in range(3)]
    rows = stage.identity.sessions(first.user)
    assert len(rows) == 4
    assert rows[-1].id == stage.session(first).id
    ended = rows[0].id
    stage.identity.end_session(first.user, ended, HERE)
    assert ended not in {row.id for row in stage.identity.sessions(first.user)}
    assert stage.store.lines[-1].details["address"] == "192.0.2.9"
    assert stage.identity.end_other_sessions(first.user, stage.session(first), HERE) == 2
    assert stage.in_force(first.token)
    assert not any(isinstance(other, SignedIn) and stage.in_force(other.token) for other in others)


def test_nobody_ends_anothers_session(stage: IdentityStage) -> None:
    owner, member = stage.owner(), stage.member()
    stage.identity.end_session(member.user, stage.session(owner).id, HERE)
    assert stage.in_force(owner.token)


def test_a_person_reads_the_own_lines_alone_page_by_page(stage: IdentityStage) -> None:
    owner, member = stage.owner().user, stage.member().user
    for number in range(7):
        stage.identity.note(member, "key_created", HERE, prefix=f"outcry_{number}")
    newest = stage.identity.audit(member, None, 4)
    older = stage.identity.audit(member, newest[-1].id, 4)
    assert [line.details["prefix"] for line in (*newest, *older) if line.event == "key_created"] == [
        f"outcry_{number}" for number in range(6, -1, -1)
    ]
    assert {line.user_id for line in (*newest, *older)} == {member.id}
    assert (newest[0].address, newest[0].agent) == (HERE.address, HERE.agent)
    assert member.id not in {line.user_id for line in stage.identity.audit(owner, None, 100)}


def test_no_secret_is_ever_noted(stage: IdentityStage) -> None:
    signed = stage.member()
    stage.identity.send_link(MEMBER, "browser", HERE)
    stage.identity.reset(
        stage.identity.reset_link(None, signed.user.id, HERE).partition("=")[2], OTHER_PASSWORD, HERE
    )
    secret, _ = stage.identity.begin_totp(signed.user)
    assert stage.post is not None
    said = repr(stage.store.lines)
    for kept in (PASSWORD, OTHER_PASSWORD, secret, signed.token, stage.post.link(MEMBER)):
        assert kept not in said


# -- which passwords


@pytest.mark.parametrize(
    ("password", "fault"),
    [
        ("elevenchars", Fault.SHORT),
        (
            "Ⅻ" * 11,
            Fault.COMMON,
        ),  # one sign that NFKC makes three letters of: XII thirty-three long, repeated
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
def test_which_passwords_are_taken(password: str, fault: Fault | None) -> None:
    """By hand: the address is annabel@example.com; twelve to 256 characters; nothing that is tried first."""
    assert judge(password, "annabel@example.com") is fault


def test_a_short_name_is_not_held_against_words_it_stands_in() -> None:
    assert judge("an evening in june", "an@example.com") is None

"""Emailed links: to sign in, to set a new password, and to change the email address."""

import contextlib
import re

import pytest
from tests.people.memory_store import PostBox
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
from outcry.people.messages import TEXTS, build_message
from outcry.people.refusals import Reason, Refused
from outcry.people.service import SecondFactorRequired

BROWSER, OTHER_BROWSER = "the browser that asked", "another browser"


@pytest.fixture
def harness() -> IdentityHarness:
    return IdentityHarness()


def box(harness: IdentityHarness) -> PostBox:
    assert harness.post is not None
    return harness.post


def link(harness: IdentityHarness) -> str:
    harness.identity.send_link(MEMBER, BROWSER, HERE)
    return box(harness).link(MEMBER)


def reset_token(harness: IdentityHarness) -> str:
    harness.identity.send_reset(MEMBER, HERE)
    return box(harness).link(MEMBER)


# -- sign-in links


def test_a_link_signs_in_only_the_browser_that_requested_it(harness: IdentityHarness) -> None:
    harness.member()
    token = link(harness)
    assert f"{SITE}/link?token={token}" in box(harness).mails[-1].text
    with refusal(Reason.LINK):
        harness.identity.follow_link(token, OTHER_BROWSER, HERE)
    signed = harness.identity.follow_link(token, BROWSER, HERE)
    assert isinstance(signed, SignedIn)
    assert harness.in_force(signed.token)


def test_a_link_works_once_and_for_ten_minutes(harness: IdentityHarness) -> None:
    harness.member()
    token = link(harness)
    harness.clock.pass_s(599)
    harness.identity.follow_link(token, BROWSER, HERE)
    with refusal(Reason.LINK):
        harness.identity.follow_link(token, BROWSER, HERE)
    late = link(harness)
    harness.clock.pass_s(600)
    with refusal(Reason.LINK):
        harness.identity.follow_link(late, BROWSER, HERE)


def test_a_newer_link_makes_the_older_one_of_the_same_browser_void(harness: IdentityHarness) -> None:
    harness.member()
    older, newer = link(harness), link(harness)
    with refusal(Reason.LINK):
        harness.identity.follow_link(older, BROWSER, HERE)
    assert isinstance(harness.identity.follow_link(newer, BROWSER, HERE), SignedIn)


def test_links_requested_by_others_do_not_void_the_users_own(harness: IdentityHarness) -> None:
    """Anyone who knows an address may request links, as often as emails are sent, while its user signs in."""
    harness.member()
    own, own_reset = link(harness), reset_token(harness)
    for number in range(8):
        harness.clock.pass_s(60)
        harness.identity.send_link(MEMBER, f"{OTHER_BROWSER} {number}", Origin(f"198.51.100.{number}"))
        harness.identity.send_reset(MEMBER, Origin(f"198.51.100.{number}"))
    assert isinstance(harness.identity.follow_link(own, BROWSER, HERE), SignedIn)
    assert isinstance(harness.identity.reset(own_reset, OTHER_PASSWORD, HERE), SignedIn)


def test_links_requested_by_others_do_not_void_the_operators_link(harness: IdentityHarness) -> None:
    user = harness.member().user
    token = harness.identity.reset_link(harness.store.user_named(OWNER), user.id, HERE).partition("?token=")[
        2
    ]
    harness.identity.send_reset(MEMBER, Origin("198.51.100.1"))
    assert isinstance(harness.identity.reset(token, OTHER_PASSWORD, HERE), SignedIn)


def test_the_email_rate_limit_bounds_the_number_of_valid_links(harness: IdentityHarness) -> None:
    """Two a minute: twenty links of ten minutes, or sixty of half an hour, can be valid at once."""
    harness.member()
    for number in range(40):
        asker = Origin(f"198.51.100.{number}")
        with contextlib.suppress(Refused):
            for one in range(3):
                harness.identity.send_link(MEMBER, f"browser {number}.{one}", asker)
        harness.clock.pass_s(60)
    assert len(harness.identity._links.open("sign_in")) <= 20
    for number in range(40):
        with contextlib.suppress(Refused):
            for _ in range(3):
                harness.identity.send_reset(MEMBER, Origin(f"198.51.100.{number}"))
        harness.clock.pass_s(60)
    assert len(harness.identity._links.open("reset")) <= 60


def test_a_new_password_voids_every_reset_link(harness: IdentityHarness) -> None:
    harness.member()
    first, second = reset_token(harness), reset_token(harness)
    assert isinstance(harness.identity.reset(first, OTHER_PASSWORD, HERE), SignedIn)
    with refusal(Reason.LINK):
        harness.identity.reset(second, PASSWORD, HERE)


def test_a_link_does_not_replace_the_second_factor(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.store.set_totp(user.id, b"sealed")
    assert isinstance(harness.identity.follow_link(link(harness), BROWSER, HERE), SecondFactorRequired)


@pytest.mark.parametrize("email", ["nobody@example.com", "keys@example.com", "off@example.com"])
def test_a_request_for_an_unusable_account_sends_nothing_and_looks_the_same(
    harness: IdentityHarness, email: str
) -> None:
    """Unknown, created with a key only, disabled: the response is the same for all."""
    harness.owner()
    harness.store.add_user("keys@example.com", "member", "free", b"k" * 32, harness.clock.now_ns())
    harness.identity.change_user(None, harness.member("off@example.com").user.id, HERE, disabled=True)
    box(harness).mails.clear()
    harness.identity.send_link(email, BROWSER, HERE)
    harness.identity.send_reset(email, HERE)
    assert box(harness).mails == []


def test_the_account_is_looked_up_after_the_response(harness: IdentityHarness) -> None:
    """The response time cannot reveal what the service has not looked up yet."""
    harness.member()
    harness.held, before = [], len(harness.store._tokens)
    harness.store.user_named = lambda email: pytest.fail("looked up while the one who asks waits")  # type: ignore[assignment]
    harness.identity.send_link(MEMBER, BROWSER, HERE)
    harness.identity.send_reset("nobody@example.com", HERE)
    assert (len(harness.held), len(harness.store._tokens)) == (2, before)


def test_two_emails_a_minute_to_an_address_known_or_not(harness: IdentityHarness) -> None:
    harness.member()
    for email in (MEMBER, "nobody@example.com"):
        harness.identity.send_link(email, BROWSER, Origin("198.51.100.1"))
        harness.identity.send_reset(email, Origin("198.51.100.2"))
        with refusal(Reason.TOO_OFTEN):
            harness.identity.send_reset(email, Origin("198.51.100.3"))


def test_without_email_no_links_are_offered() -> None:
    harness = IdentityHarness(post=None)
    user = harness.member().user
    assert not harness.identity.mail_works()
    with refusal(Reason.NO_MAIL):
        harness.identity.send_link(MEMBER, BROWSER, HERE)
    with refusal(Reason.NO_MAIL):
        harness.identity.send_reset(MEMBER, HERE)
    with refusal(Reason.NO_MAIL):
        harness.identity.begin_email(user, "new@example.com", HERE)


def test_a_failed_email_is_reported_to_operator_and_user_not_to_the_requester(
    harness: IdentityHarness,
) -> None:
    user = harness.member().user
    box(harness).broken = True
    harness.identity.send_link(MEMBER, BROWSER, HERE)
    assert harness.reports == [
        "email_failed kind=sign_in problem=the mail server at mail.example.com does not answer"
    ]
    assert harness.events(user)[-1] == "mail_failed"


# -- password reset


def test_a_reset_ends_all_sessions_and_links_but_not_the_second_factor(
    harness: IdentityHarness,
) -> None:
    signed = harness.member()
    harness.store.set_totp(signed.user.id, b"sealed")
    to_sign_in, token = link(harness), reset_token(harness)
    came = harness.identity.reset(token, OTHER_PASSWORD, HERE)
    assert isinstance(came, SecondFactorRequired)
    assert not harness.in_force(signed.token)
    assert harness.user(signed).totp_sealed == b"sealed"
    with refusal(Reason.LINK):
        harness.identity.follow_link(to_sign_in, BROWSER, HERE)
    assert isinstance(harness.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE), SecondFactorRequired)
    assert "password_reset" in harness.events(signed)


def test_a_reset_link_works_once_within_half_an_hour(harness: IdentityHarness) -> None:
    harness.member()
    token = reset_token(harness)
    harness.clock.pass_s(1799)
    assert isinstance(harness.identity.reset(token, OTHER_PASSWORD, HERE), SignedIn)
    with refusal(Reason.LINK):
        harness.identity.reset(token, PASSWORD, HERE)
    late = reset_token(harness)
    harness.clock.pass_s(1800)
    with refusal(Reason.LINK):
        harness.identity.reset(late, PASSWORD, HERE)


def test_an_invalid_password_does_not_spend_the_link(harness: IdentityHarness) -> None:
    harness.member()
    token = reset_token(harness)
    with refusal(Reason.PASSWORD_SHORT, "password"):
        harness.identity.reset(token, "short", HERE)
    assert isinstance(harness.identity.reset(token, OTHER_PASSWORD, HERE), SignedIn)


def test_a_token_is_valid_for_its_own_purpose_only(harness: IdentityHarness) -> None:
    harness.member()
    to_sign_in, to_reset = link(harness), reset_token(harness)
    with refusal(Reason.LINK):
        harness.identity.reset(to_sign_in, OTHER_PASSWORD, HERE)
    with refusal(Reason.LINK):
        harness.identity.follow_link(to_reset, BROWSER, HERE)
    with refusal(Reason.LINK):
        harness.identity.finish_email(to_reset, HERE)


@pytest.mark.parametrize("token", ["", "no such token", "ü\ud800", "A" * 10_000])
def test_a_malformed_token_is_rejected(harness: IdentityHarness, token: str) -> None:
    harness.member()
    with refusal(Reason.LINK):
        harness.identity.reset(token, OTHER_PASSWORD, HERE)
    assert harness.identity.invited(token) is None


def test_tokens_are_long_and_stored_as_digests(harness: IdentityHarness) -> None:
    harness.member()
    token = reset_token(harness)
    assert len(token) >= 43
    digests = [row.digest for row in harness.store._tokens.values()]
    assert all(len(digest) == 32 and token.encode() not in digest for digest in digests)


# -- change of address


def test_a_new_address_is_verified_by_email_and_the_old_one_notified(harness: IdentityHarness) -> None:
    user = harness.member().user
    box(harness).mails.clear()
    harness.identity.begin_email(user, " New@Example.com", HERE)
    assert [mail.to for mail in box(harness).mails] == ["new@example.com", MEMBER]
    assert "new@example.com" in box(harness).mails[1].text
    assert "token" not in box(harness).mails[1].text
    assert harness.user(user).email == MEMBER
    harness.identity.finish_email(box(harness).link("new@example.com"), HERE)
    assert harness.user(user).email == "new@example.com"
    assert harness.store.lines[-1].details == {"from": MEMBER, "to": "new@example.com"}


def test_an_address_change_voids_links_sent_to_the_old_address(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.identity.begin_email(user, "new@example.com", HERE)
    harness.clock.pass_s(60)
    to_sign_in, to_reset = link(harness), reset_token(harness)
    harness.identity.finish_email(box(harness).link("new@example.com"), HERE)
    with refusal(Reason.LINK):
        harness.identity.follow_link(to_sign_in, BROWSER, HERE)
    with refusal(Reason.LINK):
        harness.identity.reset(to_reset, OTHER_PASSWORD, HERE)


def test_a_used_address_gets_the_same_response_as_a_free_one(harness: IdentityHarness) -> None:
    user = harness.member().user
    box(harness).mails.clear()
    harness.identity.begin_email(user, OWNER, HERE)
    notice = next(mail for mail in box(harness).mails if mail.to == OWNER)
    assert "token" not in notice.text
    assert harness.events(user)[-1] == "email_asked"


def test_an_address_used_meanwhile_is_refused(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.identity.begin_email(user, "new@example.com", HERE)
    token = box(harness).link("new@example.com")
    harness.member("new@example.com")
    with refusal(Reason.EMAIL_TAKEN):
        harness.identity.finish_email(token, HERE)


def test_the_current_address_and_invalid_ones_are_refused(harness: IdentityHarness) -> None:
    user = harness.member().user
    with refusal(Reason.EMAIL_TAKEN, "email"):
        harness.identity.begin_email(user, MEMBER, HERE)
    for text in ("", "ann", "a@b@c", "ann@example.com\nBcc: x@example.com", "a" * 250 + "@b.cd"):
        with refusal(Reason.EMAIL_FORM, "email"):
            harness.identity.begin_email(user, text, HERE)


def test_an_smtp_failure_is_reported_to_the_user_who_waits(harness: IdentityHarness) -> None:
    user = harness.member().user
    box(harness).broken = True
    with refusal(Reason.MAIL_FAILED):
        harness.identity.begin_email(user, "new@example.com", HERE)


# -- contents of emails


def test_every_email_has_the_same_facts_in_every_language() -> None:
    facts = {
        "link": "{L}", "site": "{S}", "wanted": "{W}", "operator": "{O}", "shown": "{A}", "hours": "{H}", "why": "{Y}",
    }  # fmt: skip
    for about in TEXTS["en"]:
        messages = {language: build_message(about, language, MEMBER, **facts) for language in TEXTS}
        used = {
            language: [
                {fact for fact in facts.values() if fact in part} for part in (mail.subject, mail.text)
            ]
            for language, mail in messages.items()
        }
        assert used["de"] == used["en"]
        assert used["en"][1] & {"{S}", "{L}"}  # its sender or its link
        assert not re.search(r"\{[a-z]", messages["en"].subject + messages["en"].text)
        assert messages["de"].subject != messages["en"].subject


def test_emails_use_the_language_of_the_account(harness: IdentityHarness) -> None:
    user = harness.member().user
    harness.identity.prefer(user, type(user.preferences)(language="de"))
    harness.identity.send_reset(MEMBER, HERE)
    assert box(harness).mails[-1].subject == "Neues Passwort für Outcry"


def test_a_link_without_a_browser_cannot_sign_in(harness: IdentityHarness) -> None:
    harness.member()
    harness.identity.send_link(MEMBER, "", HERE)
    assert harness.post is not None
    with refusal(Reason.LINK):
        harness.identity.follow_link(harness.post.link(MEMBER), "", HERE)

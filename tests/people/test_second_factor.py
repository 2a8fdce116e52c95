"""Authenticator codes and recovery codes: each rule of the second factor."""

import pytest
from pyotp.totp import TOTP
from tests.people.sign_in_harness import HERE, MEMBER, OTHER_PASSWORD, PASSWORD, IdentityHarness, refusal

from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.refusals import Reason
from outcry.people.service import SecondFactorRequired


@pytest.fixture
def harness() -> IdentityHarness:
    return IdentityHarness()


def code_of(harness: IdentityHarness, secret: str, *, steps: int = 0) -> str:
    """Return the authenticator's code for now, or for a number of 30-second steps from now."""
    return TOTP(secret).generate_otp(harness.clock.at_ns // 10**9 // 30 + steps)


def turned_on(harness: IdentityHarness) -> tuple[SignedIn, str, list[str]]:
    """Return a member with a second factor, its secret and its recovery codes.

    The first code has been accepted."""
    signed = harness.member()
    secret, _ = harness.identity.begin_totp(signed.user)
    codes = harness.identity.finish_totp(signed.user, secret, code_of(harness, secret), HERE)
    harness.clock.pass_s(61)
    return signed, secret, codes


def half_way(harness: IdentityHarness) -> str:
    came = harness.identity.sign_in(MEMBER, PASSWORD, HERE)
    assert isinstance(came, SecondFactorRequired)
    return came.ticket


def test_the_secret_is_stored_only_after_a_valid_code(harness: IdentityHarness) -> None:
    user = harness.member().user
    secret, address = harness.identity.begin_totp(user)
    assert len(secret) == 32
    assert address == f"otpauth://totp/Outcry:ann%40example.com?secret={secret}&issuer=Outcry"
    for wrong in (
        "000000" if code_of(harness, secret) != "000000" else "111111",
        "",
        "12345",
        "abcdef",
        "١٢٣٤٥٦",
    ):
        with refusal(Reason.CODE, "code"):
            harness.identity.finish_totp(user, secret, wrong, Origin())
        harness.clock.pass_s(60)
    assert harness.user(user).totp_sealed is None
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)


@pytest.mark.parametrize("secret", ["", "A" * 31, "A" * 33, "1" * 32, "ü" * 32, "A" * 100_000])
def test_a_malformed_secret_is_refused(harness: IdentityHarness, secret: str) -> None:
    user = harness.member().user
    with refusal(Reason.CODE):
        harness.identity.finish_totp(user, secret, "123456", HERE)
    assert harness.identity.totp_address(user, secret) == ""


def test_the_secret_is_encrypted_for_its_user(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    stored = harness.user(signed).totp_sealed
    assert stored is not None
    assert secret.encode() not in stored
    other = harness.member("ben@example.com").user
    harness.store.set_totp(other.id, stored)  # a value copied to another user's row
    came = harness.identity.sign_in("ben@example.com", PASSWORD, HERE)
    assert isinstance(came, SecondFactorRequired)
    with refusal(Reason.CODE):
        harness.identity.second_factor(came.ticket, code_of(harness, secret), HERE)


def test_password_and_code_together_sign_in(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    ticket = half_way(harness)
    code = code_of(harness, secret)
    came = harness.identity.second_factor(ticket, f" {code[:3]} {code[3:]} ", HERE)
    assert harness.in_force(came.token)
    assert harness.store.lines[-1].details == {"way": "password", "factor": "totp"}
    assert harness.events(signed)[-1] == "sign_in"


@pytest.mark.parametrize(("steps", "good"), [(-2, False), (-1, True), (0, True), (1, True), (2, False)])
def test_a_code_is_good_one_step_to_either_side(harness: IdentityHarness, steps: int, *, good: bool) -> None:
    _, secret, _ = turned_on(harness)
    harness.clock.pass_s(300)
    ticket = half_way(harness)
    if good:
        assert harness.identity.second_factor(ticket, code_of(harness, secret, steps=steps), HERE)
    else:
        with refusal(Reason.CODE):
            harness.identity.second_factor(ticket, code_of(harness, secret, steps=steps), HERE)


def test_each_code_works_once_and_none_before_it_any_more(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    code, before = code_of(harness, secret), code_of(harness, secret, steps=-1)
    harness.identity.second_factor(half_way(harness), code, HERE)
    for used in (code, before):
        with refusal(Reason.CODE, "code"):
            harness.identity.second_factor(half_way(harness), used, HERE)
    with refusal(Reason.CODE, "code"):  # nor does it confirm identity
        harness.identity.confirm(harness.session(signed), PASSWORD, code, HERE)


def test_the_code_that_turned_it_on_does_not_sign_in(harness: IdentityHarness) -> None:
    user = harness.member().user
    secret, _ = harness.identity.begin_totp(user)
    code = code_of(harness, secret)
    harness.identity.finish_totp(user, secret, code, HERE)
    with refusal(Reason.CODE):
        harness.identity.second_factor(half_way(harness), code, HERE)


def test_a_recovery_code_replaces_the_authenticator_once(harness: IdentityHarness) -> None:
    signed, _, codes = turned_on(harness)
    assert len(set(codes)) == 10
    assert all(len(code) == 11 and code[5] == "-" for code in codes)
    assert harness.identity.second_factor(half_way(harness), f" {codes[0].upper()} ", HERE)
    assert harness.identity.recovery_codes_left(signed.user) == 9
    assert harness.events(signed)[-2:] == ["recovery_used", "sign_in"]
    with refusal(Reason.CODE):
        harness.identity.second_factor(half_way(harness), codes[0], HERE)


def test_recovery_codes_work_only_for_their_user_and_are_stored_as_digests(harness: IdentityHarness) -> None:
    _, _, codes = turned_on(harness)
    other = harness.member("ben@example.com").user
    secret, _ = harness.identity.begin_totp(other)
    harness.identity.finish_totp(other, secret, code_of(harness, secret), HERE)
    came = harness.identity.sign_in("ben@example.com", PASSWORD, HERE)
    assert isinstance(came, SecondFactorRequired)
    with refusal(Reason.CODE):
        harness.identity.second_factor(came.ticket, codes[1], HERE)
    stored = b"".join(digest for mine in harness.store._codes.values() for digest in mine)
    assert codes[1].replace("-", "").encode() not in stored


def test_new_recovery_codes_replace_the_old_ones(harness: IdentityHarness) -> None:
    signed, _, old = turned_on(harness)
    new = harness.identity.new_recovery_codes(signed.user, HERE)
    assert not set(new) & set(old)
    with refusal(Reason.CODE):
        harness.identity.second_factor(half_way(harness), old[0], HERE)
    assert harness.identity.second_factor(half_way(harness), new[0], HERE)


def test_recovery_codes_require_a_second_factor(harness: IdentityHarness) -> None:
    user = harness.member().user
    with refusal(Reason.CODE):
        harness.identity.new_recovery_codes(user, HERE)


def test_disabling_the_second_factor_deletes_its_data(harness: IdentityHarness) -> None:
    signed, _, codes = turned_on(harness)
    harness.identity.stop_totp(signed.user, HERE)
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)
    assert harness.identity.recovery_codes_left(signed.user) == 0
    assert not harness.store.use_recovery_code(
        signed.user.id, harness.identity._codes._digest(signed.user.id, codes[0]), 1
    )


def test_the_ticket_is_valid_for_five_minutes_and_only_unaltered(harness: IdentityHarness) -> None:
    _, secret, _ = turned_on(harness)
    ticket = half_way(harness)
    harness.clock.pass_s(299)
    for altered in (ticket[:-2] + ("AA" if ticket[-2:] != "AA" else "BB"), ticket[1:], "", "ü", "A" * 10_000):
        with refusal(Reason.LINK):
            harness.identity.second_factor(altered, code_of(harness, secret), HERE)
    harness.clock.pass_s(1)
    with refusal(Reason.LINK):
        harness.identity.second_factor(ticket, code_of(harness, secret), HERE)


def test_the_ticket_is_void_once_the_password_or_the_second_factor_changed(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    ticket = half_way(harness)
    harness.identity.change_password(signed.user, harness.session(signed), OTHER_PASSWORD, HERE)
    with refusal(Reason.CHANGED):
        harness.identity.second_factor(ticket, code_of(harness, secret), HERE)


def test_one_disabled_meanwhile_stays_outside(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    ticket = half_way(harness)
    harness.identity.change_user(None, signed.user.id, HERE, disabled=True)
    with refusal(Reason.DISABLED):
        harness.identity.second_factor(ticket, code_of(harness, secret), HERE)


def test_an_account_may_try_five_codes_a_minute_from_any_client(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    ticket = half_way(harness)
    for number in range(5):
        with refusal(Reason.CODE):
            harness.identity.second_factor(ticket, "no code", Origin(f"198.51.100.{number}"))
    with refusal(Reason.TOO_OFTEN):
        harness.identity.second_factor(ticket, code_of(harness, secret), HERE)
    assert harness.events(signed).count("sign_in_failed") == 5


def test_confirming_requires_the_code_and_a_wrong_password_spends_none(harness: IdentityHarness) -> None:
    signed, secret, _ = turned_on(harness)
    session = harness.session(signed)
    with refusal(Reason.CODE, "code"):
        harness.identity.confirm(session, PASSWORD, "", HERE)
    code = code_of(harness, secret)
    with refusal(Reason.WRONG, "password"):
        harness.identity.confirm(session, OTHER_PASSWORD, code, HERE)
    assert harness.in_force(harness.identity.confirm(session, PASSWORD, code, HERE))


def test_after_fifty_wrong_codes_a_day_only_recovery_codes_work(
    harness: IdentityHarness,
) -> None:
    """Three of a million codes are valid at any time. At fifty guesses a day, one succeeds in 6667 days on average."""
    _, secret, codes = turned_on(harness)
    for number in range(50):
        harness.clock.pass_s(15)
        with refusal(Reason.CODE):
            harness.identity.second_factor(half_way(harness), f"no code {number}", HERE)
    harness.clock.pass_s(60)
    with refusal(Reason.TOO_OFTEN, "code"):
        harness.identity.second_factor(half_way(harness), code_of(harness, secret), HERE)
    assert harness.identity.second_factor(half_way(harness), codes[0], HERE)
    harness.clock.pass_s(24 * 3600)
    assert harness.identity.second_factor(half_way(harness), code_of(harness, secret), HERE)


def test_wrong_passwords_in_between_do_not_hide_wrong_codes(harness: IdentityHarness) -> None:
    """Otherwise someone with the password could hide the failed codes and guess without limit."""
    _, secret, _ = turned_on(harness)
    for number in range(50):
        ticket = half_way(harness)
        for _ in range(3):
            with refusal(Reason.WRONG):
                harness.identity.sign_in(MEMBER, OTHER_PASSWORD, HERE)
        with refusal(Reason.CODE):
            harness.identity.second_factor(ticket, f"no code {number}", HERE)
        harness.clock.pass_s(61)
    with refusal(Reason.TOO_OFTEN, "code"):
        harness.identity.second_factor(half_way(harness), code_of(harness, secret), HERE)

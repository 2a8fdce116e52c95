"""Signing in by passkey: a software authenticator's valid responses are accepted, and every altered one is refused."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.people.passkey_authenticator import PRESENT, VERIFIED, Authenticator, b64, unb64
from tests.people.sign_in_harness import HERE, MEMBER, PASSWORD, SITE, IdentityHarness, refusal

from outcry.people.browser_sessions import SignedIn
from outcry.people.model import UserRow
from outcry.people.refusals import Reason, Refused

HOST = "outcry.example.com"


@pytest.fixture
def harness() -> IdentityHarness:
    return IdentityHarness()


def add(
    harness: IdentityHarness, user: UserRow, device: Authenticator | None = None, label: str = "Phone"
) -> Authenticator:
    device = device or Authenticator(SITE)
    options, ticket = harness.identity.new_passkey_options(user, HOST)
    harness.identity.add_passkey(user, ticket, device.create(options), label, HOST, SITE, HERE)
    return device


def sign_in(harness: IdentityHarness, device: Authenticator, **changed: Any) -> SignedIn:
    options, ticket = harness.identity.passkey_options(HOST)
    return harness.identity.passkey_sign_in(ticket, device.get(options, **changed), HOST, SITE, HERE)


def test_a_passkey_signs_in_without_an_address(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    signed = sign_in(harness, device)
    assert signed.user.id == user.id
    assert harness.in_force(signed.token)
    (row,) = harness.identity.passkeys(user)
    assert (row.label, row.sign_count, row.transports) == ("Phone", 1, ("internal",))
    assert row.last_used_ns == harness.clock.at_ns
    assert harness.events(user)[-2:] == ["passkey_added", "sign_in"]


def test_a_discoverable_passkey_with_user_verification_is_requested(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    making = json.loads(harness.identity.new_passkey_options(user, HOST)[0])
    assert making["authenticatorSelection"]["residentKey"] == "required"
    assert making["authenticatorSelection"]["userVerification"] == "required"
    assert making["rp"] == {"name": "Outcry", "id": HOST}
    assert len(making["excludeCredentials"]) == 1
    asking = json.loads(harness.identity.passkey_options(HOST)[0])
    assert asking["userVerification"] == "required"
    assert asking.get("allowCredentials", []) == []  # a list would reveal which users have a passkey
    assert device.user_handle == user.handle


def test_a_passkey_is_both_factors(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    harness.store.set_totp(user.id, b"sealed")
    assert isinstance(sign_in(harness, device), SignedIn)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "https://outcry.example.net"},
        {"origin": "http://outcry.example.com"},
        {"rp_id": "example.com"},
        {"challenge": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"type": "webauthn.create"},
        {"crossOrigin": True},
        {"crossOrigin": "true"},
        {"topOrigin": "https://frames.example"},
        {"flags": PRESENT},  # the user was present but not verified
        {"flags": VERIFIED},
        {"handle": b"somebody else"},
        {"spoil": True},
    ],
)
def test_a_response_with_one_invalid_part_is_refused(
    harness: IdentityHarness, changed: dict[str, Any]
) -> None:
    user = harness.member().user
    device = add(harness, user)
    with refusal(Reason.PASSKEY):
        sign_in(harness, device, **changed)
    assert isinstance(sign_in(harness, device), SignedIn)


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "https://outcry.example.net"},
        {"challenge": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"type": "webauthn.get"},
        {"crossOrigin": True},
        {"topOrigin": "https://frames.example"},
        {"flags": PRESENT},
    ],
)
def test_an_invalid_passkey_is_not_stored(harness: IdentityHarness, changed: dict[str, Any]) -> None:
    user = harness.member().user
    options, ticket = harness.identity.new_passkey_options(user, HOST)
    with refusal(Reason.PASSKEY):
        harness.identity.add_passkey(
            user, ticket, Authenticator(SITE).create(options, **changed), "x", HOST, SITE, HERE
        )
    assert harness.identity.passkeys(user) == []


def test_a_browser_that_omits_cross_origin_signs_in(harness: IdentityHarness) -> None:
    """Level 1 of the standard makes `crossOrigin` optional."""

    class Older(Authenticator):
        def _client(self, kind: str, challenge: str, changed: dict[str, Any]) -> bytes:
            client_data = json.loads(super()._client(kind, challenge, changed))
            del client_data["crossOrigin"]
            return json.dumps(client_data).encode()

    device = add(harness, harness.member().user, Older(SITE))
    assert isinstance(sign_in(harness, device), SignedIn)


def test_a_response_works_once(harness: IdentityHarness) -> None:
    device = add(harness, harness.member().user, Authenticator(SITE, counts=False))
    options, ticket = harness.identity.passkey_options(HOST)
    answer = device.get(options)
    harness.identity.passkey_sign_in(ticket, answer, HOST, SITE, HERE)
    with refusal(Reason.PASSKEY):
        harness.identity.passkey_sign_in(ticket, answer, HOST, SITE, HERE)


def test_a_challenge_is_valid_for_five_minutes_and_one_purpose(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    options, ticket = harness.identity.passkey_options(HOST)
    harness.clock.pass_s(300)
    with refusal(Reason.PASSKEY):
        harness.identity.passkey_sign_in(ticket, device.get(options), HOST, SITE, HERE)
    _, other = harness.identity.new_passkey_options(user, HOST)
    with refusal(Reason.PASSKEY):
        harness.identity.passkey_sign_in(other, device.get(options), HOST, SITE, HERE)


def test_requesting_a_challenge_stores_nothing(harness: IdentityHarness) -> None:
    for _ in range(100):
        harness.identity.passkey_options(HOST)
    assert harness.store._tokens == {}


@pytest.mark.parametrize("steps_back", [1, 3])
def test_a_counter_that_does_not_increase_is_refused_and_logged(
    harness: IdentityHarness, steps_back: int
) -> None:
    user = harness.member().user
    device = add(harness, user)
    for _ in range(3):
        sign_in(harness, device)
    copy = replace(device, sign_count=device.sign_count - steps_back)
    with refusal(Reason.PASSKEY):
        sign_in(harness, copy)
    assert harness.events(user)[-1] == "passkey_copied"
    assert harness.store.lines[-1].details == {"label": "Phone"}


def test_a_passkey_without_a_counter_is_accepted(harness: IdentityHarness) -> None:
    device = add(harness, harness.member().user, Authenticator(SITE, counts=False))
    assert sign_in(harness, device).token != sign_in(harness, device).token


def test_one_disabled_stays_outside(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    harness.identity.change_user(None, user.id, HERE, disabled=True)
    with refusal(Reason.DISABLED):
        sign_in(harness, device)


def test_a_passkey_confirms_only_its_own_user(harness: IdentityHarness) -> None:
    owner, member = harness.owner(), harness.member()
    device = add(harness, member.user)
    harness.clock.pass_s(601)
    options, ticket = harness.identity.passkey_options(HOST)
    with refusal(Reason.PASSKEY):
        harness.identity.passkey_confirm(
            harness.session(owner), ticket, device.get(options), HOST, SITE, HERE
        )
    options, ticket = harness.identity.passkey_options(HOST)
    token = harness.identity.passkey_confirm(
        harness.session(member), ticket, device.get(options), HOST, SITE, HERE
    )
    assert not harness.in_force(member.token)
    session = harness.session(SignedIn(token, member.user))
    assert harness.browser_sessions.is_recently_confirmed(session, harness.clock.now_ns())


def test_a_passkey_belongs_to_one_account_and_is_added_by_it(harness: IdentityHarness) -> None:
    owner, member = harness.owner().user, harness.member().user
    device = add(harness, member)
    options, ticket = harness.identity.new_passkey_options(member, HOST)
    with refusal(Reason.PASSKEY):  # another user's ticket
        harness.identity.add_passkey(owner, ticket, device.create(options), "x", HOST, SITE, HERE)
    with refusal(Reason.PASSKEY):  # already registered
        add(harness, owner, device)


def test_the_last_way_in_cannot_be_removed(harness: IdentityHarness) -> None:
    user = harness.member().user
    add(harness, user)
    add(harness, user, label="Key")
    harness.store.set_password(user.id, None, harness.clock.now_ns())
    first, second = harness.identity.passkeys(user)
    harness.identity.remove_passkey(user, first.id, HERE)
    with refusal(Reason.LAST_WAY_IN):
        harness.identity.remove_passkey(user, second.id, HERE)
    harness.identity.reset(harness.identity.reset_link(None, user.id, HERE).partition("=")[2], PASSWORD, HERE)
    harness.identity.remove_passkey(user, second.id, HERE)
    assert harness.identity.passkeys(user) == []


def test_a_user_cannot_remove_another_users_passkey(harness: IdentityHarness) -> None:
    owner, member = harness.owner().user, harness.member().user
    add(harness, member)
    (row,) = harness.identity.passkeys(member)
    harness.identity.remove_passkey(owner, row.id, HERE)
    assert len(harness.identity.passkeys(member)) == 1


def test_a_removed_passkey_cannot_sign_in(harness: IdentityHarness) -> None:
    user = harness.member().user
    device = add(harness, user)
    harness.identity.remove_passkey(user, harness.identity.passkeys(user)[0].id, HERE)
    with refusal(Reason.PASSKEY):
        sign_in(harness, device)


def test_twenty_passkeys_are_the_maximum_and_labels_are_made_printable(harness: IdentityHarness) -> None:
    user = harness.member().user
    add(harness, user, label="  a\x00b\ncäöü" + "x" * 100)
    for _ in range(19):
        add(harness, user, label=" ")
    labels = [row.label for row in harness.identity.passkeys(user)]
    assert labels[0] == "abcäöü" + "x" * 54
    assert set(labels[1:]) == {"Passkey"}
    with refusal(Reason.PASSKEY):
        add(harness, user)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
PIECES = st.text(alphabet="AQBnow_-=! \x00ü", max_size=60)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_response_is_accepted_or_refused_without_a_crash(
    harness: IdentityHarness, data: st.DataObject
) -> None:
    """Random JSON, responses with one part replaced, and responses with bytes cut or changed."""
    user = harness.store.user_named(MEMBER) or harness.member().user
    device = Authenticator(SITE)
    harness.store._passkeys.clear()  # accepted passkeys are removed, or the limit of twenty would end the test
    add(harness, user, device)
    harness.clock.pass_s(60)
    options, ticket = harness.identity.passkey_options(HOST)
    making, new_ticket = harness.identity.new_passkey_options(user, HOST)
    for genuine in (device.create(making), device.get(options)):
        answer = json.loads(genuine)
        where = data.draw(st.sampled_from([answer, answer["response"]]))
        name = data.draw(st.sampled_from(sorted(where)))
        where[name] = data.draw(JSON | PIECES | _damaged(where[name]))
        sent = data.draw(st.sampled_from([json.dumps(answer), json.dumps(where)]) | PIECES)
        with suppress(Refused):
            harness.identity.passkey_sign_in(ticket, sent, HOST, SITE, HERE)
        with suppress(Refused):
            harness.identity.add_passkey(user, new_ticket, sent, "x", HOST, SITE, HERE)


def _damaged(part: object) -> st.SearchStrategy[str]:
    """Return the bytes of a part with one byte changed or the end cut off."""
    whole = unb64(part) if isinstance(part, str) and len(part) % 4 != 1 else b"nothing"

    def damage(place: int, value: int, keep: int) -> str:
        changed = bytearray(whole)
        changed[place % len(changed)] ^= value
        return b64(bytes(changed[:keep]) if keep % 3 == 0 else bytes(changed))

    return st.builds(damage, st.integers(0, 400), st.integers(0, 255), st.integers(0, 400))

"""Signing in by an OpenID provider: real tokens over real sockets, and each way a token can be invalid."""

import base64
import contextlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pyotp
import pytest
from joserfc.jwk import RSAKey
from tests.people.memory_store import HandClock
from tests.people.openid_provider import CLIENT, SECRET, Provider, new_key, provider
from tests.people.sign_in_harness import HERE, MEMBER, OWNER, PASSWORD, SITE, IdentityHarness, refusal

from outcry.people.browser_sessions import Origin, SignedIn
from outcry.people.openid import OpenIdOutcome
from outcry.people.openid_provider import CACHE_NS, LONGEST_ANSWER, WebOpenIdProvider
from outcry.people.refusals import Reason
from outcry.people.service import SecondFactorRequired

KEY, OTHER_KEY = new_key("one"), new_key("two")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def there(clock: HandClock) -> Iterator[Provider]:
    with provider(clock.at_ns // 10**9) as answering:
        answering.key = KEY
        yield answering


@pytest.fixture
def harness(clock: HandClock, there: Provider) -> IdentityHarness:
    return IdentityHarness(clock=clock, openid=WebOpenIdProvider("Example", there.url, CLIENT, SECRET, clock))


def come(harness: IdentityHarness, there: Provider, **begin: Any) -> OpenIdOutcome:
    """Sign in at the provider and return with its response."""
    address, ticket = harness.identity.begin_openid("/alerts?x=1", **begin)
    return harness.identity.finish_openid(ticket, there.authorize(address), begin.get("session"), HERE)


def signed(came: OpenIdOutcome) -> SignedIn:
    assert isinstance(came.came, SignedIn)
    return came.came


# -- who may sign in


def test_a_user_with_an_account_signs_in(harness: IdentityHarness, there: Provider) -> None:
    user = harness.member().user
    came = come(harness, there)
    assert signed(came).user.id == user.id
    assert harness.in_force(signed(came).token)
    assert (came.next, came.token) == ("/alerts?x=1", "")
    assert harness.store.lines[-1].details == {"way": "openid"}
    assert harness.identity.openid_name() == "Example"


def test_the_authorization_request_contains_no_secret(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    address, ticket = harness.identity.begin_openid("/")
    query = there.codes[there.authorize(address)["code"]]
    assert query["redirect_uri"] == f"{SITE}/sign-in/openid/callback"
    assert query["scope"] == "openid email"
    assert len(query["state"]) >= 32
    assert query["state"] != query["nonce"]
    for secret in (SECRET, ticket, "verifier"):
        assert secret not in address


def test_the_code_is_redeemed_with_our_secret_and_the_verifier(
    harness: IdentityHarness, there: Provider
) -> None:
    harness.member()
    come(harness, there)
    pair = base64.b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode()).decode()
    assert there.authorization == [f"Basic {pair}"]
    assert "client_secret" not in there.forms[0]
    assert len(there.forms[0]["code_verifier"]) >= 43
    there.about = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    harness.clock.at_ns += CACHE_NS
    there.now_s = harness.clock.at_ns // 10**9
    come(harness, there)
    assert (there.forms[1]["client_id"], there.forms[1]["client_secret"]) == (CLIENT, SECRET)
    assert there.authorization[1] == ""


def test_a_person_without_account_or_invitation_is_refused(harness: IdentityHarness, there: Provider) -> None:
    harness.owner()
    with refusal(Reason.NOT_INVITED):
        come(harness, there)
    assert [user.email for user in harness.store.users()] == [OWNER]


def test_an_invitation_of_the_address_creates_the_account(harness: IdentityHarness, there: Provider) -> None:
    harness.identity.invite(harness.owner().user, MEMBER, "operator", "pro", HERE)
    user = signed(come(harness, there)).user
    assert (user.email, user.role, user.tier, user.password_hash) == (MEMBER, "operator", "pro", None)
    assert harness.identity.invitations() == []
    assert harness.events(user) == ["invitation_accepted", "sign_in"]


def test_an_account_created_with_a_key_needs_an_invitation(harness: IdentityHarness, there: Provider) -> None:
    owner = harness.owner().user
    made = harness.store.add_user(MEMBER, "member", "free", b"k" * 32, harness.clock.now_ns())
    assert made is not None
    with refusal(Reason.NOT_INVITED):
        come(harness, there)
    anybodys = harness.identity.invite(owner, "", "member", "free", HERE).partition("=")[2]
    with refusal(Reason.EMAIL_TAKEN):
        come(harness, there, invitation=anybodys)
    harness.identity.invite(owner, MEMBER, "member", "pro", HERE)
    assert signed(come(harness, there)).user.id == made.id


def test_a_provider_user_can_return_and_choose_a_password(harness: IdentityHarness, there: Provider) -> None:
    """A provider sign-in counts as a way to sign in: no second invitation is needed, and links are emailed."""
    harness.identity.invite(harness.owner().user, MEMBER, "member", "free", HERE)
    user = signed(come(harness, there)).user
    assert signed(come(harness, there)).user.id == user.id
    with refusal(Reason.EMAIL_TAKEN):
        harness.identity.invite(None, MEMBER, "member", "free", HERE)
    harness.identity.send_reset(MEMBER, HERE)
    assert harness.post is not None
    assert isinstance(harness.identity.reset(harness.post.link(MEMBER), PASSWORD, HERE), SignedIn)


def test_a_linked_user_is_recognised_after_an_address_change(
    harness: IdentityHarness, there: Provider
) -> None:
    user = harness.member().user
    come(harness, there)
    for claims in ({"email": "ann.married@example.com"}, {"email_verified": False}, {"email": OWNER}):
        there.claims = claims
        assert signed(come(harness, there)).user.id == user.id


def test_a_reassigned_address_does_not_open_the_account(harness: IdentityHarness, there: Provider) -> None:
    user = harness.member().user
    come(harness, there)
    there.claims = {"sub": "the next who was given the address"}
    with refusal(Reason.NOT_INVITED):
        come(harness, there)
    assert harness.reports == [f"openid_subject_changed user_id={user.id}"]
    token = harness.identity.reset_link(None, user.id, HERE).partition("=")[2]
    harness.identity.reset(token, PASSWORD, HERE)  # by the person to whom the operator gave the link
    assert signed(come(harness, there)).user.id == user.id


def test_a_user_of_another_provider_is_recognised_by_address(
    harness: IdentityHarness, there: Provider
) -> None:
    user = harness.member().user
    harness.store.set_openid(user.id, "https://the.one.before.example.com 7", None)
    assert signed(come(harness, there)).user.id == user.id
    assert harness.user(user).openid == f"{there.url} ann at the provider"


def test_the_subject_is_stored_only_after_the_second_factor(
    harness: IdentityHarness, there: Provider
) -> None:
    user = harness.member().user
    secret, _ = harness.identity.begin_totp(user)
    harness.identity.finish_totp(user, secret, pyotp.TOTP(secret).at(harness.clock.now_ns() // 10**9), HERE)
    half = come(harness, there).came
    assert isinstance(half, SecondFactorRequired)
    assert harness.user(user).openid is None
    harness.clock.pass_s(60)
    harness.identity.second_factor(half.ticket, pyotp.TOTP(secret).at(harness.clock.now_ns() // 10**9), HERE)
    assert harness.user(user).openid == f"{there.url} ann at the provider"


@pytest.mark.parametrize("subject", ["", "x" * 256, "two\nlines", 7])
def test_an_invalid_subject_is_refused(harness: IdentityHarness, there: Provider, subject: object) -> None:
    harness.member()
    there.claims = {"sub": subject}
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


def test_an_invitation_link_creates_the_account_unless_it_names_another(
    harness: IdentityHarness, there: Provider
) -> None:
    owner = harness.owner().user
    named = harness.identity.invite(owner, "zoe@example.com", "member", "free", HERE).partition("=")[2]
    with refusal(Reason.NOT_INVITED):
        come(harness, there, invitation=named)
    anybodys = harness.identity.invite(owner, "", "member", "free", HERE).partition("=")[2]
    assert signed(come(harness, there, invitation=anybodys)).user.email == MEMBER


def test_a_provider_sign_in_still_requires_the_second_factor(
    harness: IdentityHarness, there: Provider
) -> None:
    harness.store.set_totp(harness.member().user.id, b"sealed")
    assert isinstance(come(harness, there).came, SecondFactorRequired)


def test_one_disabled_stays_outside(harness: IdentityHarness, there: Provider) -> None:
    harness.identity.change_user(None, harness.member().user.id, HERE, disabled=True)
    with refusal(Reason.DISABLED):
        come(harness, there)


@pytest.mark.parametrize(
    "claims", [{"email_verified": False}, {"email_verified": None}, {"email_verified": "yes"}]
)
def test_an_unverified_address_is_ignored(
    harness: IdentityHarness, there: Provider, claims: dict[str, Any]
) -> None:
    harness.member()
    there.claims = claims
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


def test_an_address_missing_in_the_token_is_requested(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    there.claims = {"email": None, "email_verified": None}
    there.userinfo = {"sub": "ann at the provider", "email": MEMBER, "email_verified": True}
    assert signed(come(harness, there)).user.email == MEMBER
    there.userinfo["sub"] = "somebody else"
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


# -- invalid tokens


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://elsewhere.example.com"},
        {"aud": "another client"},
        {"aud": ["another client"]},
        {"aud": [CLIENT, "another client"]},  # several audiences, and no authorized party names us
        {"azp": "another client"},
        {"nonce": "another question's"},
        {"nonce": None},
        {"nonce": 7},
        {"azp": [CLIENT]},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"sub": None},
        {"iss": None},
        {"aud": None},
    ],
)
def test_a_token_wrong_in_one_claim_is_refused(
    harness: IdentityHarness, there: Provider, claims: dict[str, Any]
) -> None:
    harness.member()
    there.claims = claims
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)
    assert len(harness.reports) == 1


def test_a_refused_token_is_reported_with_the_claim_that_is_wrong(
    harness: IdentityHarness, there: Provider
) -> None:
    harness.member()
    there.claims = {"nonce": "another question's"}
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)
    assert harness.reports == [
        "openid_sign_in_failed problem=the ID token is invalid: InvalidClaimError (nonce)"
    ]


def test_a_list_of_nonces_is_refused(harness: IdentityHarness, there: Provider) -> None:
    """A list is not a valid nonce, even if it contains the right one."""
    harness.member()
    honest = there.signed
    there.signed = lambda claims: honest(claims | {"nonce": [claims["nonce"]]})  # type: ignore[method-assign]
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


def test_a_claim_of_null_counts_as_absent(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    honest = there.signed
    there.signed = lambda claims: honest(claims | {"azp": None})  # type: ignore[method-assign]
    assert signed(come(harness, there))


def test_a_token_for_several_that_names_us_is_good(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    there.claims = {"aud": [CLIENT, "another client"], "azp": CLIENT}
    assert signed(come(harness, there))


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_signed_with_nothing_or_with_the_public_key_is_refused(
    harness: IdentityHarness, there: Provider, algorithm: str
) -> None:
    harness.member()
    there.algorithm = algorithm
    there.about = {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


def test_a_token_signed_by_another_key_is_refused(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    come(harness, there)
    false = RSAKey.import_key(OTHER_KEY.as_dict(private=True) | {"kid": "one"})
    honest = there.signed
    there.signed = lambda claims: Provider.signed(Provider(there.now_s, key=false), claims)  # type: ignore[method-assign]
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)
    there.signed = honest  # type: ignore[method-assign]
    assert signed(come(harness, there))


def test_new_keys_are_fetched_when_they_are_first_met(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    come(harness, there)
    there.key = OTHER_KEY
    assert signed(come(harness, there))
    assert there.asked.count("/keys") == 2


def test_the_discovery_document_is_fetched_once_an_hour(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    for _ in range(3):
        come(harness, there)
    assert there.asked.count("/.well-known/openid-configuration") == 1


# -- redirects to the provider and back


def test_a_response_is_valid_only_in_the_browser_that_began(
    harness: IdentityHarness, there: Provider
) -> None:
    harness.member()
    address, ticket = harness.identity.begin_openid("/")
    given = there.authorize(address)
    _, other = harness.identity.begin_openid("/")
    for wrong, query in ((other, given), (ticket, given | {"state": "another"}), ("", given), (ticket, {})):
        with refusal(Reason.LINK):
            harness.identity.finish_openid(wrong, query, None, HERE)
    harness.clock.pass_s(600)
    with refusal(Reason.LINK):
        harness.identity.finish_openid(ticket, given, None, HERE)


def test_requests_without_a_ticket_do_not_count_as_attempts(
    harness: IdentityHarness, there: Provider
) -> None:
    """An image on another site could otherwise use up the attempts of everyone who views that site.

    Such requests carry no ticket, because browsers do not send our cookie with them."""
    harness.member()
    for _ in range(30):
        harness.identity.begin_openid("/")
        with refusal(Reason.LINK):
            harness.identity.finish_openid("", {"state": "guessed", "code": "guessed"}, None, HERE)
    assert isinstance(harness.identity.sign_in(MEMBER, PASSWORD, HERE), SignedIn)
    elsewhere = Origin("198.51.100.1")
    for n in range(21):
        address, ticket = harness.identity.begin_openid("/")
        with contextlib.nullcontext() if n < 20 else refusal(Reason.TOO_OFTEN):
            harness.identity.finish_openid(ticket, there.authorize(address), None, elsewhere)


def test_a_code_works_once(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    address, ticket = harness.identity.begin_openid("/")
    given = there.authorize(address)
    harness.identity.finish_openid(ticket, given, None, HERE)
    with refusal(Reason.SIGN_IN_SERVICE):
        harness.identity.finish_openid(ticket, given, None, HERE)


def test_declining_at_the_provider_is_reported(harness: IdentityHarness, there: Provider) -> None:
    address, ticket = harness.identity.begin_openid("/")
    state = there.authorize(address)["state"]
    for query in ({"error": "access_denied"}, {"code": ""}, {"code": "x" * 5000}):
        with refusal(Reason.SIGN_IN_SERVICE):
            harness.identity.finish_openid(ticket, query | {"state": state}, None, HERE)
    assert there.forms == []


def test_without_a_provider_sign_in_by_it_is_unavailable() -> None:
    harness = IdentityHarness()
    assert harness.identity.openid_name() == ""
    with refusal(Reason.SIGN_IN_SERVICE):
        harness.identity.begin_openid("/")


# -- confirming identity


def test_confirming_identity_signs_in_again_and_rotates_the_token(
    harness: IdentityHarness, there: Provider
) -> None:
    member = harness.member()
    harness.clock.pass_s(601)
    there.now_s = harness.clock.at_ns // 10**9
    came = come(harness, there, session=harness.session(member))
    assert came.came is None
    assert not harness.in_force(member.token)
    session = harness.session(SignedIn(came.token, member.user))
    assert harness.browser_sessions.is_recently_confirmed(session, harness.clock.now_ns())


def test_with_a_second_factor_the_provider_alone_confirms_nothing(
    harness: IdentityHarness, there: Provider
) -> None:
    """This also applies if the second factor was enabled while the user was at the provider."""
    member = harness.member()
    session = harness.session(member)
    address, ticket = harness.identity.begin_openid("/", session=session)
    given = there.authorize(address)
    harness.store.set_totp(member.user.id, b"sealed")
    with refusal(Reason.CODE_TOO):
        harness.identity.finish_openid(ticket, given, session, HERE)
    with refusal(Reason.CODE_TOO):
        harness.identity.begin_openid("/", session=session)
    assert harness.in_force(member.token)


@pytest.mark.parametrize("seconds", [None, -61, -86_400])
def test_an_earlier_sign_in_confirms_nothing(
    harness: IdentityHarness, there: Provider, seconds: int | None
) -> None:
    session = harness.session(harness.member())
    there.claims = {"auth_time": None if seconds is None else there.now_s + seconds}
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there, session=session)


def test_only_the_same_user_in_the_same_session_can_confirm(
    harness: IdentityHarness, there: Provider
) -> None:
    owner, member = harness.session(harness.owner()), harness.session(harness.member())
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there, session=owner)  # Ann at the provider, the owner in this session
    address, ticket = harness.identity.begin_openid("/", session=member)
    with refusal(Reason.LINK):
        harness.identity.finish_openid(ticket, there.authorize(address), owner, HERE)
    harness.identity.sign_out(member, HERE)
    with refusal(Reason.LINK):
        come(harness, there, session=member)


# -- a provider that violates the protocol


@pytest.mark.parametrize(
    "raw",
    [b"", b"null", b"[]", b"not json", b"{" * 50_000, b'{"a":"' + b"x" * LONGEST_ANSWER + b'"}', b"\xff"],
)
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_an_invalid_response_is_refused(
    harness: IdentityHarness, there: Provider, path: str, raw: bytes
) -> None:
    harness.member()
    there.raw[path] = raw
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://elsewhere.example.com"},
        {"token_endpoint": "http://elsewhere.example.com/token"},  # an unencrypted URL
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "http://[::1"},
        {"token_endpoint": 7},
        {"jwks_uri": None},
        {"authorization_endpoint": None},
        {"id_token_signing_alg_values_supported": ["HS256"]},
    ],
)
def test_an_invalid_discovery_document_is_refused(
    harness: IdentityHarness, there: Provider, about: dict[str, Any]
) -> None:
    harness.member()
    there.about = about
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


@pytest.mark.parametrize("keys", [{}, {"keys": []}, {"keys": [{"kty": "RSA"}]}, {"keys": [7]}, {"keys": "x"}])
def test_invalid_keys_are_refused(harness: IdentityHarness, there: Provider, keys: object) -> None:
    harness.member()
    there.raw["/keys"] = json.dumps(keys).encode()
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "....", 7, None, "ü.ü.ü", "e30.e30.e30"])
def test_a_malformed_token_is_refused(harness: IdentityHarness, there: Provider, token: object) -> None:
    harness.member()
    there.raw["/token"] = json.dumps({"id_token": token}).encode()
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)


def test_a_redirect_is_not_followed(harness: IdentityHarness, there: Provider) -> None:
    harness.member()
    honest = there.answer

    def astray(path: str, form: dict[str, str], authorization: str) -> tuple[int, bytes]:
        if path == "/token":
            return 302, f"{there.url}/elsewhere".encode()
        return honest(path, form, authorization)

    there.answer = astray  # type: ignore[method-assign]
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)
    assert "/elsewhere" not in there.asked


def test_an_unreachable_provider_is_reported_without_a_secret(
    harness: IdentityHarness, there: Provider
) -> None:
    away = WebOpenIdProvider("Example", "http://127.0.0.1:1", CLIENT, SECRET, harness.clock)
    other = IdentityHarness(openid=away)
    with refusal(Reason.SIGN_IN_SERVICE):
        other.identity.begin_openid("/")
    assert other.reports == ["openid_sign_in_failed problem=127.0.0.1 did not answer: ClientConnectorError"]
    there.raw["/token"] = b"null"
    with refusal(Reason.SIGN_IN_SERVICE):
        come(harness, there)
    assert SECRET not in repr(harness.reports)


def test_an_unreachable_provider_is_retried_after_half_a_minute(
    harness: IdentityHarness, there: Provider, clock: HandClock
) -> None:
    harness.member()
    discovery = "/.well-known/openid-configuration"
    there.raw[discovery] = b"we are being repaired"
    for _ in range(3):
        with refusal(Reason.SIGN_IN_SERVICE):
            harness.identity.begin_openid("/")
    assert there.asked.count(discovery) == 1
    clock.pass_s(29)
    del there.raw[discovery]
    with refusal(Reason.SIGN_IN_SERVICE):
        harness.identity.begin_openid("/")
    clock.pass_s(2)
    assert signed(come(harness, there))
    assert there.asked.count(discovery) == 2

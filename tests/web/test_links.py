"""Signing in by emailed links, by OpenID and with a second factor."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.web.harness import PASSWORD, Reply, Visitor
from tests.web.sign_in_harness import (
    ANN,
    BEN,
    OTHER_PASSWORD,
    SignInHarness,
    SignInService,
    csrf,
    follow,
    hidden,
    sign_in_service,
    submit,
)

from outcry.people.browser_sessions import Origin
from outcry.people.model import UserRow
from outcry.people.openid_model import OpenIdAnswer
from outcry.people.store import SqlIdentityStore

SITE = "http://localhost"


@pytest.fixture
def step(tmp_path: Path) -> Iterator[SignInHarness]:
    with sign_in_service(tmp_path, mail=True, public_url=SITE) as running:
        running.person()
        yield running


def opened(visitor: Visitor, link: str) -> Reply:
    """Open a link and press the one button there."""
    page = visitor.get(link)
    return visitor.post(
        link.partition("?")[0],
        {"csrf": csrf(page.text), "token": hidden(page.text, "token"), "password": OTHER_PASSWORD},
    )


# -- a link to sign in with


def test_a_mailed_link_signs_in_the_browser_that_asked_once_and_only_by_its_button(
    step: SignInHarness,
) -> None:
    visitor, other = step.visitor(), step.visitor()
    assert "/sign-in/link" in visitor.get("/sign-in").text
    asked = submit(visitor, "/sign-in/link", {"email": ANN})
    assert "we have sent it a link" in follow(visitor, asked).text
    link = step.mailbox.link(ANN, "/link")

    other.get("/sign-in")
    refused = opened(other, link)
    assert refused.status == 422
    assert "another browser" in refused.text
    for _ in range(2):
        assert visitor.get(link).status == 200, "opening the link used it up"

    came = opened(visitor, link)
    assert came.headers["location"] == "/"
    assert visitor.get("/account/security").status == 200
    assert opened(step.visitor(), link).status == 422


def test_a_link_a_signed_in_browser_asks_for_is_bound_to_it_too(step: SignInHarness) -> None:
    """Signed in for weeks, and opened anew: the cookie a visitor's forms are tied to went with the last window."""
    visitor, other = step.signed_in(), step.visitor()
    del visitor.cookies["outcry-visit"]
    submit(visitor, "/sign-in/link", {"email": ANN})
    link = step.mailbox.link(ANN, "/link")
    other.get("/sign-in")
    assert opened(other, link).status == 422
    assert opened(visitor, link).headers["location"] == "/"


@pytest.mark.parametrize(
    ("wanted", "led"),
    [("/account/log?before=7", "/account/log?before=7"), ("//evil.example", "/"), ("/a%0d%0ab", "/")],
)
def test_a_mailed_link_leads_on_to_where_one_was_going(step: SignInHarness, wanted: str, led: str) -> None:
    visitor = step.visitor()
    submit(visitor, f"/sign-in/link?next={quote(wanted, safe='%')}", {"email": ANN})
    assert opened(visitor, step.mailbox.link(ANN, "/link")).headers["location"] == led


def test_the_token_of_a_link_is_in_no_log_and_its_page_is_kept_nowhere(step: SignInHarness) -> None:
    visitor = step.visitor()
    submit(visitor, "/sign-in/link", {"email": ANN})
    link = step.mailbox.link(ANN, "/link")
    page = visitor.get(link)
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    opened(visitor, link)
    visitor.get("/readyz")
    assert link.partition("=")[2] not in step.log.getvalue().decode()


@pytest.mark.parametrize("path", ["/sign-in/link", "/reset"])
def test_asking_tells_nobody_whether_there_is_an_account(step: SignInHarness, path: str) -> None:
    answers = [submit(step.visitor(), path, {"email": email}) for email in (ANN, BEN)]
    assert [(reply.status, reply.headers["location"]) for reply in answers] == [(303, f"{path}?sent=1")] * 2


def test_what_is_no_address_is_kept_and_said(step: SignInHarness) -> None:
    reply = submit(step.visitor(), "/reset", {"email": "ann at example"})
    assert reply.status == 422
    assert 'value="ann at example"' in reply.text
    assert 'aria-invalid="true"' in reply.text
    assert 'href="#f-email"' in reply.text


def test_without_mail_nothing_offers_it(tmp_path: Path) -> None:
    with sign_in_service(tmp_path) as step:
        step.person()
        visitor = step.visitor()
        page = visitor.get("/sign-in").text
        assert "/reset" not in page
        assert "/sign-in/link" not in page
        for path in ("/reset", "/sign-in/link"):
            assert visitor.get(path).status == 404
        assert submit_to(visitor, "/reset", {"email": ANN}).status == 422


def submit_to(visitor: Visitor, path: str, fields: dict[str, str]) -> Reply:
    """Send a form of the sign-in page somewhere else."""
    return visitor.post(path, {"csrf": csrf(visitor.get("/sign-in").text), **fields})


# -- a new password


def test_a_new_password_signs_out_everyone_else_and_the_old_one_is_over(step: SignInHarness) -> None:
    before = step.signed_in()
    visitor = step.visitor()
    submit(visitor, "/reset", {"email": ANN})
    link = step.mailbox.link(ANN, "/reset/new")
    page = visitor.get(link)
    short = visitor.post(
        "/reset/new", {"csrf": csrf(page.text), "token": hidden(page.text, "token"), "password": "short"}
    )
    assert short.status == 422
    assert hidden(short.text, "token") in link, "the link is lost with the refusal"

    assert opened(visitor, link).headers["location"] == "/"
    assert before.get("/account/security").status == 303
    assert opened(step.visitor(), link).status == 422
    step.minute()
    for password, status in ((PASSWORD, 422), (OTHER_PASSWORD, 303)):
        assert submit(step.visitor(), "/sign-in", {"email": ANN, "password": password}).status == status


def test_an_operators_link_works_without_mail(tmp_path: Path) -> None:
    with sign_in_service(tmp_path) as step:
        user = step.person()
        link = step.identity.reset_link(None, user.id, Origin())
        assert opened(step.visitor(), link).headers["location"] == "/"


# -- the second factor


@pytest.fixture
def secret(step: SignInHarness) -> str:
    """Ann's authenticator."""
    ann = step.identity.users()[0]
    made, _ = step.identity.begin_totp(ann)
    step.identity.finish_totp(ann, made, step.code(made), Origin())
    step.minute()
    return made


def test_after_the_password_the_code_is_asked_for(step: SignInHarness, secret: str) -> None:
    visitor = step.visitor()
    half = submit(visitor, "/sign-in?next=/account/log", {"email": ANN, "password": PASSWORD})
    assert half.headers["location"] == "/sign-in/code?next=/account/log"
    assert "outcry-local" not in half.cookies
    assert visitor.get("/account/log").status == 303, "the password alone let in"

    wrong = submit(visitor, half.headers["location"], {"code": "000000"})
    assert wrong.status == 422
    assert "Wrong or expired code" in wrong.text

    code = step.code(secret)
    came = submit(visitor, half.headers["location"], {"code": f" {code[:3]} {code[3:]}"})
    assert came.headers["location"] == "/account/log"
    page = visitor.get("/account/log").text
    assert "Signed in" in page
    assert "Authenticator app" in page

    again = step.visitor()
    submit(again, "/sign-in", {"email": ANN, "password": PASSWORD})
    assert submit(again, "/sign-in/code", {"code": code}).status == 422, "a code was taken twice"


def test_half_way_ends_after_five_minutes_and_begins_again(step: SignInHarness, secret: str) -> None:
    visitor = step.visitor()
    half = submit(visitor, "/sign-in", {"email": ANN, "password": PASSWORD})
    page = visitor.get(half.headers["location"])
    step.clock.forward(301)
    late = visitor.post("/sign-in/code", {"csrf": csrf(page.text), "code": step.code(secret)})
    assert late.status == 422
    assert 'name="password"' in late.text


@pytest.mark.parametrize("ticket", ["", "x", "AAAA" * 50, "ü", "a" * 5000])
def test_a_ticket_that_is_none_leads_to_the_sign_in(step: SignInHarness, ticket: str) -> None:
    visitor = step.visitor()
    form = csrf(visitor.get("/sign-in").text)
    assert visitor.get("/sign-in/code").headers["location"] == "/sign-in"
    visitor.cookies["outcry-half-way"] = ticket.encode().decode("latin-1")
    reply = visitor.post("/sign-in/code", {"csrf": form, "code": "123456"})
    assert reply.status == 422
    assert 'name="password"' in reply.text


@pytest.mark.usefixtures("secret")
def test_a_link_does_not_get_round_the_second_factor(step: SignInHarness) -> None:
    visitor = step.visitor()
    submit(visitor, "/sign-in/link", {"email": ANN})
    assert opened(visitor, step.mailbox.link(ANN, "/link")).headers["location"] == "/sign-in/code"
    step.minute()
    submit(visitor, "/reset", {"email": ANN})
    assert opened(visitor, step.mailbox.link(ANN, "/reset/new")).headers["location"] == "/sign-in/code"


# -- the sign-in service


def answer_of(email: str, authenticated_ns: int | None) -> OpenIdAnswer:
    return OpenIdAnswer("https://id.example.com", f"subject of {email}", email, True, authenticated_ns)


@pytest.fixture
def service() -> SignInService:
    return SignInService(answer_of(ANN, authenticated_ns=None))


@pytest.fixture
def named(tmp_path: Path, service: SignInService) -> Iterator[SignInHarness]:
    """A service with a sign-in service."""
    with sign_in_service(tmp_path, openid=service, public_url=SITE) as running:
        running.person()
        yield running


def sent_away(visitor: Visitor, service: SignInService, path: str) -> str:
    """Go to the sign-in service; return where it sends the browser back to."""
    reply = visitor.get(path)
    assert reply.headers["location"].startswith("https://id.example.com/ask")
    assert reply.headers["cache-control"] == "no-store"
    return f"/sign-in/openid/callback?code=good&state={service.asked[-1].state}"


def test_the_sign_in_service_leads_on_to_where_one_was_going(
    named: SignInHarness, service: SignInService
) -> None:
    visitor = named.visitor()
    assert "Sign in with Example ID" in visitor.get("/sign-in?next=/account/log").text
    back = sent_away(visitor, service, "/sign-in/openid?next=/account/log")
    came = visitor.get(back)
    assert came.headers["location"] == "/account/log"
    assert follow(visitor, came).status == 200
    named.minute()
    assert visitor.get(back).status == 422, "the way back was gone twice"
    assert service.asked[-1].state not in named.log.getvalue().decode()


@pytest.mark.parametrize("away", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_the_sign_in_service_leads_nowhere_else(
    named: SignInHarness, service: SignInService, away: str
) -> None:
    visitor = named.visitor()
    assert visitor.get(sent_away(visitor, service, f"/sign-in/openid?next={away}")).headers["location"] == "/"


@pytest.mark.parametrize(
    "back", ["", "?code=good", "?code=good&state=x", "?error=access_denied&state=%00", "?state=ü"]
)
def test_a_way_back_that_does_not_match_ends_at_the_sign_in(
    named: SignInHarness, service: SignInService, back: str
) -> None:
    visitor = named.visitor()
    sent_away(visitor, service, "/sign-in/openid")
    reply = visitor.get(f"/sign-in/openid/callback{back.replace('ü', '%C3%BC')}")
    assert reply.status == 422
    assert 'name="password"' in reply.text
    assert "outcry-local" not in reply.cookies


def test_another_browsers_way_back_is_none(named: SignInHarness, service: SignInService) -> None:
    back = sent_away(named.visitor(), service, "/sign-in/openid")
    assert named.visitor().get(back).status == 422


def test_who_has_no_account_is_told_to_be_invited_and_comes_in_by_an_invitation(
    named: SignInHarness, service: SignInService
) -> None:
    service.claims = answer_of(BEN, authenticated_ns=None)
    visitor = named.visitor()
    reply = visitor.get(sent_away(visitor, service, "/sign-in/openid"))
    assert reply.status == 422
    assert "Ask the operator for an invitation" in reply.text
    token = named.identity.invite(None, "", "member", "free", Origin()).partition("?token=")[2]
    assert f"/sign-in/openid?token={token}" in visitor.get(f"/invite?token={token}").text
    came = visitor.get(sent_away(visitor, service, f"/sign-in/openid?token={token}"))
    assert came.headers["location"] == "/"
    assert [row.email for row in named.identity.users()] == [ANN, BEN]


def test_who_is_invited_need_not_be_who_is_signed_in(named: SignInHarness, service: SignInService) -> None:
    visitor = named.signed_in()
    ann = dict(visitor.cookies)
    service.claims = answer_of(BEN, authenticated_ns=None)
    token = named.invitation(BEN)
    assert f"signed in as {ANN}" in visitor.get(f"/invite?token={token}").text
    came = visitor.get(sent_away(visitor, service, f"/sign-in/openid?token={token}"))
    assert came.headers["location"] == "/"
    assert BEN in visitor.get("/account/security").text
    visitor.cookies = ann
    assert visitor.get("/account/security").status == 303, "the other account is still open in this browser"


def test_the_sign_in_service_proves_anew_who_it_is(named: SignInHarness, service: SignInService) -> None:
    visitor = named.signed_in()
    named.clock.forward(11 * 60)
    assert "Confirm with Example ID" in visitor.get("/confirm?next=/account/security/password").text
    back = sent_away(visitor, service, "/sign-in/openid?next=/account/security/password")
    stale = visitor.get(back)
    assert stale.status == 422, "a proof of long ago was taken"
    assert 'action="/confirm' in stale.text
    back = sent_away(visitor, service, "/sign-in/openid?next=/account/security/password")
    service.claims = answer_of(ANN, authenticated_ns=named.clock.now_ns())
    assert follow(visitor, visitor.get(back)).status == 200


def test_without_a_sign_in_service_there_are_no_pages_for_it(step: SignInHarness) -> None:
    for path in ("/sign-in/openid", "/sign-in/openid/callback?code=x&state=y"):
        assert step.visitor().get(path).status == 404


# -- another address


def test_a_new_address_holds_once_its_link_is_opened(step: SignInHarness) -> None:
    visitor = step.signed_in()
    asked = submit(visitor, "/account/security/email", {"email": BEN})
    assert "We sent a link to the new email address" in follow(visitor, asked).text
    assert users(step)[0].email == ANN
    changed = opened(step.visitor(), step.mailbox.link(BEN, "/email"))
    assert changed.status == 200
    assert "Email address changed" in changed.text
    assert users(step)[0].email == BEN


def users(step: SignInHarness) -> list[UserRow]:
    return list(step.identity.users())


def test_an_address_typed_before_a_confirmation_is_not_lost(step: SignInHarness) -> None:
    visitor = step.signed_in()
    page = visitor.get("/account/security/email")
    step.clock.forward(11 * 60)
    asked = visitor.post("/account/security/email", {"csrf": csrf(page.text), "email": "no <address>"})
    assert asked.headers["location"].startswith("/confirm?next=/account/security/email")
    confirmed = submit(visitor, asked.headers["location"], {"password": PASSWORD})
    again = follow(visitor, confirmed)
    assert 'value="no &lt;address&gt;"' in again.text
    refused = submit(visitor, "/account/security/email", {"email": "no <address>"})
    assert refused.status == 422
    assert 'value="no &lt;address&gt;"' in refused.text


@pytest.mark.parametrize("password", [True, False])
def test_with_an_authenticator_the_sign_in_service_is_not_offered_as_a_proof(
    named: SignInHarness, service: SignInService, password: bool
) -> None:
    """It would let in whoever sits at a computer left alone, without a code. Signing out and in again asks for one."""
    visitor = named.signed_in()
    store = SqlIdentityStore(named.installation.database)
    person = next(row for row in named.identity.users() if row.email == ANN)
    store.set_totp(person.id, b"sealed")
    if not password:
        store._set(person.id, password_hash=None)
    named.clock.forward(11 * 60)
    named.people.browser_sessions.refresh(named.clock.now_ns(), force=True)
    page = visitor.get("/confirm?next=/account/security/password").text
    assert "Confirm with Example ID" not in page
    assert ("Sign out and sign in again" in page) is not password
    reply = visitor.get("/sign-in/openid?next=/account/security/password")
    assert reply.status == 422
    assert "Two-factor authentication is on" in reply.text
    assert service.asked == []

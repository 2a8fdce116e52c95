"""Signing in and out over real sockets, without scripts."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest
from tests.timeouts import wait_until
from tests.web.harness import PASSWORD, Reply
from tests.web.sign_in_harness import (
    ANN,
    BEN,
    OTHER_PASSWORD,
    SignInHarness,
    csrf,
    follow,
    hidden,
    sign_in_service,
    submit,
    typed,
)

from outcry.cli.set_up import set_up_notice
from outcry.people.browser_sessions import Origin
from outcry.people.model import UserRow
from outcry.people.refusals import Reason, Refused
from outcry.web.language import LANGUAGES, Languages
from outcry.web.page_context import PageRequest
from outcry.web.sign_in_flow import faults_of


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignInHarness]:
    with sign_in_service(
        tmp_path_factory.mktemp("sign-in"), mail=True, public_url="http://localhost"
    ) as running:
        running.person()
        yield running


@pytest.fixture
def step(shared: SignInHarness) -> SignInHarness:
    """A service on which Ann has an account; nothing was tried within the last minute."""
    shared.minute()
    return shared


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[SignInHarness]:
    """A service as it is after its first start."""
    with sign_in_service(tmp_path) as running:
        yield running


def user(step: SignInHarness, email: str) -> UserRow:
    return next(row for row in step.identity.users() if row.email == email)


def knows(step: SignInHarness, cookies: dict[str, str]) -> bool:
    """Whether a browser with these cookies is signed in."""
    visitor = step.visitor()
    visitor.cookies = dict(cookies)
    return visitor.get("/account/security").status == 200


def set_cookie(reply: Reply, name: str) -> str:
    """The header that set a cookie, attributes and all."""
    return next(value for value in reply.set_cookies if value.startswith(f"{name}="))


# -- first run


def test_the_first_visitor_is_led_to_the_set_up_and_becomes_operator_by_the_token_only(
    fresh: SignInHarness,
) -> None:
    visitor = fresh.visitor()
    asked = visitor.get("/sign-in?next=/alerts")
    assert (asked.status, asked.headers["location"]) == (303, "/set-up")
    given = {"email": ANN, "password": PASSWORD}

    wrong = submit(visitor, "/set-up", {"token": "guessed", **given})
    assert wrong.status == 422
    assert (typed(wrong.text, "token"), typed(wrong.text, "email")) == ("guessed", ANN)
    assert PASSWORD not in wrong.text
    assert fresh.identity.first_run.is_pending()

    came = submit(visitor, "/set-up", {"token": fresh.identity.first_run.new_token(), **given})
    assert came.headers["location"] == "/account?done=welcome"
    welcome = follow(visitor, came)
    assert welcome.status == 200
    for step in ("/account/keys/new", "/account/brokers", "/operator/users"):
        assert f'<li><a href="{step}">' in welcome.text
    assert user(fresh, ANN).role == "operator"
    assert 'action="/sign-out"' in visitor.get("/account/security").text
    assert "no-store" in came.headers["cache-control"]


def test_the_file_with_the_token_goes_when_the_operator_is_made(fresh: SignInHarness) -> None:
    path = fresh.installation.settings.folder / "setup-token"
    notice = set_up_notice(fresh.installation.settings.folder, fresh.people.first_run, fresh.base)
    token = path.read_text().strip()
    assert token in notice
    assert path.stat().st_mode & 0o777 == 0o600
    given = {"token": token, "email": ANN, "password": PASSWORD}
    refused = submit(fresh.visitor(), "/set-up", {**given, "password": "short"})
    assert (refused.status, path.exists()) == (422, True)
    assert submit(fresh.visitor(), "/set-up", given).status == 303
    wait_until(lambda: not path.exists(), f"{path} is deleted")


def test_there_is_no_second_set_up(fresh: SignInHarness) -> None:
    early = fresh.visitor()
    form = early.get("/set-up").text
    token = fresh.identity.first_run.new_token()
    fresh.person(ANN)
    assert fresh.visitor().get("/set-up").headers["location"] == "/sign-in"
    fields = {"csrf": csrf(form), "token": token, "email": BEN, "password": PASSWORD}
    late = early.post("/set-up", fields)
    assert late.status == 422
    assert "already set up" in late.text
    assert [row.email for row in fresh.identity.users()] == [ANN]


# -- by password


def test_a_password_leads_on_to_where_one_was_going(step: SignInHarness) -> None:
    visitor = step.visitor()
    asked = visitor.get("/account/log?before=7")
    assert asked.headers["location"] == "/sign-in?next=/account/log%3Fbefore%3D7"
    came = submit(visitor, asked.headers["location"], {"email": ANN.upper(), "password": PASSWORD})
    assert came.headers["location"] == "/account/log?before=7"
    assert follow(visitor, came).status == 200


def test_the_cookie_of_a_browser_signed_in(step: SignInHarness) -> None:
    visitor = step.visitor()
    before = visitor.get("/sign-in").cookies["outcry-visit"]
    came = submit(visitor, "/sign-in", {"email": ANN, "password": PASSWORD})
    cookie = set_cookie(came, "outcry-local").lower()
    for part in ("httponly", "samesite=lax", "path=/", f"max-age={90 * 24 * 3600}"):
        assert part in cookie
    assert "secure" not in cookie, "on this machine, without https, it would not be sent back"
    assert came.cookies["outcry-visit"] not in {"", before}, "forms of before would still be good"
    assert visitor.get("/account/security").headers["cache-control"] == "no-store"


def test_behind_a_proxy_with_a_certificate_the_cookie_is_this_hosts_alone(tmp_path: Path) -> None:
    site = {"host": "outcry.example.com", "x-forwarded-proto": "https", "x-forwarded-for": "203.0.113.9"}
    with sign_in_service(
        tmp_path, trusted_proxies="127.0.0.1", public_url="https://outcry.example.com"
    ) as step:
        step.person()
        visitor = step.visitor()
        form = visitor.get("/sign-in", **site)
        fields = {"csrf": csrf(form.text), "email": ANN, "password": PASSWORD}
        came = visitor.post("/sign-in", fields, **site, origin="https://outcry.example.com")
        assert came.status == 303
        cookie = set_cookie(came, "__Host-outcry").lower()
        assert "secure" in cookie
        assert "domain" not in cookie
        assert "max-age" in form.headers["strict-transport-security"]
        assert "203.0.113.9" in visitor.get("/account/security", **site).text
        tied = set_cookie(form, "__Host-outcry-visit").lower()
        assert "secure" in tied
        assert "domain" not in tied
        assert "outcry-visit" not in form.cookies, "a neighbour's host could set that one"
        plain = {**site, "x-forwarded-proto": "http"}
        assert visitor.get("/account/security", **plain).status == 303, "the cookie counted without https"
        visitor.cookies["outcry-local"] = came.cookies["__Host-outcry"]
        assert visitor.get("/account/security", **plain).status == 303, "the token counted without https"
        there = [visitor.get("/page/symbols", **how).status for how in (site, plain)]
        assert there == [200, 401], "the token counted without https"
        fields["csrf"] = csrf(visitor.get("/account/security", **site).text)
        for origin in ("http://outcry.example.com", "https://outcry.example.com:8443"):
            reply = visitor.post("/account/security/sessions", fields, **site, origin=origin)
            assert reply.status == 400, "a form of another origin was taken"


@pytest.mark.parametrize(
    ("email", "password"), [(ANN, OTHER_PASSWORD), (BEN, PASSWORD), ("", ""), ("x" * 400, "y" * 400)]
)
def test_what_is_wrong_is_not_said_and_the_address_is_kept(
    step: SignInHarness, email: str, password: str
) -> None:
    reply = submit(step.visitor(), "/sign-in", {"email": email, "password": password})
    assert reply.status == 422
    assert "Wrong email address or password." in reply.text
    assert 'role="alert"' in reply.text
    assert typed(reply.text, "email") == email
    assert not password or password not in reply.text
    assert reply.headers["cache-control"] == "no-store"
    assert "outcry-local" not in reply.cookies


def test_too_many_tries_are_told_when_to_come_back(step: SignInHarness) -> None:
    visitor = step.visitor()
    answers = [submit(visitor, "/sign-in", {"email": ANN, "password": OTHER_PASSWORD}) for _ in range(6)]
    assert [reply.status for reply in answers] == [422] * 5 + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert typed(answers[-1].text, "email") == ANN
    step.minute()
    assert submit(visitor, "/sign-in", {"email": ANN, "password": PASSWORD}).status == 303


def test_a_form_sent_again_leads_on(step: SignInHarness) -> None:
    visitor = step.visitor()
    form = visitor.get("/sign-in?next=/account/log").text
    fields = {"csrf": csrf(form), "email": ANN, "password": PASSWORD}
    before = len(step.identity.sessions(user(step, ANN)))
    for _ in range(2):
        reply = visitor.post("/sign-in?next=/account/log", fields)
        assert (reply.status, reply.headers["location"]) == (303, "/account/log")
    assert visitor.get("/sign-in?next=/alerts").headers["location"] == "/alerts"
    assert len(step.identity.sessions(user(step, ANN))) == before + 1


@pytest.mark.parametrize(
    "wanted",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
        "/%09/evil.example\t", "/\n//evil.example", " //evil.example", "evil.example", "", "/" + "a" * 4000,
    ],
)  # fmt: skip
def test_the_way_on_never_leads_away(step: SignInHarness, wanted: str) -> None:
    visitor = step.visitor()
    reply = submit(visitor, f"/sign-in?next={quote(wanted, safe='')}", {"email": ANN, "password": PASSWORD})
    assert (reply.status, reply.headers["location"]) == (303, "/")


# -- forms that are not ours


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"content-type": "text/plain"},
        {"content-type": "multipart/form-data; boundary=x"},
    ],
)
def test_a_form_from_elsewhere_is_not_taken(step: SignInHarness, headers: dict[str, str]) -> None:
    reply = submit(step.visitor(), "/sign-in", {"email": ANN, "password": PASSWORD}, **headers)
    assert reply.status == 400
    assert "outcry-local" not in reply.cookies


def test_a_form_without_its_token_is_not_taken(step: SignInHarness) -> None:
    visitor, other = step.visitor(), step.visitor()
    foreign = csrf(other.get("/sign-in").text)
    visitor.get("/sign-in")
    for token in ("", "0" * 40, foreign, "ü" * 20):
        assert visitor.post("/sign-in", {"csrf": token, "email": ANN, "password": PASSWORD}).status == 400
    assert (
        step.visitor().post("/sign-in", {"csrf": foreign, "email": ANN, "password": PASSWORD}).status == 400
    )


def test_a_browser_that_tells_no_origin_may_send_forms(step: SignInHarness) -> None:
    """Ours tell their browsers not to say where a form comes from; the header then holds `null`."""
    reply = submit(step.visitor(), "/sign-in", {"email": ANN, "password": PASSWORD}, origin="null")
    assert reply.status == 303


def test_a_form_as_large_as_nobody_types_is_not_taken(step: SignInHarness) -> None:
    assert submit(step.visitor(), "/sign-in", {"email": ANN, "password": "x" * 100_000}).status == 400


HOSTILE = "\"><script>alert(1)</script>&amp;'{{ 7*7 }}%(x)s \u202e\x00\x1b[31m\r\nSet-Cookie: a=b"


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/sign-in", ("email", "password")),
        ("/sign-in/link", ("email",)),
        ("/reset", ("email",)),
        ("/link?token=x", ("token",)),
        ("/reset/new?token=x", ("token", "password")),
        ("/email?token=x", ("token",)),
    ],
)
def test_hostile_input_is_refused_in_words_and_never_becomes_markup(
    step: SignInHarness, path: str, names: tuple[str, ...]
) -> None:
    refused_unharmed(step, path, names)


def test_hostile_input_in_the_set_up_is_too(fresh: SignInHarness) -> None:
    refused_unharmed(fresh, "/set-up", ("token", "email", "password"))


def refused_unharmed(step: SignInHarness, path: str, names: tuple[str, ...]) -> None:
    reply = submit(step.visitor(), path, dict.fromkeys(names, HOSTILE))
    assert reply.status == 422
    assert 'role="alert"' in reply.text
    assert "<script>alert" not in reply.text
    assert "set-cookie: a=b" not in str(reply.headers).lower()
    assert "alert(1)" not in step.log.getvalue().decode()


@pytest.mark.parametrize("path", ["/sign-in", "/link", "/reset/new", "/invite", "/email"])
def test_hostile_addresses_never_become_markup(step: SignInHarness, path: str) -> None:
    address = (
        f"{path}?token=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&next=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    )
    reply = step.visitor().get(address)
    assert reply.status in {200, 410}
    assert "<script>alert" not in reply.text


# -- going out


def test_signing_out_ends_the_session_everywhere_it_was_kept(step: SignInHarness) -> None:
    visitor = step.signed_in()
    cookies = dict(visitor.cookies)
    assert knows(step, cookies)
    page = visitor.get("/account/security")
    assert page.headers["cache-control"] == "no-store", "the back button would show it again"
    reply = visitor.post("/sign-out", {"csrf": csrf(page.text)})
    assert reply.status == 303
    assert "max-age=0" in set_cookie(reply, "outcry-local").lower()
    assert not knows(step, cookies)
    assert visitor.get("/account/security").status == 303
    assert reply.cookies["outcry-visit"] != cookies["outcry-visit"]


def test_nobody_is_signed_out_by_another_site_or_twice(step: SignInHarness) -> None:
    visitor = step.signed_in()
    assert visitor.post("/sign-out", {}).status == 400
    assert visitor.get("/sign-out").status == 405
    form = csrf(visitor.get("/account/security").text)
    assert visitor.post("/sign-out", {"csrf": form}).status == 303
    assert visitor.post("/sign-out", {"csrf": form}).status == 303


# -- proving it anew


def test_what_is_secret_asks_anew_after_ten_minutes_and_the_token_changes(step: SignInHarness) -> None:
    visitor = step.signed_in()
    assert visitor.get("/account/security/password").status == 200
    step.clock.forward(11 * 60)
    asked = visitor.get("/account/security/password")
    assert asked.headers["location"] == "/confirm?next=/account/security/password"
    before = visitor.cookies["outcry-local"]

    wrong = submit(visitor, asked.headers["location"], {"password": OTHER_PASSWORD})
    assert wrong.status == 422
    assert "Wrong password." in wrong.text

    form = csrf(visitor.get("/account/security").text)
    right = submit(visitor, asked.headers["location"], {"password": PASSWORD})
    assert follow(visitor, right).status == 200
    assert visitor.cookies["outcry-local"] != before
    old = dict(visitor.cookies) | {"outcry-local": before}
    assert not knows(step, old), "the token of before still opens"
    renamed = visitor.post("/theme", {"theme": "dark", "csrf": form})
    assert renamed.status == 303, "what was half typed in another tab is lost"


def test_confirming_is_for_who_is_signed_in(step: SignInHarness) -> None:
    assert (
        step.visitor().get("/confirm?next=/alerts").headers["location"]
        == "/sign-in?next=/confirm%3Fnext%3D/alerts"
    )


# -- invitations


def test_an_invitation_makes_one_account_and_signs_it_in(fresh: SignInHarness) -> None:
    fresh.person()
    token = fresh.invitation(BEN)
    visitor = fresh.visitor()
    assert BEN in visitor.get(f"/invite?token={token}").text

    short = submit(visitor, f"/invite?token={token}", {"token": token, "email": "", "password": "short"})
    assert short.status == 422
    assert "at least 12 characters" in short.text
    assert hidden(short.text, "token") == token, "the invitation is lost with the refusal"

    fields = {"token": token, "email": "mallory@example.com", "password": PASSWORD}
    came = submit(visitor, f"/invite?token={token}", fields)
    assert follow(visitor, came).status == 200
    assert {row.email for row in fresh.identity.users()} == {ANN, BEN}, "the invitation was for Ben"
    again = fresh.visitor().get(f"/invite?token={token}")
    assert again.status == 410
    assert 'type="password"' not in again.text


def test_an_open_invitation_keeps_the_address_that_was_typed(step: SignInHarness) -> None:
    token = step.identity.invite(None, "", "member", "free", Origin()).partition("?token=")[2]
    reply = submit(
        step.visitor(),
        f"/invite?token={token}",
        {"token": token, "email": "no address", "password": PASSWORD},
    )
    assert reply.status == 422
    assert typed(reply.text, "email") == "no address"


@pytest.mark.parametrize("reason", Reason)
def test_every_refusal_has_words_in_every_language(reason: Reason) -> None:
    faults_by_language = [
        faults_of(
            cast("PageRequest", SimpleNamespace(words=Languages.words(language))), Refused(reason, field)
        )
        for language in LANGUAGES
        for field in ("", "password", "token")
    ]
    texts = [text for faults in faults_by_language for text in faults.values()]
    assert len(texts) == 6
    assert not set(texts[:3]) & set(texts[3:]), "what is the same in both was not translated"


# -- an open line


def test_over_a_line_others_can_read_no_password_is_asked_for_or_taken(step: SignInHarness) -> None:
    visitor = step.visitor()
    form = visitor.get("/sign-in").text
    there = {"host": "192.168.1.20:8000", "origin": "http://192.168.1.20:8000"}
    for path in ("/sign-in", "/reset/new?token=x", "/invite?token=x"):
        page = visitor.get(path, host=there["host"])
        assert page.status == 200
        assert 'type="password"' not in page.text
        assert "requires HTTPS" in page.text
        assert "http://localhost:8000" in page.text
    reply = visitor.post("/sign-in", {"csrf": csrf(form), "email": ANN, "password": PASSWORD}, **there)
    assert reply.status == 403
    assert "outcry-local" not in reply.cookies


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 421) for host in (
            "10.0.0.1:99999", "", "evil.example", "localhost.evil.example", "2130706433", "localhost:0",
        )),
        # no host at all by RFC 3986, which HTTP answers with 400
        *((host, 400) for host in (
            "10.0.0.1:abc", "[::1", "a b", "evil@localhost", "localhost/x", "localhost?x", "evil.example:80@localhost",
        )),
    ],
)  # fmt: skip
def test_a_name_this_service_is_not_known_by_is_given_no_page(
    step: SignInHarness, host: str, status: int
) -> None:
    reply = step.visitor().get("/sign-in", host=host)
    assert reply.status == status
    assert 'type="password"' not in reply.text


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "outcry.localhost", "127.0.0.1:8000", "[::1]:8000"]
)
def test_this_machine_goes_by_its_usual_names(step: SignInHarness, host: str) -> None:
    assert 'type="password"' in step.visitor().get("/sign-in", host=host).text


def test_an_open_line_leads_to_the_services_own_address(tmp_path: Path) -> None:
    with sign_in_service(tmp_path, public_url="https://outcry.example.com") as step:
        page = step.visitor().get("/sign-in", host="outcry.example.com")
        assert 'href="https://outcry.example.com/sign-in"' in page.text
        assert "trusted_proxies" in page.text, "a proxy that is not believed leads here too"


# -- language and theme


def test_language_and_theme_are_kept_by_the_browser_and_by_who_is_signed_in(fresh: SignInHarness) -> None:
    fresh.person()
    visitor = fresh.visitor()
    reply = submit(visitor, "/sign-in", {"language": "de", "next": "/sign-in?next=/alerts"})
    assert reply.status == 422, "the sign-in took what was meant for the language"
    form = csrf(visitor.get("/sign-in").text)
    reply = visitor.post("/language", {"csrf": form, "language": "de", "next": "/sign-in?next=/alerts"})
    assert reply.headers["location"] == "/sign-in?next=/alerts"
    page = visitor.get("/sign-in")
    assert page.headers["content-language"] == "de"
    assert 'lang="de"' in page.text
    assert "Adresse oder Passwort" not in page.text
    assert "Passwort" in page.text
    assert visitor.post("/theme", {"csrf": form, "theme": "light", "next": "/sign-in"}).status == 303
    assert 'data-theme="light"' in visitor.get("/sign-in").text

    submit(visitor, "/sign-in", {"email": ANN, "password": PASSWORD})
    form = csrf(visitor.get("/account/security").text)
    visitor.post("/theme", {"csrf": form, "theme": "dark", "next": "/"})
    visitor.post("/language", {"csrf": form, "language": "de", "next": "/"})
    fresh.minute()
    elsewhere = fresh.signed_in(language="en")
    page = elsewhere.get("/account/security")
    assert 'lang="de"' in page.text
    assert 'data-theme="dark"' in page.text


def test_only_what_is_offered_is_kept_and_the_way_back_stays_here(step: SignInHarness) -> None:
    visitor = step.visitor()
    form = csrf(visitor.get("/sign-in").text)
    for path, fields in (("/language", {"language": "xx"}), ("/theme", {"theme": "<b>"}), ("/language", {})):
        assert visitor.post(path, {"csrf": form, **fields}).status == 400
    away = visitor.post("/language", {"csrf": form, "language": "de", "next": "//evil.example"})
    assert away.headers["location"] == "/"
    assert visitor.post("/language", {"language": "de"}).status == 400

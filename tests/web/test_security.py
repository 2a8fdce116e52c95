"""Security settings: password, second factor, email address, open browser sessions and the security log."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.web.harness import PASSWORD, Reply, Visitor
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

from outcry.people.audit import Event
from outcry.people.browser_sessions import Origin
from outcry.web.language import Languages
from outcry.web.user_agents import device

PAGES_OF_SECRETS = ("password", "email", "passkeys", "authenticator")


@pytest.fixture
def step(tmp_path: Path) -> Iterator[SignInHarness]:
    with sign_in_service(tmp_path, mail=True, public_url="http://localhost") as running:
        running.person()
        yield running


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignInHarness]:
    with sign_in_service(tmp_path_factory.mktemp("standing")) as running:
        running.person()
        yield running


@pytest.fixture
def shared(standing: SignInHarness) -> SignInHarness:
    """A service for tests that change nothing; nothing was tried within the last minute."""
    standing.minute()
    return standing


# -- who may


@pytest.mark.parametrize("page", ["", *(f"/{name}" for name in PAGES_OF_SECRETS)])
def test_these_pages_are_for_who_is_signed_in_and_those_of_secrets_for_who_proved_it(
    step: SignInHarness, page: str
) -> None:
    path = f"/account/security{page}"
    assert step.visitor().get(path).headers["location"] == f"/sign-in?next={path}"
    visitor = step.signed_in()
    shown = visitor.get(path)
    assert shown.status == 200
    assert shown.headers["cache-control"] == "no-store"
    assert visitor.post(path, {}).status in {400, 405}
    step.clock.forward(11 * 60)
    later = visitor.get(path)
    assert later.status == (303 if page else 200)
    if page:
        assert later.headers["location"] == f"/confirm?next={path}"


# -- password


def test_a_changed_password_signs_out_the_others_and_not_this_browser(step: SignInHarness) -> None:
    other, visitor = step.signed_in(), step.signed_in()
    short = submit(visitor, "/account/security/password", {"password": "short"})
    assert short.status == 422
    assert "at least 12 characters" in short.text
    assert 'value="short"' not in short.text

    changed = submit(visitor, "/account/security/password", {"password": OTHER_PASSWORD})
    assert "Password changed" in follow(visitor, changed).text
    assert other.get("/account/security").status == 303
    assert submit(step.visitor(), "/sign-in", {"email": ANN, "password": PASSWORD}).status == 422
    assert submit(step.visitor(), "/sign-in", {"email": ANN, "password": OTHER_PASSWORD}).status == 303


# -- authenticator


def switched_on(step: SignInHarness, visitor: Visitor) -> Reply:
    path = "/account/security/authenticator"
    page = visitor.get(path).text
    secret = hidden(page, "secret")
    fields = {"csrf": csrf(page), "secret": secret, "code": step.code(secret), "do": "on"}
    return visitor.post(path, fields)


def recovery_codes(page: str) -> list[str]:
    return re.findall(r"<li>([a-z2-9]{5}-[a-z2-9]{5})</li>", page)


def test_an_authenticator_is_switched_on_by_its_first_code_and_codes_are_shown_once(
    step: SignInHarness,
) -> None:
    visitor = step.signed_in()
    path = "/account/security/authenticator"
    page = visitor.get(path)
    secret = hidden(page.text, "secret")
    assert 'src="data:image/svg+xml' in page.text
    wrong = visitor.post(path, {"csrf": csrf(page.text), "secret": secret, "code": "12", "do": "on"})
    assert wrong.status == 422
    assert hidden(wrong.text, "secret") == secret, "what was scanned no longer counts"
    assert "Off." in visitor.get("/account/security").text

    fields = {"csrf": csrf(page.text), "secret": secret, "code": step.code(secret), "do": "on"}
    shown = visitor.post(path, fields)
    assert shown.status == 200
    assert len(set(recovery_codes(shown.text))) == 10
    assert shown.headers["cache-control"] == "no-store"
    again = visitor.post(path, fields)
    assert again.status == 303
    assert not recovery_codes(follow(visitor, again).text)
    assert "10 recovery codes left" in visitor.get("/account/security").text


def test_a_recovery_code_lets_in_once_and_new_ones_void_it(step: SignInHarness) -> None:
    visitor = step.signed_in()
    first = recovery_codes(switched_on(step, visitor).text)
    for code, status in ((first[0], 303), (first[0], 422)):
        step.minute()
        other = step.visitor()
        submit(other, "/sign-in", {"email": ANN, "password": PASSWORD})
        assert submit(other, "/sign-in/code", {"code": code.upper().replace("-", " ")}).status == status
    assert "9 recovery codes left" in visitor.get("/account/security").text

    page = visitor.get("/account/security/authenticator").text
    renewed = visitor.post("/account/security/authenticator", {"csrf": csrf(page), "do": "codes"})
    assert not set(recovery_codes(renewed.text)) & set(first)
    step.minute()
    other = step.visitor()
    submit(other, "/sign-in", {"email": ANN, "password": PASSWORD})
    assert submit(other, "/sign-in/code", {"code": first[1]}).status == 422


def test_an_authenticator_that_is_off_is_not_asked_for(step: SignInHarness) -> None:
    visitor = step.signed_in()
    switched_on(step, visitor)
    page = visitor.get("/account/security/authenticator").text
    off = visitor.post("/account/security/authenticator", {"csrf": csrf(page), "do": "off"})
    assert "Two-factor authentication is off" in follow(visitor, off).text
    step.minute()
    assert step.signed_in().get("/account/security").status == 200


@pytest.mark.parametrize("secret", ["", "short", "a" * 32, "1" * 32, "A" * 500, "<b>" * 8, "=" * 32])
def test_a_secret_nobody_was_given_begins_anew(shared: SignInHarness, secret: str) -> None:
    visitor = shared.signed_in()
    path = "/account/security/authenticator"
    fields = {"csrf": csrf(visitor.get(path).text), "secret": secret, "code": "123456", "do": "on"}
    reply = visitor.post(path, fields)
    assert (reply.status, reply.headers["location"]) == (303, path)
    assert visitor.post(path, {**fields, "do": "nothing"}).status in {303, 404}


# -- the last way in


def test_the_only_way_in_is_not_removed_and_says_so(step: SignInHarness) -> None:
    visitor = step.signed_in()
    ann, store = step.identity.users()[0], step.identity._store
    store.add_passkey(ann.id, b"credential", b"key", 0, (), "the <only> one", step.clock.now_ns())
    store._set(ann.id, password_hash=None)
    path = "/account/security/passkeys"
    page = visitor.get(path).text
    assert "the &lt;only&gt; one" in page
    number = re.findall(r'name="passkey" value="(\d+)"', page)[0]
    reply = visitor.post(path, {"csrf": csrf(page), "passkey": number})
    assert reply.status == 422
    assert "your only sign-in method" in reply.text
    assert "the &lt;only&gt; one" in reply.text
    for other in ("x", "", "-1"):
        assert visitor.post(path, {"csrf": csrf(page), "passkey": other}).status == 404


def test_who_has_nothing_to_prove_it_with_signs_in_again(step: SignInHarness) -> None:
    visitor = step.signed_in()
    step.identity._store._set(step.identity.users()[0].id, password_hash=None)
    step.clock.forward(11 * 60)
    step.people.browser_sessions.refresh(step.clock.now_ns(), force=True)
    page = visitor.get("/confirm?next=/account/security/password")
    assert 'type="password"' not in page.text
    out = re.findall(r'action="(/sign-out[^"]+)"', page.text)[0]
    reply = visitor.post(out, {"csrf": csrf(page.text)})
    assert reply.headers["location"] == "/sign-in?next=/account/security/password"


# -- browsers


def test_a_browser_is_signed_out_from_another_and_nobody_elses_is(step: SignInHarness) -> None:
    step.person(BEN)
    ben, other, visitor = step.signed_in(BEN), step.signed_in(), step.signed_in()
    page = visitor.get("/account/security").text
    assert page.count("This browser") == 1
    ids = re.findall(r'name="session" value="(\d+)"', page)
    assert len(ids) == 1, "one's own session has no button, and others' are not shown"

    ben_id = step.identity.sessions(step.identity.users()[1])[0].id
    path = "/account/security/sessions"
    visitor.post(path, {"csrf": csrf(page), "session": str(ben_id)})
    assert ben.get("/account/security").status == 200
    for session in ("", "x", "-1", "9" * 30, "1 OR 1=1"):
        assert visitor.post(path, {"csrf": csrf(page), "session": session}).status == 404

    reply = visitor.post(path, {"csrf": csrf(page), "session": ids[0]})
    assert "Browser signed out" in follow(visitor, reply).text
    assert other.get("/account/security").status == 303
    assert visitor.get("/account/security").status == 200


def test_all_others_are_signed_out_at_once(step: SignInHarness) -> None:
    others, visitor = [step.signed_in() for _ in range(3)], step.signed_in()
    page = visitor.get("/account/security").text
    reply = visitor.post("/account/security/sessions", {"csrf": csrf(page), "others": "yes"})
    assert "All other browsers signed out" in follow(visitor, reply).text
    assert [other.get("/account/security").status for other in others] == [303] * 3
    assert "Sign out everywhere else" not in visitor.get("/account/security").text


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
            "Safari/537.36",
            "Chrome on Windows",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
            "Safari/537.36 Edg/140.0.0.0",
            "Edge on Windows",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 "
            "Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.5 Mobile/15E148 Safari/604.1",
            "Safari on iPhone",
        ),
        (
            "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile "
            "Safari/537.36",
            "Chrome on Android",
        ),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", "Unknown browser"),
        ("x" * 300, "x" * 40),
    ],
)
def test_a_browser_is_named_as_a_person_would(agent: str, name: str) -> None:
    assert device(Languages.words("en"), agent) == name


# -- the log


def test_the_log_says_what_was_done_where_from_and_to_nobody_else(step: SignInHarness) -> None:
    step.person(BEN)
    visitor, ben = step.signed_in(), step.signed_in(BEN)
    ann = step.identity.users()[0]
    hostile = Origin("203.0.113.7", '"><script>alert(1)</script>')
    step.identity.note(
        ann, "key_created", hostile, prefix="outcry_abc", label='<img src=x onerror="alert(1)">'
    )
    step.identity.note(ann, "of_tomorrow", Origin())
    page = visitor.get("/account/log").text
    for words in ("API key created", "outcry_abc", "203.0.113.7", "of_tomorrow", "Signed in", "Setup"):
        assert words in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    other = ben.get("/account/log").text
    assert "outcry_abc" not in other
    assert "Invitation" in other


def test_the_log_is_read_page_by_page_and_every_line_once(step: SignInHarness) -> None:
    visitor = step.signed_in()
    ann = step.identity.users()[0]
    for number in range(120):
        step.identity.note(ann, "key_changed", Origin(), label=f"line {number}.")
    path, seen = "/account/log", []
    while path:
        page = visitor.get(path).text
        seen += re.findall(r"line (\d+)\.", page)
        older = re.search(r'rel="next" href="([^"]+)"', page)
        path = older[1] if older else ""
    assert seen == [str(number) for number in reversed(range(120))]
    for before in ("0", "-1", "x", "9" * 40, "%00"):
        assert visitor.get(f"/account/log?before={before}").status == 200


def test_every_event_has_words_in_every_language(step: SignInHarness) -> None:
    visitor = step.signed_in()
    ann = step.identity.users()[0]
    for event in Event:
        step.identity.note(ann, event, Origin())
    english = visitor.get("/account/log").text
    visitor.cookies["outcry-language"] = "de"
    submit_language(visitor)
    german = visitor.get("/account/log").text
    for event in Event:
        assert f"<strong>{event.value}</strong>" not in english
    texts = [
        re.findall(r"<td data-label=[^>]*><div><strong>([^<]+)</strong>", page) for page in (english, german)
    ]
    assert len(texts[0]) == len(texts[1]) >= len(Event)
    assert not set(texts[0]) & set(texts[1]), "what is the same in both was not translated"


def submit_language(visitor: Visitor) -> None:
    form = csrf(visitor.get("/account/security").text)
    assert visitor.post("/language", {"csrf": form, "language": "de", "next": "/"}).status == 303


def test_times_are_those_of_the_reader(step: SignInHarness) -> None:
    visitor = step.signed_in()
    ann = step.identity.users()[0]
    at = datetime.fromtimestamp(step.clock.now_ns() // 10**9, UTC)
    assert at.hour in {20, 21}
    step.identity.note(ann, "key_changed", Origin())
    shown = re.search(r'<time datetime="([^"]+)">([^<]+)</time>', visitor.get("/account/log").text)
    assert shown
    assert shown[1].startswith(at.strftime("%Y-%m-%dT%H:"))
    assert f"{at.hour - 5 - 12}:" in shown[2].replace("\u202f", " "), "New York, where the account says it is"


# -- passkeys, as a script speaks of them


def spoken(visitor: Visitor, path: str, message: object, **headers: str) -> Reply:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    origin = f"http://127.0.0.1:{visitor._port}"
    return visitor.send("POST", path, body, {"content-type": "application/json", "origin": origin, **headers})


TALK = ["/sign-in/passkey/options", "/sign-in/passkey", "/confirm/passkey", "/account/security/passkeys/new"]


@pytest.mark.parametrize("path", TALK)
@pytest.mark.parametrize(
    "headers",
    [
        {"x-csrf": ""},
        {"x-csrf": "0" * 40},
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"content-type": "text/plain"},
    ],
)
def test_a_script_from_elsewhere_is_not_listened_to(
    shared: SignInHarness, path: str, headers: dict[str, str]
) -> None:
    visitor = shared.visitor() if path.startswith("/sign-in") else shared.signed_in()
    token = csrf(visitor.get("/sign-in" if path.startswith("/sign-in") else "/account/security").text)
    reply = spoken(visitor, path, {"ticket": "x", "answer": {}}, **{"x-csrf": token, **headers})
    assert reply.status == 400
    assert json.loads(reply.body)["message"] == "This page has expired. Reload it."


@pytest.mark.parametrize(
    "message",
    [b"", b"{", b"null", b"[]", b"\xff\xfe", {"ticket": 1, "answer": {}}, {"answer": {}}, [1] * 20_000],
    ids=lambda message: repr(message)[:20],
)
def test_what_is_no_message_is_not_taken(shared: SignInHarness, message: object) -> None:
    visitor = shared.visitor()
    token = csrf(visitor.get("/sign-in").text)
    assert spoken(visitor, "/sign-in/passkey", message, **{"x-csrf": token}).status == 400


@pytest.mark.parametrize(
    "answer", [{}, [], 7, None, {"id": "x", "rawId": "x", "response": {}, "type": "public-key"}]
)
@pytest.mark.parametrize("ticket", ["", "x", "ü" * 40, "A" * 5000])
def test_an_answer_to_nothing_is_refused_in_the_readers_language(
    shared: SignInHarness, ticket: str, answer: object
) -> None:
    visitor = shared.visitor("de")
    token = csrf(visitor.get("/sign-in").text)
    reply = spoken(visitor, "/sign-in/passkey", {"ticket": ticket, "answer": answer}, **{"x-csrf": token})
    assert reply.status == 422
    assert "Passkey" in json.loads(reply.body)["message"]
    assert "nicht akzeptiert" in json.loads(reply.body)["message"]


def test_a_script_is_told_where_to_prove_anew_who_it_is(shared: SignInHarness) -> None:
    visitor = shared.signed_in()
    token = csrf(visitor.get("/account/security").text)
    path = "/account/security/passkeys/options"
    asked = spoken(visitor, path, {}, **{"x-csrf": token})
    assert json.loads(asked.body)["options"]["rp"]["id"] == "127.0.0.1"
    shared.clock.forward(11 * 60)
    late = spoken(visitor, path, {}, **{"x-csrf": token})
    assert late.status == 401
    assert json.loads(late.body)["to"] == "/confirm?next=/account/security/passkeys"
    other_visitor = spoken(shared.visitor(), path, {}, **{"x-csrf": token})
    assert json.loads(other_visitor.body)["to"] == "/sign-in?next=/account/security"


def test_passkeys_are_offered_by_name_and_not_by_number(shared: SignInHarness) -> None:
    visitor = shared.visitor()
    assert "/sign-in/passkey" not in visitor.get("/sign-in").text
    page = visitor.get("/sign-in", host=f"localhost:{shared.port}").text
    assert 'data-answer="/sign-in/passkey"' in page
    assert "<noscript>" in page
    signed = shared.signed_in()
    assert f"http://localhost:{shared.port}" in signed.get("/account/security/passkeys").text


# -- a form that took longer than the sign-in lasted

#: A sign-in ends unused after 14 days, and for a day more it is known whose it was.
_LONG_S = 14.5 * 24 * 3600
_KEY = {"label": "Desk <1>", "lifetime": "30"}


def sent_too_late(step: SignInHarness, **changed: str) -> tuple[Visitor, Reply]:
    """A browser that opened the form for a key, and sent it two weeks later."""
    visitor = step.signed_in()
    page = visitor.get("/account/keys/new")
    step.clock.forward(_LONG_S)
    return visitor, visitor.post("/account/keys", {"csrf": csrf(page.text), **_KEY, **changed})


def test_what_was_typed_outlives_the_sign_in(step: SignInHarness) -> None:
    visitor, reply = sent_too_late(step)
    assert reply.headers["location"] == "/sign-in?next=/account/keys/new"
    came = submit(visitor, reply.headers["location"], {"email": ANN, "password": PASSWORD})
    assert came.headers["location"] == "/account/keys/new"
    page = follow(visitor, came).text
    assert typed(page, "label") == _KEY["label"]
    assert re.search(r'<option value="30"[^>]* selected', page)
    assert typed(visitor.get("/account/keys/new").text, "label") == "", (
        "once it is there the browser forgets it"
    )


@pytest.mark.parametrize(
    ("path", "form_at", "field", "text"),
    [("/account", "/account", "digest_hour", "21"), ("{key}/name", "{key}", "label", "the desk's notebook")],
)
def test_what_is_changed_outlives_the_sign_in(
    step: SignInHarness, path: str, form_at: str, field: str, text: str
) -> None:
    visitor = step.signed_in()
    page = visitor.get("/account/keys/new")
    made = visitor.post("/account/keys", {"csrf": csrf(page.text), **_KEY})
    follow(visitor, made)
    key = re.search(r'href="(/account/keys/\d+)"', visitor.get("/account/keys").text)
    assert key is not None
    path, form_at = path.format(key=key[1]), form_at.format(key=key[1])
    page = visitor.get(form_at)
    sent = {
        "csrf": csrf(page.text), "language": "en", "theme": "dark", "time_zone": "Asia/Tokyo", "digest_hour": "7",
        "shortcuts": "yes", "label": "x", field: text,
    }  # fmt: skip
    step.clock.forward(_LONG_S)
    reply = visitor.post(path, sent)
    assert reply.headers["location"] == f"/sign-in?next={form_at}"
    came = submit(visitor, reply.headers["location"], {"email": ANN, "password": PASSWORD})
    assert came.headers["location"] == form_at
    assert typed(follow(visitor, came).text, field) == text
    assert typed(visitor.get(form_at).text, field) != text, "it is not kept before it is sent once more"


def test_what_was_typed_is_not_shown_to_whoever_signs_in_there_next(step: SignInHarness) -> None:
    step.person(BEN)
    visitor, reply = sent_too_late(step)
    came = submit(visitor, reply.headers["location"], {"email": BEN, "password": PASSWORD})
    assert typed(follow(visitor, came).text, "label") == ""


def test_nothing_is_taken_over_from_a_form_that_is_not_the_browsers(step: SignInHarness) -> None:
    visitor, reply = sent_too_late(step, csrf="0" * 40)
    assert reply.status == 400
    assert "outcry-typed" not in visitor.cookies
    other_visitor = step.visitor()
    reply = other_visitor.post("/account/keys", {"csrf": csrf(other_visitor.get("/sign-in").text), **_KEY})
    assert reply.headers["location"] == "/sign-in?next=/account/keys"
    assert "outcry-typed" not in other_visitor.cookies


def test_a_sign_in_whose_time_is_over_makes_and_shows_nothing(step: SignInHarness) -> None:
    visitor, _ = sent_too_late(step)
    for path in ("/account/keys", "/account/security", "/account/webhooks"):
        assert visitor.get(path).headers["location"].startswith("/sign-in?next=")
    mine = step.identity.users()[0]
    assert step.installation.keys.of(mine.id) == []


@pytest.mark.parametrize(
    ("opened", "path", "entry"),
    [
        ("/account/webhooks/new", "/account/webhooks", "label"),
        ("/account/brokers", "/account/brokers/key", "label"),
        ("/operator/users", "/operator/users/invite", "email"),
        ("/account/security/email", "/account/security/email", "email"),
    ],
)
def test_the_other_long_forms_too(step: SignInHarness, opened: str, path: str, entry: str) -> None:
    visitor = step.signed_in()
    page = visitor.get(opened)
    assert page.status == 200, page.headers
    step.clock.forward(_LONG_S)
    reply = visitor.post(path, {"csrf": csrf(page.text), entry: "typed@example.com"})
    assert reply.headers["location"] == f"/sign-in?next={opened}"
    came = submit(visitor, reply.headers["location"], {"email": ANN, "password": PASSWORD})
    assert typed(follow(visitor, came).text, entry) == "typed@example.com"

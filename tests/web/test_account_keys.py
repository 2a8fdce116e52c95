"""`/account/keys` over a real server: create, show once, use, rename, replace and revoke; no access to others' keys."""

from collections.abc import Iterator

import pytest
from tests.timeouts import wait_until
from tests.web.account_harness import FORM, Member, Read, account_service, unconfirmed
from tests.web.harness import WebHarness

HOSTILE = "\"><script>alert('x')</script>&amp;{{7*7}}"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with account_service(tmp_path_factory.mktemp("keys")) as made:
        yield made


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann@example.com")


@pytest.fixture(scope="module")
def bob(harness: WebHarness) -> Member:
    return Member(harness, "bob@example.com")


def make(member: Member, label: str, lifetime: str = "90") -> str:
    """Make a key through the form and read it off its page."""
    made = member.send("/account/keys", {"label": label, "lifetime": lifetime})
    assert made.headers["location"] == "/account/keys/made"
    text = member.follow(made).text
    begin = text.index('id="key">') + len('id="key">')
    return text[begin : text.index("<", begin)]


def answers(harness: WebHarness, key: str) -> int:
    """The status a key is answered with."""
    return harness.visitor().get("/api/symbols", **{"x-api-key": key}).status


def settles(harness: WebHarness, key: str, status: int) -> None:
    """Wait until a key's requests get this status. `tests/api` shows that this takes less than a second."""
    wait_until(lambda: answers(harness, key) == status)


def key_id(harness: WebHarness, key: str) -> int:
    return next(row.id for row in harness.installation.keys.list() if row.prefix == key[:15])


def test_a_key_is_shown_once_and_works(harness: WebHarness, ann: Member) -> None:
    made = ann.send("/account/keys", {"label": "Notebook", "lifetime": "30"})
    assert made.status == 303
    shown = ann.follow(made)
    assert shown.status == 200
    assert shown.headers["cache-control"] == "no-store"
    begin = shown.text.index('id="key">') + len('id="key">')
    key = shown.text[begin : shown.text.index("<", begin)]
    assert f"x-api-key: {key}" in shown.text.replace("&#34;", '"')
    settles(harness, key, 200)
    again = ann.get("/account/keys/made")
    assert again.headers["location"] == "/account/keys?done=shown"
    listed = ann.get("/account/keys")
    assert key not in listed.text
    assert key[:15] in listed.text
    assert "Notebook" in Read(listed).text
    assert key not in ann.get("/account/log").text
    assert key.encode() not in harness.log.getvalue()


def test_the_cookie_that_carried_a_key_shows_it_once_whoever_kept_it(
    harness: WebHarness, ann: Member
) -> None:
    made = ann.send("/account/keys", {"label": "Kept back", "lifetime": "30"})
    cookie = ann.browser.cookies["outcry-once"]
    assert ann.follow(made).status == 200
    for again in (cookie, cookie + "=", "!" + cookie):
        ann.browser.cookies["outcry-once"] = again
        assert ann.get("/account/keys/made").headers["location"] == "/account/keys?done=shown"


def test_the_cookie_that_carries_a_key_shows_nothing_to_others(
    harness: WebHarness, ann: Member, bob: Member
) -> None:
    ann.send("/account/keys", {"label": "On its way", "lifetime": "30"})
    bob.browser.cookies["outcry-once"] = ann.browser.cookies["outcry-once"]
    assert bob.get("/account/keys/made").headers["location"] == "/account/keys?done=shown"
    assert "outcry_" not in ann.browser.cookies["outcry-once"]
    assert ann.get("/account/keys/made").status == 200


@pytest.mark.parametrize(
    ("label", "lifetime", "field"),
    [("", "90", "label"), ("x" * 61, "90", "label"), ("a\x07b", "90", "label"), ("fine", "40", "lifetime")],
)
def test_a_key_that_cannot_be_is_refused_with_what_was_typed(
    harness: WebHarness, ann: Member, label: str, lifetime: str, field: str
) -> None:
    before = len(harness.installation.keys.list())
    reply = ann.send("/account/keys", {"label": label, "lifetime": lifetime})
    assert reply.status == 422
    assert f'href="#f-{field}"' in reply.text
    assert f'id="e-{field}"' in reply.text
    if field == "lifetime":
        assert Read(reply).entry("label") == "fine"
    assert len(harness.installation.keys.list()) == before


def test_a_hostile_name_is_text(ann: Member) -> None:
    make(ann, HOSTILE)
    listed = ann.get("/account/keys")
    assert "<script>alert" not in listed.text
    assert HOSTILE in Read(listed).text


def test_somebody_elses_key_does_not_exist(harness: WebHarness, ann: Member, bob: Member) -> None:
    number = key_id(harness, make(ann, "Only Ann's"))
    assert bob.get(f"/account/keys/{number}").status == 404
    for form, fields in (
        ("name", {"label": "Bob's"}),
        ("rotate", {"grace": "0"}),
        ("revoke", {"name": "Only Ann's"}),
    ):
        assert bob.send(f"/account/keys/{number}/{form}", fields).status == 404
    row = next(row for row in harness.installation.keys.list() if row.id == number)
    assert (row.label, row.revoked_ns, row.replaced_by) == ("Only Ann's", None, None)


@pytest.mark.parametrize("number", ["0", "-1", "abc", "%00", "99999999999999999999", "1.5", "%D9%A1"])
def test_an_address_that_names_no_key_is_missing(ann: Member, number: str) -> None:
    assert ann.get(f"/account/keys/{number}").status == 404
    assert ann.send(f"/account/keys/{number}/revoke", {"name": "x"}).status == 404


def test_a_key_is_renamed(harness: WebHarness, ann: Member) -> None:
    number = key_id(harness, make(ann, "Before"))
    assert ann.send(f"/account/keys/{number}/name", {"label": ""}).status == 422
    page = ann.follow(ann.send(f"/account/keys/{number}/name", {"label": "After"}))
    assert "After" in Read(page).text
    assert next(row.label for row in harness.installation.keys.list() if row.id == number) == "After"


def test_a_key_is_replaced_with_a_grace(harness: WebHarness, ann: Member) -> None:
    old = make(ann, "Long-lived")
    number = key_id(harness, old)
    shown = ann.follow(ann.send(f"/account/keys/{number}/rotate", {"grace": "24h"}))
    begin = shown.text.index('id="key">') + len('id="key">')
    new = shown.text[begin : shown.text.index("<", begin)]
    assert new != old
    settles(harness, new, 200)
    assert answers(harness, old) == 200
    assert ann.send(f"/account/keys/{number}/rotate", {"grace": "24h"}).status == 422
    assert ann.send(f"/account/keys/{key_id(harness, new)}/rotate", {"grace": "forever"}).status == 422
    ann.send(f"/account/keys/{key_id(harness, new)}/rotate", {"grace": "0"})
    settles(harness, new, 401)
    assert answers(harness, old) == 200


def test_a_key_is_revoked_by_its_name_and_refused_within_a_second(harness: WebHarness, ann: Member) -> None:
    key = make(ann, "Leaked one")
    number = key_id(harness, key)
    settles(harness, key, 200)
    slip = ann.send(f"/account/keys/{number}/revoke", {"name": "leaked one"})
    assert slip.status == 422
    assert Read(slip).entry("name") == "leaked one"
    assert answers(harness, key) == 200
    with unconfirmed():
        done = ann.send(f"/account/keys/{number}/revoke", {"name": "Leaked one"})
    assert done.headers["location"] == "/account/keys?done=revoked"
    settles(harness, key, 401)
    assert "API key revoked" in Read(ann.get("/account/log")).text


def test_what_was_typed_outlives_the_confirmation(ann: Member, bob: Member) -> None:
    with unconfirmed():
        assert ann.get("/account/keys/new").headers["location"] == "/confirm?next=/account/keys/new"
        reply = ann.send("/account/keys", {"label": "Kept <b>", "lifetime": "365"})
        assert reply.headers["location"] == "/confirm?next=/account/keys/new"
    bob.browser.cookies["outcry-typed"] = ann.browser.cookies["outcry-typed"]
    assert Read(bob.get("/account/keys/new")).entry("label") == ""
    form = Read(ann.get("/account/keys/new"))
    assert (form.entry("label"), form.entry("lifetime")) == ("Kept <b>", "365")
    assert Read(ann.get("/account/keys/new")).entry("label") == "", "given back once"


def test_a_form_from_elsewhere_is_refused(harness: WebHarness, ann: Member) -> None:
    before = len(harness.installation.keys.list())
    fields = "label=Stolen&lifetime=90"
    token = ann.csrf()
    for body, headers in (
        (fields, FORM),
        (fields + "&csrf=" + "0" * 40, FORM),
        (f"{fields}&csrf={token}", {**FORM, "origin": "https://elsewhere.example.com"}),
        (f"{fields}&csrf={token}", {**FORM, "sec-fetch-site": "cross-site"}),
        (f"{fields}&csrf={token}", {"content-type": "text/plain"}),
    ):
        assert ann.browser.send("POST", "/account/keys", body.encode(), headers).status == 400
    huge = f"csrf={token}&lifetime=90&label=" + "x" * 70_000
    assert ann.browser.send("POST", "/account/keys", huge.encode(), FORM).status == 400
    assert len(harness.installation.keys.list()) == before


def test_nobody_comes_here_without_signing_in(harness: WebHarness) -> None:
    for path in (
        "/account",
        "/account/keys",
        "/account/keys/1",
        "/account/keys/made",
        "/account/webhooks",
        "/operator",
    ):
        reply = harness.visitor().get(path)
        assert reply.status == 303
        assert reply.headers["location"] == f"/sign-in?next={path}"


def test_a_user_has_twenty_keys_at_most(harness: WebHarness) -> None:
    carol = Member(harness, "carol@example.com")
    now_ns = harness.installation.clock.now_ns()
    for number in range(20):
        harness.installation.keys.create_own("carol@example.com", "pro", now_ns, label=f"Key {number}")
    reply = carol.send("/account/keys", {"label": "One too many", "lifetime": "90"})
    assert reply.status == 422
    assert "20 active keys" in Read(reply).text
    assert Read(reply).entry("label") == "One too many"


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []

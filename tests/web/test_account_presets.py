"""`/account/presets` over a real server: save from a search, ask for it by name, rename, delete; nobody else's."""

import html
import json
from collections.abc import Iterator

import pytest
from tests.timeouts import wait_until
from tests.web.account_harness import Member, account_service
from tests.web.harness import WebHarness

from outcry.people.preset_store import MOST, SqlPresets

HOSTILE = "\"><script>alert('x')</script>"
VALUES = {"basis": "volume", "bars": "5", "row": "4", "percent": "68", "label": "edges", "hours": "full"}


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with account_service(tmp_path_factory.mktemp("presets")) as made:
        yield made


@pytest.fixture
def ann(harness: WebHarness) -> Iterator[Member]:
    member = Member(harness, "ann@example.com")
    yield member
    store = SqlPresets(harness.installation.database)
    for row in store.of(member.user.id):
        store.delete(member.user.id, row.id)


@pytest.fixture(scope="module")
def bob(harness: WebHarness) -> Member:
    return Member(harness, "bob@example.com")


def saved(member: Member, **values: str) -> str:
    """Save a setting and return the path of its page."""
    made = member.send("/account/presets", {**VALUES, **values})
    assert made.status == 303
    assert made.headers["location"].endswith("?done=added")
    return made.headers["location"].removesuffix("?done=added")


def test_a_setting_is_saved_named_downloaded_and_deleted(ann: Member) -> None:
    page = saved(ann)
    shown = html.unescape(ann.get(f"{page}?done=added").text)
    assert "Setting saved." in shown
    assert "It counts volume (contracts)." in shown
    assert "Its value area contains 68 % of the profile." in shown
    assert "method=my-setting" in shown
    assert saved(ann) != page  # a second one gets another name
    assert ">my-setting-2<" in ann.get("/account/presets").text
    assert ann.send(f"{page}/name", {"name": "desk"}).headers["location"] == f"{page}?done=saved"
    file = ann.get("/account/presets/file")
    assert (
        json.loads(file.body)["desk"] | {"bars": 5, "row": 4, "hours": "full"}
        == json.loads(file.body)["desk"]
    )
    assert ann.send(f"{page}/delete").headers["location"] == "/account/presets?done=deleted"
    assert ann.get(page).status == 404
    assert "desk" not in json.loads(ann.get("/account/presets/file").body)


def test_a_program_asks_for_it_by_name(harness: WebHarness, ann: Member, bob: Member) -> None:
    """The levels are those of the search, and another user's key does not know the name."""
    page = saved(ann, hours="rth")
    ann.send(f"{page}/name", {"name": "desk"})
    keys = harness.installation.keys
    own, other = (keys.create(f"{name}@example.com", "pro", 0) for name in ("ann", "bob"))
    visitor = harness.visitor()

    def ask(key: str, path: str = "/api/profile?symbol=ZC&method=desk&date=2026-03-03") -> int:
        return visitor.get(path, **{"x-api-key": key}).status

    wait_until(lambda: ask(own, "/api/symbols") == ask(other, "/api/symbols") == 200)
    wait_until(lambda: ask(own) != 400)
    assert ask(other) == 400
    named = [
        each["name"]
        for each in json.loads(visitor.get("/api/presets", **{"x-api-key": other}).body)["presets"]
    ]
    assert "desk" not in named
    ann.send(f"{page}/delete")
    wait_until(lambda: ask(own) == 400)


@pytest.mark.parametrize("name", ["", "Desk", "lean", "py-market-profile", "a b", HOSTILE, "a" * 61, "ä"])
def test_names_are_checked(ann: Member, name: str) -> None:
    page = saved(ann)
    reply = ann.send(f"{page}/name", {"name": name})
    assert reply.status == 422
    assert "<script>alert" not in reply.text
    assert ">my-setting<" in ann.get("/account/presets").text


@pytest.mark.parametrize(
    "values",
    [{"percent": "700"}, {"percent": "-1"}, {"row": "1e1"}, {"row": "²"}, {"pocTie": HOSTILE}, {"hours": "day@UTC"},
     {"basis": ""}, {"bars": "9" * 100}],
)  # fmt: skip
def test_values_are_checked(ann: Member, values: dict[str, str]) -> None:
    reply = ann.send("/account/presets", VALUES | values)
    assert reply.status == 422
    assert "This setting is not valid." in reply.text
    assert "<script>alert" not in reply.text
    assert "No saved settings yet" in reply.text


def test_another_users_settings_are_missing(ann: Member, bob: Member) -> None:
    page = saved(ann)
    assert bob.get(page).status == 404
    for form, fields in (("name", {"name": "mine"}), ("delete", {})):
        assert bob.send(f"{page}/{form}", fields).status == 404
    assert "my-setting" not in bob.get("/account/presets").text
    assert json.loads(bob.get("/account/presets/file").body) == {}
    assert ann.get(page).status == 200


def test_a_visitor_signs_in_first_and_a_form_needs_its_token(harness: WebHarness, ann: Member) -> None:
    page, visitor = saved(ann), harness.visitor()
    for path in ("/account/presets", "/account/presets/file", page):
        assert visitor.get(path).headers["location"].startswith("/sign-in")
    assert ann.send(f"{page}/delete", {"csrf": "00"}).status == 400
    assert ann.get(page).status == 200


def test_the_number_is_limited(ann: Member) -> None:
    for _ in range(MOST):
        saved(ann)
    reply = ann.send("/account/presets", VALUES)
    assert reply.status == 422
    assert f"You already have {MOST} settings." in reply.text

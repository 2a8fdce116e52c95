"""The operator's pages over a real server: who may open them, what they change, and what they do not show."""

from collections.abc import Iterator

import pytest
from tests.timeouts import wait_until
from tests.web.account_harness import Member, Read, account_service, show, unconfirmed
from tests.web.harness import WebHarness

from outcry.market.instruments import Contract

PAGES = (
    "/operator",
    "/operator/users",
    "/operator/users/1",
    "/operator/users/invited",
    "/operator/data",
    "/operator/feeds",
    "/operator/instruments",
    "/operator/instruments/edit",
    "/operator/instruments/products/ES",
)
FORMS = (
    "/operator/users/invite",
    "/operator/users/1",
    "/operator/users/1/switch",
    "/operator/users/1/reset-link",
    "/operator/users/invitations/1/withdraw",
    "/operator/data/grants",
    "/operator/data/grants/1/remove",
    "/operator/instruments/examples",
    "/operator/instruments/edit",
)
GRANT = {
    "grantee": "everyone", "tier": "free", "email": "", "scope": "completed", "embargo_hours": "48",
    "from_date": "2026-01-05", "until_date": "2026-02-06", "roots": ["ES", "NQ"],
}  # fmt: skip


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with account_service(tmp_path_factory.mktemp("operator")) as made:
        yield made


@pytest.fixture(scope="module")
def boss(harness: WebHarness) -> Member:
    return Member(harness, "boss@example.com", operator=True)


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann@example.com")


def test_nobody_else_sees_or_changes_any_of_it(harness: WebHarness, boss: Member, ann: Member) -> None:
    before = (harness.installation.store.grants(), harness.people.identity.users())
    for path in PAGES:
        assert ann.get(path).status == 403
    for path in FORMS:
        assert ann.send(path, GRANT).status == 403
        assert harness.visitor().post(path, {}).status == 303
    assert (harness.installation.store.grants(), harness.people.identity.users()) == before
    assert "/operator" not in ann.get("/account").text
    assert boss.get("/operator").headers["location"] == "/operator/users"


def test_users_are_listed_searched_and_paged(harness: WebHarness, boss: Member) -> None:
    for number in range(60):
        harness.installation.store.ensure_user(
            f"user{number:02}@crowd.example.com", harness.installation.clock.now_ns()
        )
    first = boss.get("/operator/users?q=crowd")
    assert first.text.count("@crowd.example.com</a>") == 50
    older = first.text.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    assert boss.get(older).text.count("@crowd.example.com</a>") == 10
    hostile = boss.get("/operator/users?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert hostile.status == 200
    assert "<script>alert" not in hostile.text
    assert "No matching users" in Read(hostile).text


def test_somebody_is_invited_by_a_link_shown_once(harness: WebHarness, boss: Member) -> None:
    wrong = boss.send("/operator/users/invite", {"email": "no address", "role": "member", "tier": "pro"})
    assert wrong.status == 422
    assert 'href="#f-email"' in wrong.text
    assert Read(wrong).entry("tier") == "pro"
    for field, value in (("role", "king"), ("tier", "gold")):
        fields = {"email": "carol@example.com", "role": "member", "tier": "pro", field: value}
        assert boss.send("/operator/users/invite", fields).status == 422
    fields = {"email": "carol@example.com", "role": "member", "tier": "pro"}
    with unconfirmed():
        reply = boss.send("/operator/users/invite", fields)
        assert reply.headers["location"] == "/confirm?next=/operator/users"
    assert Read(boss.get("/operator/users")).entry("email") == "carol@example.com"
    page = boss.follow(boss.send("/operator/users/invite", fields))
    begin = page.text.index('id="link">') + len('id="link">')
    link = page.text[begin : page.text.index("<", begin)]
    assert "/invite" in link
    assert boss.get("/operator/users/invited").headers["location"] == "/operator/users?done=shown"
    listed = boss.get("/operator/users")
    assert "carol@example.com" in Read(listed).text
    assert link.rpartition("=")[2] not in listed.text
    assert link.rpartition("=")[2].encode() not in harness.log.getvalue()
    number = listed.text.split("/operator/users/invitations/")[1].split("/")[0]
    assert boss.send(f"/operator/users/invitations/{number}/withdraw").status == 303
    assert boss.send(f"/operator/users/invitations/{number}/withdraw").status == 404
    assert "carol@example.com" not in Read(boss.get("/operator/users")).text


def test_what_somebody_may_do_is_changed(harness: WebHarness, boss: Member) -> None:
    dora = Member(harness, "dora@example.com")
    place = f"/operator/users/{dora.user.id}"
    key = harness.installation.keys.create_own(
        "dora@example.com", "pro", harness.installation.clock.now_ns(), label="Dora's"
    )
    assert boss.send(place, {"role": "member", "tier": "gold"}).status == 422
    with unconfirmed():
        reply = boss.send(place, {"role": "member", "tier": "admin"})
        assert reply.headers["location"] == f"/confirm?next={place}"
    assert boss.send(place, {"role": "member", "tier": "admin"}).headers["location"] == f"{place}?done=saved"
    assert next(user.tier for user in harness.people.identity.users() if user.id == dora.user.id) == "admin"
    assert boss.send(f"{place}/switch", {"disabled": "perhaps"}).status == 400
    assert boss.send(f"{place}/switch", {"disabled": "yes"}).status == 303
    wait_until(lambda: dora.get("/account").status != 200)
    assert dora.get("/account").headers["location"].startswith("/sign-in")
    asked = {"x-api-key": key}
    wait_until(lambda: harness.visitor().get("/api/symbols", **asked).status == 401)
    assert "The user can sign in again" in Read(boss.get(place)).text
    boss.send(f"{place}/switch", {"disabled": "no"})
    assert "Signs the user out everywhere" in Read(boss.get(place)).text
    assert "User changed" in Read(boss.get("/account/log")).text


def test_the_last_operator_stays(boss: Member) -> None:
    place = f"/operator/users/{boss.user.id}"
    for path, fields in (
        (place, {"role": "member", "tier": "pro"}),
        (f"{place}/switch", {"disabled": "yes"}),
    ):
        reply = boss.send(path, fields)
        assert reply.status == 422
        assert "needs at least one operator" in Read(reply).text


def test_a_link_for_a_new_password_is_shown_once(harness: WebHarness, boss: Member, ann: Member) -> None:
    place = f"/operator/users/{ann.user.id}"
    page = boss.follow(boss.send(f"{place}/reset-link"))
    assert "30 minutes" in Read(page).text
    assert "ann@example.com" in Read(page).text
    assert boss.get("/operator/users/invited").status == 303
    assert boss.get(f"{place}/reset-link").headers["location"] == place


def test_something_is_granted_and_taken_back(harness: WebHarness, boss: Member, ann: Member) -> None:
    assert boss.send("/operator/data/grants", GRANT).headers["location"] == "/operator/data?done=granted"
    row = harness.installation.store.grants()[-1]
    assert (row.grantee, row.scope, row.roots) == ("everyone", "completed", ("ES", "NQ"))
    assert (str(row.from_date), str(row.until_date), row.embargo_ns) == (
        "2026-01-05",
        "2026-02-06",
        48 * 3600 * 10**9,
    )
    boss.send("/operator/data/grants", {**GRANT, "grantee": "user", "email": "ANN@example.com"})
    assert harness.installation.store.grants()[-1].grantee == f"user:{ann.user.id}"
    live = {"grantee": "tier", "tier": "pro", "scope": "live", "from_date": "", "until_date": "", "roots": []}
    live |= {"licence": "redistributable", "attested": "yes"}
    boss.send("/operator/data/grants", {**GRANT, **live})
    row = harness.installation.store.grants()[-1]
    assert (row.grantee, row.scope, row.roots, row.embargo_ns) == ("tier:pro", "live", (), 0)
    page = Read(boss.get("/operator/data")).text
    assert "ann@example.com" in page
    assert "48 hours after the close" in page
    for form in range(2):
        reply = boss.send(f"/operator/data/grants/{row.id}/remove")
        assert reply.status == (404 if form else 303)
    assert row.id not in {one.id for one in harness.installation.store.grants()}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"grantee": "moon"}, "grantee"),
        ({"grantee": "user", "email": "nobody@example.com"}, "email"),
        ({"grantee": "user", "email": ""}, "email"),
        ({"grantee": "tier", "tier": "gold"}, "tier"),
        ({"scope": "future"}, "scope"),
        ({"scope": "live"}, "from_date"),
        ({"until_date": "2026-01-04"}, "until_date"),
        ({"from_date": "05/01/2026"}, "from_date"),
        ({"embargo_hours": "-1"}, "embargo_hours"),
        ({"embargo_hours": "99999"}, "embargo_hours"),
        ({"roots": ["ES", "<b>"]}, "roots"),
        ({"grantee": "key", "email": "outcry_nobodys"}, "email"),
        ({"embargo_hours": "23"}, "licence"),
        ({"embargo_hours": "0", "licence": "public"}, "licence"),
        ({"embargo_hours": "0", "licence": "personal", "attested": "yes"}, "licence"),
        ({"embargo_hours": "0", "licence": "internal", "attested": "yes"}, "licence"),
        ({"embargo_hours": "0", "licence": "other", "attested": "yes"}, "licence"),
        ({"scope": "live", "from_date": "", "until_date": ""}, "licence"),
    ],
)
def test_a_grant_that_cannot_be_is_refused_with_what_was_typed(
    harness: WebHarness, boss: Member, wrong: dict[str, str | list[str]], field: str
) -> None:
    before = harness.installation.store.grants()
    reply = boss.send("/operator/data/grants", {**GRANT, **wrong})
    assert reply.status == 422
    assert f'href="#f-{field}"' in reply.text
    assert f'id="e-{field}"' in reply.text
    assert "<b>" not in reply.text
    if field != "embargo_hours" and "embargo_hours" not in wrong:
        assert Read(reply).entry("embargo_hours") == "48"
    if field != "roots":
        assert Read(reply).entries("roots") == ["ES", "NQ"]
    assert harness.installation.store.grants() == before


def test_one_key_is_granted_what_others_are_not(harness: WebHarness, boss: Member, ann: Member) -> None:
    installation = harness.installation
    key = installation.keys.create("ann@example.com", "free", installation.clock.now_ns())
    boss.send("/operator/data/grants", {**GRANT, "grantee": "key", "email": key[:15]})
    (row,) = [row for row in installation.keys.list() if key.startswith(row.prefix)]
    assert installation.store.grants()[-1].grantee == f"key:{row.id}"
    assert key[:15] in Read(boss.get("/operator/data")).text


def test_what_is_shown_soon_rests_on_a_licence_and_who_declared_it_is_kept(
    harness: WebHarness, boss: Member, ann: Member
) -> None:
    soon = {"grantee": "user", "email": "ann@example.com", "embargo_hours": "0"}
    boss.send("/operator/data/grants", {**GRANT, **soon, "licence": "internal", "attested": "yes"})
    row = harness.installation.store.grants()[-1]
    assert (row.grantee, row.embargo_ns, row.licence) == (f"user:{ann.user.id}", 0, "internal")
    boss.send(f"/operator/data/grants/{row.id}/remove")
    taken, made = harness.installation.store.grant_events(2)
    assert (made.event, made.by, made.grant.id) == ("granted", boss.user.email, row.id)
    assert made.attested.startswith("I have a licence of class internal from the data's owner")
    assert (taken.event, taken.by, taken.grant.id, taken.attested) == (
        "withdrawn", boss.user.email, row.id, "",
    )  # fmt: skip
    page = Read(boss.get("/operator/data")).text
    for part in ("Grant log", boss.user.email, made.attested, "Revoked"):
        assert part in page


def test_what_the_operator_did_stands_in_the_log(boss: Member, ann: Member) -> None:
    boss.send("/operator/data/grants", {**GRANT, "grantee": "user", "email": "ann@example.com"})
    log = Read(boss.get("/account/log")).text
    for part in ("Data access granted", "ann@example.com", "ES NQ", "Completed sessions"):
        assert part in log
    assert "Data access granted" not in Read(ann.get("/account/log")).text


def test_feeds_of_users_are_counted_and_not_shown(harness: WebHarness, boss: Member, ann: Member) -> None:
    registry = harness.installation.registry
    show(registry, 0, "house-feed", Contract("GC", 2026, 4), "stale_market")
    show(registry, ann.user.id, "anns-feed", Contract("ES", 2026, 3), "live")
    show(registry, boss.user.id, "own-feed", Contract("NQ", 2026, 3), "live")
    page = Read(boss.get("/operator/feeds")).text
    for part in ("house-feed", "GCJ2026", "sends no market data", "2 streams from users"):
        assert part in page
    for part in ("anns-feed", "ESH2026", "own-feed", "NQH2026"):
        assert part not in page


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []

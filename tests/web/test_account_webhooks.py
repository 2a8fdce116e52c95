"""`/account/webhooks` over a real server with a scripted delivery."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from tests.web.account_harness import FORM, Member, Read, unconfirmed
from tests.web.harness import WebHarness
from tests.web.webhook_harness import (
    GOOD,
    SLACK,
    URL,
    ScriptedDeliverer,
    attempt,
    disabled,
    made,
    secret_on,
    stored_rows,
    webhook_service,
    wish,
)

from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.model import TestResult as Result

HOSTILE = "\"><script>alert('x')</script>{{7*7}}"
DELIVERER = ScriptedDeliverer()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with webhook_service(tmp_path_factory.mktemp("webhooks"), DELIVERER) as staged:
        yield staged


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann@example.com")


@pytest.fixture(scope="module")
def bob(harness: WebHarness) -> Member:
    return Member(harness, "bob@example.com")


@pytest.fixture
def tester(harness: WebHarness, request: pytest.FixtureRequest) -> Member:
    """Somebody who has not sent a test in this minute."""
    return Member(harness, f"{request.node.name[-24:].strip('_[]')}@example.com")


def test_an_endpoint_gets_a_secret_that_is_shown_once(harness: WebHarness, ann: Member) -> None:
    empty = Read(ann.get("/account/webhooks")).text
    assert "while Outcry is open in your browser" in empty
    reply = ann.send("/account/webhooks", wish())
    (row,) = stored_rows(harness, ann)
    assert reply.headers["location"] == f"/account/webhooks/{row.id}/secret"
    page = ann.follow(reply)
    assert page.headers["cache-control"] == "no-store"
    secret = secret_on(page)
    assert secret.startswith("whsec_")
    assert len(secret) == len("whsec_") + 44
    again = ann.get(f"/account/webhooks/{row.id}/secret")
    assert again.headers["location"] == f"/account/webhooks/{row.id}?done=shown"
    assert (row.target, row.symbols, row.min_severity) == (Target.HTTPS, ("ES", "NQ"), "warn")
    for path in ("/account/webhooks", f"/account/webhooks/{row.id}", "/account/log"):
        text = ann.get(path).text
        assert secret not in text
        assert "very-secret-path" not in text
        assert "hooks.mysite.dev/…0042" in text
    log = harness.log.getvalue()
    assert secret.encode() not in log
    assert b"very-secret" not in log
    with harness.installation.database.reading() as connection:
        stored = str(connection.exec_driver_sql("SELECT * FROM subscriptions").all())
    assert "very-secret" not in stored
    assert secret not in stored


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"target": "pigeon"}, "target", "Choose where"),
        ({"address": ""}, "address", "Enter a URL or email address"),
        ({"address": "http://hooks.mysite.dev/x"}, "address", "Enter an https URL"),
        ({"address": "https://127.0.0.1/x"}, "address", "private or reserved"),
        ({"address": "https://localhost/x"}, "address", "private or reserved"),
        ({"address": "https://ann:pw@mysite.dev/x"}, "address", "before the @"),
        ({"address": "https://mysite.dev:8443/x"}, "address", "Only port 443"),
        ({"address": "javascript:alert(1)"}, "address", "Enter an https URL"),
        ({"address": "https://mysite.dev/" + "x" * 1000}, "address", "Too long"),
        ({"target": "slack"}, "address", "not a Slack incoming webhook"),
        (
            {"target": "slack", "address": "https://hooks.slack.com/triggers/T/1/2"},
            "address",
            "Slack workflow",
        ),
        (
            {"target": "discord", "address": "https://discord.com/api/webhooks/1/x"},
            "address",
            "not a Discord webhook",
        ),
        ({"target": "email", "address": "nobody"}, "address", "Enter an email address such as"),
        ({"label": "x" * 61}, "label", "Too long"),
        ({"min_severity": "loud"}, "min_severity", "Choose a minimum severity"),
        ({"symbols": ["ES", "NOPE"]}, "symbols", "Choose symbols from the list"),
    ],
)
def test_what_cannot_be_a_webhook_is_refused_with_what_was_typed(
    harness: WebHarness, bob: Member, values: dict[str, str | list[str]], field: str, words: str
) -> None:
    reply = bob.send("/account/webhooks", wish(**values))
    page = Read(reply)
    assert reply.status == 422
    assert words in page.text
    assert f'href="#f-{field}"' in reply.text
    assert f'id="e-{field}"' in reply.text
    typed = wish(**values)
    if field != "address" or len(str(typed["address"])) < 500:
        assert page.entry("address") == typed["address"]
    if field != "label":
        assert page.entry("label") == "Desk"
    if field != "symbols":
        assert page.entries("symbols") == ["ES", "NQ"]
    assert stored_rows(harness, bob) == []


def test_an_address_left_empty_is_kept(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, target="slack", address=SLACK, label="Futures")
    assert SLACK not in ann.get(f"/account/webhooks/{row.id}").text
    reply = ann.send(
        f"/account/webhooks/{row.id}",
        wish(target="email", address="", label="Renamed", symbols=[], min_severity="critical"),
    )
    assert reply.status == 303
    after = stored_rows(harness, ann)[-1]
    assert (after.target, after.label, after.symbols, after.min_severity) == (
        Target.SLACK,
        "Renamed",
        (),
        "critical",
    )
    assert after.sealed_address == row.sealed_address
    refused = ann.send(f"/account/webhooks/{row.id}", wish(address=URL, label="Renamed again"))
    assert refused.status == 422
    assert Read(refused).entry("label") == "Renamed again"
    assert stored_rows(harness, ann)[-1].label == "Renamed"


def test_a_hostile_name_is_text(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, target="email", address="ann@example.com", label=HOSTILE)
    for path in ("/account/webhooks", f"/account/webhooks/{row.id}", f"/account/webhooks/{row.id}/remove"):
        reply = ann.get(path)
        assert "<script>alert" not in reply.text
        assert HOSTILE in Read(reply).text


def test_a_webhook_is_paused_resumed_and_removed(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, label="To be removed")
    place = f"/account/webhooks/{row.id}"
    assert Read(ann.follow(ann.send(f"{place}/pause"))).text.count("Paused. Alerts that fire now") == 1
    assert stored_rows(harness, ann)[-1].phase is SubscriptionPhase.PAUSED
    ann.follow(ann.send(f"{place}/resume"))
    assert stored_rows(harness, ann)[-1].phase is SubscriptionPhase.ACTIVE
    assert "To be removed" in Read(ann.get(f"{place}/remove")).text
    assert ann.send(f"{place}/remove").headers["location"] == "/account/webhooks?done=removed"
    assert all(one.id != row.id for one in stored_rows(harness, ann))
    for form in ("", "/remove", "/pause", "/resume", "/rotate", "/test"):
        assert ann.send(place + form).status == 404


def test_what_changes_nothing_is_not_told_as_a_change(harness: WebHarness) -> None:
    bob = Member(harness, "often@mysite.dev")
    row = made(harness, bob, label="Twice")
    place = f"/account/webhooks/{row.id}"
    for form in ("resume", "pause", "pause", "resume", "resume"):
        bob.send(f"{place}/{form}")
    log = Read(bob.get("/account/log")).text
    assert (log.count("Webhook paused"), log.count("Webhook resumed")) == (1, 1)
    disabled(harness, row)
    assert "Webhook resumed" not in Read(bob.follow(bob.send(f"{place}/resume"))).text


def test_thirty_forms_at_once_make_twenty_webhooks(harness: WebHarness) -> None:
    bob = Member(harness, "many@mysite.dev")
    fields = wish(target="slack", address=SLACK) | {"csrf": bob.csrf()}
    body = urlencode(fields, doseq=True).encode()
    with ThreadPoolExecutor(30) as pool:
        sent = list(
            pool.map(lambda _: bob.browser.send("POST", "/account/webhooks", body, FORM).status, range(30))
        )
    assert (sent.count(303), sent.count(422)) == (20, 10)
    assert len(stored_rows(harness, bob)) == 20


def test_a_secret_is_replaced_and_the_old_one_signs_for_a_day(harness: WebHarness, ann: Member) -> None:
    first = secret_on(ann.follow(ann.send("/account/webhooks", wish(label="Rotated"))))
    row = stored_rows(harness, ann)[-1]
    with unconfirmed():
        reply = ann.send(f"/account/webhooks/{row.id}/rotate")
        assert reply.headers["location"] == f"/confirm?next=/account/webhooks/{row.id}"
    second = secret_on(ann.follow(ann.send(f"/account/webhooks/{row.id}/rotate")))
    after = stored_rows(harness, ann)[-1]
    assert second != first
    assert after.sealed_old_secret is not None
    assert after.old_until_ns is not None
    assert 23.9 < (after.old_until_ns - harness.installation.clock.now_ns()) / 3.6e12 <= 24
    assert "older ones valid until" in Read(ann.get(f"/account/webhooks/{row.id}")).text
    slack = made(harness, ann, target="slack", address=SLACK)
    assert ann.send(f"/account/webhooks/{slack.id}/rotate").status == 404


def test_a_test_goes_to_the_address_and_says_what_came_of_it(harness: WebHarness, tester: Member) -> None:
    DELIVERER.result = GOOD
    secret = secret_on(tester.follow(tester.send("/account/webhooks", wish())))
    row = stored_rows(harness, tester)[-1]
    good = Read(tester.send(f"/account/webhooks/{row.id}/test"))
    assert DELIVERER.sent[-1] == (URL, [secret])
    for part in ("Delivered.", "200", "84 ms", "DNS lookup", "3 ms", "thanks", '{"version":2}'):
        assert part in good.text
    excerpt = "<h1>Nope</h1><script>alert(1)</script>"
    DELIVERER.result = Result("status", 500, 12, (), "", excerpt)
    bad = tester.send(f"/account/webhooks/{row.id}/test")
    assert "<script>alert(1)" not in bad.text
    assert excerpt in Read(bad).text
    assert "The endpoint returned HTTP" in Read(bad).text
    DELIVERER.result = Result("some_new_code", None, 5, (), "", "")
    assert "some_new_code" in Read(tester.send(f"/account/webhooks/{row.id}/test")).text
    assert "Webhook tested" in Read(tester.get("/account/log")).text


def test_five_tests_a_minute(harness: WebHarness, tester: Member) -> None:
    row = made(harness, tester)
    place = f"/account/webhooks/{row.id}/test"
    assert [tester.send(place).status for _ in range(6)] == [200] * 5 + [429]
    assert "five tests a minute" in Read(tester.send(place)).text


def test_a_disabled_webhook_is_enabled_by_a_test_that_arrives(harness: WebHarness, tester: Member) -> None:
    row = made(harness, tester)
    disabled(harness, row)
    page = Read(tester.get(f"/account/webhooks/{row.id}")).text
    assert "The webhook is disabled and sends nothing." in page
    assert "no longer exists (HTTP 410)" in page
    assert "Test and enable" in page
    assert "Test and enable" in Read(tester.get("/account/webhooks")).text
    tester.send(f"/account/webhooks/{row.id}/resume")
    DELIVERER.result = Result("gone", 410, 12, (), "", "")
    tester.send(f"/account/webhooks/{row.id}/test")
    assert stored_rows(harness, tester)[-1].phase is SubscriptionPhase.DISABLED
    DELIVERER.result = Result("ok", 200, 12, (), "", "")
    assert "This test enabled the webhook again" in Read(tester.send(f"/account/webhooks/{row.id}/test")).text
    assert stored_rows(harness, tester)[-1].phase is SubscriptionPhase.ACTIVE


def test_deliveries_are_listed_filtered_and_paged(harness: WebHarness, tester: Member) -> None:
    row = made(harness, tester)
    for number in range(120):
        failed = {"outcome": "failed", "code": "connect_timeout", "status": None} if number % 2 else {}
        attempt(harness, row, alert_key=f"ES:ib-break-up:{number}", excerpt="<b>x</b>", **failed)
    place = f"/account/webhooks/{row.id}"
    first = tester.get(place)
    assert "ES:ib-break-up:119" in first.text
    assert "ES:ib-break-up:99" not in first.text
    assert "<b>x</b>" not in first.text
    failed = tester.get(f"{place}?outcome=failed")
    assert "A firewall may be blocking it" in Read(failed).text
    assert "ES:ib-break-up:118" not in failed.text
    assert "ES:ib-break-up:81" in failed.text
    last = failed
    for newest in (79, 39):
        older = last.text.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
        last = tester.get(older)
        assert f"ES:ib-break-up:{newest}" in last.text
    assert "ES:ib-break-up:1<" in last.text
    assert "ES:ib-break-up:41" not in last.text
    assert 'rel="next"' not in last.text
    for odd in ("?outcome=bad", "?before=abc", "?before=99999999999999999999", "?before=0"):
        assert tester.get(place + odd).status == 200


def test_somebody_elses_webhook_does_not_exist(harness: WebHarness, ann: Member, bob: Member) -> None:
    row = made(harness, ann, label="Ann's own")
    place = f"/account/webhooks/{row.id}"
    before = stored_rows(harness, ann)
    for path in ("", "/secret", "/remove"):
        assert bob.get(place + path).status == 404
    for form in ("", "/remove", "/pause", "/resume", "/rotate", "/test"):
        assert bob.send(place + form, wish(label="Bob's now")).status == 404
    assert stored_rows(harness, ann) == before
    assert "Ann&#39;s own" not in bob.get("/account/webhooks").text


def test_what_was_typed_outlives_the_confirmation(ann: Member) -> None:
    typed = wish(label="Before the confirmation", symbols=["CL", "GC"])
    with unconfirmed():
        reply = ann.send("/account/webhooks", typed)
        assert reply.headers["location"] == "/confirm?next=/account/webhooks/new"
    page = Read(ann.get("/account/webhooks/new"))
    assert "Submit it again to continue" in page.text
    assert "Submit it again to continue" not in Read(ann.get("/account/webhooks")).text
    assert page.entry("address") == URL
    assert page.entry("label") == "Before the confirmation"
    assert page.entries("symbols") == ["CL", "GC"]
    assert page.entry("min_severity") == "warn"


def test_a_user_has_twenty_webhooks_at_most(harness: WebHarness) -> None:
    carol = Member(harness, "carol@example.com")
    for number in range(20):
        fields = wish(target="slack", address=SLACK, label=f"Number {number}")
        assert carol.send("/account/webhooks", fields).status == 303
    reply = carol.send("/account/webhooks", wish(label="One too many"))
    assert reply.status == 422
    assert "20 webhooks" in Read(reply).text
    assert Read(reply).entry("label") == "One too many"


def test_of_another_address_it_is_said_that_its_host_cannot_be_found(
    harness: WebHarness, tester: Member
) -> None:
    row = made(harness, tester)
    DELIVERER.verdict = "unverified"
    try:
        reply = tester.send(f"/account/webhooks/{row.id}", wish(address="https://new.mysite.dev/somewhere"))
    finally:
        DELIVERER.verdict = "ok"
    assert reply.headers["location"] == f"/account/webhooks/{row.id}?done=unverified"
    assert "The host can't be found right now" in Read(tester.follow(reply)).text
    with_empty_address = tester.send(f"/account/webhooks/{row.id}", wish(address=""))
    assert with_empty_address.headers["location"].endswith("?done=saved")


def test_what_was_held_is_said_to_be_and_a_test_is_not(harness: WebHarness, tester: Member) -> None:
    row = made(harness, tester)
    place = f"/account/webhooks/{row.id}"
    test = {"alert_type": "webhook-test", "alert_key": "", "symbol": "", "message_id": "test_1"}
    attempt(harness, row, outcome="failed", code="gone", status=410, **test)
    for path in (place, "/account/webhooks"):
        assert "alerts on hold" not in Read(tester.get(path)).text
    attempt(harness, row, outcome="failed", code="gone", status=410)
    for path in (place, "/account/webhooks"):
        assert "Failed, alerts on hold" in Read(tester.get(path)).text


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []

"""The page of the demo's receiver: what it received, whether the signature is valid, and how it answers."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook
from tests.web.account_harness import Member, Read
from tests.web.browsing import Window
from tests.web.harness import Reply, WebHarness

from outcry.delivery.sink import Manner, Sink

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202eevil"


@pytest.fixture
def sink(harness: WebHarness) -> Sink:
    found = harness.installation.sink
    assert found is not None
    found.clear()
    found.manner = Manner.WELL
    return found


@pytest.fixture(scope="module")
def ann(harness: WebHarness) -> Member:
    return Member(harness, "ann-at-the-sink@example.com")


def receive(
    harness: WebHarness, sink: Sink, body: str = '{"version":2,"text":"ES went up"}', id_: str = "msg_1"
) -> None:
    at = datetime.fromtimestamp(harness.installation.clock.now_ns() // 10**9, UTC)
    signature = Webhook(SECRET).sign(id_, at, body)
    headers = {
        "webhook-id": id_,
        "webhook-timestamp": f"{at.timestamp():.0f}",
        "webhook-signature": signature,
    }
    sink.take([*headers.items(), ("User-Agent", "Outcry")], body.encode())


def text(reply: Reply) -> str:
    return Read(reply).text


def test_it_is_for_who_is_signed_in(harness: WebHarness) -> None:
    for path in ("/sink", "/sink/manner"):
        assert harness.visitor().get(path).headers["location"].startswith("/sign-in")


def test_what_came_in_is_shown_with_what_its_signature_is_worth(
    harness: WebHarness, ann: Member, sink: Sink
) -> None:
    assert "No messages yet" in text(ann.get("/sink"))
    receive(harness, sink)
    receive(harness, sink)
    page = text(ann.get("/sink"))
    for part in (
        "ES went up",
        "msg_1",
        "2 attempts",
        "no secret to check it",
        '"version": 2',
        "webhook-timestamp",
    ):
        assert part in page
    refused = ann.send("/sink/secret", {"secret": "password"})
    assert refused.status == 422
    assert "secrets start with whsec_" in text(refused)
    good = ann.follow(ann.send("/sink/secret", {"secret": SECRET}))
    assert text(good).count("valid signature") == 2
    assert SECRET not in good.text
    assert f"…{SECRET[-4:]}" in good.text
    assert SECRET.encode() not in harness.log.getvalue()
    sink.take([("webhook-id", "msg_2")], b"{}")
    assert "not signed" in text(ann.get("/sink"))


def test_how_it_answers_is_chosen_and_shown(harness: WebHarness, ann: Member, sink: Sink) -> None:
    page = ann.follow(ann.send("/sink/manner", {"manner": "error"}))
    assert Read(page).entry("manner") == "error"
    assert sink.manner is Manner.ERROR
    receive(harness, sink)
    assert "Response: HTTP 500" in text(ann.get("/sink"))
    assert ann.send("/sink/manner", {"manner": "dance"}).status == 422
    assert sink.manner is Manner.ERROR
    assert ann.browser.post("/sink/manner", {"csrf": "0" * 40, "manner": "gone"}).status == 400
    assert "No messages yet" in text(ann.follow(ann.send("/sink/clear")))


def test_whatever_comes_in_is_text(harness: WebHarness, ann: Member, sink: Sink) -> None:
    sink.take([(HOSTILE, HOSTILE), ("webhook-id", HOSTILE)], HOSTILE.encode())
    sink.take([], b"\xff\x00{")
    sink.take([], b"[" * 50_000)
    sink.take([], b'{"text":{"a":1},"alerts":"' + HOSTILE.encode("unicode_escape") + b'"}')
    page = ann.get("/sink")
    assert page.status == 200
    assert "<script>alert" not in page.text
    for sign in ("\x1b", "\u202e", "\x00"):
        assert sign not in page.text
    assert "‹U+202E›" in page.text
    assert "␛[31m" in page.text


def test_a_header_that_is_no_text_is_shown_by_its_numbers(ann: Member, sink: Sink) -> None:
    sink.trust(SECRET)
    odd = b"\xff\xfe".decode("utf-8", "surrogateescape")
    headers = {"webhook-id": odd, "webhook-timestamp": "1", "webhook-signature": f"v1,{odd}"}
    sink.take(list(headers.items()), b"{}")
    page = ann.get("/sink")
    assert page.status == 200
    assert "v1,‹U+DCFF›‹U+DCFE›" in page.text
    assert "invalid signature" in text(page)


def test_what_is_deep_or_huge_makes_no_huge_page(ann: Member, sink: Sink) -> None:
    deep = b'{"a":' + b"[" * 400 + b",".join([b"0"] * 30_000) + b"]" * 400 + b"}"
    deeper = b'{"a":' * 900 + b"1" + b"}" * 900
    wide = b'{"a":[' + b",".join([b"0"] * 30_000) + b"]}"
    unseen = b'{"a":"' + b"\x1b" * 60_000 + "\u200b".encode() * 1000 + b'"}'
    for body in (deep, deeper, wide, unseen):
        sink.take([], body)
    page = ann.get("/sink")
    assert page.status == 200
    assert len(page.text) < 400_000
    assert "too long to display" not in page.text.partition("No. 2")[0][-2000:]
    assert '{"a":{"a":{"a":' in text(page)  # as it came
    for _ in range(200):
        sink.take([], wide)
    full = ann.get("/sink")
    assert full.status == 200
    assert len(full.text) < 1_600_000
    assert "Truncated: the message is too long" in text(full)


def test_a_webhook_that_sends_there_is_one_link_away(ann: Member, sink: Sink) -> None:
    listed = ann.get("/account/webhooks").text
    assert "/account/webhooks/new?target=https" in listed
    filled = Read(ann.get(f"/account/webhooks/new?target=https&address={sink.address}"))
    assert filled.entry("address") == sink.address
    assert filled.entry("target") == "https"
    other = Read(ann.get(f"/account/webhooks/new?target=https&address={sink.address}/other"))
    assert other.entry("address") == ""


def test_it_is_seen_arriving_without_a_reload(
    harness: WebHarness, sink: Sink, ann: Member, tabs: Callable[..., Window]
) -> None:
    tab = tabs(harness, token=ann.browser.cookies["outcry-local"])
    tab.page.clock.install()
    tab.go("/sink")
    receive(harness, sink, id_="msg_live")
    tab.page.clock.run_for(2100)
    code = tab.page.locator("code.quiet")
    code.get_by_text("msg_live").wait_for()
    tab.page.get_by_text("Headers and body").first.click()
    assert tab.page.locator("#came-in").get_by_role("button", name="Copy").count() == 1
    receive(harness, sink, id_="msg_later")
    tab.page.clock.run_for(10_000)  # what is being read is left alone
    assert tab.page.locator("details[open]").count() == 1
    assert code.get_by_text("msg_later").count() == 0
    tab.page.get_by_role("link", name="Refresh").click()
    code.get_by_text("msg_later").wait_for()
    assert tab.errors.found(tab.page) == {}


def test_without_scripts_it_is_a_page_with_forms(
    harness: WebHarness, sink: Sink, ann: Member, tabs: Callable[..., Window]
) -> None:
    tab = tabs(harness, token=ann.browser.cookies["outcry-local"], scripts=False)
    tab.go("/sink")
    receive(harness, sink, id_="msg_plain")
    tab.page.get_by_role("link", name="Refresh").click()
    tab.page.locator("code.quiet").get_by_text("msg_plain").wait_for()
    tab.page.get_by_label("Answer", exact=True).select_option("gone")
    tab.page.get_by_role("button", name="Apply").click()
    tab.page.get_by_text("Response changed.").wait_for()
    assert sink.manner is Manner.GONE


def test_a_body_is_shown_to_the_byte_too_unless_a_page_would_change_it(
    harness: WebHarness, ann: Member, sink: Sink
) -> None:
    body = '{"version":2,"text":"VAH < 6912.5 & über"}'
    receive(harness, sink, body)
    assert Read(ann.get("/sink")).text.count(body) == 1
    for changed in (b"\xff{}", b"{}\r\n", b'{"text":"\x1b[31m"}'):
        sink.clear()
        sink.take([("webhook-id", "msg_2")], changed)
        assert "Raw body" not in text(ann.get("/sink"))

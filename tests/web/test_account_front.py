"""`/account` and its preferences over a real server, and webhook pages of a service without delivery."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from tests.web.account_harness import Member, Read
from tests.web.harness import WebHarness
from tests.web.webhook_harness import ScriptedDeliverer, disabled, made, queue, webhook_service

from outcry.people.model import Preferences
from outcry.web.dates import local_time
from outcry.web.page_context import PageRequest

TYPED = {"language": "de", "theme": "dark", "time_zone": "Asia/Tokyo", "digest_hour": "6", "shortcuts": "yes"}

DELIVERER = ScriptedDeliverer()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with webhook_service(tmp_path_factory.mktemp("front"), DELIVERER) as staged:
        yield staged


def preferences(harness: WebHarness, member: Member) -> Preferences:
    return next(user.preferences for user in harness.people.identity.users() if user.id == member.user.id)


def test_why_nothing_is_live_is_said_with_the_next_step(harness: WebHarness) -> None:
    ann = Member(harness, "ann@example.com")
    reply = ann.get("/account")
    page = Read(reply).text
    assert "0 live" in page
    assert "You have no live feed for this symbol" in page
    assert 'href="/account/brokers">Connect a broker' in reply.text
    assert "No API key yet." in page
    assert "No webhooks yet." in page
    assert reply.headers["cache-control"] == "no-store"


def test_preferences_are_kept_and_hold(harness: WebHarness) -> None:
    ann = Member(harness, "kept@example.com")
    assert ann.send("/account", TYPED).headers["location"] == "/account?done=saved"
    assert preferences(harness, ann) == Preferences("de", "Asia/Tokyo", "dark", 6, shortcuts=True)
    page = ann.get("/account?done=saved")
    assert 'lang="de"' in page.text
    assert 'data-theme="dark"' in page.text
    assert "Einstellungen gespeichert." in Read(page).text
    without = {name: value for name, value in TYPED.items() if name != "shortcuts"}
    ann.send("/account", without)
    assert preferences(harness, ann).shortcuts is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("language", "tlh"),
        ("theme", "neon"),
        ("time_zone", "Mars/Olympus"),
        ("time_zone", "../../etc/passwd"),
        ("time_zone", ""),
        ("digest_hour", "24"),
        ("digest_hour", "-1"),
        ("digest_hour", "six"),
        ("digest_hour", "٣"),
        ("time_zone", '"><script>alert(1)</script>'),
    ],
)
def test_a_preference_that_cannot_be_is_refused_whole(harness: WebHarness, field: str, value: str) -> None:
    bob = Member(harness, "bob@example.com")
    reply = bob.send("/account", {**TYPED, field: value})
    assert reply.status == 422
    assert f'href="#f-{field}"' in reply.text
    assert "<script>alert" not in reply.text
    page = Read(reply)
    for name in ("time_zone", "digest_hour"):
        assert page.entry(name) == {**TYPED, field: value}[name]
    if field != "theme":
        assert page.entry("theme") == "dark"
    assert preferences(harness, bob) == Preferences()


def test_times_are_in_the_readers_time_zone() -> None:
    """2026-01-02T15:04:05Z is three minutes past midnight of the third in Tokyo, and shortly after ten in New York."""
    at_ns = 1_767_366_245 * 10**9
    for zone, text in (("Asia/Tokyo", "03.01.2026, 00:04:05"), ("America/New_York", "02.01.2026, 10:04:05")):
        found = local_time(_visit(zone), at_ns)
        assert found is not None
        assert (found.text, found.exact) == (text, "2026-01-02T15:04:05Z")


def _visit(zone: str) -> PageRequest:
    return cast(
        "PageRequest",
        SimpleNamespace(preferences=Preferences(time_zone=zone), words=SimpleNamespace(language="de")),
    )


def test_webhooks_that_bring_nothing_are_counted(harness: WebHarness) -> None:
    ann = Member(harness, "worried@example.com")
    well, failing, paused = (made(harness, ann, label=name) for name in ("well", "gone", "paused"))
    assert "3 webhooks" in Read(ann.get("/account")).text
    assert "failing" not in Read(ann.get("/account")).text
    disabled(harness, failing)
    ann.send(f"/account/webhooks/{paused.id}/pause")
    assert "1 webhook is failing" in Read(ann.get("/account")).text
    queue(harness, well, failing_since_ns=harness.installation.clock.now_ns())
    assert "2 webhooks are failing" in Read(ann.get("/account")).text


def test_a_service_that_does_not_deliver_says_so(harness: WebHarness) -> None:
    ann = Member(harness, "hooks@example.com")
    row = made(harness, ann)
    DELIVERER.running = False
    for path in ("/account/webhooks", "/account/webhooks/new", f"/account/webhooks/{row.id}"):
        assert "Alert delivery is not running" in Read(ann.get(path)).text
    page = ann.get(f"/account/webhooks/{row.id}")
    assert "Delivery not running" in Read(page).text
    assert re.search(r'<button[^>]* disabled aria-describedby="not-running">[^<]*Send test', page.text)
    assert "Resend failed alerts" not in page.text
    assert "no email is sent for now" in Read(ann.get("/account")).text
    DELIVERER.running = True
    assert "Alert delivery is not running" not in Read(ann.get("/account/webhooks")).text


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []

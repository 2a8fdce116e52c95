"""A webhook's health on its page and in the list, and resending failed messages."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from zoneinfo import ZoneInfo

import pytest
from tests.web.account_harness import Member, Read
from tests.web.browsing import Window
from tests.web.harness import Reply, WebHarness
from tests.web.webhook_harness import (
    GOOD,
    ScriptedDeliverer,
    attempt,
    disabled,
    fired,
    made,
    phases,
    put,
    queue,
    stored_rows,
    webhook_service,
    wish,
)

from outcry.delivery.model import SubscriptionPhase
from outcry.delivery.subscription_store import SqlSubscriptionStore

HOUR_NS = 3600 * 10**9
DELIVERER = ScriptedDeliverer()
_NUMBERS = count(1)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHarness]:
    with webhook_service(tmp_path_factory.mktemp("health"), DELIVERER) as staged:
        yield staged


@pytest.fixture(autouse=True)
def _as_ever() -> Iterator[None]:
    yield
    DELIVERER.result, DELIVERER.verdict, DELIVERER.admitted = GOOD, "ok", ()


@pytest.fixture
def ann(harness: WebHarness) -> Iterator[Member]:
    """Somebody with no webhook yet, nor any when the test is over: alerts go to everyone's."""
    member = Member(harness, f"ann{next(_NUMBERS)}@example.com")
    yield member
    for row in stored_rows(harness, member):
        member.send(f"/account/webhooks/{row.id}/remove")


def place(row_id: int) -> str:
    return f"/account/webhooks/{row_id}"


def local(harness: WebHarness, **ago: float) -> str:
    """A time of late, as a field for day and time holds it, in the usual time zone of an account."""
    now = datetime.fromtimestamp(harness.installation.clock.now_ns() / 10**9, ZoneInfo("America/New_York"))
    return f"{now - timedelta(**ago):%Y-%m-%dT%H:%M}"


def text(reply: Reply) -> str:
    return Read(reply).text


# -- how it does


@pytest.mark.parametrize(
    ("hours", "words"),
    [
        (1, "We'll keep retrying"),
        (25, "for more than a day"),
        (73, "for more than 3 days"),
    ],
)
def test_a_webhook_that_fails_says_for_how_long(
    harness: WebHarness, ann: Member, hours: int, words: str
) -> None:
    row = made(harness, ann)
    now_ns = harness.installation.clock.now_ns()
    queue(harness, row, failures=7, failing_since_ns=now_ns - hours * HOUR_NS, failed_ns=now_ns)
    page = text(ann.get(place(row.id)))
    assert words in page
    assert "7 failed attempts in a row" in page
    assert "Failing" in text(ann.get("/account/webhooks"))
    assert ("we disable the webhook" in page) == (hours > 24)


def test_a_webhook_that_is_well_has_nothing_to_warn_of(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    assert "Nothing yet" in text(ann.get(place(row.id)))
    queue(harness, row, arrived_ns=harness.installation.clock.now_ns())
    page = ann.get(place(row.id))
    assert "Nothing yet" not in text(page)
    assert 'class="notice warn' not in page.text
    assert 'class="notice bad' not in page.text


def test_when_nothing_is_tried_before_is_said(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    now_ns = harness.installation.clock.now_ns()
    queue(harness, row, failures=1, failing_since_ns=now_ns, closed_until_ns=now_ns + HOUR_NS)
    page = text(ann.get(place(row.id)))
    assert "Next attempt not before" in page
    assert "Next attempt not before" in page
    assert "Waiting to retry" in page
    assert "Waiting to retry" in text(ann.get("/account/webhooks"))


def test_the_next_try_stands_at_the_newest_of_a_message_and_no_sooner_than_the_webhook_rests(
    harness: WebHarness, ann: Member
) -> None:
    """Of a message tried twice, one delivered meanwhile, and one that fewer were asked for by."""
    row = made(harness, ann)
    now_ns = harness.installation.clock.now_ns()
    soon, late = now_ns + HOUR_NS // 2, now_ns + HOUR_NS
    waits = {"outcome": "pending", "code": "status", "status": 500, "next_ns": soon}
    attempt(harness, row, message_id="msg_a", number=1, **waits)
    attempt(harness, row, message_id="msg_b", number=1, **waits)
    attempt(harness, row, message_id="msg_b", number=2)
    attempt(harness, row, message_id="msg_a", number=2, **waits)
    attempt(harness, row, message_id="msg_c", **(waits | {"code": "rate_limited", "status": 429}))
    page = text(ann.get(place(row.id)))
    assert (page.count("Next attempt: "), page.count("Paused until ")) == (1, 1)
    queue(harness, row, failures=2, failing_since_ns=now_ns, closed_until_ns=late)
    rests = text(ann.get(place(row.id)))
    later = rests.split("Next attempt: ")[1].split(" 500")[0]
    assert later in rests.split("Next attempt not before ")[1]
    assert later not in page
    ann.send(f"{place(row.id)}/pause")
    assert "Next attempt: " not in text(ann.get(place(row.id)))


def test_the_page_follows_what_waits_and_stops_once_nothing_does(
    harness: WebHarness, ann: Member, tabs: Callable[..., Window]
) -> None:
    row = made(harness, ann, symbols=[])
    fired(harness, 1)
    tab = tabs(harness, token=ann.browser.cookies["outcry-local"])
    tab.page.clock.install()
    tab.go(place(row.id))
    assert (
        tab.page.locator("#deliveries").get_by_text("The first matching alert will appear here").count() == 1
    )
    attempt(harness, row, message_id="msg_followed")
    put(harness, row, "delivered")
    tab.page.clock.run_for(3100)
    tab.page.locator("#deliveries").get_by_text("Delivered", exact=True).nth(1).wait_for()
    assert tab.page.locator("#stand[data-waits]").count() == 0
    assert tab.errors.found(tab.page) == {}


def test_when_the_next_mail_goes_is_said(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, target="email", address="ann@example.com", window="quarter")
    SqlSubscriptionStore(harness.installation.database).change_subscription(
        ann.user.id, row.id, lambda now: replace(now, phase=SubscriptionPhase.ACTIVE)
    )
    next_digest = text(ann.get(place(row.id))).split("Next digest ")[1]
    assert re.match(r".{,20} \d+:(00|15|30|45):00\W", next_digest)
    assert "Next digest" not in text(ann.get(place(made(harness, ann).id)))


def test_mail_cannot_be_chosen_where_none_is_sent(ann: Member) -> None:
    page = ann.get("/account/webhooks/new").text
    assert re.search(r'<option value="email" disabled>Email digest \(email not set up\)</option>', page)


def test_one_without_a_name_is_called_by_its_host(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, label="")
    assert f'<a href="{place(row.id)}">hooks.mysite.dev</a>' in ann.get("/account/webhooks").text


def test_what_waits_is_held_and_was_given_up_is_counted(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, symbols=[])
    for number, phase in ((1, "waiting"), (2, "held"), (3, "dead"), (4, "missed")):
        one = row if number == 1 else made(harness, ann, symbols=[], label=f"Number {number}")
        fired(harness, number)
        put(harness, one, phase)
    assert "Queued 10 On hold 0 Failed permanently 0" in text(ann.get(place(row.id)))
    listed = text(ann.get("/account/webhooks"))
    for words in ("10 alerts queued", "2 alerts on hold", "3 alerts failed", "4 alerts failed"):
        assert words in listed


@pytest.mark.parametrize("reason", ["gone", "failing", "bounced", "address_lost"])
def test_why_it_was_switched_off_and_how_it_comes_back(harness: WebHarness, ann: Member, reason: str) -> None:
    from outcry.web.account.delivery_words import result_words
    from outcry.web.language import Words

    row = disabled(harness, made(harness, ann), reason)
    fired(harness, 2)
    page = text(ann.get(place(row.id)))
    assert "The webhook is disabled and sends nothing." in page
    assert result_words(Words("en"), reason, row.target) in page
    assert "A successful test enables it again." in page
    assert "2 alerts are on hold" in page
    assert "Resend failed alerts" not in page
    back = text(ann.send(f"{place(row.id)}/test"))
    assert "This test enabled the webhook again" in back
    assert "2 alerts were put on hold while the webhook was disabled. Send now" in back
    page = text(ann.get(place(row.id)))
    assert "2 alerts were put on hold while the webhook was disabled." in page


def test_an_address_that_nobody_confirmed_gets_nothing(harness: WebHarness, ann: Member) -> None:
    """This service has no mail server: the address is taken by the deliverer, and that nobody can be asked is said."""
    reply = ann.send("/account/webhooks", wish(target="email", address="ann@example.com"))
    row = stored_rows(harness, ann)[-1]
    assert row.phase is SubscriptionPhase.UNCONFIRMED
    page = text(ann.follow(reply))
    assert "the email address is not confirmed" in page
    assert "the operator has not set up a mail server" in page
    assert "Not confirmed" in text(ann.get("/account/webhooks"))
    again = ann.send(f"{place(row.id)}/confirmation")
    assert again.headers["location"] == f"{place(row.id)}?done=mail_not_set_up"
    assert "the recipient has not confirmed yet" not in text(ann.get(place(row.id)))
    DELIVERER.sent.clear()
    assert "the recipient has not confirmed yet" in text(ann.send(f"{place(row.id)}/test"))
    assert DELIVERER.sent == []


def test_a_host_that_is_not_found_now_is_taken_and_that_is_said(harness: WebHarness, ann: Member) -> None:
    DELIVERER.verdict = "unverified"
    secret = ann.follow(ann.send("/account/webhooks", wish()))
    assert "The host can't be found right now" in text(secret)
    slack = "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefgh12345678"
    page = ann.follow(ann.send("/account/webhooks", wish(target="slack", address=slack)))
    assert "The host can't be found right now" in text(page)


def test_order_and_windows_are_kept_where_they_mean_something(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann, ordered="yes")
    assert row.ordered
    assert "Strict order" in text(ann.get(place(row.id)))
    ann.send(place(row.id), {"label": "Desk", "min_severity": "info"})
    assert not stored_rows(harness, ann)[-1].ordered
    mail = made(harness, ann, target="email", address="ann@example.com", window="day", ordered="yes")
    assert (mail.ordered, mail.window, mail.at_once) == (False, "day", False)
    page = Read(ann.get(place(mail.id)))
    assert page.entry("window") == "day"
    ann.send(place(mail.id), {"label": "", "min_severity": "info", "window": "quarter", "at_once": "yes"})
    after = stored_rows(harness, ann)[-1]
    assert (after.window, after.at_once) == ("quarter", True)
    refused = ann.send(place(mail.id), {"label": "", "min_severity": "info", "window": "never"})
    assert refused.status == 422
    assert "Choose a sending schedule." in text(refused)


# -- sent again


def test_what_was_held_is_sent_when_its_owner_asks(harness: WebHarness, ann: Member) -> None:
    row = disabled(harness, made(harness, ann))
    fired(harness, 3, owner=ann.user.id)
    assert phases(harness, row) == ["held"] * 3
    refused = ann.send(f"{place(row.id)}/resend/held")
    assert refused.headers["location"] == f"{place(row.id)}?done=not_active"
    assert phases(harness, row) == ["held"] * 3
    ann.send(f"{place(row.id)}/test")
    woken = DELIVERER.woken
    page = ann.follow(ann.send(f"{place(row.id)}/resend/held"))
    assert "Resending 3 alerts" in text(page)
    assert phases(harness, row) == ["waiting"] * 3
    assert DELIVERER.woken > woken
    log = text(ann.get("/account/log"))
    assert "Alerts resent to a webhook" in log
    assert re.search(r"Count:? 3\b", log)


def test_what_failed_since_a_time_of_the_readers_clock(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    fired(harness, 2, owner=ann.user.id)
    put(harness, row, "dead", "msg_7")
    again = f"{place(row.id)}/resend/failed"
    page = ann.follow(ann.send(again, {"failed_since": local(harness, hours=1)}))
    assert "Resending 2 alerts" in text(page)
    assert phases(harness, row) == ["waiting"] * 2
    page = ann.follow(ann.send(again, {"failed_since": local(harness, hours=1)}))
    assert "Nothing to resend." in text(page)


@pytest.mark.parametrize(
    "typed", ["", "yesterday", "2026-03-04", "1999-01-01T00:00", "2999-01-01T00:00", "9" * 60]
)
def test_a_time_that_is_none_is_refused_with_what_was_typed(
    harness: WebHarness, ann: Member, typed: str
) -> None:
    row = made(harness, ann)
    for form in ("failed", "missing"):
        reply = ann.send(f"{place(row.id)}/resend/{form}", {f"{form}_since": typed})
        assert reply.status == 422
        assert f'href="#f-{form}_since"' in reply.text
        assert Read(reply).entry(f"{form}_since") == typed[:40]


def test_what_fired_while_it_was_paused_can_be_asked_for(harness: WebHarness, ann: Member) -> None:
    """Alerts of her own feed: nothing of the operator's is granted to anybody on this service."""
    row = made(harness, ann)
    ann.send(f"{place(row.id)}/pause")
    assert "not queued" in text(ann.get(place(row.id)))
    fired(harness, 2, fan_out=False, owner=ann.user.id)
    ann.send(f"{place(row.id)}/resume")
    assert phases(harness, row) == []
    again = f"{place(row.id)}/resend/missing"
    page = ann.follow(ann.send(again, {"missing_since": local(harness, hours=1)}))
    assert "Resending 2 alerts" in text(page)
    assert phases(harness, row) == ["waiting"] * 2


def test_one_message_is_sent_again_under_its_id(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    fired(harness, 2, owner=ann.user.id)
    put(harness, row, "delivered", "msg_42")
    attempt(harness, row, message_id="msg_42", alerts=2)
    page = ann.get(place(row.id))
    assert 'value="msg_42"' in page.text
    done = ann.follow(ann.send(f"{place(row.id)}/resend/one", {"message_id": "msg_42"}))
    assert "Resending 2 alerts" in text(done)
    assert phases(harness, row) == ["waiting"] * 2
    nothing = ann.follow(ann.send(f"{place(row.id)}/resend/one", {"message_id": "msg_43"}))
    assert "Nothing to resend." in text(nothing)


def test_what_its_owner_may_not_see_any_more_is_not_sent_again(harness: WebHarness, ann: Member) -> None:
    """Of the operator's feed, which was granted as they fired and is not now."""
    row = made(harness, ann)
    fired(harness, 2)
    put(harness, row, "dead", "msg_8")
    since = {"message_id": "msg_8", "failed_since": local(harness, hours=1)}
    for form in ("one", "held", "failed"):
        page = ann.follow(ann.send(f"{place(row.id)}/resend/{form}", since))
        assert "Nothing to resend." in text(page)
    assert phases(harness, row) == ["dead"] * 2


def test_ten_times_a_minute(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    again = f"{place(row.id)}/resend/one"
    sent = [ann.send(again, {"message_id": "msg_1"}) for _ in range(11)]
    assert [reply.status for reply in sent] == [303] * 10 + [429]
    assert int(sent[-1].headers["retry-after"]) >= 1
    assert "Too many resends" in text(sent[-1])


def test_nobody_sends_again_what_is_anothers(harness: WebHarness, ann: Member) -> None:
    row = made(harness, ann)
    bob = Member(harness, "bob@example.com")
    for form in ("one", "held", "failed", "missing"):
        assert bob.send(f"{place(row.id)}/resend/{form}", {"message_id": "msg_1"}).status == 404
        forged = ann.browser.post(f"{place(row.id)}/resend/{form}", {"csrf": "0" * 40})
        assert forged.status == 400
    assert bob.send(f"{place(row.id)}/confirmation").status == 404


# -- what is admitted


def test_hosts_that_need_not_be_public_are_named_on_every_page(harness: WebHarness, ann: Member) -> None:
    words = "Development setting: webhooks may call these private hosts:"
    shown = ("/account/webhooks", "/account", "/docs", "/no-such-page")
    assert all(words not in ann.get(path).text for path in shown)
    DELIVERER.admitted = ("localhost:8443", "sink.lan:443")
    for path in shown:
        assert f"{words} localhost:8443, sink.lan:443" in text(ann.get(path))
    visitor = harness.visitor()
    assert f"{words} localhost:8443" in text(visitor.get("/set-up"))


def test_the_receivers_page_is_of_the_demonstration_alone(harness: WebHarness, ann: Member) -> None:
    for path in ("/sink", "/sink/manner", "/sink/secret", "/sink/clear"):
        assert ann.get(path).status == 404
    for path in ("/sink/manner", "/sink/secret", "/sink/clear"):
        assert ann.send(path, {"manner": "gone"}).status == 404
    typed = Read(ann.get("/account/webhooks/new?target=https&address=https://elsewhere.mysite.dev/x"))
    assert typed.entry("address") == ""


def test_no_page_of_this_had_a_fault(harness: WebHarness) -> None:
    assert harness.faults() == []

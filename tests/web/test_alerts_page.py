"""The Alerts page: the same alerts as the API, filters in the URL, live updates."""

import json
import re
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect
from tests.timeouts import wait_until
from tests.web.browsing import Opened, wait_on_page
from tests.web.harness import WebHarness

from outcry.feeds.simulator.clock import DemoClock
from outcry.market.alerts.machine import AlertType

_SEQ = re.compile(r'<tr data-seq="(\d+)"')


def asked(harness: WebHarness, path: str) -> Any:
    reply = harness.visitor().get(path)
    assert reply.status == 200, path
    return json.loads(reply.body)


def listed(harness: WebHarness, query: str = "") -> list[int]:
    """The alerts of the page, as their numbers, from the top."""
    reply = harness.visitor().get(f"/alerts{query}")
    assert reply.status == 200, query
    return [int(seq) for seq in _SEQ.findall(reply.text)]


def known(harness: WebHarness, query: str = "") -> list[Any]:
    return asked(harness, f"/page/alerts/history?limit=500{query}")["alerts"]


@pytest.fixture(scope="module")
def busy(harness: WebHarness) -> WebHarness:
    """A service on which something has happened: the morning it begins in has had alerts."""
    wait_until(lambda: len(known(harness)) >= 5, "the simulated market fires alerts", poll_s=0.2)
    return harness


# -- what is listed


def test_it_lists_every_alert_the_newest_first(busy: WebHarness) -> None:
    alerts = known(busy)
    by_seq = {alert["seq"]: alert for alert in alerts}
    found = [seq for seq in listed(busy) if seq in by_seq]
    assert sorted(found) == sorted(by_seq)
    times = [by_seq[seq]["at"] for seq in found]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("severity", ["info", "warn", "critical"])
def test_a_severity_is_the_least_that_is_listed(busy: WebHarness, severity: str) -> None:
    order = ["info", "warn", "critical"]
    wanted = {a["seq"] for a in known(busy) if order.index(a["severity"]) >= order.index(severity)}
    assert set(listed(busy, f"?severity={severity}")) >= wanted
    assert all(f'data-severity="{less}"' not in busy.visitor().get(f"/alerts?severity={severity}").text
               for less in order[: order.index(severity)])  # fmt: skip


def test_symbol_kind_and_day_are_filters(busy: WebHarness) -> None:
    first = known(busy)[0]
    symbol, kind, day = first["symbol"], first["type"], first["tradeDate"]
    wanted = {a["seq"] for a in known(busy, f"&symbol={symbol}") if a["type"] == kind}
    assert set(listed(busy, f"?symbol={symbol.lower()}&type={kind}&day={day}")) == wanted
    assert listed(busy, "?day=2020-01-02") == []
    assert listed(busy, "?symbol=NOPE") == []


def test_a_row_says_when_what_and_how_far(busy: WebHarness) -> None:
    alert = next(a for a in known(busy) if a["type"] in {"va-test-high", "va-test-low"})
    edge = "vah" if alert["type"] == "va-test-high" else "val"
    text = busy.visitor().get(f"/alerts?symbol={alert['symbol']}&type={alert['type']}").text
    row = text[text.index(f'<tr data-seq="{alert["seq"]}"') :]
    row = row[: row.index("</tr>")]
    assert f'datetime="{alert["at"]}"' in row
    assert f'data-level="{alert["params"][edge]}"' in row
    assert ("VAH tested" if edge == "vah" else "VAL tested") in row
    assert f'href="/s/{alert["symbol"]}"' in row


def test_times_are_the_readers_and_the_exchanges_are_shown_on_request(busy: WebHarness) -> None:
    usual, both = busy.visitor().get("/alerts").text, busy.visitor().get("/alerts?time=exchange").text
    assert '<small class="number quiet">' not in usual
    assert both.count('<small class="number quiet">') == len(_SEQ.findall(both))
    assert 'href="/alerts?time=exchange"' in usual
    shown = re.findall(r'<time class="number" datetime="(.*?)" title="Exchange: (.*?)">(.*?)</time>', usual)
    assert len(shown) == len(_SEQ.findall(usual)) > 0
    assert len({here.split()[-1] for _, _, here in shown}) == 1  # one zone, whatever the exchanges'


def test_the_page_speaks_german(busy: WebHarness) -> None:
    text = busy.visitor("de").get("/alerts").text
    assert "Börsenzeit" in text
    for english in ("Traded at", "What happened", "Rejected at", "initial balance (IBH"):
        assert english not in text


# -- pages of it


def test_rows_recorded_since_are_given_alone(busy: WebHarness) -> None:
    alerts = known(busy)
    third = alerts[2]["seq"]
    reply = busy.visitor().get(f"/alerts/rows?after={third}")
    assert sorted(map(int, _SEQ.findall(reply.text))) == sorted(
        a["seq"] for a in known(busy) if a["seq"] > third
    )
    assert int(re.findall(r'data-newest="(\d+)"', reply.text)[0]) >= alerts[0]["seq"]
    none = busy.visitor().get(f"/alerts/rows?after={busy.alert_seq()}")
    assert _SEQ.findall(none.text) == []


def test_older_pages_go_on_where_the_newer_ended(busy: WebHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.web.alerts.page.PAGE_ROWS", 3)
    first = busy.visitor().get("/alerts").text
    found = [int(seq) for seq in _SEQ.findall(first)]
    assert len(found) == 3
    path = "/alerts"
    pages: list[int] = []
    for _ in range(500):
        text = busy.visitor().get(path).text
        pages += map(int, _SEQ.findall(text))
        older = re.search(r'rel="next" href="(.*?)"', text)
        if older is None:
            break
        path = older[1].replace("&amp;", "&")
    assert len(pages) == len(set(pages))
    assert set(pages) >= {alert["seq"] for alert in known(busy) if alert["seq"] <= max(found)}


# -- refusals and empty states


def test_a_filter_that_cannot_be_read_is_refused_with_its_words(busy: WebHarness) -> None:
    reply = busy.visitor().get("/alerts?symbol=ES&severity=loud&type=boom&day=20.11.2026")
    assert reply.status == 422
    assert _SEQ.findall(reply.text) == []
    assert 'role="alert"' in reply.text
    for name in ("severity", "type", "day"):
        assert f'href="#f-{name}"' in reply.text
        assert f'id="e-{name}"' in reply.text
    assert 'value="ES"' in reply.text
    assert 'value="20.11.2026"' in reply.text


@pytest.mark.parametrize("name", ["symbol", "severity", "type", "day", "before", "time"])
@pytest.mark.parametrize(
    "hostile", ['"><script>alert(1)</script>', "\x00", "é" * 5000, "-1", "9" * 40, "%s%(x)s"]
)
def test_hostile_filters_do_nothing(busy: WebHarness, name: str, hostile: str) -> None:
    reply = busy.visitor().get(f"/alerts?{name}={quote(hostile)}")
    assert reply.status in {200, 422}
    assert "<script>alert" not in reply.text


def test_nothing_that_matches_says_so_and_how_to_see_all(busy: WebHarness) -> None:
    text = busy.visitor().get("/alerts?day=2020-01-02").text
    assert "No matches" in text
    assert text.count('href="/alerts">Clear filters</a>') == 2


def test_every_kind_can_be_chosen(busy: WebHarness) -> None:
    text = busy.visitor().get("/alerts").text
    assert set(re.findall(r'<option value="([a-z]+-[a-z-]+)"', text)) == {kind.value for kind in AlertType}


def test_nobody_sees_anything_where_visitors_may_not(bare: WebHarness) -> None:
    for path in ("/alerts", "/alerts/rows"):
        reply = bare.visitor().get(path)
        assert (reply.status, reply.headers["location"]) == (303, f"/sign-in?next={path}")


def test_somebody_with_no_feed_is_told_where_alerts_come_from(bare: WebHarness) -> None:
    visitor = bare.visitor()
    visitor.cookies["outcry-local"] = bare.token(bare.person("new@example.com"))
    text = visitor.get("/alerts").text
    assert "No alerts yet today." in text
    assert "No matches" not in text


# -- in a browser


def numbers(page: Page) -> list[int]:
    return page.evaluate("[...document.querySelectorAll('tr[data-seq]')].map(row => Number(row.dataset.seq))")


def test_filters_work_without_scripts(busy: WebHarness, opened: Opened) -> None:
    symbol = known(busy)[0]["symbol"]
    with opened(scripts=False) as tab:
        tab.go("/alerts")
        tab.page.get_by_label("Symbol").first.fill(symbol)
        tab.page.get_by_label("Severity").first.select_option("critical")
        tab.page.get_by_role("button", name="Filter").click()
        assert f"symbol={symbol}" in tab.page.url
        assert "severity=critical" in tab.page.url
        assert tab.page.locator("#f-symbol").input_value() == symbol
        assert tab.page.locator("#pause").is_hidden()


def test_alerts_arrive_are_held_back_and_shown(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/alerts")
    page = tab.page
    page.evaluate("window.__same = true")
    before = own_harness.alert_seq()

    own_harness.forward(3600)
    wait_on_page(page, lambda: max(numbers(page), default=0) > before, "no alert arrives")
    expect(page.locator("tr.is-new").first).to_be_visible()
    expect(page.locator("tr.is-unread .unread-mark").first).to_be_visible()

    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(1500)
    shown, seq = numbers(page), own_harness.alert_seq()
    own_harness.forward(2 * 3600)
    wait_on_page(page, lambda: own_harness.alert_seq() > seq, "the market fires nothing more")
    expect(page.locator("#pill")).to_contain_text("new", timeout=60_000)
    assert numbers(page) == shown
    page.locator("#pill").click()
    assert len(numbers(page)) > len(shown)
    expect(page.locator("#pill")).to_be_hidden()

    page.get_by_role("button", name="Mark all as read").click()
    expect(page.locator("tr.is-unread")).to_have_count(0)
    wait_on_page(
        page, lambda: set(numbers(page)) >= {a["seq"] for a in known(own_harness)}, "an alert is missing"
    )
    assert len(numbers(page)) == len(set(numbers(page)))
    assert page.evaluate("window.__same") is True
    assert tab.errors.found(page) == {}


def test_what_a_filter_leaves_out_does_not_arrive(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/alerts?severity=critical")
    before = own_harness.alert_seq()
    own_harness.forward(3 * 3600)
    wait_on_page(
        tab.page,
        lambda: any(a["seq"] > before and a["severity"] == "critical" for a in known(own_harness)),
        "nothing critical",
    )
    wait_on_page(tab.page, lambda: max(numbers(tab.page), default=0) > before, "no alert arrives")
    severities = tab.page.evaluate(
        "[...document.querySelectorAll('tr[data-seq]')].map(r => r.dataset.severity)"
    )
    assert set(severities) == {"critical"}


#: Counts tones, and hides the page when told so: a tab of a headless browser is never hidden by itself.
_LISTENING = """
window.__tones = 0;
const start = AudioScheduledSourceNode.prototype.start;
AudioScheduledSourceNode.prototype.start = function (...given) {
  window.__tones += 1;
  return start.apply(this, given);
};
window.__hide = (hidden) => {
  const show = (name, value) => Object.defineProperty(document, name, { configurable: true, get: () => value });
  show("hidden", hidden);
  show("visibilityState", hidden ? "hidden" : "visible");
  document.dispatchEvent(new Event("visibilitychange"));
};
"""
#: As on plain http under a name: no tab shares its stream.
_NO_LOCKS = "delete Navigator.prototype.locks;"


@pytest.mark.parametrize("shared", [True, False], ids=["one stream for all tabs", "a stream of its own"])
def test_the_bell_rings_in_a_hidden_tab_once_sound_is_on(
    own_harness: WebHarness, tabs: Any, *, shared: bool
) -> None:
    tab = tabs(own_harness)
    tab.context.add_init_script(_LISTENING + ("" if shared else _NO_LOCKS))
    tab.go("/alerts")
    page = tab.page

    def tones() -> int:
        return page.evaluate("window.__tones")

    # Without sound, a hidden tab fetches nothing. A fetch scheduled before it was hidden starts within a second.
    page.evaluate("window.__hide(true)")
    page.wait_for_timeout(1500)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/alerts/rows" in request.url else None)
    seq = own_harness.alert_seq()
    own_harness.forward(3600)
    wait_on_page(page, lambda: own_harness.alert_seq() > seq, "the market fires nothing")
    page.wait_for_timeout(1500)
    assert asked == []
    page.evaluate("window.__hide(false)")
    wait_on_page(page, lambda: max(numbers(page), default=0) > seq, "no alert arrives")

    page.get_by_role("button", name="Sound").click()
    wait_on_page(page, lambda: tones() == 1, "switching it on is not heard")
    page.evaluate("window.__hide(true)")
    seq = own_harness.alert_seq()
    own_harness.forward(2 * 3600)
    wait_on_page(page, lambda: own_harness.alert_seq() > seq, "the market fires nothing more")
    wait_on_page(page, lambda: tones() > 1, "a hidden tab does not ring")
    assert tab.errors.found(page) == {}


def test_a_lost_connection_is_told_and_what_was_missed_arrives(own_harness: WebHarness, tabs: Any) -> None:
    tab = tabs(own_harness)
    tab.go("/alerts")
    page = tab.page
    page.wait_for_timeout(1500)
    newest = max(numbers(page))
    tab.context.set_offline(True)
    expect(page.locator("#lost")).to_be_visible(timeout=60_000)
    own_harness.forward(2 * 3600)
    wait_on_page(page, lambda: own_harness.alert_seq() > newest, "the market fires nothing")
    page.wait_for_timeout(1000)
    tab.context.set_offline(False)
    expect(page.locator("#lost")).to_be_hidden(timeout=60_000)
    wait_on_page(page, lambda: max(numbers(page)) > newest, "what was missed does not arrive")


def late_by_s(alert: Any) -> float:
    """How much later than its event an alert was recorded, as the API has it."""
    at, recorded = (datetime.fromisoformat(alert[name]) for name in ("at", "recordedAt"))
    return (recorded - at).total_seconds()


def begun_s(harness: WebHarness) -> float:
    """The time of the invented market at which its service began."""
    clock = harness.installation.market_clock
    assert isinstance(clock, DemoClock)
    return clock.start_ns / 10**9


def test_an_alert_has_arrived_late_by_its_record_and_says_so_to_everybody(
    own_harness: WebHarness, tabs: Any
) -> None:
    """What the invented market told of its morning before the service began is not late; what it brings of an hour that
    has gone by at once is, with scripts or without, at once or later, and nothing else is."""
    tab = tabs(own_harness)
    tab.go("/alerts")
    before = own_harness.alert_seq()
    began_s = begun_s(own_harness)
    morning = [
        alert for alert in known(own_harness) if datetime.fromisoformat(alert["at"]).timestamp() < began_s
    ]
    assert morning
    assert {late_by_s(alert) for alert in morning} == {0}
    own_harness.forward(3600)
    wait_on_page(tab.page, lambda: max(numbers(tab.page), default=0) > before, "no alert arrives")
    tab.page.wait_for_timeout(2000)

    def marked(page: Page) -> set[int]:
        rows = page.locator("tr[data-seq]", has=page.locator(".late-mark"))
        return {int(row.get_attribute("data-seq") or 0) for row in rows.all()}

    shown = set(numbers(tab.page))
    late = {alert["seq"] for alert in known(own_harness) if late_by_s(alert) > 5} & shown
    assert late
    assert marked(tab.page) == late
    tab.page.reload()
    assert marked(tab.page) & shown == late
    assert all(late_by_s(alert) >= 0 for alert in known(own_harness))


def test_everything_missed_arrives_however_much_it_is(
    own_harness: WebHarness, tabs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcry.web.alerts.page.PAGE_ROWS", 3)
    tab = tabs(own_harness)
    tab.go("/alerts")
    wait_on_page(tab.page, lambda: bool(numbers(tab.page)), "no alert of the morning is told")
    newest = max(numbers(tab.page))
    tab.context.set_offline(True)
    expect(tab.page.locator("#lost")).to_be_visible(timeout=60_000)
    own_harness.forward(3 * 3600)
    wait_on_page(tab.page, lambda: own_harness.alert_seq() > newest + 7, "the market fires too little")
    tab.context.set_offline(False)
    wait_on_page(
        tab.page,
        lambda: (
            set(numbers(tab.page)) >= {alert["seq"] for alert in known(own_harness) if alert["seq"] > newest}
        ),
        "an alert is missing",
    )
    times = tab.page.evaluate(
        "[...document.querySelectorAll('#alerts tr[data-seq] time')].map(t => t.dateTime)"
    )
    assert len(times) == len(set(numbers(tab.page)))


def test_a_page_that_stands_open_keeps_so_many_rows_and_leads_to_the_rest(
    own_harness: WebHarness, tabs: Any
) -> None:
    tab = tabs(own_harness)

    def fewer(route: Route) -> None:
        # fetched here: a page that goes on meanwhile takes what it fetched itself with it
        script = own_harness.visitor().get(urlsplit(route.request.url).path).text
        assert "MOST_ROWS = 500" in script
        body = script.replace("MOST_ROWS = 500", "MOST_ROWS = 6")
        route.fulfill(body=body, content_type="text/javascript")

    tab.page.route("**/js/alerts.js", fewer)
    tab.go("/alerts?severity=info")
    before = own_harness.alert_seq()
    own_harness.forward(2 * 3600)
    wait_on_page(tab.page, lambda: max(numbers(tab.page), default=0) > before, "no alert arrives")
    shown_numbers = numbers(tab.page)
    assert len(shown_numbers) == 6
    tab.page.locator("#alerts-older").click()
    assert "severity=info" in tab.page.url
    shown = set(numbers(tab.page)) | set(shown_numbers)
    assert shown >= {alert["seq"] for alert in known(own_harness) if alert["seq"] <= max(shown_numbers)}


def test_a_symbol_that_is_not_live_any_more_is_marked_so(busy: WebHarness) -> None:
    text = busy.visitor().get("/alerts").text
    rows = re.findall(r'<tr data-seq="\d+" data-symbol="(\w+)".*?</tr>', text, re.DOTALL)
    marked = re.findall(
        r'<tr data-seq="\d+" data-symbol="(\w+)"(?:(?!</tr>).)*?delayed-mark', text, re.DOTALL
    )
    live = {symbol: asked(busy, f"/page/levels?symbol={symbol}")["live"] for symbol in set(rows)}
    assert set(live.values()) == {True, False}
    assert sorted(marked) == sorted(symbol for symbol in rows if not live[symbol])


def test_a_day_without_alerts_says_what_is_nearest_to_a_level(
    busy: WebHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outcry.web.alerts.page._today", lambda *_: 0)
    for language, heading in (("en", "Closest to a level"), ("de", "Am nächsten an einem Level")):
        text = busy.visitor(language).get("/alerts").text
        found = re.search(rf"{heading}: (\w+) (?:at|bei) ([\d,.']+), \w+(?: [↑↓])? ([\d,.']+)\.", text)
        assert found
        levels = asked(busy, f"/page/levels?symbol={found[1]}")
        assert levels["live"]

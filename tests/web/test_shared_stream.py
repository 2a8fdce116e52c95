"""Tabs of one browser share one stream, and lose no event when the tab that holds it closes."""

import re
from urllib.request import urlopen

from playwright.sync_api import BrowserContext, Page
from tests.timeouts import wait_until
from tests.web.browsing import Opened
from tests.web.harness import WebHarness

#: Follows and keeps what it is told, as `[name, symbol or nothing]`; numbers come later by `received`.
_FOLLOW = """async (symbols) => {
  const { follow } = await import(document.querySelector('script[src*="js/common.js"]').src);
  window.received = [];
  window.stopFollowing = follow(symbols, (name, data) => window.received.push([name, data]));
}"""


def open_streams(harness: WebHarness) -> int:
    """As the metrics count them, which are given to the machine itself alone: no proxy stands between."""
    with urlopen(f"http://127.0.0.1:{harness.port}/metrics", timeout=20) as answer:
        found = re.search(r"^outcry_streams_open(?:\{.*?\})? ([\d.]+)", answer.read().decode(), re.MULTILINE)
    assert found
    return int(float(found[1]))


def wait_for_no_stream(harness: WebHarness) -> None:
    """Wait until the streams of earlier tests have ended: the service notices it a moment after the browser."""
    wait_until(lambda: open_streams(harness) == 0, "streams of earlier tests stay open")


def following(context: BrowserContext, harness: WebHarness, symbols: list[str] | None) -> Page:
    """A tab that follows; it lies on a page that follows nothing by itself."""
    page = context.new_page()
    page.goto(harness.base + "/errors")
    page.evaluate(_FOLLOW, symbols)
    return page


def wait_for(page: Page, what: str, seconds: float = 60) -> None:
    page.wait_for_function(f"() => {what}", timeout=seconds * 1000)


def quotes(page: Page) -> int:
    return page.evaluate("window.received.filter(([name]) => name === 'quote' || name === 'levels').length")


def test_eight_tabs_share_one_stream(opened: Opened, harness: WebHarness) -> None:
    with opened() as tab:
        tab.page.close()
        wait_for_no_stream(harness)
        pages = [following(tab.context, harness, ["ES"] if index % 2 else None) for index in range(8)]
        for page in pages:
            wait_for(page, "window.received.some(([name]) => name === 'snapshot')")
            wait_for(page, "window.received.some(([name, data]) => name === 'quote' && data.symbol === 'ES')")
        assert open_streams(harness) == 1
        assert tab.errors.found() == {}
    wait_until(lambda: open_streams(harness) == 0, "the stream stays open although every tab is gone")


def test_a_follower_hears_of_its_own_symbols_only_and_first_a_snapshot(
    opened: Opened, harness: WebHarness
) -> None:
    with opened() as tab:
        everything = following(tab.context, harness, None)
        wait_for(everything, "window.received.length > 3")
        late = following(tab.context, harness, ["ES"])
        wait_for(late, "window.received.some(([name]) => name === 'quote' || name === 'levels')")
        received = late.evaluate("window.received.map(([name, data]) => [name, data.symbol ?? null])")
        assert received[0] == ["snapshot", None]
        assert {symbol for name, symbol in received if symbol} == {"ES"}
        snapshot = late.evaluate("window.received[0][1]")
        assert [each["symbol"] for each in snapshot["levels"]] == ["ES"]
        assert all(each["symbol"] == "ES" for each in snapshot["alerts"])
        assert snapshot["levels"][0]["developing"]["poc"] > 0


def test_another_tab_leads_when_the_one_that_leads_closes(opened: Opened, harness: WebHarness) -> None:
    with opened() as tab:
        leader = following(tab.context, harness, None)
        wait_for(leader, "window.received.some(([name]) => name === 'snapshot')")
        follower = following(tab.context, harness, None)
        wait_for(follower, "window.received.length > 0")
        leader.close()
        count = quotes(follower)
        wait_for(follower, "window.received.filter(([name]) => name === 'snapshot').length > 1")
        wait_for(
            follower,
            f"window.received.filter(([name]) => name === 'quote' || name === 'levels').length > {count}",
            20,
        )


def test_no_alert_is_missed_or_told_twice_when_the_stream_changes_hands(
    opened: Opened, own_harness: WebHarness
) -> None:
    from tests.web.browsing import window

    browser = opened.args[0]  # type: ignore[attr-defined]
    with window(browser, own_harness) as tab:
        first = following(tab.context, own_harness, None)
        wait_for(first, "window.received.some(([name]) => name === 'snapshot')")
        second = following(tab.context, own_harness, None)
        wait_for(second, "window.received.length > 0")
        seq = own_harness.alert_seq()
        own_harness.forward(1200)
        first.close()
        wait_until(lambda: own_harness.alert_seq() > seq, "the market gives no alert")
        own_harness.forward(600)
        last = own_harness.alert_seq()
        wait_for(second, f"window.received.some(([name, data]) => name === 'alert' && data.seq >= {last})")
        seqs = second.evaluate(
            "window.received.filter(([name]) => name === 'alert').map(([, data]) => data.seq)"
        )
        assert len(seqs) == len(set(seqs))
        assert [each for each in seqs if each <= last] == list(range(seq + 1, last + 1))


_EAVESDROP = """(() => {
  window.overheard = [];
  const Real = window.BroadcastChannel;
  window.BroadcastChannel = class extends Real {
    constructor(name) {
      super(name);
      this.addEventListener("message", ({ data }) => window.overheard.push(data.about));
    }
  };
})()"""


def test_whoever_signs_in_next_is_told_nothing_that_the_one_before_was_told(
    opened: Opened, harness: WebHarness
) -> None:
    with opened() as tab:
        tab.context.add_init_script(_EAVESDROP)
        wait_for_no_stream(harness)

        def sign_in(email: str) -> None:
            value = harness.token(harness.person(email))
            tab.context.add_cookies([{"name": "outcry-local", "value": value, "url": harness.base}])

        sign_in("first@example.com")
        first = following(tab.context, harness, None)
        wait_for(first, "window.received.some(([name]) => name === 'snapshot')")
        same = following(tab.context, harness, None)
        wait_for(same, "window.overheard.includes('memory')")  # this is how a tab is told what another knows
        assert open_streams(harness) == 1

        sign_in("second@example.com")
        second = following(tab.context, harness, None)
        wait_for(second, "window.received.some(([name]) => name === 'quote' || name === 'levels')")
        assert second.evaluate("window.overheard") == []
        assert open_streams(harness) == 2
        lines = {page.evaluate("document.documentElement.dataset.line") for page in (first, same, second)}
        assert len(lines) == 2
        assert "visitor" not in lines


def test_a_tab_without_locks_holds_its_own_stream_while_it_is_seen(
    opened: Opened, harness: WebHarness
) -> None:
    with opened() as tab:
        tab.page.close()
        tab.context.add_init_script("delete Navigator.prototype.locks")
        wait_for_no_stream(harness)
        page = following(tab.context, harness, ["ES"])
        wait_for(page, "window.received.some(([name]) => name === 'snapshot')")
        assert open_streams(harness) == 1
        page.evaluate(
            """() => {
              Object.defineProperty(document, "hidden", { value: true, configurable: true });
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        wait_until(lambda: open_streams(harness) == 0, "a tab nobody sees keeps its stream")
        page.evaluate(
            """() => {
              delete document.hidden;
              document.dispatchEvent(new Event("visibilitychange"));
            }"""
        )
        wait_until(lambda: open_streams(harness) == 1, "a tab that is seen again has no stream")


def test_it_ends_with_the_last_follower(opened: Opened, harness: WebHarness) -> None:
    with opened() as tab:
        tab.page.close()
        wait_for_no_stream(harness)
        page = following(tab.context, harness, ["ES"])
        wait_for(page, "window.received.length > 0")
        page.evaluate("window.stopFollowing()")
        wait_until(lambda: open_streams(harness) == 0, "the stream stays open although nobody follows")

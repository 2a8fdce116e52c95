"""A new operator's first visit in a real browser, from the one-time token to signing out."""

import time
from collections.abc import Callable

from tests.web.browsing import Window
from tests.web.harness import WebHarness
from tests.web.person import Person


def test_from_the_one_time_token_to_signing_out(own_harness: WebHarness, tabs: Callable[..., Window]) -> None:
    tab = tabs(own_harness)
    person = Person(tab)
    person.set_up()

    key = person.create_key("notebook")
    status, levels = person.ask(key)
    assert status == 200
    assert (levels["symbol"], levels["live"], levels["dataSource"]) == ("ES", True, "shared")
    assert person.subscribe("https://hooks.example.com/outcry/1", "desk").startswith("whsec_")
    tab.go("/account/webhooks")
    assert "hooks.example.com" in tab.page.locator("main").inner_text()
    assert "/outcry/1" not in tab.page.content()

    watch_alert_arrive(own_harness, person)

    person.revoke_key("notebook")
    revoked = time.monotonic()
    while (refused := person.ask(key))[0] == 200:
        assert time.monotonic() - revoked < 10, "a revoked key still answers"
        time.sleep(0.05)
    assert (refused[0], refused[1]["code"], refused[1]["reason"]) == (401, "unauthorized", "revoked")

    person.sign_out()
    tab.go("/account")
    assert tab.page.url.startswith(f"{own_harness.base}/sign-in")
    assert tab.errors.found(tab.page) == {}
    assert own_harness.faults() == []


def watch_alert_arrive(harness: WebHarness, person: Person) -> None:
    """On the list and on the symbol's page, without either being loaded again."""
    lists, symbol = person.tab.another(), person.tab.another()
    lists.go("/alerts")
    symbol.go("/s/ES")
    for each in (lists, symbol):
        each.page.evaluate("window.__notLoadedAgain = true")
    alert = next_alert(harness, "ES")
    row = lists.page.locator(f'#alerts tr[data-seq="{alert}"]')
    pill = lists.page.locator("#pill")
    for _ in range(200):  # in its place at once, or counted in the pill while the list is scrolled
        if pill.is_visible():
            pill.click()
        if row.count():
            break
        lists.page.wait_for_timeout(50)
    assert row.count() == 1
    symbol.page.locator(f'.rail-alerts li[data-seq="{alert}"]').wait_for()
    for each in (lists, symbol):
        assert each.page.evaluate("window.__notLoadedAgain") is True
        assert each.errors.found(each.page) == {}


def next_alert(harness: WebHarness, root: str) -> int:
    """Let the market go on until it sets off an alert of the product; return its number."""
    known = harness.installation.registry.alert_seq
    for _ in range(120):
        harness.forward(120)
        time.sleep(0.4)
        rows, _ = harness.installation.registry.alerts_after(known)
        for row in rows:
            if row.symbol == root:
                return row.seq
    raise AssertionError(f"no alert of {root} in four hours")

"""Every action works without JavaScript: forms are forms, links are links."""

import re
from collections.abc import Callable

from tests.web.browsing import Opened, Window
from tests.web.harness import PASSWORD, WebHarness
from tests.web.person import Person


def test_account_and_keys(own_harness: WebHarness, tabs: Callable[..., Window]) -> None:
    tab = tabs(own_harness, scripts=False)
    person = Person(tab)
    person.set_up()
    person.sign_out()
    person.sign_in()

    key = person.create_key("without scripts")
    assert person.ask(key)[0] == 200
    person.subscribe("https://hooks.example.com/without/scripts", "plain")
    person.press("Pause")
    tab.page.get_by_role("button", name="Resume").wait_for()
    person.revoke_key("without scripts")
    assert person.ask(key)[0] == 401

    tab.go("/account")
    Person(tab).field("Time zone").fill("Europe/Berlin")
    tab.page.locator("main").get_by_role("button", name=re.compile("Save")).click()
    tab.go("/account")
    assert Person(tab).field("Time zone").input_value() == "Europe/Berlin"
    assert tab.errors.found() == {}


def test_a_refused_form_says_so_and_keeps_what_was_typed(
    own_harness: WebHarness, tabs: Callable[..., Window]
) -> None:
    tab = tabs(own_harness, scripts=False)
    tab.errors.expects |= {422}
    person = Person(tab)
    tab.go("/set-up")
    Person(tab).field("One-time token").fill("not the token")
    Person(tab).field("Email address").fill("ann@example.com")
    Person(tab).field("New password").fill(PASSWORD)
    person.press("Set up and sign in")
    summary = tab.page.get_by_role("alert")
    summary.wait_for()
    assert Person(tab).field("Email address").input_value() == "ann@example.com"
    assert PASSWORD not in tab.page.content()
    field = tab.page.locator("[aria-invalid=true]").first
    described = field.get_attribute("aria-describedby") or ""
    assert any(tab.page.locator(f"#{name}.fault").count() for name in described.split())
    href = summary.get_by_role("link").first.get_attribute("href")
    assert href == f"#{field.get_attribute('id')}"


def test_theme_and_language(harness: WebHarness, opened: Opened) -> None:
    with opened(scripts=False) as tab:
        tab.go("/errors")
        tab.page.locator("details.menu summary").click()
        tab.page.get_by_role("button", name="Light").click()
        assert tab.page.locator("html").get_attribute("data-theme") == "light"
        assert tab.page.url == f"{harness.base}/errors"
        tab.page.locator("details.menu summary").click()
        tab.page.get_by_role("button", name="Deutsch").click()
        assert tab.page.locator("html").get_attribute("lang") == "de"
        assert tab.page.get_by_role("heading", level=1).inner_text() == "Fehlercodes"


def test_levels_symbol_and_alerts_say_everything(harness: WebHarness, opened: Opened) -> None:
    with opened(scripts=False) as tab:
        tab.go("/?units=points&sort=symbol")
        main = tab.page.locator("main")
        for root in ("ES", "NQ", "ZN"):
            assert main.get_by_role("link", name=re.compile(rf"^{root}\b")).first.is_visible()
        tab.go("/s/ES?view=table")
        assert tab.page.locator("main table").first.is_visible()
        tab.go("/s/ES")
        assert tab.page.locator("main .symbol-main table").first.is_visible()  # where the chart would be
        tab.go("/alerts")
        Person(tab).field("Severity").select_option("critical")
        tab.page.get_by_role("button", name="Filter").click()
        assert "severity=critical" in tab.page.url
        assert tab.errors.found() == {}


def test_a_broker_is_connected_checked_and_disconnected(
    own_harness: WebHarness, tabs: Callable[..., Window]
) -> None:
    tab = tabs(own_harness, scripts=False)
    person, page = Person(tab), tab.page
    person.set_up()
    tab.go("/account/brokers")
    page.get_by_role("link", name="Connect Databento").click()
    person.field("API key").fill("db-0a1B2c3D4e5F6g7H8i9J0k1L2m3N4")
    page.locator('input[name="roots"][value="ES"]').check()
    person.field("Name").fill("Plain")
    person.press("Connect")
    person.heading("Plain")
    page.get_by_role("button", name="Check").click()
    while page.get_by_text("Results appear here within 30 seconds").count():
        page.get_by_role("link", name="Refresh").click()
    page.get_by_text("1 problem found").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("link", name="Disconnect").click()
    person.press("Disconnect")
    page.get_by_text("Disconnected.").wait_for()
    assert tab.errors.found() == {}

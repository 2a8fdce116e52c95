"""Sign-in pages after a form was sent: refused, incomplete, or with codes shown once.

In every language and theme they have no accessibility or policy errors and fit the window.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from playwright.sync_api import Browser
from tests.web.browsing import NARROW, USUAL, WIDE, Window, window
from tests.web.harness import PASSWORD, WebHarness
from tests.web.sign_in_harness import ANN, SignInHarness, sign_in_service

LOOKS = [("en", "dark"), ("de", "light")]


@pytest.fixture(scope="module", params=LOOKS, ids=[language for language, _ in LOOKS])
def look(request: pytest.FixtureRequest) -> tuple[str, str]:
    return cast("tuple[str, str]", request.param)


@pytest.fixture
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignInHarness]:
    with sign_in_service(
        tmp_path_factory.mktemp("looks"), mail=True, public_url="http://localhost"
    ) as running:
        yield running


@pytest.fixture
def step(fresh: SignInHarness) -> SignInHarness:
    fresh.person()
    return fresh


@pytest.fixture
def opens(browser: Browser, look: tuple[str, str]) -> Iterator[Callable[[SignInHarness], Window]]:
    opened: list[Any] = []

    def open_tab(step: SignInHarness) -> Window:
        language, theme = look
        opened.append(window(browser, cast("WebHarness", step), theme=theme, language=language))
        tab = opened[-1].__enter__()
        tab.errors.expects |= {422, 429}
        return tab

    yield open_tab
    for each in opened:
        each.__exit__(None, None, None)


def fill(tab: Window, entries: dict[str, str]) -> None:
    """Fill in a form and send it, whatever the browser thinks of the entries."""
    form = tab.page.locator("main form[method=post]").first
    form.evaluate("form => { form.noValidate = true; }")
    for name, text in entries.items():
        form.locator(f"[name={name}]").fill(text)
    with tab.page.expect_navigation():
        form.locator("button[type=submit]").click()


def looks_well(tab: Window, *, refused: bool = False) -> None:
    if refused:
        assert tab.page.evaluate("document.activeElement.id") == "errors", "the summary has no focus"
        for link in tab.page.locator("#errors a").all():
            entry = tab.page.locator(link.get_attribute("href") or "")
            assert entry.get_attribute("aria-invalid") == "true"
            described = (entry.get_attribute("aria-describedby") or "").split()
            assert tab.page.locator(f"#{described[-1]}").inner_text()
    assert tab.page.locator("html").get_attribute("lang") == tab.page.evaluate("navigator.language")
    assert tab.violations() == []
    for width in (NARROW, WIDE, USUAL):
        assert tab.overflow(width) == []
    assert tab.errors.found(tab.page) == {}


def test_a_refused_set_up(fresh: SignInHarness, opens: Callable[[SignInHarness], Window]) -> None:
    tab = opens(fresh)
    tab.go("/set-up")
    fill(tab, {"token": "x" * 200, "email": "<b>@" + "x" * 240, "password": "short"})
    looks_well(tab, refused=True)


def test_signing_in_step_by_step(step: SignInHarness, opens: Callable[[SignInHarness], Window]) -> None:
    tab = opens(step)
    tab.go("/sign-in")
    fill(tab, {"email": "x" * 250, "password": "wrong"})
    looks_well(tab, refused=True)
    for path in ("/sign-in/link", "/reset"):
        tab.go(path)
        fill(tab, {"email": "no address"})
        looks_well(tab, refused=True)
        fill(tab, {"email": ANN})
        looks_well(tab)
    for path in ("/link?token=x", "/email?token=x"):
        tab.go(path)
        fill(tab, {})
        looks_well(tab, refused=True)
    step.minute()
    tab.go("/sign-in")
    fill(tab, {"email": ANN, "password": PASSWORD})
    assert tab.page.url == f"{step.base}/"


def test_the_authenticator_step_by_step(
    step: SignInHarness, opens: Callable[[SignInHarness], Window]
) -> None:
    tab = opens(step)
    tab.go("/sign-in?next=/account/security/authenticator")
    fill(tab, {"email": ANN, "password": PASSWORD})
    fill(tab, {"code": "000000"})
    looks_well(tab, refused=True)
    secret = tab.page.locator("input[name=secret]").input_value()
    fill(tab, {"code": step.code(secret)})
    looks_well(tab)
    step.clock.forward(11 * 60)
    tab.go("/account/security/authenticator")
    fill(tab, {"password": "wrong", "code": "000000"})
    looks_well(tab, refused=True)
    tab.context.clear_cookies(name="outcry-local")
    tab.go("/sign-in")
    fill(tab, {"email": ANN, "password": PASSWORD})
    looks_well(tab)
    fill(tab, {"code": "000000"})
    looks_well(tab, refused=True)


def test_a_refused_password(step: SignInHarness, opens: Callable[[SignInHarness], Window]) -> None:
    tab = opens(step)
    tab.go("/sign-in?next=/account/security/password")
    fill(tab, {"email": ANN, "password": PASSWORD})
    fill(tab, {"password": "outcry outcry outcry"})
    looks_well(tab, refused=True)
    tab.go("/account/security/email")
    fill(tab, {"email": "no address"})
    looks_well(tab, refused=True)

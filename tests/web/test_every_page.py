"""Every page in every theme, language and state has no accessibility, console or policy errors and fits its window.

Each page is loaded once per language, in one theme, and checked in both: themes change colours only, so the second
check repeats the colour rules alone. If a visitor gets the same content as the operator, only what is around it is
checked again by axe.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Literal

import pytest
from tests.web.browsing import NARROW, USUAL, WIDE, Opened, Window
from tests.web.harness import SHOWS, UNTRANSLATED, WebHarness
from tests.web.sample_account import SampleAccount, addresses, furnish, get_pages

Theme = Literal["dark", "light"]
LOOKS: list[tuple[str, Theme]] = [("en", "dark"), ("de", "light")]
OTHER: dict[Theme, Theme] = {"dark": "light", "light": "dark"}
#: Statuses a page may answer with when it is looked at: there, nothing by that name, nothing licensed, no longer.
FINE = (200, 404, 409, 410)


@pytest.fixture(scope="module")
def sample_account(harness: WebHarness) -> Callable[[Theme, str], SampleAccount]:
    return cache(partial(furnish, harness))


def is_page(path: str) -> bool:
    """Whether it is a whole page, not a part of one that a script fetches."""
    return not path.endswith(("/rail", "/rows"))


@pytest.mark.parametrize(("language", "theme"), LOOKS, ids=[language for language, _ in LOOKS])
@pytest.mark.parametrize("path", [path for path in get_pages() if is_page(path)])
def test_a_page(
    harness: WebHarness, opened: Opened, sample_account: Callable[[Theme, str], SampleAccount], path: str, theme: Theme,
    language: str,
) -> None:  # fmt: skip
    """As an operator sees it who has one of everything, and as a visitor does."""
    account = sample_account(theme, language)
    asked = addresses(path, account)
    assert not [address for address in asked if "{" in address], (
        f"tests/web/sample_account.py has no address for {path}"
    )
    faults: list[str] = []
    before = len(harness.faults())
    checked: set[str] = set()
    for token, places in ((account.token, asked), ("", asked[:1])):
        here = [address for address in places if is_shown(harness, address, token)]
        if here:
            with opened(theme=theme, language=language, token=token) as tab:
                for address in here:
                    faults += [
                        f"{address}: {each}" for each in faults_of(tab, address, theme, language, checked)
                    ]
    assert not faults, "\n".join(faults)
    assert harness.faults()[before:] == []
    assert set() == UNTRANSLATED


def is_shown(harness: WebHarness, address: str, token: str) -> bool:
    """Whether a page is there: what leads elsewhere is looked at there, and what is no page has tests of its own."""
    visitor = harness.visitor()
    visitor.cookies["outcry-local"] = token
    reply = visitor.get(address)
    return reply.status != 303 and reply.headers["content-type"].startswith("text/html")


def faults_of(tab: Window, address: str, theme: Theme, language: str, checked: set[str]) -> list[str]:
    """Open an address and return what is wrong with it. `checked`: the contents of pages that axe has checked."""
    tab.errors.expects |= set(FINE)
    status = tab.go(address, expect=range(200, 600))
    problems = [f"status {status}"] if status not in FINE else []
    root = tab.page.locator("html")
    look = (root.get_attribute("lang"), root.get_attribute("data-theme"))
    if look != (language, theme):
        problems.append(f"language and theme are {look}")
    if tab.page.locator("h1").count() != 1:
        problems.append(f"{tab.page.locator('h1').count()} h1")
    title = tab.page.title()
    if not title.endswith(" · Outcry") or title.startswith(" ·"):
        problems.append(f"title {title!r}")
    again = (content := tab.content()) in checked
    checked.add(content)
    problems += tab.violations(outside_main=again)
    tab.wear(OTHER[theme])
    colours = tab.violations(only=("color-contrast",), outside_main=again)
    problems += [f"{OTHER[theme]}: {found}" for found in colours]
    for width in (NARROW, WIDE, USUAL):
        problems += [f"at {width} px: {found}" for found in tab.overflow(width)]
    return problems + [f"{kind}: {found}" for kind, found in tab.errors.found(tab.page).items()]


def test_every_state_is_shown(harness: WebHarness) -> None:
    """The symbols of the service stand as the tests above mean to see them."""
    reply = harness.visitor().get("/page/symbols").text
    for root, code in SHOWS.values():
        assert f'"symbol":"{root}"' in reply
        assert f'"state":"{code}"' in reply


def test_the_store_away_is_a_page_too(own_harness: WebHarness, tabs: Callable[..., Window]) -> None:
    """Pages that ask the store say that it does not answer; those that need nothing of it are there."""
    tab = tabs(own_harness)
    with own_harness.store_away():
        for path, expected in (("/alerts?day=2026-03-03", 502), ("/broker-guide", 200), ("/docs", 200)):
            tab.go(path, expect=(expected,))
            assert tab.page.locator("h1").count() == 1
            assert (
                tab.violations(outside_main=path == "/docs") == []
            )  # the test of all pages checks its content
    assert tab.errors.found(tab.page) == {}
    tab.go("/alerts?day=2026-03-03")


def test_a_service_with_nothing_in_it(bare: WebHarness, tabs: Callable[..., Window]) -> None:
    """After the first start every page leads to the set-up, or shows no data."""
    tab = tabs(bare)
    for path in get_pages():
        if "{" not in path and is_page(path) and is_shown(bare, path, ""):
            tab.errors.expects |= set(FINE)
            status = tab.go(path, expect=range(200, 600))
            assert status < 500, path
            assert tab.page.locator("h1").count() == 1, path
    assert tab.errors.found(tab.page) == {}
    tab.go("/account")
    assert tab.page.url.startswith(f"{bare.base}/set-up")

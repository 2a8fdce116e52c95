"""Chromium for the tests: tabs that record errors of a page, and the accessibility checks of axe."""

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request
from tests.timeouts import PATIENCE_S, wait_until
from tests.web.harness import WebHarness

WIDE, USUAL, NARROW = 2560, 1400, 360
HEIGHT = 1000
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OVERHEARD = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.__violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
#: Elements that reach out of the page to the right, for whoever has to find them. What lies in a region that scrolls by
#: itself is none of them.
_OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = (node) => node && node !== document.documentElement &&
    (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
  return [...document.querySelectorAll("body *")]
    .filter((node) => node.getBoundingClientRect().right > width + 0.5 && !scrolls(node.parentElement))
    .map((node) => node.tagName + "." + node.className + " " + Math.round(node.getBoundingClientRect().right))
    .concat([`page ${document.documentElement.scrollWidth} of ${width}`]).slice(-6);
}"""


def chromium_path() -> str:
    """Where Chromium is; raises if there is none: a browser test that is left out proves nothing."""
    for name in _NAMES:
        if path := shutil.which(name):
            return path
    raise AssertionError("no Chromium: `make browser` installs it (apt-get install chromium)")


def launch(playwright: Playwright) -> Browser:
    """Start it. In a container there is no other sandbox to be had."""
    return playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])


@dataclass
class PageErrors:
    """Hears what pages of one context do that they should not."""

    base: str
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    #: Responses with a status of 400 or more are reported on the console; where a test means them they are no fault.
    expects: set[int] = field(default_factory=set)

    def listen(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._on_request)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        if any(f"the server responded with a status of {status}" in message.text for status in self.expects):
            return
        self.console.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")

    def _on_request(self, request: Request) -> None:
        asked, ours = urlsplit(request.url), urlsplit(self.base)
        if asked.scheme in {"data", "blob", "about"}:
            return
        if (asked.scheme, asked.netloc) != (ours.scheme, ours.netloc):
            self.foreign.append(request.url)

    def found(self, page: Page | None = None) -> dict[str, list[str]]:
        """Everything amiss so far, by kind; empty where nothing is."""
        violations = page.evaluate("window.__violations ?? []") if page else []
        kinds = {
            "console": self.console,
            "errors": self.errors,
            "foreign": self.foreign,
            "policy": violations,
        }
        return {kind: list(found) for kind, found in kinds.items() if found}


@dataclass
class Window:
    """One tab, its context, and the errors it records."""

    page: Page
    context: BrowserContext
    errors: PageErrors
    harness: WebHarness

    def another(self) -> "Window":
        """A further tab of the same browser."""
        return Window(self.context.new_page(), self.context, self.errors, self.harness)

    def go(self, path: str, *, expect: Sequence[int] = (200,)) -> int:
        """Open an address of the service; return the status, which has to be one of those expected."""
        self.errors.expects |= {status for status in expect if status >= 400}
        response = self.page.goto(self.harness.base + path)
        assert response is not None
        assert response.status in expect, f"{path}: {response.status} {self.harness.faults()[-1:]}"
        return response.status

    def violations(self, only: Sequence[str] = (), *, outside_main: bool = False) -> list[str]:
        """Return what axe finds by all its rules, or by these: each with the element, and how to correct it.

        outside_main: leave out the content of `main`, for pages whose content was checked before."""
        options = {"runOnly": {"type": "rule", "values": list(only)}} if only else {}
        context = {"exclude": [["main"]]} if outside_main else None
        found = (
            Axe()
            .run(self.page, context=context, options={"resultTypes": ["violations"], **options})
            .response["violations"]
        )
        return [
            f"{rule['id']} ({rule['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
            for rule in found for node in rule["nodes"][:3]
        ]  # fmt: skip

    def content(self) -> str:
        """Return the HTML of `main` without form tokens, which differ between browsers."""
        return re.sub(r'name="csrf" value="[0-9a-f]*"', "", self.page.locator("main").first.inner_html())

    def wear(self, theme: str) -> None:
        """Put the page in the other theme, and wait until it is drawn: colours change in a frame, not at once."""
        self.page.evaluate(
            """async (theme) => {
              document.documentElement.dataset.theme = theme;
              for (let n = 0; n < 3; n += 1) await new Promise(requestAnimationFrame);
              await Promise.all(document.getAnimations().map((each) => each.finished.catch(() => null)));
            }""",
            theme,
        )

    def overflow(self, width: int) -> list[str]:
        """What makes the page wider than a window of this width."""
        self.page.set_viewport_size({"width": width, "height": HEIGHT})
        return self.page.evaluate(_OVERFLOWING)


#: Opens a tab on a service that is known: `with opened(theme="light") as tab`.
Opened = Callable[..., AbstractContextManager[Window]]


@contextmanager
def window(
    browser: Browser, harness: WebHarness, *, theme: str = "dark", language: str = "en", token: str = "",
    scripts: bool = True, width: int = USUAL, **options: Any,
) -> Iterator[Window]:  # fmt: skip
    """A tab in a context of its own. `token`: of a browser signed in."""
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, locale=language, java_script_enabled=scripts,
        reduced_motion="reduce", **options,
    )  # fmt: skip
    cookies = {"outcry-theme": theme, "outcry-language": language} | (
        {"outcry-local": token} if token else {}
    )
    context.add_cookies(
        [{"name": name, "value": value, "url": harness.base} for name, value in cookies.items()]
    )  # type: ignore[list-item]
    if scripts:
        context.add_init_script(_OVERHEARD)
    errors = PageErrors(harness.base)
    context.on("page", errors.listen)
    context.set_default_timeout(60_000)
    page = context.new_page()
    try:
        yield Window(page, context, errors, harness)
    finally:
        context.close()


def wait_on_page(page: Page, met: Callable[[], object], what: str, limit_s: float = PATIENCE_S) -> None:
    """Wait until a condition is met. Playwright handles the requests of a page only during its own calls."""
    wait_until(met, what, limit_s, pause=lambda seconds: page.wait_for_timeout(seconds * 1000), poll_s=0.1)

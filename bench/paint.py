"""First paint of the demo's pages in a browser without a cache, and the number of event streams of eight tabs.

A page is opened five times, each in a new context (no cache, no connection). The figure is the median of the browser's
first contentful paint. The market runs meanwhile, as in production.
"""

import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bench.figures import Figure, at_most
from bench.measurement import Size, Unavailable, installed_command

from outcry.cli.whereabouts import running

TARGET_MS = 1000
START_S = 120.0
#: Written once the service answers requests.
SETUP_TOKEN = "setup-token"
TABS = 8
PASSWORD = "quiet lamps over Ohio 9"
PUBLIC = (
    "/",
    "/s/ES",
    "/s/ES?view=table",
    "/alerts",
    "/broker-guide",
    "/docs",
    "/errors/unauthorized",
    "/sign-in",
)
OWN = ("/account", "/account/keys", "/account/webhooks", "/account/brokers", "/account/security", "/account/log",
       "/operator/users", "/operator/data", "/operator/feeds")  # fmt: skip
_PAINTED = """() => new Promise((done) => {
  const tell = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
  if (tell()) done(tell());
  else new PerformanceObserver((_, observer) => { if (tell()) { observer.disconnect(); done(tell()); } })
    .observe({ type: "paint", buffered: true });
})"""


def chromium() -> str:
    """Return the path of Chromium. Raises `Unavailable`."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise Unavailable("no Chromium: make browser")


@contextmanager
def demonstration() -> Generator[tuple[str, Path]]:
    """Run the installed command with its simulated market; yield its URL and its folder."""
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryFile("w+") as log:
        folder, until = Path(name), time.monotonic() + START_S
        service = subprocess.Popen(
            [installed_command(), "serve", "--demo", "--port", "0", "--data", str(folder)],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while not ((base := running(folder)) and (folder / SETUP_TOKEN).exists()):
                if service.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise Unavailable(f"outcry serve --demo did not start: {log.read()[-300:]}")
                time.sleep(0.05)
            yield base, folder
        finally:
            service.terminate()
            service.wait(30)


@contextmanager
def browsing() -> Generator[Any]:
    """Run Chromium. Raises `Unavailable`."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - of the development group
    except ModuleNotFoundError as problem:
        raise Unavailable("no playwright: make install") from problem
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


def signed_in(browser: Any, base: str, folder: Path) -> Any:
    """Set the service up in the browser and return the cookies of the signed-in operator."""
    token = (folder / SETUP_TOKEN).read_text().strip()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{base}/set-up")
    page.locator("#f-token").fill(token)
    page.locator("#f-email").fill("ann@example.com")
    page.locator("#f-password").fill(PASSWORD)
    page.locator("main form button[type=submit]").click()
    page.locator("form[action='/sign-out']").wait_for()
    state = context.storage_state()
    context.close()
    return state


def more(size: Size) -> Iterator[Figure]:
    """Measure first paints, then the tabs."""
    rounds, tabs = size.of(5, 1, 1), size.of(TABS, TABS, 2)
    with browsing() as browser, demonstration() as (base, folder):
        state = signed_in(browser, base, folder)
        for path in size.of(PUBLIC + OWN, PUBLIC + OWN, (PUBLIC[0], OWN[0])):
            times = [
                first_paint_ms(browser, base + path, state if path in OWN else None) for _ in range(rounds)
            ]
            spread = f"{min(times):.0f} to {max(times):.0f}"
            yield Figure(
                f"first paint of {path}", statistics.median(times), "ms", spread, goal=at_most(TARGET_MS)
            )
        open_now = streams_of_tabs(browser, base, tabs)
        yield Figure(f"event streams of {tabs} tabs", open_now, "streams", goal=at_most(1))


def first_paint_ms(browser: Any, address: str, state: Any) -> float:
    """Return the first contentful paint of one page without caches (ms)."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, storage_state=state)
    page = context.new_page()
    page.goto(address)
    painted = page.evaluate(_PAINTED)
    context.close()
    return float(painted)


def streams_of_tabs(browser: Any, base: str, tabs: int) -> float:
    """Return how many streams the service has open once all tabs have loaded."""
    context = browser.new_context()
    for number in range(tabs):
        context.new_page().goto(base + ("/", "/s/ES", "/s/NQ", "/alerts")[number % 4])
    time.sleep(3)
    with urlopen(f"{base.replace('localhost', '127.0.0.1')}/metrics", timeout=10) as answer:
        counted = re.search(r"^outcry_streams_open (\S+)", answer.read().decode(), re.MULTILINE)
    context.close()
    if counted is None:
        raise Unavailable("the service does not count its streams")
    return float(counted[1])

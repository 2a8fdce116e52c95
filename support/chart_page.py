"""A page with nothing but the chart: the real files, the real policy, and an answer made in the test."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Browser, BrowserType, ConsoleMessage, Page, sync_playwright

from outcry.web.language import LANGUAGES, Words
from outcry.web.page_context import POLICY
from outcry.web.static import StaticFiles
from outcry.web.symbol.chart_view import ROWS, view_of
from outcry.web.template_engine import Templates

PAGE = """<!doctype html>
<html lang="{{ language }}" dir="{{ direction }}" data-theme="{{ theme }}">
<head><meta charset="utf-8"><title>Chart</title>
{% for name in ("tokens", "base", "components", "forms", "chart") %}
<link rel="stylesheet" href="{{ static('css/' + name + '.css') }}">
{% endfor %}
</head>
<body><main>{% include "symbol/chart.html" %}<p id="said" aria-live="polite"></p></main>
<script type="application/json" id="answer">{{ answer | tojson }}</script>
<script type="module" src="/stage.js"></script>
</body></html>"""

SCRIPT = """
import { mount } from "%(chart)s";
import { bind, viewIn, write } from "%(controls)s";
const read = (id) => JSON.parse(document.getElementById(id).textContent);
const form = document.getElementById("chart-tools");
const chart = mount(document.getElementById("chart"), read("answer"), viewIn(form), read("chart-words"), {
  view: (view) => write(form, view),
  say: (text) => { document.getElementById("said").textContent = text; },
});
bind(form, (view) => chart.set(view));
window.chart = chart;
"""


class ChartServer:
    """Serve the chart on a page of its own. The next page shows `answer`."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self.year = 2026
        self.static = StaticFiles()
        self.templates = Templates(self.static, languages=LANGUAGES)
        self.base = ""

    def page(self, query: str) -> str:
        """The page of an address: the view as on the symbol's page, and `lang`, `dir`, `theme`."""
        fields = parse_qs(query)
        single = {name: values[-1] for name, values in fields.items()}
        words = Words(single.get("lang", "en"))
        return self.templates._environment(words).from_string(PAGE).render(  # pyright: ignore[reportPrivateUsage]
            answer=self.answer | {"tick_size": self.answer["tickSize"]}, language=words.language,
            direction=single.get("dir", "ltr"), theme=single.get("theme", "dark"), chart_kept=(), chart_year=self.year,
            chart_view=view_of(single, fields.get("show", [])), chart_action="/", chart_table="/?view=table",
            chart_rows=[(ticks, f"{ticks * self.answer['tickSize']:g}") for ticks in ROWS],
            request=SimpleNamespace(words=words),
        )  # fmt: skip

    def reply(self, path: str) -> tuple[str, bytes]:
        """Media type and body of an address."""
        split = urlsplit(path)
        if split.path == "/":
            return "text/html; charset=utf-8", self.page(split.query).encode()
        if split.path == "/stage.js":
            names = {name: self.static.url(f"js/chart/{name}.js") for name in ("chart", "controls")}
            return "text/javascript", (SCRIPT % names).encode()
        file = self.static._files.get(split.path.partition(f"{self.static.version}/")[2])  # pyright: ignore[reportPrivateUsage]
        return (file.media_type, file.body) if file else ("", b"")


@contextmanager
def serving() -> Generator[ChartServer]:
    """A stage on a free port."""
    stage = ChartServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = stage.reply(self.path)
            self.send_response(200 if kind else 404)
            self.send_header("content-type", kind or "text/plain")
            self.send_header("content-security-policy", POLICY)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by the base class
            """Log nothing: the test reports what failed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stage.base = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def browsing(*, bench: bool = False, **options: Any) -> Generator[Page]:
    """A page of a browser; what it complains of is an error when it ends. `bench`: neither that nor `describe()`."""
    with sync_playwright() as playwright:
        browser = _launch(playwright.chromium)
        try:
            with _opened(browser, bench=bench, **options) as page:
                yield page
        finally:
            browser.close()


@contextmanager
def browsing_beside(page: Page, **options: Any) -> Generator[Page]:
    """A page of another browser with other options, while one is open."""
    first = page.context.browser
    assert first is not None
    browser = _launch(first.browser_type, options.pop("ratio", 1))
    try:
        with _opened(browser, **options) as beside:
            yield beside
    finally:
        browser.close()


def _launch(kind: BrowserType, ratio: float = 1) -> Browser:
    """A browser whose screen has so many pixels a pixel: an emulated ratio does not reach a canvas."""
    flags = ["--no-sandbox", f"--force-device-scale-factor={ratio}"]
    return kind.launch(executable_path="/usr/bin/chromium", args=flags)


@contextmanager
def _opened(
    browser: Browser,
    *,
    width: int = 1400,
    height: int = 840,
    ratio: float = 1,
    bench: bool = False,
    **options: Any,
) -> Generator[Page]:
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: _note(message, faults))
    page.add_init_script(
        f"window.__describe = {'false' if bench else 'true'}; window.violations = [];"
        "document.addEventListener('securitypolicyviolation',"
        " (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI));"
    )
    try:
        yield page
        if options.get("java_script_enabled", True):
            faults += page.evaluate("window.violations")
        assert bench or not faults, faults
    finally:
        context.close()


def _note(message: ConsoleMessage, faults: list[str]) -> None:
    if message.type in {"error", "warning"} and "favicon" not in (message.location.get("url") or ""):
        faults.append(message.text)


def shown(page: Page, stage: ChartServer, query: str = "") -> dict[str, Any]:
    """Open the chart and return what it drew."""
    page.goto(f"{stage.base}/?{query}")
    return drawn(page)


#: The same picture for some frames, and no part of it a makeshift.
SETTLED = """async () => {
  await document.fonts.ready;
  let last = null, still = 0;
  for (let frame = 0; frame < 900; frame += 1) {
    await new Promise(requestAnimationFrame);
    const now = window.__profile?.describe() ?? null;
    still = now?.fresh && now === last ? still + 1 : 0;
    if (still >= 3) return now;
    last = now;
  }
  throw new Error("the chart does not come to rest");
}"""


def drawn(page: Page) -> dict[str, Any]:
    """What the chart has drawn, once it has come to rest."""
    return json.loads(page.evaluate(f"async () => JSON.stringify(await ({SETTLED})())"))


def pressed(page: Page, *keys: str) -> dict[str, Any]:
    """Press keys on the chart; return what it has drawn then."""
    if not page.evaluate("document.activeElement.closest('form')"):
        page.locator("#chart").focus()
    for key in keys:
        page.keyboard.press(key)
    return drawn(page)

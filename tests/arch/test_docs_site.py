"""The documentation site builds without a warning, answers questions within two clicks, and asks no other host."""

import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest
from playwright.sync_api import Request, sync_playwright
from tests.arch.decisions_page import page as decisions_page
from tests.arch.docs_blocks import DOCS, ROOT
from tests.arch.llms_page import SOURCES, pages, site
from tests.arch.llms_page import page as llms_page
from tests.web.browsing import launch
from tools.docs_pictures import pictures
from tools.state_tables import diagrams

ZENSICAL = Path(sys.executable).with_name("zensical")
#: The questions of a reader, and a text of the page that answers each.
QUESTIONS = {
    "How do I import my data?": "stores the trades of recorded files",
    "How do I connect my broker?": "Under Add a connection choose your broker",
    "What does dataSource mean?": "says whose data an answer was computed from",
    "Why do my numbers differ?": "Two programs that show another point of control",
    "How do I verify a signature?": "HMAC-SHA256 over id.timestamp.body",
    "How do I upgrade?": "An upgrade replaces the program and migrates the database at its next start",
    "What is a poor high?": "A poor high is a session high without a clear rejection",
}
CLICKS = 2


class PageParser(HTMLParser):
    """Collects the text and links of a page's article, and the URLs of all assets of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.links, self.assets = "", list[str](), list[str]()
        self._is_article = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        self._is_article = self._is_article or tag == "article"
        if tag == "a" and self._is_article:
            self.links.append(named.get("href", ""))
        if tag in {"script", "img", "iframe", "source", "video", "audio", "embed"}:
            self.assets.append(named.get("src", ""))
        if tag == "link" and named.get("rel") not in {"canonical", "prev", "next", "alternate"}:
            self.assets.append(named.get("href", ""))

    def handle_endtag(self, tag: str) -> None:
        self._is_article = self._is_article and tag != "article"

    def handle_data(self, data: str) -> None:
        if self._is_article:
            self.text += data


def read(path: Path) -> PageParser:
    parser = PageParser()
    parser.feed(path.read_text())
    return parser


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    call = [ZENSICAL, "build", "--strict"]
    return subprocess.run(call, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def copied(folder: Path) -> Path:
    """Copy what the site is built from, so that a test may change it."""
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(ROOT / "zensical.toml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site in a temporary folder, and return the folder of the pages."""
    folder = copied(tmp_path_factory.mktemp("site"))
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / site()["site_dir"]


@pytest.mark.parametrize("link", ["no-such-page.md", "guides/importing.md#no-such-heading"])
def test_a_broken_link_stops_the_build(tmp_path: Path, link: str) -> None:
    index = copied(tmp_path) / "docs" / "index.md"
    index.write_text(f"{index.read_text()}\n[broken]({link})\n")
    done = build(tmp_path)
    assert done.returncode != 0
    assert "index.md" in done.stdout + done.stderr


def test_every_page_is_in_the_navigation() -> None:
    named = [path for _, path in pages(site()["nav"])]
    files = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md") if not re.match(r"\d{4}-", path.name)]
    assert sorted(named) == sorted(files)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_within_two_clicks(built: Path, question: str) -> None:
    """Follow only the links in the text of pages: the navigation reaches every page with one click."""
    reached, seen = {built / "index.html"}, set[Path]()
    for _ in range(CLICKS):
        links = {
            (page.parent / urldefrag(link).url).resolve()
            for page in reached
            for link in read(page).links
            if link and not urlsplit(link).scheme and not link.startswith("#")
        }
        reached = {page for page in links if page.suffix == ".html"}
        seen |= reached
    answers = [page for page in seen if QUESTIONS[question] in " ".join(read(page).text.split())]
    assert answers, question


def test_no_page_names_an_asset_of_another_host(built: Path) -> None:
    files = sorted(built.rglob("*.html"))
    assert len(files) > 50
    foreign = [(path.name, asset) for path in files for asset in read(path).assets if urlsplit(asset).netloc]
    assert foreign == []


@pytest.fixture
def served(built: Path) -> Iterator[str]:
    handler = partial(QuietHandler, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


def test_a_browser_asks_no_other_host_and_finds_pages(served: str) -> None:
    foreign: list[str] = []

    def note(request: Request) -> None:
        if urlsplit(request.url).scheme not in {"data", "blob"} and not request.url.startswith(served):
            foreign.append(request.url)

    with sync_playwright() as playwright, launch(playwright) as browser:
        page = browser.new_page()
        page.on("request", note)
        for path in (
            "index.html",
            "reference/alerts.html",
            "explanation/day-types.html",
            "reference/python-client.html",
        ):
            page.goto(urljoin(served, path))
            page.wait_for_load_state("networkidle")
            width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert width[0] <= width[1], path
        page.keyboard.press("Control+k")
        page.keyboard.type("poor high")
        page.get_by_text("Poor highs and lows").last.wait_for(timeout=30_000)
    assert foreign == []


def test_the_reference_contains_the_docstrings(built: Path) -> None:
    library, client = (
        read(built / "reference" / f"python-{name}.html").text for name in ("library", "client")
    )
    assert "Compute the profile of a session, of several sessions, or of parts of them." in library
    assert "bracket_minutes" in library
    for name in ("levels", "alerts_history", "iter_alerts", "stream", "verify_webhook", "RateLimited"):
        assert name in client


def test_the_list_for_language_models_names_every_page(built: Path) -> None:
    text = (DOCS / "llms.txt").read_text()
    assert text == llms_page(), "run `make docs`"
    assert (built / "llms.txt").read_text() == text
    named = re.findall(rf"\({SOURCES}([^)]+)\)", text)
    assert set(named) == {path for _, path in pages(site()["nav"])} - {"index.md"}


def test_the_list_of_decisions_is_current() -> None:
    assert (DOCS / "decisions" / "index.md").read_text() == decisions_page(), "run `make docs`"


def test_state_diagrams_are_pictures(built: Path) -> None:
    """Each diagram is shown by a page. No page has Mermaid source, which the site would show as text."""
    text = "".join(path.read_text() for path in DOCS.rglob("*.md"))
    assert "```mermaid" not in text
    shown = {Path(asset).name for path in built.rglob("*.html") for asset in read(path).assets}
    assert [one.name for one in diagrams() if one.file_name not in shown] == []


def test_pictures_are_what_the_program_computes() -> None:
    drawn = dict(pictures())
    assert {path.name: path.read_text() for path in (DOCS / "images").glob("*.svg")} == drawn, (
        "run `make docs`"
    )

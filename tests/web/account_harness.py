"""Account pages under test: an empty service, and visitors that are signed in."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlencode

from tests.web.broker_harness import ScriptedConnections
from tests.web.harness import Reply, Visitor, WebHarness, empty_service

from outcry.live.model import StreamKey
from outcry.live.registry import Availability, Channel, Registry
from outcry.market.instruments import Contract

FORM = {"content-type": "application/x-www-form-urlencoded"}


class Member:
    """Somebody signed in, and confirmed just now; forms are sent as their page gives them."""

    def __init__(
        self, harness: WebHarness, email: str, *, operator: bool = False, language: str = "en"
    ) -> None:
        self.harness = harness
        self.user = harness.person(email, operator=operator)
        self.browser: Visitor = harness.visitor(language)
        self.browser.cookies["outcry-local"] = harness.token(self.user)

    def get(self, path: str) -> Reply:
        return self.browser.get(path)

    def send(self, path: str, fields: Mapping[str, str | list[str]] | None = None) -> Reply:
        """Send a form with the token of a page of ours."""
        sent = {"csrf": self.csrf(), **(fields or {})}
        body = urlencode(sent, doseq=True).encode()
        return self.browser.send("POST", path, body, FORM)

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get("/account").text)
        assert found is not None
        return found[1]

    def follow(self, reply: Reply) -> Reply:
        assert reply.status == 303, (reply.status, reply.text[:500])
        return self.get(reply.headers["location"])


class _Values(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.inputs: dict[str, list[str]] = {}
        self.chosen: dict[str, str] = {}
        self.texts: list[str] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        at = {name: value or "" for name, value in attrs}
        if tag == "select":
            self._select = at.get("name", "")
        elif tag == "option" and "selected" in at:
            self.chosen[self._select] = at["value"]
        elif tag == "input":
            ticked = at.get("type") != "checkbox" or "checked" in at
            if ticked:
                self.inputs.setdefault(at.get("name", ""), []).append(at.get("value", ""))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data.strip())


class Read:
    """A page, read as a browser reads it: entries with what stands in them, and its text."""

    def __init__(self, reply: Reply) -> None:
        self._parser = _Values()
        self._parser.feed(reply.text)
        self.text = " ".join(" ".join(self._parser.texts).split())

    def entry(self, name: str) -> str:
        return self._parser.chosen.get(name) or self._parser.inputs.get(name, [""])[-1]

    def entries(self, name: str) -> list[str]:
        return self._parser.inputs.get(name, [])


@contextmanager
def unconfirmed() -> Iterator[None]:
    """As if everybody's last proof of who they are were too long ago."""
    with patch("outcry.people.browser_sessions.RECENT_NS", 0):
        yield


@contextmanager
def account_service(
    folder: Path,
    environment: Mapping[str, str] | None = None,
    connections: ScriptedConnections | None = None,
    **parts: Callable[[], object],
) -> Iterator[WebHarness]:
    """A service with nothing in it. `environment`: what its operator set; `connections`: what stands in for people's
    broker connections; `parts`: what stands in for parts of its wiring, by name, in no service put together later."""
    with ExitStack() as up:
        with ExitStack() as replaced:
            for name, make in parts.items():
                replaced.enter_context(patch(f"outcry.app.people.{name}", make))
            harness = up.enter_context(empty_service(folder, environment, connections=connections))
        yield harness


def show(registry: Registry, owner: int, feed: str, contract: Contract, reason: str) -> None:
    """Put a stream of somebody's in the registry."""
    channel = Channel(StreamKey(owner, feed, contract), simulated=False, peek=lambda: None)
    registry.put(channel)
    registry.set_availability(
        channel,
        Availability(live=reason == "live", reason=reason, market_ns=1_767_366_245 * 10**9, trade_date=None),
    )

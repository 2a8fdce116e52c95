"""Connecting Hyperliquid in a browser: the form shows the terms, and answers become live once they are accepted.

The vendor is the fake on loopback. Its market follows the service's clock. Nothing else between browser and socket is
replaced.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from support.vendors.hyperliquid_peer import MINUTE, SECOND, HyperliquidPeer
from tests.timeouts import wait_until
from tests.web.browsing import Window
from tests.web.harness import MovableClock, WebHarness, empty_service
from tests.web.person import Person
from tests.web.test_connecting import LIVE, STEP_S, is_live

from outcry.connections.store import SqlConnectionStore
from outcry.feeds.hyperliquid import terms
from outcry.feeds.hyperliquid.instruments import Listed, tables
from outcry.market.instruments import Contract
from outcry.trades.records import TRADE, Rows

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
DAY = 24 * 60 * MINUTE
LEVELS = "/api/levels?symbol=BTC-PERP"
TERMS = "I accept the terms of use of"


def tape() -> Rows:
    """Generate a random walk of trades, one in five seconds, over the day before, the day and the hour after noon."""
    noon_ns, chance = int(NOON.timestamp()) * SECOND, np.random.default_rng(5)
    first_ns, end_ns = noon_ns - DAY - DAY // 2, noon_ns + 60 * MINUTE
    rows = np.zeros((end_ns - first_ns) // (5 * SECOND), TRADE)
    rows["ts_event"] = first_ns + np.arange(len(rows)) * 5 * SECOND
    rows["price"] = (72_500 + np.cumsum(chance.integers(-2, 3, len(rows)))) * SECOND
    rows["size"], rows["side"] = chance.integers(1, 2_000, len(rows)), b"B"
    return rows


@contextmanager
def playing(clock: MovableClock) -> Iterator[HyperliquidPeer]:
    """Run the fake on an event loop of its own, at the time of the clock."""
    found: list[HyperliquidPeer] = []
    up, end = threading.Event(), threading.Event()

    async def play() -> None:
        peer = HyperliquidPeer()
        peer.tape(Contract("BTC"), tape())
        peer.decimals["BTC"] = 5
        peer.now_ns = clock.now_ns()
        await peer.start()
        found.append(peer)
        up.set()
        try:
            while not end.is_set():
                await peer.advance(clock.now_ns())
                await asyncio.sleep(STEP_S)
        finally:
            await peer.stop()

    thread = threading.Thread(target=asyncio.run, args=(play(),), name="vendor")
    thread.start()
    assert up.wait(10)
    try:
        yield found[0]
    finally:
        end.set()
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock(NOON)


@pytest.fixture
def vendor(clock: MovableClock) -> Iterator[HyperliquidPeer]:
    with playing(clock) as peer:
        yield peer


@pytest.fixture
def connecting(
    tmp_path: Path, clock: MovableClock, vendor: HyperliquidPeer, harness: WebHarness
) -> Iterator[WebHarness]:
    """Return a service that has the market's instruments, beside `harness`, whose connections are stand-ins."""
    assert harness.connections is not None
    folder = tmp_path / "instruments"
    folder.mkdir()
    for name, text in tables([Listed("BTC", SECOND, 10_000)], date(2026, 11, 18)).items():
        (folder / name).write_text(text)
    with empty_service(
        tmp_path, {"OUTCRY_FEED_PLACES": f"hyperliquid.api={vendor.places['api']}"}, clock
    ) as own:
        yield own


def until(person: Person, key: str, so: Callable[[int, dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """Ask for the levels with a key until the answer is as expected; return it."""
    answers: list[tuple[int, dict[str, Any]]] = []

    def met() -> bool:
        answers.append(person.ask(key, LEVELS))
        return so(*answers[-1])

    # The key's tier allows 120 requests a minute.
    wait_until(met, lambda: (what, answers[-1], person.harness.faults()), poll_s=0.6)
    return answers[-1][1]


def fits(page: Page) -> bool:
    """Return whether the page is no wider than its window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_answers_go_live_after_the_terms_are_accepted(
    connecting: WebHarness, vendor: HyperliquidPeer, tabs: Callable[..., Window]
) -> None:
    tab = tabs(connecting)
    person, page = Person(tab), tab.page
    person.set_up()
    key = person.create_key("notebook")

    # without consent nothing is requested, and the form keeps the chosen symbol
    tab.go("/account/brokers")
    page.get_by_role("link", name="Connect Hyperliquid").click()
    person.heading("Connect Hyperliquid")
    assert "app.hyperliquid.xyz/terms" in page.locator("main").inner_text()
    assert fits(page)
    tab.errors.expects |= {422}
    page.locator('input[name="roots"][value="BTC-PERP"]').check()
    person.press("Connect")
    page.locator("[aria-invalid=true]").first.wait_for()
    assert page.locator('input[name="roots"][value="BTC-PERP"]').is_checked()
    assert vendor.requests == []
    assert not SqlConnectionStore(connecting.installation.database).rows()

    # with consent the connection becomes live, and the key's answers with it
    person.field(TERMS).select_option(terms.VERSION)
    person.field("Name").fill("Coins")
    person.press("Connect")
    person.heading("Coins")
    page.locator(LIVE).wait_for(timeout=90_000)
    live = until(person, key, is_live, "the feed answers live")
    assert (live["symbol"], live["dataSource"]) == ("BTC-PERP", "personal")
    first = live["updatedAt"]
    until(person, key, lambda status, body: is_live(status, body) and body["updatedAt"] > first, "it goes on")
    assert fits(page)
    page.locator("#streams th", has_text="BTC-PERP").wait_for()

    # the accepted version is stored, and another user sees nothing of the data
    store, vault = SqlConnectionStore(connecting.installation.database), connecting.installation.vault
    (row,) = store.rows()
    sealed = store.entries(row.id)
    assert sealed is not None
    assert vault.open(row, sealed) == {"terms": terms.VERSION}
    other = connecting.installation.keys.create("bob@example.com", "pro", connecting.clock.now_ns())
    status, refusal = person.ask(other, LEVELS)
    assert (status, refusal["code"]) == (409, "no_licensed_source")

    # the vendor refuses the IP address: the page says so, and recovers by itself
    vendor.expired = True
    for line in list(vendor.lines):
        line.tear("")
    page.locator(LIVE).wait_for(state="detached", timeout=60_000)
    vendor.expired = False
    page.locator(LIVE).wait_for(timeout=120_000)
    assert tab.errors.found(page) == {}
    assert connecting.faults() == []

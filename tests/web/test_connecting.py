"""Connecting a broker in a browser: the answers of that user's key become live, and delayed again after disconnecting.

The vendor is Databento's protocol on loopback (`support/vendors/databento_peer.py`). Its market follows the service's
clock: a Wednesday, half an hour after the open. Nothing else between browser and socket is replaced.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.vendors.databento_peer import KEY, DatabentoPeer
from tests.feeds.broker_harness import BEGIN_NS, ES, OPEN_NS, in_window, tape_of
from tests.timeouts import wait_until
from tests.web.browsing import Window
from tests.web.harness import MovableClock, WebHarness, empty_service
from tests.web.person import Person

from outcry.connections.model import ConnectionPhase
from outcry.connections.store import SqlConnectionStore
from outcry.market.units import NANOS_PER_DAY
from outcry.recordings.file_model import ReadOptions

#: The vendor's market moves on this often.
STEP_S = 0.05
LIVE = '#stand .chip[data-state="live"]'
TAPE = tape_of(ES, 1, 7)


@contextmanager
def playing(clock: MovableClock) -> Iterator[DatabentoPeer]:
    """The vendor, on an event loop of its own, its present that of the clock."""
    found: list[DatabentoPeer] = []
    up, end = threading.Event(), threading.Event()

    async def play() -> None:
        peer = DatabentoPeer()
        peer.tape(ES, TAPE)
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
    return MovableClock(datetime.fromtimestamp(BEGIN_NS // 10**9, UTC))


@pytest.fixture
def vendor(clock: MovableClock) -> Iterator[DatabentoPeer]:
    with playing(clock) as peer:
        yield peer


@pytest.fixture
def connecting(
    tmp_path: Path, clock: MovableClock, vendor: DatabentoPeer, harness: WebHarness
) -> Iterator[WebHarness]:
    """Beside `harness`, whose connections are stand-ins: they must not be this service's."""
    assert harness.connections is not None
    places = ",".join(f"databento.{name}={address}" for name, address in vendor.places.items())
    with empty_service(tmp_path, {"OUTCRY_FEED_PLACES": places}, clock) as own:
        yield own


def import_yesterday(harness: WebHarness, folder: Path, owner: int) -> None:
    """The session before, from a file of this person's."""
    rows = in_window(TAPE, OPEN_NS - NANOS_PER_DAY, OPEN_NS - NANOS_PER_DAY // 2)
    path = folder / "yesterday.parquet"
    columns = {
        "ts": pa.array(rows["ts_event"], pa.timestamp("ns", "UTC")),
        "price": rows["price"] / 1e9,
        "size": rows["size"],
    }
    pq.write_table(pa.table(columns), path)
    report = harness.installation.importer.run(
        path, owner, ReadOptions(contract=ES.key), harness.clock.now_ns()
    )
    assert [session.complete for session in report.sessions if session.kind == "rth"] == [True]


def until(person: Person, key: str, so: Callable[[int, dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """Ask with the key until it is answered so; the answer."""
    answers: list[tuple[int, dict[str, Any]]] = []

    def met() -> bool:
        answers.append(person.ask(key))
        return so(*answers[-1])

    # The key's tier allows 120 requests a minute.
    wait_until(met, lambda: (what, answers[-1], person.harness.faults()), poll_s=0.6)
    return answers[-1][1]


def is_live(status: int, body: dict[str, Any]) -> bool:
    return status == 200 and body["live"] and body["dataSource"] == "personal"


def is_delayed(status: int, body: dict[str, Any]) -> bool:
    return status == 200 and not body["live"] and body["dataSource"] == "delayed"


def test_a_key_goes_live_with_its_persons_feed_and_back(
    connecting: WebHarness, vendor: DatabentoPeer, tabs: Callable[..., Window], tmp_path: Path
) -> None:
    tab = tabs(connecting)
    person, page = Person(tab), tab.page
    person.set_up()
    key = person.create_key("notebook")
    owner = connecting.people.identity.users()[0].id
    status, refusal = person.ask(key)
    assert (status, refusal["code"]) == (409, "no_licensed_source")
    import_yesterday(connecting, tmp_path, owner)
    until(person, key, is_delayed, "yesterday's session answers, delayed")

    # a key of the wrong form is refused at once, and not given back
    tab.go("/account/brokers")
    page.get_by_role("link", name="Connect Databento").click()
    person.heading("Connect Databento")
    tab.errors.expects |= {422}
    person.field("API key").fill("not-a-key-of-databento")
    page.locator('input[name="roots"][value="ES"]').check()
    person.field("Name").fill("Desk")
    person.press("Connect")
    page.get_by_text("Databento keys start with").first.wait_for()
    assert person.field("API key").input_value() == ""
    assert page.locator('input[name="roots"][value="ES"]').is_checked()

    # connected, the page follows by itself, and the same key's answers go live
    person.field("API key").fill(KEY)
    person.press("Connect")
    person.heading("Desk")
    page.evaluate("window.__notLoadedAgain = true")
    page.locator(LIVE).wait_for(timeout=60_000)
    assert page.evaluate("window.__notLoadedAgain") is True
    live = until(person, key, is_live, "the feed answers live")
    assert live["symbol"] == "ES"
    first = live["updatedAt"]
    until(person, key, lambda status, body: is_live(status, body) and body["updatedAt"] > first, "it goes on")
    assert vendor.logins == 1

    # what the page shows of it, and what it never does
    assert "1 of 1" in page.locator("#facts").inner_text()
    page.locator("#streams th", has_text="ESZ2026").wait_for()
    assert KEY[-4:] in page.content()
    for path in (
        page.url.removeprefix(connecting.base),
        "/account/brokers",
        "/account/log",
        "/operator/feeds",
    ):
        tab.go(path)
        assert KEY not in page.content()
    assert KEY.encode() not in connecting.log.getvalue()

    # a check says that everything is there
    tab.go("/account/brokers")
    page.get_by_role("link", name="Desk", exact=True).click()
    person.press("Check")
    page.locator("#check", has_text="No problems found").wait_for(timeout=60_000)

    # paused it is delayed, resumed live again
    page.locator("#moves").get_by_role("button", name="Pause").click()
    page.get_by_text("Connection paused").wait_for()
    until(person, key, is_delayed, "paused, the answers are delayed")
    page.locator("#moves").get_by_role("button", name="Resume").click()
    until(person, key, is_live, "resumed, they are live")

    # nobody else sees anything of it
    other = connecting.installation.keys.create("bob@example.com", "pro", connecting.clock.now_ns())
    status, refusal = person.ask(other)
    assert (status, refusal["code"]) == (409, "no_licensed_source")

    # ended, the entries are gone and the answers are what they were
    page.get_by_role("link", name="Disconnect").click()
    person.heading("Disconnect")
    person.press("Disconnect")
    page.get_by_text("Disconnected.").wait_for()
    until(person, key, is_delayed, "ended, the answers are delayed")
    store = SqlConnectionStore(connecting.installation.database)
    assert not store.rows(owner)
    assert not vendor.callers
    assert tab.errors.found(page) == {}
    assert connecting.faults() == []


def test_a_key_the_vendor_refuses_is_asked_for_anew(
    connecting: WebHarness, vendor: DatabentoPeer, tabs: Callable[..., Window], tmp_path: Path
) -> None:
    """After two refusals nothing more is tried; the page says so and what to do, and a new key heals it."""
    tab = tabs(connecting)
    person, page = Person(tab), tab.page
    person.set_up()
    vendor.login_error = "API key deactivated."
    tab.go("/account/brokers/connect/databento")
    person.field("API key").fill(KEY)
    page.locator('input[name="roots"][value="ES"]').check()
    person.press("Connect")
    page.locator("#stand .chip", has_text="Sign-in required").wait_for(timeout=60_000)
    assert vendor.refusals == 2
    page.locator("#stand").get_by_role("link", name="Broker guide").click()
    assert page.url.endswith("/broker-guide#databento-login_expired")
    page.go_back()
    time.sleep(1)
    assert vendor.refusals == 2
    vendor.login_error = ""
    page.get_by_role("link", name="Update credentials").first.click()
    person.heading("Update credentials")
    person.field("API key").fill(KEY)
    person.press("Save and connect")
    page.locator(LIVE).wait_for(timeout=60_000)
    (row,) = SqlConnectionStore(connecting.installation.database).rows()
    assert row.phase is ConnectionPhase.LIVE
    assert tab.errors.found(page) == {}

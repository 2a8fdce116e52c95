"""A product without delivery months, traded in thousandths of a coin: imported, answered, pushed live and replayed."""

import asyncio
import http.client
import json
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.own_products import HOURS, PRODUCTS, own_reference
from tests.timeouts import wait_until

from outcry.access.model import GrantRow
from outcry.app.application import build_application
from outcry.app.installation import Installation, open_installation
from outcry.app.people import people_of
from outcry.app.settings import Settings
from outcry.feeds.replay import ReplayFeed, readings_of
from outcry.feeds.replay_pacing import FreePacer
from outcry.http.auth import LOCAL_COOKIE
from outcry.http.server import Binding, build_server
from outcry.market.instruments import Contract
from outcry.people.browser_sessions import Origin, SignedIn
from outcry.recordings.file_model import ReadOptions
from outcry.recordings.formats.file_library import FileLibrary
from outcry.trades.feed import LIVE_TRADE, Backfill, CaughtUp, Cursor, FeedCaps, Heartbeat, Resume, Trades
from outcry.trades.push_format import MEDIA_TYPE, Push, write_push
from outcry.trades.records import Quality

PERP = Contract("BTC-PERP")
MINUTE_NS = 60 * 10**9
#: 09:30 in New York on a Thursday and on the Friday after it.
THURSDAY_NS, FRIDAY_NS = (
    int(datetime(2026, 11, day, 14, 30, tzinfo=UTC).timestamp()) * 10**9 for day in (19, 20)
)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False, own_clock=True)


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    tables = tmp_path / "data" / "instruments"
    tables.mkdir(parents=True)
    (tables / "products.csv").write_text(PRODUCTS)
    (tables / "sessions.csv").write_text(HOURS)
    with open_installation(Settings(data=str(tmp_path / "data"))) as opened:
        for scope in ("completed", "live"):
            opened.store.add_grant(GrantRow(0, "everyone", scope, (PERP.root,), None, None, 0, None), 0)
        yield opened


@pytest.fixture
def thursday(tmp_path: Path) -> Path:
    """A file of one trade a minute at 90000.0, .1 and .2 in turn: 1.234 in the first minute, then 0.001 each."""
    rows = ["ts,price,size"]
    for minute in range(390):
        at = datetime.fromtimestamp((THURSDAY_NS + minute * MINUTE_NS) // 10**9, UTC)
        rows.append(f"{at:%Y-%m-%dT%H:%M:%SZ},90000.{minute % 3},{'0.001' if minute else '1.234'}")
    path = tmp_path / "BTC-PERP_2026-11-19.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@dataclass
class Service:
    """A running service, a key that reads, one that pushes the operator's feeds, and the operator's cookie."""

    port: int
    reader: str
    pusher: str
    cookie: str

    def get(self, path: str) -> Any:
        status, answer = self.ask("GET", path, self.reader)
        assert status == 200, answer
        return answer

    def ask(self, method: str, path: str, key: str, body: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"x-api-key": key, "content-type": MEDIA_TYPE})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def text(self, path: str) -> str:
        """Return a page as the operator sees it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET", path, headers={"cookie": self.cookie})
            response = connection.getresponse()
            assert response.status == 200
            return response.read().decode()
        finally:
            connection.close()

    def push(self, first: int, *events: Any) -> None:
        body = write_push(Push("a" * 20, PERP, CAPS, first, events))
        status, answer = self.ask("POST", "/api/ingest?feed=exchange", self.pusher, body)
        assert status == 200, answer


@contextmanager
def serving(installation: Installation) -> Generator[Service]:
    up, ports = threading.Event(), list[int]()

    def started(_host: str, port: int) -> None:
        ports.append(port)
        up.set()

    keys, now_ns = installation.keys, installation.clock.now_ns()
    reader = keys.create("ann@example.com", "pro", now_ns)
    pusher = keys.create("ann@example.com", "pro", now_ns, role="ingest-operator")
    identity = people_of(installation).identity
    signed = identity.set_up(
        identity.first_run.new_token(),
        "o@example.com",
        "slow green kettle drum",
        Origin("127.0.0.1", "Firefox"),
    )
    assert isinstance(signed, SignedIn)
    server = build_server(build_application(installation).application, Binding(port=0, shutdown_s=2), started)
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    assert up.wait(30), "the server did not start"
    try:
        yield Service(ports[0], reader, pusher, f"{LOCAL_COOKIE}={signed.token}")
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive(), "the server did not stop"


def trades(start_ns: int, *prices_and_steps: tuple[int, int]) -> Trades:
    """Return a trade each minute: prices in tenths, sizes in thousandths."""
    rows = np.zeros(len(prices_and_steps), LIVE_TRADE)
    rows["ts_event"] = rows["ts_recv"] = start_ns + MINUTE_NS * np.arange(len(rows))
    rows["price"] = [price * 10**8 for price, _ in prices_and_steps]
    rows["size"] = [steps for _, steps in prices_and_steps]
    rows["side"] = b"B"
    return Trades(rows)


def test_it_is_imported_answered_and_pushed(installation: Installation, thursday: Path) -> None:
    """Thursday: 390 trades, 1.234 + 389 × 0.001 = 1.623; of each price 130, at 90000.0 the first among them.

    On Friday the first hour trades between 90000.0 and 90000.2, 0.002 in each of its 60 minutes and so 0.12 in all; a
    trade of 0.5 at 90040.0 then breaks the initial balance.
    """
    report = installation.importer.run(thursday, 0, ReadOptions(), installation.clock.now_ns())
    assert [(one.contract, one.complete, one.volume) for one in report.sessions] == [("BTC-PERP", True, 1623)]
    with installation.log.exclusively(), serving(installation) as service:
        profile = service.get("/api/profile?symbol=btc/usdt")
        assert (profile["symbol"], profile["levels"]["contract"]) == ("BTC-PERP", "BTC-PERP")
        assert profile["levels"]["data"]["volume"] == 1.623
        rows = [(row["price"], row["volume"]) for row in profile["rows"]]
        assert rows == [(90000.2, 0.13), (90000.1, 0.13), (90000.0, 1.363)]
        chart = service.get("/api/chart?symbol=BTC-PERP")
        assert chart["sessions"][-1]["volumes"] == [1.363, 0.13, 0.13]
        context = service.get("/api/context?symbol=BTC-PERP")
        assert (context["rolledFrom"], bool(context["instrument"]["ownTables"])) == (None, True)
        page = service.text("/s/BTC-PERP")
        assert '<td class="number">1.363</td>' in page
        assert "BTC-PERP,2026-11-19,90000.0,ABCDEFGHIJKLM,13,1.363" in service.text("/s/BTC-PERP/profile.csv")
        delayed = service.get("/api/levels?symbol=BTC-PERP")
        assert (delayed["dataSource"], delayed["prior"]["poc"]) == ("delayed", 90000.1)

        hour = [(900_000 + minute % 3, 2) for minute in range(60)]
        service.push(0, CaughtUp(FRIDAY_NS - MINUTE_NS, Quality.TICKS), trades(FRIDAY_NS, *hour))
        service.push(
            2, trades(FRIDAY_NS + 60 * MINUTE_NS, (900_400, 500)), Heartbeat(FRIDAY_NS + 61 * MINUTE_NS)
        )

        def types() -> set[str]:
            return {alert["type"] for alert in service.get("/api/alerts?symbol=BTC-PERP")["alerts"]}

        wait_until(lambda: "ib-break-up" in types(), poll_s=1.0)
        live = service.get("/api/profile?symbol=BTC-PERP")
        assert live["levels"]["data"]["volume"] == 0.62
        assert {row["price"]: row["volume"] for row in live["rows"]}[90040.0] == 0.5
        (state,) = [one for one in service.get("/api/symbols")["symbols"] if one["symbol"] == "BTC-PERP"]
        assert (state["contract"], state["months"], state["live"]) == ("BTC-PERP", "", True)
        steps = {one["symbol"]: one["sizeStep"] for one in service.get("/api/symbols")["symbols"]}
        assert steps.pop("BTC-PERP") == 0.001
        assert set(steps.values()) == {1}


def test_its_recording_is_replayed(thursday: Path) -> None:
    reference = own_reference()
    readings = readings_of(FileLibrary(), reference.universe, [thursday], ReadOptions())
    feed = ReplayFeed(readings, reference.calendar, FreePacer())

    async def steps() -> int:
        assert await feed.contracts() == [PERP]
        events = [event async for event in feed.open(PERP, Cursor(0))]
        await feed.close()
        return sum(int(event.rows["size"].sum()) for event in events if isinstance(event, Trades))

    assert asyncio.run(steps()) == 1623

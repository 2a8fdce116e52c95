"""Delivery by the installed command: a service in its own process and a TLS endpoint."""

import base64
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path

import pytest
from standardwebhooks import Webhook
from support.engines.ports import free_ports
from tests.timeouts import wait_until

from outcry.access.licences import Audience
from outcry.app.installation import open_installation
from outcry.app.people import people_of
from outcry.app.settings import Settings
from outcry.base.clock import SystemClock
from outcry.database.database import DATABASE_FILE
from outcry.delivery.model import SubscriptionPhase, Target
from outcry.delivery.sink import Manner, Receipt
from outcry.delivery.sink_server import Receiver, receiver
from outcry.delivery.subscriptions import Wish
from outcry.http.auth import LOCAL_COOKIE
from outcry.live.model import AlertRow, FanOut
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.people.browser_sessions import Origin, SignedIn

OUTCRY = Path(sys.executable).with_name("outcry")
EMAIL, PASSWORD = "ann@example.com", "slow green kettle drum"
TOKEN = "planted-token-7f3a91c2"
SLOW_S = 1.5
PATIENCE_S = 60.0
EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())


class Harness:
    """A data folder with a user and a webhook, its endpoint, and the running service."""

    def __init__(self, folder: Path, endpoint: Receiver) -> None:
        self.folder, self.endpoint, self.sink = folder, endpoint, endpoint.sink
        self.service: subprocess.Popen[bytes] | None = None
        self.settings = Settings(
            data=str(folder),
            private_hosts=endpoint.host,
            private_ca=str(endpoint.authority),
            port=free_ports(1)[0],
        )
        with open_installation(self.settings) as installation:
            identity = people_of(installation).identity
            signed = identity.set_up(
                identity.first_run.new_token(), EMAIL, PASSWORD, Origin("127.0.0.1", "Firefox")
            )
            assert isinstance(signed, SignedIn)
            self.cookie, self.user = f"{LOCAL_COOKIE}={signed.token}", signed.user.id
            wish = Wish(Target.HTTPS, f"{self.sink.address}?token={TOKEN}", "Desk", (), "info")
            made = people_of(installation).subscriptions.add(self.user, wish, installation.clock.now_ns())
            assert made.secret is not None
            self.number, self.secret = made.id, made.secret

    @property
    def log_path(self) -> Path:
        """Return the path of the service's log."""
        return self.folder.with_name("service.log")

    def environment(self) -> dict[str, str]:
        given = self.settings
        return {
            "PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "OUTCRY_DATA": given.data, "OUTCRY_PORT": str(given.port), "OUTCRY_PRIVATE_HOSTS": given.private_hosts,
            "OUTCRY_PRIVATE_CA": given.private_ca, "OUTCRY_URL": self.url,
        }  # fmt: skip

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.service = subprocess.Popen([OUTCRY, "serve"], env=self.environment(), stdout=log, stderr=log)
        wait_until(self._answers, "the service answers")

    def _answers(self) -> bool:
        assert self.service is not None
        assert self.service.poll() is None, self.log_path.read_text()[-3000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.settings.port)) == 0

    def end(self, sign: signal.Signals = signal.SIGKILL) -> None:
        if self.service is not None:
            self.service.send_signal(sign)
            self.service.wait(30)
            self.service = None

    def fire(self, number: int) -> AlertRow:
        """Record an alert from another process of the same service."""
        row = AlertRow(
            owner=0, feed="demo", contract="ESH2026", symbol="ES", type=AlertType.IB_BREAK_UP, severity="warn",
            session=SessionKind.RTH, trade_date=date(2026, 1, 2), key=f"ES:ib-break-up:{number}", at_ns=number,
            price_e9=5_000_250_000_000, ref="IBH", params={"ibHigh": 5_000_000_000_000}, invented=False,
        )  # fmt: skip
        with open_installation(self.settings) as installation:
            installation.alerts.record_alerts(
                [row], {}, FanOut(lambda *_: EVERYONE, installation.clock.now_ns())
            )
        return row

    def page(self, path: str) -> str:
        """Return a page as its owner sees it."""
        asked = urllib.request.Request(f"{self.url}{path}", headers={"cookie": self.cookie})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read().decode()

    def receipts(self) -> list[Receipt]:
        """Return the received messages, oldest first."""
        return sorted(self.sink.receipts, key=lambda receipt: receipt.number)

    def phase(self) -> SubscriptionPhase:
        with open_installation(self.settings) as installation:
            return people_of(installation).subscriptions.one(self.user, self.number).phase

    def outcomes(self) -> list[str]:
        """Return the results of the attempts, oldest first."""
        with open_installation(self.settings) as installation:
            found = people_of(installation).subscriptions.attempts(self.user, self.number, None, 100)
            return [attempt.outcome for attempt in reversed(found)]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with receiver(tmp_path / "endpoint", SystemClock(), SLOW_S) as endpoint:
        made = Harness(tmp_path / "data", endpoint)
        made.start()
        try:
            yield made
        finally:
            made.end()


def alerts_of(receipts: list[Receipt]) -> list[str]:
    return [alert["key"] for receipt in receipts for alert in json.loads(receipt.body)["alerts"]]


def test_alerts_of_a_feed_arrive_signed_and_no_secret_is_left_anywhere(
    shared: Path, harness: Harness
) -> None:
    """A day of real bars of ES is played as the user's own feed. Then all that the service wrote or showed is searched
    for the secret (as text and as octets), and for the part of the address that opens the endpoint."""
    day = shared / "data/lean/cme/minute/es"
    call = [OUTCRY, "replay", str(day), "--contract", "ESZ3", "--owner", EMAIL, "--speed", "0"]
    played = subprocess.run(
        call, env=harness.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert played.returncode == 0, played.stdout + played.stderr
    with open_installation(harness.settings) as installation:
        fired = [row.key for row in installation.alerts.alerts([harness.user])]
    assert len(fired) > 10
    wait_until(lambda: len(alerts_of(harness.receipts())) >= len(fired), "every alert arrives")
    assert alerts_of(harness.receipts()) == fired
    for receipt in harness.receipts():
        verified = Webhook(harness.secret).verify(receipt.body, dict(receipt.headers))
        assert verified["version"] == 2
    shown = "".join(
        map(harness.page, ("/account", "/account/webhooks", f"/account/webhooks/{harness.number}"))
    )
    assert harness.secret[-4:] in shown
    harness.end(signal.SIGTERM)
    left = {path: path.read_bytes() for path in harness.folder.rglob("*") if path.is_file()}
    left |= {Path("log"): harness.log_path.read_bytes(), Path("pages"): shown.encode()}
    assert any(fired[0].encode() in octets for octets in left.values())
    base64_text = harness.secret.removeprefix("whsec_")
    planted = (TOKEN.encode(), base64_text.encode(), base64.b64decode(base64_text))
    for path, octets in left.items():
        for secret in planted:
            assert secret not in octets, f"{path} has a secret in it"


def test_an_error_is_tried_again_under_the_same_id_and_410_switches_off(harness: Harness) -> None:
    harness.sink.manner = Manner.ERROR
    harness.fire(1)
    wait_until(lambda: len(harness.receipts()) == 1, "the first attempt")
    harness.sink.manner = Manner.WELL
    wait_until(lambda: harness.outcomes() == ["pending", "delivered"], "the second attempt")
    first, second = harness.receipts()
    assert (first.message_id, first.body) == (second.message_id, second.body)
    assert Webhook(harness.secret).verify(second.body, dict(second.headers))
    assert second.at_ns - first.at_ns > 3_500_000_000
    harness.sink.manner = Manner.GONE
    harness.fire(2)
    wait_until(lambda: harness.phase() is SubscriptionPhase.DISABLED, "it is switched off")
    assert "no longer exists (HTTP 410)" in harness.page(f"/account/webhooks/{harness.number}")
    harness.fire(3)  # is held
    with open_installation(harness.settings) as installation:
        backlog = people_of(installation).subscriptions.backlog(harness.user, harness.number)
    assert (backlog.waiting, backlog.held) == (0, 2)
    assert len(harness.receipts()) == 3


def test_a_message_in_flight_as_the_service_is_killed_arrives_after_its_lease(harness: Harness) -> None:
    harness.sink.manner = Manner.SLOW
    fired = harness.fire(1)
    wait_until(lambda: len(harness.receipts()) == 1, "it is on its way")
    harness.end()
    assert harness.outcomes() == []
    harness.sink.manner = Manner.WELL
    with written(harness) as database:  # a minute later: the lease of the dead worker has expired
        changed = database.execute(
            "UPDATE lanes SET leased_until_ns = 1, due_ns = 1 WHERE leased_until_ns > 1"
        )
        assert changed.rowcount == 1
    harness.start()
    wait_until(lambda: harness.outcomes() == ["delivered"], "it arrives")
    first, second = harness.receipts()
    assert (first.message_id, first.body) == (second.message_id, second.body)
    assert alerts_of([second]) == [fired.key]


def test_what_was_answered_while_nothing_can_be_written_is_sent_once(harness: Harness) -> None:
    """Another program locks the database beyond the time limit while the response arrives."""
    harness.sink.manner = Manner.SLOW
    harness.fire(1)
    wait_until(lambda: len(harness.receipts()) == 1, "it is on its way")
    with written(harness):
        wait_until(lambda: b"outbox_unwritable" in harness.log_path.read_bytes(), "the log says so")
        harness.sink.manner = Manner.WELL
    wait_until(lambda: harness.outcomes() == ["delivered"], "it is recorded")
    harness.fire(2)
    wait_until(lambda: harness.outcomes() == ["delivered"] * 2, "the next arrives")
    assert alerts_of(harness.receipts()) == ["ES:ib-break-up:1", "ES:ib-break-up:2"]


@contextmanager
def written(harness: Harness) -> Iterator[sqlite3.Connection]:
    """Hold the database's write lock until the block ends."""
    with closing(sqlite3.connect(harness.folder / DATABASE_FILE, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        yield database
        database.execute("COMMIT")

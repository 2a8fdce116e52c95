"""Delivery with scripted senders and clock, and everything else real: recorded alerts and an outbox on disk."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count
from pathlib import Path

from outcry.access.licences import Audience
from outcry.base.encryption import Encryptor
from outcry.database import migrate as migration
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.delivery.dispatcher import Dispatcher, Parts
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.model import AttemptRow, Severity, SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Message
from outcry.delivery.sender import SendResult, Verdict
from outcry.delivery.signing_secrets import place_of
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.live.model import AlertRow, FanOut
from outcry.live.store import LiveStore
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_MS
from outcry.sessions.store import SqlStore

BEGIN_NS = 1_767_366_245_000_000_000
EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())
ARRIVED = SendResult(Verdict.ARRIVED, "ok", 200, took_ms=3, reported_missed=True)
FAILED = SendResult(Verdict.LATER, "status", 500, took_ms=3, excerpt="no")


@dataclass
class HandClock:
    """A clock that moves only when a test moves it."""

    ns: int = BEGIN_NS

    def now_ns(self) -> int:
        return self.ns


@dataclass
class Answering:
    """A sender that responds with `answer`, and records its calls with their time."""

    clock: HandClock
    answer: Callable[[Message], SendResult] = lambda _: ARRIVED
    sent: list[tuple[int, Message]] = field(default_factory=list)
    addresses: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    async def send(self, message: Message, address: str, secrets: Sequence[str]) -> SendResult:
        self.sent.append((self.clock.ns, message))
        self.addresses.append((address, list(secrets)))
        await asyncio.sleep(0)
        return self.answer(message)


@dataclass
class RecordedNotices:
    """Recorded notices to owners."""

    notices: list[tuple[str, int | str]] = field(default_factory=list)

    def warned(self, message: Message, hours: int) -> None:
        self.notices.append((message.subscription.label, hours))

    def switched_off(self, message: Message, reason: str) -> None:
        self.notices.append((message.subscription.label, reason))


class Harness:
    """Delivery on one database. `chance` is 0.5: retries happen exactly at the scheduled times."""

    def __init__(self, database: Database) -> None:
        self.database, self.clock = database, HandClock()
        self.people, self.live = SqlStore(database), LiveStore(database, OutboxEntries())
        self.subscriptions, self.outbox = SqlSubscriptionStore(database), SqlOutbox(database)
        self.encryptor = Encryptor(b"a secret of the tests", "subscriptions")
        self.sender, self.reported_missed = Answering(self.clock), RecordedNotices()
        self._numbers = count(1)
        self.dispatcher = self.worker("w1")

    def worker(self, name: str) -> Dispatcher:
        senders = dict.fromkeys(Target, self.sender)
        parts = Parts(self.outbox, senders, self.encryptor, self.clock, self.reported_missed, name)
        return Dispatcher(parts, chance=lambda: 0.5)

    def person(self, email: str = "ann@example.com") -> int:
        return self.people.ensure_user(email, self.clock.ns)

    def subscribe(self, user_id: int, target: Target = Target.HTTPS, **changes: object) -> SubscriptionRow:
        created_ns = self.clock.ns + next(self._numbers)
        place = place_of(user_id, created_ns)
        row = SubscriptionRow(
            id=0, user_id=user_id, target=target, label="Desk", shown="hooks.mysite.dev/…0042", symbols=(),
            sealed_address=self.encryptor.encrypt("https://hooks.mysite.dev/0042", place), min_severity="info",
            phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=self.encryptor.encrypt("whsec_AAAA", place),
            secret_last4="AAAA", sealed_old_secret=None, old_until_ns=None, created_ns=created_ns,
        )  # fmt: skip
        row = replace(row, **changes)  # type: ignore[arg-type]
        number = self.subscriptions.add_subscription(row, 1_000)
        assert number is not None
        return replace(row, id=number)

    def fire(
        self, how_many: int = 1, *, severity: Severity = "critical", symbol: str = "ES",
        audience: Audience = EVERYONE,
    ) -> Sequence[AlertRow]:  # fmt: skip
        rows = [self._alert(next(self._numbers), severity, symbol) for _ in range(how_many)]
        return self.live.record_alerts(rows, {}, FanOut(lambda owner, root: audience, self.clock.ns))

    def _alert(self, number: int, severity: Severity, symbol: str) -> AlertRow:
        at_ns = self.clock.ns + number * NANOS_PER_MS
        return AlertRow(
            owner=0, feed="demo", contract=f"{symbol}H2026", symbol=symbol, type=AlertType.IB_BREAK_UP,
            severity=severity, session=SessionKind.RTH, trade_date=date(2026, 1, 2),
            key=f"{symbol}:ib-break-up:{at_ns // NANOS_PER_MS}", at_ns=at_ns, price_e9=5_000_250_000_000, ref="IBH",
            params={"ibHigh": 5_000_000_000_000}, invented=False,
        )  # fmt: skip

    def step(self, dispatcher: Dispatcher | None = None) -> int:
        """Run one round of deliveries, with as many messages as are due."""
        return asyncio.run((dispatcher or self.dispatcher).step())

    def run_for(self, length_ns: int, each_ns: int) -> None:
        """Run rounds for a length of time, at an interval."""
        until_ns = self.clock.ns + length_ns
        while self.clock.ns < until_ns:
            self.step()
            self.clock.ns += each_ns

    def phase(self, row: SubscriptionRow) -> SubscriptionRow:
        found = self.subscriptions.subscription(row.user_id, row.id)
        assert found is not None
        return found

    def log(self, row: SubscriptionRow) -> list[AttemptRow]:
        """Return the attempts of a subscription, oldest first."""
        return list(reversed(self.subscriptions.attempts(row.user_id, row.id, None, 1_000)))


@contextmanager
def open_harness(folder: Path) -> Iterator[Harness]:
    engine = open_engine(sqlite_url(folder))
    migration.migrate(engine)
    database = Database(engine)
    yield Harness(database)
    database.close()

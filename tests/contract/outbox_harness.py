"""An outbox with users, subscriptions and alerts fired by the test."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import count

from outcry.access.licences import Audience
from outcry.database.database import Database
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.model import AttemptRow, SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import DeliveryResult, EntryPhase, Message
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.live.model import AlertRow, FanOut
from outcry.live.store import LiveStore
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.market.units import NANOS_PER_SECOND
from outcry.people.store import SqlIdentityStore

S = NANOS_PER_SECOND
BEGIN_NS = 1_767_366_245_000_000_000
LEASE_NS = 60 * S
EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())
ALERT = AlertRow(
    owner=0, feed="demo", contract="ESH2026", symbol="ES", type=AlertType.IB_BREAK_UP, severity="warn",
    session=SessionKind.RTH, trade_date=date(2026, 1, 2), key="", at_ns=BEGIN_NS, price_e9=5_000_250_000_000,
    ref="IBH", params={"ibHigh": 5_000_000_000_000}, invented=True,
)  # fmt: skip
HOOK = SubscriptionRow(
    id=0, user_id=1, target=Target.HTTPS, label="Desk", sealed_address=b"\x01sealed", shown="hooks.mysite.dev/…0042",
    symbols=(), min_severity="info", phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=b"s",
    secret_last4="wxyz", sealed_old_secret=None, old_until_ns=None, created_ns=BEGIN_NS,
)  # fmt: skip


@dataclass
class Harness:
    """An outbox with the users Ann (1) and Bob (2). A test advances `now_ns`."""

    database: Database
    now_ns: int = BEGIN_NS
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.outbox, self.live = SqlOutbox(self.database), LiveStore(self.database, OutboxEntries())
        self.subscriptions, self.people = SqlSubscriptionStore(self.database), SqlIdentityStore(self.database)
        for email in ("ann@example.com", "bob@example.com"):
            self.people.add_user(email, "member", "free", email.encode(), BEGIN_NS)

    def subscribe(self, row: SubscriptionRow = HOOK, **changes: object) -> int:
        number = self.subscriptions.add_subscription(replace(row, **changes), 1_000)  # type: ignore[arg-type]
        assert number is not None
        return number

    def row(self, number: int, user_id: int = 1) -> SubscriptionRow:
        row = self.subscriptions.subscription(user_id, number)
        assert row is not None
        return row

    def change(self, number: int, **changes: object) -> None:
        self.subscriptions.change_subscription(1, number, lambda row: replace(row, **changes))  # type: ignore[arg-type]

    def alert(self, **changes: object) -> AlertRow:
        return replace(ALERT, key=f"ES:ib-break-up:{next(self.numbers)}", **changes)  # type: ignore[arg-type]

    def fire(self, how_many: int = 1, audience: Audience = EVERYONE, **changes: object) -> Sequence[AlertRow]:
        rows = [self.alert(**changes) for _ in range(how_many)]
        return self.live.record_alerts(rows, {}, FanOut(lambda _owner, _root: audience, self.now_ns))

    def claim(self, worker: str = "w", most: int = 256, most_slow: int = 256) -> Sequence[Message]:
        return self.outbox.claim(worker, self.now_ns, LEASE_NS, most, most_slow)

    def claim_one(self, worker: str = "w") -> Message:
        (message,) = self.claim(worker)
        return message

    def done(
        self, message: Message, phase: EntryPhase = EntryPhase.DELIVERED, wait_ns: int = 0, **more: object
    ) -> DeliveryResult:
        """Return the result of a message sent just now. `wait_ns`: pause before it is retried."""
        first = message.entries[0].alert if message.entries else ALERT
        arrived = phase is EntryPhase.DELIVERED
        attempt = AttemptRow(
            id=0, subscription_id=message.subscription.id, at_ns=self.now_ns, alert_key=first.key,
            alert_type=first.type.value, symbol=first.symbol, outcome="delivered" if arrived else "pending",
            code="ok" if arrived else "status", status=204 if arrived else 500, took_ms=31, excerpt="", next_ns=None,
            message_id=message.message_id, alerts=len(message.entries), number=message.attempts + 1,
        )  # fmt: skip
        queue = replace(message.queue, sent_ns=self.now_ns)
        made = DeliveryResult(message, phase, self.now_ns + wait_ns, queue, attempt, message.tries + 1)
        return replace(made, **more)  # type: ignore[arg-type]

    def finish(self, message: Message, phase: EntryPhase = EntryPhase.DELIVERED, **more: object) -> None:
        self.outbox.record([self.done(message, phase, **more)])  # type: ignore[arg-type]

    def attempts(self, number: int, user_id: int = 1) -> Sequence[AttemptRow]:
        return list(reversed(self.subscriptions.attempts(user_id, number, None, 1_000)))


def keys(message: Message) -> list[str]:
    """Return the keys of a message's alerts."""
    return [entry.alert.key for entry in message.entries]

"""The port for webhook subscriptions: what is kept of them, and what delivers to them.

Rules kept: an address may hold a secret (chat channels' do), so it is kept sealed and shown by its host and last four
characters; a signing secret is kept sealed, and shown once. A subscription's owner alone sees it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

Severity = Literal["info", "warn", "critical"]
Outcome = Literal["delivered", "pending", "failed", "dead"]


class Target(StrEnum):
    """Where alerts are pushed."""

    SLACK = "slack"
    DISCORD = "discord"
    HTTPS = "https"
    EMAIL = "email"


class SubscriptionPhase(StrEnum):
    """Where a subscription stands: `paused` by its owner; `disabled` because its endpoint would not take anything."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription as kept. `sealed_address`: URL or e-mail address, sealed to this row; `shown`: what of it may be
    shown. `symbols`: roots, empty for all. `sealed_secret`: the signing secret of an `https` target; the old one
    signs too, until `old_until_ns`. `reason`: why it is disabled, a stable code."""

    id: int
    user_id: int
    target: Target
    label: str
    sealed_address: bytes
    shown: str
    symbols: tuple[str, ...]
    min_severity: Severity
    phase: SubscriptionPhase
    reason: str
    sealed_secret: bytes | None
    secret_last4: str
    sealed_old_secret: bytes | None
    old_until_ns: int | None
    created_ns: int


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt at delivering. `outcome`: `delivered`, `pending`, `failed` or `dead`, and `code` says more. `status`:
    the answer's HTTP or SMTP status, None without one. `excerpt`: of the answer's body, as it came: escape it.
    `next_ns`: when it is tried again."""

    id: int
    subscription_id: int
    at_ns: int
    alert_key: str
    alert_type: str
    symbol: str
    outcome: Outcome
    code: str
    status: int | None
    took_ms: int | None
    excerpt: str
    next_ns: int | None


@dataclass(frozen=True, slots=True)
class TestResult:
    """What came of a test. `code`: `ok`, or why not, a stable code that has words; `phases_ms`: what took how long, by
    name (`dns`, `connect`, `tls`, `answer`)."""

    code: str
    status: int | None
    took_ms: int
    phases_ms: tuple[tuple[str, int], ...]
    request: str
    excerpt: str


#: What becomes of a subscription. Id, owner and creation time stay.
Change = Callable[[SubscriptionRow], SubscriptionRow]


class SubscriptionStore(Protocol):
    """Subscriptions, by owner. Every method may raise `StoreBusy`."""

    def subscriptions(self, user_id: int) -> Sequence[SubscriptionRow]:
        """A user's, oldest first."""
        ...

    def subscription(self, user_id: int, subscription_id: int) -> SubscriptionRow | None:
        """One of this user's; None where it is none of them."""
        ...

    def add_subscription(self, row: SubscriptionRow, most: int) -> int | None:
        """Keep a new one (its id is ignored); return its id, None where its owner has `most` already, counted while
        nobody else writes. What is sealed is sealed before the id is known: to the row's owner and creation time."""
        ...

    def change_subscription(
        self, user_id: int, subscription_id: int, change: Change
    ) -> SubscriptionRow | None:
        """Keep what `change` makes of one of this user's as it stands then, while nobody else writes; return it, None
        where there is none. `change` is quick; where it raises, all stays as it was."""
        ...

    def remove_subscription(self, user_id: int, subscription_id: int) -> bool:
        """Forget one of this user's, and its attempts."""
        ...

    def attempts(
        self,
        user_id: int,
        subscription_id: int,
        before: int | None,
        limit: int,
        outcome: Outcome | None = None,
    ) -> Sequence[AttemptRow]:
        """What was attempted for one of this user's, newest first, with ids less than `before`; of one `outcome`, if
        one is given."""
        ...


class Deliverer(Protocol):
    """What delivers. The pages ask it nothing but this."""

    @property
    def running(self) -> bool:
        """Whether alerts are delivered at all."""
        ...

    def judge(self, target: Target, address: str) -> str:
        """Whether an address would be accepted: `ok`, or a stable code."""
        ...

    def test(self, row: SubscriptionRow, address: str, secret: str | None) -> TestResult:
        """Send the test alert there, now, by the way alerts go; returns within 20 seconds, never raises."""
        ...

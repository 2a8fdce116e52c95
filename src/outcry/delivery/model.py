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
#: When a digest is sent, by its reader's clock: each quarter of an hour, each hour, or once a day at an hour of theirs.
Window = Literal["quarter", "hour", "day"]


class Target(StrEnum):
    """Where alerts are pushed."""

    SLACK = "slack"
    DISCORD = "discord"
    HTTPS = "https"
    EMAIL = "email"


class SubscriptionPhase(StrEnum):
    """Where a subscription stands: `unconfirmed` until whoever reads at its e-mail address says yes; `paused` by its
    owner or reader; `disabled` because its endpoint would not take anything."""

    UNCONFIRMED = "unconfirmed"
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A subscription as kept. `sealed_address`: URL or e-mail address, sealed to this row; `shown`: what of it may be
    shown. `symbols`: roots, empty for all. `sealed_secret`: the signing secret of an `https` target; the old one
    signs too, until `old_until_ns`. `reason`: why it is disabled or paused, a stable code, empty where its owner did
    it. `ordered`, of an `https` target: nothing overtakes a message that is tried again. `window` and `at_once`, of
    e-mail: when a digest is sent, and whether what is critical is sent without waiting for it."""

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
    ordered: bool = False
    window: Window = "hour"
    at_once: bool = True


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt at delivering one message. `alert_key`, `alert_type`, `symbol`: of the first of its `alerts`.
    `outcome`: `delivered`; `pending`: it failed and is tried again; `failed`: a test that failed; `dead`: it failed and
    is not tried again; `code` says more. `status`: the answer's HTTP or SMTP status, None without one. `excerpt`: of
    the answer's body, as it came: escape it. `next_ns`: when it is tried again. `message_id`: stays the same however
    often it is tried; `number`: which try this was, from 1. `phases_ms`: what took how long, by name. `shown`: the
    address as it was then, as far as it may be shown."""

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
    message_id: str = ""
    alerts: int = 1
    number: int = 1
    phases_ms: tuple[tuple[str, int], ...] = ()
    shown: str = ""


@dataclass(frozen=True, slots=True)
class TestResult:
    """What came of a test. `code`: `ok`, or why not, a stable code that has words; `phases_ms`: what took how long, by
    name (`dns`, `connect`, `tls`, `answer`). `request`: what was sent, without secrets."""

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
    """What delivers. The pages ask it nothing but this, from any thread but the event loop's."""

    @property
    def running(self) -> bool:
        """Whether alerts are delivered at all."""
        ...

    @property
    def admitted(self) -> Sequence[str]:
        """Hosts that need not be public, by the operator's explicit setting; empty: none."""
        ...

    def check_url(self, target: Target, address: str) -> str:
        """Whether an address would be accepted: `ok`; `unverified`, which is accepted too, for a host that cannot be
        found now; or the stable code of what is wrong. Asks the name service, within four seconds."""
        ...

    def test(self, row: SubscriptionRow, address: str, secrets: Sequence[str]) -> TestResult:
        """Send the test alert there, now, by the way alerts go; returns within 20 seconds, never raises. `secrets`:
        what to sign with, newest first."""
        ...

    def wake(self) -> None:
        """Something may be due that was not: look at once."""
        ...

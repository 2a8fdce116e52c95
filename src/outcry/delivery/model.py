"""Data types and interfaces of webhook subscriptions and of delivery.

URLs can contain secrets (those of chats do), so they are stored encrypted and displayed as host and last four
characters. Signing secrets are stored encrypted and displayed once. Only the owner sees a subscription.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Severity = Literal["info", "warn", "critical"]
Outcome = Literal["delivered", "pending", "failed", "dead"]
#: When a digest is sent, in the reader's local time: each quarter of an hour, each hour, or once a day.
Window = Literal["quarter", "hour", "day"]


class Target(StrEnum):
    """Kind of receiver: an HTTPS endpoint, a chat or an email address."""

    SLACK = "slack"
    DISCORD = "discord"
    HTTPS = "https"
    EMAIL = "email"


class SubscriptionPhase(StrEnum):
    """State of a webhook subscription.

    `unconfirmed`: the reader of the email address has not agreed. `paused`: by owner or reader. `disabled`: its
    endpoint accepts no messages.
    """

    UNCONFIRMED = "unconfirmed"
    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """A stored subscription.

    - `sealed_address`: encrypted URL or email address. `shown`: the part that may be displayed.
    - `symbols`: product roots such as `ES`, empty for all.
    - `sealed_secret`: encrypted signing secret of an `https` target. The previous secret also signs until
      `old_until_ns`.
    - `reason`: stable code of why the subscription is disabled or paused; empty if its owner paused it.
    - `ordered`, for `https`: whether later alerts wait while a message is retrying.
    - `window` and `at_once`, for email: when a digest is sent, and whether critical alerts are sent immediately.
    """

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
    """One delivery attempt of one message.

    - `alerts`: number of alerts in the message. `alert_key`, `alert_type`, `symbol`: those of the first alert.
    - `outcome`: `delivered`; `pending` (failed, will be retried); `failed` (a test that failed); `dead` (failed
      permanently).
    - `code`: details of the outcome. `status`: HTTP or SMTP status, None without a response.
    - `excerpt`: start of the response body, as received. Escape it.
    - `next_ns`: time of the retry.
    - `message_id`: the same at every attempt. `number`: of the attempt, from 1.
    - `phases_ms`: durations by name. `shown`: the displayable part of the URL or email address at that time.
    """

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
    """Result of testing a webhook.

    `code`: `ok`, or a stable code that has a text. `phases_ms`: durations of `dns`, `connect`, `tls` and `answer`.
    `request`: the request sent, without secrets.
    """

    code: str
    status: int | None
    took_ms: int
    phases_ms: tuple[tuple[str, int], ...]
    request: str
    excerpt: str


#: Changes a subscription. Id, owner and creation time must stay.
Change = Callable[[SubscriptionRow], SubscriptionRow]

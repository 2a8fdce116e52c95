"""Sample messages, and a scripted egress that records its requests."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from multidict import CIMultiDict

from outcry.delivery.egress import Reply
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox_model import Entry, Message, Queue, Reader
from outcry.delivery.sender import Sender, SendResult
from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind

NOW_NS = 1_767_366_245_123_456_789
PAGES = "https://outcry.example.com"
HOOK = "https://hooks.mysite.dev/outcry/secret-path-0042?token=t0psecretvalue"
SLACK = "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefgh12345678"
DISCORD = "https://discord.com/api/webhooks/12345678901234567/" + "aB_-" * 17
ADDRESSES = {Target.HTTPS: HOOK, Target.SLACK: SLACK, Target.DISCORD: DISCORD}


class StillClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, at_ns: int = NOW_NS) -> None:
        self.at_ns = at_ns

    def now_ns(self) -> int:
        return self.at_ns


def subscription(target: Target, *, symbols: tuple[str, ...] = ()) -> SubscriptionRow:
    return SubscriptionRow(
        id=7, user_id=1, target=target, label="desk", sealed_address=b"", shown="…", symbols=symbols,
        min_severity="info", phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=None, secret_last4="",
        sealed_old_secret=None, old_until_ns=None, created_ns=0,
    )  # fmt: skip


def alert(
    kind: AlertType = AlertType.IB_BREAK_UP, symbol: str = "ES", *, at_ms: int = 1_767_366_240_000, ref: str = "IBH",
    params: Mapping[str, object] | None = None, invented: bool = False,
) -> AlertRow:  # fmt: skip
    return AlertRow(
        owner=0, feed="demo", contract=f"{symbol}H2026", symbol=symbol, type=kind, severity=kind.severity,
        session=SessionKind.RTH, trade_date=date(2026, 1, 2), key=f"{symbol}:{kind.value}:{at_ms}",
        at_ns=at_ms * 1_000_000, price_e9=6_912_500_000_000, ref=ref,
        params={"ibHigh": 6_912_250_000_000, "otherSideBroken": False} if params is None else params,
        invented=invented, seq=1,
    )  # fmt: skip


def make_message(
    target: Target,
    alerts: Sequence[AlertRow] = (),
    *,
    missed: int = 0,
    symbols: tuple[str, ...] = (),
    first: int = 41,
) -> Message:
    """Return a message with these alerts, numbered from `first`; without alerts, a test message."""
    numbers: dict[str, int] = {}
    entries: list[Entry] = []
    for place, row in enumerate(alerts):
        numbers[row.symbol] = numbers.get(row.symbol, first - 1) + 1
        entries.append(Entry(id=100 + place, number=numbers[row.symbol], alert=row))
    return Message(
        "msg_2yZC7cDjpkJZ", subscription(target, symbols=symbols),
        Reader("ann@example.com", "en", "Europe/Berlin", 7), Queue(), tuple(entries), missed, 0, NOW_NS,
    )  # fmt: skip


def reply(
    status: int | None = 200,
    body: bytes = b"",
    code: str = "ok",
    headers: Mapping[str, str] | None = None,
    took_ms: int = 12,
) -> Reply:
    return Reply(
        code=code, status=status, headers=CIMultiDict(headers or {}), body=body, took_ms=took_ms,
        phases_ms=(("connect", 5), ("answer", 7)),
    )  # fmt: skip


@dataclass
class ScriptedEgress:
    """Responds with the given replies in turn, the last one repeatedly; records the posted requests."""

    replies: Sequence[Reply]
    posts: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)

    async def post(self, address: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        self.posts.append((address, body, dict(headers)))
        return self.replies[min(len(self.posts), len(self.replies)) - 1]


def send(sender: Sender, sent: Message, address: str = "", secrets: Sequence[str] = ()) -> SendResult:
    """Send a message to the URL of its target, unless another is given."""
    return asyncio.run(sender.send(sent, address or ADDRESSES[sent.subscription.target], secrets))


def many(count: int, row: AlertRow | None = None) -> list[AlertRow]:
    """Return this many alerts, a second apart."""
    first = row or alert()
    at_ms = first.at_ns // 1_000_000
    return [
        replace(
            first,
            key=f"{first.symbol}:{first.type.value}:{at_ms + 1000 * place}",
            at_ns=first.at_ns + place * 10**9,
        )
        for place in range(count)
    ]

"""Sample alerts of an email digest, for tests to alter."""

from dataclasses import replace
from datetime import date
from typing import Any

from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox_model import Entry, Message, Queue, Reader
from outcry.live.model import AlertRow
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind

#: 14:13:20 UTC on a Monday, the time of the hand clock: 10:13:20 in New York.
NOW_NS = 1_790_000_000_000_000_000

ALERT = AlertRow(
    owner=0, feed="cme", contract="ESZ2026", symbol="ES", type=AlertType.IB_BREAK_UP, severity="warn",
    session=SessionKind.RTH, trade_date=date(2026, 9, 21), key="ES:ib-break-up:1790000000000", at_ns=NOW_NS,
    price_e9=6_512_250_000_000, ref="IBH", params={"tick": 250_000_000, "ibHigh": 6_512_000_000_000},
    invented=False, seq=1,
)  # fmt: skip
SUBSCRIPTION = SubscriptionRow(
    id=7, user_id=3, target=Target.EMAIL, label="Desk", sealed_address=b"sealed", shown="ann@example.com",
    symbols=(), min_severity="info", phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=None, secret_last4="",
    sealed_old_secret=None, old_until_ns=None, created_ns=NOW_NS, window="hour", at_once=True,
)  # fmt: skip
READER = Reader(email="owner@example.com", language="en", time_zone="America/New_York", digest_hour=17)


def alert(symbol: str = "ES", **parts: Any) -> AlertRow:
    return replace(ALERT, symbol=symbol, contract=f"{symbol}Z2026", **parts)


def make_message(*alerts: AlertRow, subscription: dict[str, Any] | None = None, **parts: Any) -> Message:
    entries = tuple(Entry(id=at, number=at, alert=one) for at, one in enumerate(alerts, 1))
    made = Message(
        message_id="msg_2f0c", subscription=replace(SUBSCRIPTION, **(subscription or {})), reader=READER,
        queue=Queue(), entries=entries, missed=0, tries=0, created_ns=NOW_NS,
    )  # fmt: skip
    return replace(made, **parts)

"""Webhooks on a complete service, with a scripted delivery and alerts fired by the test."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

from tests.web.account_harness import Member, account_service
from tests.web.harness import Reply, WebHarness

from outcry.access.licences import Audience
from outcry.database import schema
from outcry.delivery.model import AttemptRow, SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.model import TestResult as Result
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.delivery.url_rule import read_rule
from outcry.live.model import AlertRow, FanOut
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind

URL = "https://hooks.mysite.dev/outcry/very-secret-path-0042"
SLACK = "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefgh12345678"
GOOD = Result("ok", 200, 84, (("dns", 3), ("tls", 40)), '{"version":2}', "thanks")
EVERYONE = Audience(everyone=True, tiers=frozenset(), users=frozenset())
_NUMBERS = count(1)


class ScriptedDeliverer:
    """Judges as the real one does, but asks no name service; a test ends as the test wishes; nothing else is sent."""

    running, failed = True, False

    def __init__(self) -> None:
        self.result = GOOD
        self.verdict = "ok"
        self.admitted: Sequence[str] = ()
        self.sent: list[tuple[str, Sequence[str]]] = []
        self.woken = 0
        #: What is done first with each address that is judged or tested.
        self.before: Callable[[str], object] = lambda _: None

    def check_url(self, target: Target, address: str) -> str:
        self.before(address)
        judged = "" if target is Target.EMAIL else read_rule().check(address)
        return judged if isinstance(judged, str) and judged else self.verdict

    def test(self, row: SubscriptionRow, address: str, secrets: Sequence[str]) -> Result:
        self.before(address)
        self.sent.append((address, secrets))
        return self.result

    def wake(self) -> None:
        self.woken += 1

    async def start(self, report: Callable[..., object]) -> None:
        """There is nothing to begin."""

    def counted(self) -> Mapping[str, int]:
        return {}

    async def stop(self) -> None:
        """There is nothing to end."""


@contextmanager
def webhook_service(folder: Path, deliverer: ScriptedDeliverer) -> Iterator[WebHarness]:
    with account_service(folder, delivery_of=lambda *_: deliverer) as made:
        yield made


def stored_rows(harness: WebHarness, member: Member) -> list[SubscriptionRow]:
    return list(SqlSubscriptionStore(harness.installation.database).subscriptions(member.user.id))


def wish(**values: str | list[str]) -> dict[str, str | list[str]]:
    usual = {
        "target": "https", "address": URL, "label": "Desk", "min_severity": "warn", "symbols": ["ES", "NQ"],
        "window": "hour",
    }  # fmt: skip
    return {**usual, **values}


def made(harness: WebHarness, member: Member, **values: str | list[str]) -> SubscriptionRow:
    assert member.send("/account/webhooks", wish(**values)).status == 303
    return stored_rows(harness, member)[-1]


def changed(harness: WebHarness, row: SubscriptionRow, **changes: Any) -> SubscriptionRow:
    """The subscription, made to stand as a test needs it."""
    store = SqlSubscriptionStore(harness.installation.database)
    after = store.change_subscription(row.user_id, row.id, lambda now: replace(now, **changes))
    assert after is not None
    return after


def disabled(harness: WebHarness, row: SubscriptionRow, reason: str = "gone") -> SubscriptionRow:
    return changed(harness, row, phase=SubscriptionPhase.DISABLED, reason=reason)


def queue(harness: WebHarness, row: SubscriptionRow, **values: int) -> None:
    """How delivering to it stands."""
    place = schema.lanes.c.subscription_id == row.id
    with harness.installation.database.write("nothing") as connection:
        connection.execute(schema.lanes.update().where(place).values(**values))


def fired(
    harness: WebHarness, number: int = 1, *, symbol: str = "ES", fan_out: bool = True, owner: int = 0
) -> list[AlertRow]:
    """Have alerts fire now, for everybody; without `fan_out` as before anybody wanted them."""
    now_ns = harness.installation.clock.now_ns()
    alerts = [
        AlertRow(
            owner=owner, feed="made-up", contract=f"{symbol}H2026", symbol=symbol, type=AlertType.IB_BREAK_UP,
            severity="critical", session=SessionKind.RTH, trade_date=date(2026, 3, 4),
            key=f"{symbol}:ib-break-up:{next(_NUMBERS)}", at_ns=now_ns, price_e9=6_912_500_000_000, ref="IBH",
            params={"ibHigh": 6_912_250_000_000, "otherSideBroken": False}, invented=True, recorded_ns=now_ns,
        )
        for _ in range(number)
    ]  # fmt: skip
    fan_out_entries = FanOut(lambda _owner, _root: EVERYONE, now_ns) if fan_out else None
    return list(harness.installation.alerts.record_alerts(alerts, {}, fan_out_entries))


def phases(harness: WebHarness, row: SubscriptionRow) -> list[str]:
    """Where the alerts of a subscription stand, oldest first."""
    entries = schema.outbox.c
    query = schema.outbox.select().where(entries.subscription_id == row.id).order_by(entries.id)
    with harness.installation.database.reading() as connection:
        return [one.phase for one in connection.execute(query)]


def put(harness: WebHarness, row: SubscriptionRow, phase: str, message_id: str | None = None) -> None:
    """Have all its alerts stand somewhere."""
    with harness.installation.database.write("nothing") as connection:
        place = schema.outbox.c.subscription_id == row.id
        connection.execute(schema.outbox.update().where(place).values(phase=phase, message_id=message_id))


def attempt(harness: WebHarness, row: SubscriptionRow, **values: Any) -> None:
    """An attempt in its log."""
    usual = AttemptRow(
        id=0, subscription_id=row.id, at_ns=harness.installation.clock.now_ns(), alert_key="ES:ib-break-up:1",
        alert_type="ib-break-up", symbol="ES", outcome="delivered", code="ok", status=200, took_ms=9, excerpt="",
        next_ns=None, message_id="msg_1", shown=row.shown,
    )  # fmt: skip
    SqlOutbox(harness.installation.database).keep_attempt(replace(usual, **values), None)


def secret_on(page: Reply) -> str:
    begin = page.text.index('id="secret">') + len('id="secret">')
    return page.text[begin : page.text.index("<", begin)]

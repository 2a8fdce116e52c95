"""Recipients of the engine's alerts: by the grants at the time of recording, on the machine's clock."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.live.engine_harness import MINUTE, SECOND, ScriptFeed, rows
from tests.timeouts import within

from outcry.access.model import GrantRow
from outcry.app.installation import Installation, open_installation
from outcry.app.live import live_service
from outcry.app.settings import Settings
from outcry.delivery.model import SubscriptionPhase, SubscriptionRow, Target
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import Backlog
from outcry.delivery.subscription_store import SqlSubscriptionStore
from outcry.people.store import SqlIdentityStore
from outcry.trades.feed import CaughtUp, Ended, Event, Trades
from outcry.trades.records import Quality

OPEN = int(datetime(2024, 7, 2, 13, 30, tzinfo=UTC).timestamp()) * SECOND  # 09:30 New York
NOW = int(datetime(2031, 1, 1, tzinfo=UTC).timestamp()) * SECOND
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
#: An hour between 22,000 and 22,010, and a trade above it a minute later: one alert.
BREAK = [
    Trades(rows((OPEN, 22_000), (OPEN + 30 * MINUTE, 22_010), (OPEN + 59 * MINUTE, 22_005))),
    Trades(rows((OPEN + 61 * MINUTE, 22_011))),
]
PRO, FREE = 1, 2


@dataclass
class HandClock:
    """A clock that moves only when a test moves it."""

    ns: int

    def now_ns(self) -> int:
        return self.ns


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOW)


@pytest.fixture
def market() -> HandClock:
    return HandClock(OPEN)


@pytest.fixture
def installation(tmp_path: Path, clock: HandClock, market: HandClock) -> Iterator[Installation]:
    """Return an installation with a simulated market, years in the past, and two users who subscribe to every alert."""
    with open_installation(
        Settings(data=str(tmp_path)), clock=clock, market_clock=lambda _: market
    ) as opened:
        people, subscriptions = SqlIdentityStore(opened.database), SqlSubscriptionStore(opened.database)
        for email, tier in (("pro@example.com", "pro"), ("free@example.com", "free")):
            user = people.add_user(email, "member", tier, email.encode(), NOW)
            assert user is not None
            wanted = SubscriptionRow(
                id=0, user_id=user.id, target=Target.HTTPS, label="", sealed_address=b"x", shown="x", symbols=(),
                min_severity="info", phase=SubscriptionPhase.ACTIVE, reason="", sealed_secret=None, secret_last4="",
                sealed_old_secret=None, old_until_ns=None, created_ns=NOW,
            )  # fmt: skip
            assert subscriptions.add_subscription(wanted, 9) == user.id
        yield opened


def play(installation: Installation, script: Sequence[Event], name: str = "script") -> None:
    """Run the installation's engine on a feed with these events."""

    async def whole() -> None:
        engine = live_service(installation).engine
        await engine.start()
        try:
            await within(
                engine.attach(0, ScriptFeed([[CAUGHT, *script, Ended(OPEN + 500 * MINUTE)]], name=name)), 60
            )
            await engine.drained()
        finally:
            await engine.stop()

    with installation.log.exclusively():
        asyncio.run(whole())


def backlogs(installation: Installation) -> tuple[Backlog, Backlog]:
    outbox = SqlOutbox(installation.database)
    return outbox.backlog(PRO, PRO), outbox.backlog(FREE, FREE)


def test_recipients_are_chosen_by_grants_at_the_machines_time(
    installation: Installation,
) -> None:
    installation.store.add_grant(GrantRow(0, "tier:pro", "live", (), None, None, 0, None), NOW)
    play(installation, BREAK)
    (alert,) = installation.alerts.alerts([0])
    assert alert.recorded_ns is not None
    assert alert.recorded_ns < NOW
    assert backlogs(installation) == (Backlog(1, 0, 0), Backlog(0, 0, 0))
    (message,) = SqlOutbox(installation.database).claim("w", NOW, SECOND, 9, 9)
    assert (message.created_ns, message.entries[0].alert) == (NOW, alert)


def test_alerts_without_a_grant_are_sent_to_nobody(installation: Installation) -> None:
    play(installation, BREAK)
    assert len(installation.alerts.alerts([0])) == 1
    assert backlogs(installation) == (Backlog(0, 0, 0), Backlog(0, 0, 0))


def test_a_withdrawn_grant_excludes_the_next_alert(installation: Installation, clock: HandClock) -> None:
    """Another process withdraws the grant, and this one detects it."""
    number = installation.store.add_grant(GrantRow(0, "everyone", "live", (), None, None, 0, None), NOW)
    play(installation, BREAK)
    assert backlogs(installation) == (Backlog(1, 0, 0), Backlog(1, 0, 0))
    assert installation.store.revoke_grant(number, NOW)
    clock.ns += SECOND
    play(installation, BREAK, name="another")
    assert [row.feed for row in installation.alerts.alerts([0])] == ["script", "another"]
    assert backlogs(installation) == (Backlog(1, 0, 0), Backlog(1, 0, 0))


def test_alerts_from_before_the_start_of_a_simulated_market_are_not_sent(
    installation: Installation, market: HandClock
) -> None:
    installation.store.add_grant(GrantRow(0, "everyone", "live", (), None, None, 0, None), NOW)
    market.ns = OPEN + 61 * MINUTE + 1
    play(installation, BREAK)
    assert len(installation.alerts.alerts([0])) == 1
    assert backlogs(installation) == (Backlog(0, 0, 0), Backlog(0, 0, 0))
    market.ns = OPEN + 61 * MINUTE
    play(installation, BREAK, name="another")
    assert backlogs(installation) == (Backlog(1, 0, 0), Backlog(1, 0, 0))

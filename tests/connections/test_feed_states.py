"""Feed state of a levels answer, from a new key to live and back.

Keys, licences, vault, supervisor, engine and store are real; the vendor is in memory. It is Wednesday 2026-11-18, 15:00
UTC; regular hours are 14:30 to 21:15, the overnight session opens at 23:00. The vendor also has the previous day, so
its data has a prior session.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.feeds.broker_harness import (
    CLOSE_NS,
    DAY,
    ES,
    MINUTE,
    NQ,
    OPEN_NS,
    SPEEDUP,
    BrokerHarness,
    at,
    open_broker_harness,
)
from tests.feeds.memory_vendor import MemoryPeer
from tests.timeouts import within

from outcry.access.model import GrantRow, Tier
from outcry.base.errors import NoLicensedSource
from outcry.connections.broker_adapter import AdapterContext
from outcry.connections.contract_selection import contract_selector
from outcry.connections.lifecycle import RESTING
from outcry.connections.model import ConnectionPhase
from outcry.market.calendar import SessionKind
from outcry.market.ladder import Bracket, Ladder
from outcry.market.snapshot import dump
from outcry.people.store import SqlIdentityStore
from outcry.sessions.store_model import SessionRow
from outcry.trades.records import TRADE, Quality
from outcry.wire.answers import LevelsAnswer

LIVE_ONLY = ("updated_at", "last_price", "bias", "developing", "overnight", "playbook")
MONDAY, TUESDAY = date(2026, 11, 16), date(2026, 11, 17)
LIVE_GRANT = GrantRow(0, "everyone", "live", (), None, None, 0, None, licence="public")
NIGHT_NS = at("2026-11-18 23:00:00")


class Key:
    """A key as its holder uses it; `ask` returns the state of ES."""

    def __init__(self, harness: BrokerHarness, email: str, tier: Tier = "free") -> None:
        self._build_harness = harness
        self._text = harness.installation.keys.create(email, tier, harness.clock.now_ns())

    def levels(self) -> LevelsAnswer | list[str]:
        installation, now_ns = self._build_harness.installation, self._build_harness.clock.now_ns()
        row = installation.keys.find(self._text, now_ns)
        installation.licences.refresh(now_ns, force=True)
        assert not isinstance(row, str)
        try:
            return installation.query.levels(installation.licences.scope(row), "ES", now_ns).answer
        except NoLicensedSource as refusal:
            return list(refusal.details["reasons"])

    def state(self) -> tuple[str, bool, str | None] | list[str]:
        """Return `dataSource`, `live`, `asOf`, or the reasons of a 409; live-only fields exist only if live."""
        found = self.levels()
        if isinstance(found, list):
            return found
        filled = [name for name in LIVE_ONLY if getattr(found, name) is not None]
        assert filled == (list(LIVE_ONLY) if found.live else []), filled
        assert found.prior is not None
        return found.data_source, found.live, found.as_of

    async def until(self, state: tuple[str, bool, str | None] | list[str], seconds: float = 60.0) -> None:
        await self._build_harness.until(
            lambda: self.state() == state, f"{state}, but {self.state()}", seconds
        )


LIVE = ("personal", True, None)
SHARED = ("shared", True, None)


def delayed(day: date) -> tuple[str, bool, str]:
    return "delayed", False, str(day)


def operators_session(harness: BrokerHarness, day: date) -> None:
    """Store a regular session of ES for the operator, with one price in each bracket."""
    opened = OPEN_NS - (DAY - day) // timedelta(days=1) * 24 * 60 * MINUTE
    brackets = tuple(
        Bracket(n, 27_000, 27_000, 27_000, 27_000, opened + n * 30 * MINUTE, opened + n * 30 * MINUTE + 1)
        for n in range(13)
    )
    row = SessionRow(
        owner=0, root="ES", contract=ES.key, trade_date=day, kind=SessionKind.RTH, open_ns=opened,
        close_ns=opened + CLOSE_NS - OPEN_NS, source="file", quality=Quality.TICKS, complete=True, short=False,
        rows=26, volume=26, off_tick=0, out_of_order=0, first_ns=opened, last_ns=opened + 1, received_ns=opened,
        profile=dump(Ladder(brackets, 27_000, (26,), ((27_000, 27_000),), "trades")),
    )  # fmt: skip
    harness.installation.store.commit_import(0, f"digest {day}", "file", (), [row], harness.clock.now_ns())


def a_night_more(harness: BrokerHarness) -> None:
    """Extend the vendor's tape into the overnight session of the next trade date."""
    for contract in (ES, NQ):
        day = harness.tapes[contract]
        night = np.zeros(600, TRADE)
        night["ts_event"] = NIGHT_NS + np.arange(1, 601) * 10**10
        night["price"], night["size"], night["side"] = day["price"][-1], 1, b"B"
        harness.tapes[contract] = np.concatenate([day, night])
        harness.peer.tape(contract, harness.tapes[contract])


def run(folder: Path, work: Callable[[BrokerHarness], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with open_broker_harness(folder, MemoryPeer) as harness:
            await within(work(harness), 240)

    asyncio.run(whole())


@pytest.mark.parametrize("tier", ["free", "pro", "admin"])
def test_a_new_key_has_nothing_or_the_latest_completed_session_whatever_its_tier(
    tmp_path: Path, tier: Tier
) -> None:
    async def work(harness: BrokerHarness) -> None:
        key = Key(harness, "ann@example.com", tier)
        assert key.state() == ["no_connection", "no_completed_session"]
        operators_session(harness, TUESDAY)  # closed 17 hours and 45 minutes ago
        assert key.state() == ["no_connection", "embargo"]
        operators_session(harness, MONDAY)
        assert key.state() == delayed(MONDAY)
        harness.peer.now_ns = CLOSE_NS - 1
        assert key.state() == delayed(MONDAY)
        harness.peer.now_ns = CLOSE_NS  # a day after Tuesday's
        assert key.state() == delayed(TUESDAY)

    run(tmp_path, work)


def test_a_broker_connection_makes_only_the_owners_key_live(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        operators_session(harness, MONDAY)
        key, bobs = Key(harness, "ann@example.com"), Key(harness, "bob@example.com", "admin")
        assert key.state() == bobs.state() == delayed(MONDAY)
        harness.connect()
        await key.until(LIVE)
        assert Key(harness, "ann@example.com", "pro").state() == LIVE  # another key of the same user
        assert bobs.state() == delayed(MONDAY)

    run(tmp_path, work)


def test_an_idle_feed_is_delayed_until_data_returns(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key = Key(harness, "ann@example.com")
        harness.connect()
        await key.until(LIVE)
        harness.peer.freeze(on=True)
        # its data of Tuesday now belongs to its owner and has no embargo
        await key.until(delayed(TUESDAY))
        harness.peer.freeze(on=False)
        await key.until(LIVE)

    run(tmp_path, work)


def test_a_broken_connection_is_delayed_until_it_has_caught_up(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key = Key(harness, "ann@example.com")
        harness.connect()
        await key.until(LIVE)
        harness.peer.freeze(on=True)  # it does not become live at once
        await harness.peer.drop()
        await key.until(delayed(TUESDAY))
        before = key.levels()
        assert isinstance(before, LevelsAnswer)
        await harness.peer.advance(harness.peer.now_ns + 5 * MINUTE)
        harness.peer.freeze(on=False)
        await key.until(LIVE)
        await harness.caught()
        after = key.levels()
        assert isinstance(after, LevelsAnswer)
        assert after.last_price is not None

    run(tmp_path, work)


def test_a_refused_login_is_delayed_until_its_owner_signs_in_again(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key = Key(harness, "ann@example.com")
        harness.connect()
        await key.until(LIVE)
        await harness.peer.expire(on=True)
        await harness.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        await key.until(delayed(TUESDAY))
        await harness.peer.expire(on=False)
        assert harness.connections.renew(harness.user, harness.id, harness.peer.given, harness.clock.now_ns())
        await key.until(LIVE)

    run(tmp_path, work)


def test_a_connection_that_never_opened_is_the_reason_for_no_data(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key, bobs = Key(harness, "ann@example.com"), Key(harness, "bob@example.com")
        harness.peer.given = {"key": "memory-mistyped"}
        harness.connect()
        await harness.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        await key.until(["login_refused", "no_completed_session"])
        assert bobs.state() == ["no_connection", "no_completed_session"]

    run(tmp_path, work)


def test_a_disabled_account_is_not_signed_in_anywhere_until_it_is_enabled(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key, people = Key(harness, "ann@example.com"), SqlIdentityStore(harness.installation.database)
        harness.connect()
        await key.until(LIVE)
        assert people.change_user(harness.user, disabled_ns=harness.clock.now_ns())
        await harness.until(lambda: not harness.peer.calls, "the session at the vendor ended")
        assert people.change_user(harness.user, disabled_ns=0)
        await key.until(LIVE)

    run(tmp_path, work)


def test_a_pause_and_its_end(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key = Key(harness, "ann@example.com")
        harness.connect()
        await key.until(LIVE)
        assert harness.connections.pause(harness.user, harness.id, harness.clock.now_ns())
        await key.until(delayed(TUESDAY))
        assert harness.row.phase in RESTING
        assert harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
        await key.until(LIVE)

    run(tmp_path, work)


def test_the_close_the_night_a_disconnect_and_a_new_connection(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        key, bobs = Key(harness, "ann@example.com"), Key(harness, "bob@example.com")
        a_night_more(harness)
        harness.connect()
        await key.until(LIVE)
        await harness.play(CLOSE_NS + MINUTE, 2 * MINUTE)
        # closed, but not completed for five minutes: the day before answers
        await key.until(delayed(TUESDAY))
        await harness.play(CLOSE_NS + 6 * MINUTE, MINUTE)
        await key.until(delayed(DAY), 40)
        await harness.play(NIGHT_NS - MINUTE, 10 * MINUTE)
        assert key.state() == delayed(DAY)
        await harness.play(NIGHT_NS + 2 * MINUTE, MINUTE)
        await key.until(LIVE)  # the overnight session, with the day's levels as prior
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        await key.until(delayed(DAY))  # the data it received stays with its owner
        assert bobs.state() == ["no_connection", "no_completed_session"]
        await harness.until(lambda: not harness.connections.connections(harness.user), "nothing connected")
        harness.connect()
        await key.until(LIVE)

    run(tmp_path, work)


def test_a_granted_shared_feed_answers_after_the_users_own(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        installation, now_ns = harness.installation, harness.clock.now_ns
        ann, bob = Key(harness, "ann@example.com"), Key(harness, "bob@example.com")
        wanted = contract_selector(installation.reference.universe, ("ES", "NQ"), harness.clock)
        context = AdapterContext(installation.reference.universe, harness.clock, wanted, {}, SPEEDUP)
        harness.engine.attach(0, harness.peer.adapter.feed(harness.peer.given, context))
        row = installation.keys.list()[0]
        number = installation.store.add_grant(LIVE_GRANT, now_ns())
        await ann.until(SHARED)
        assert bob.state() == SHARED
        assert installation.store.revoke_grant(number, now_ns())
        # the operator's Tuesday is still under embargo
        assert ann.state() == bob.state() == ["no_connection", "embargo"]
        installation.store.add_grant(
            GrantRow(0, f"user:{row.user_id}", "live", ("ES",), None, None, 0, None), now_ns()
        )
        assert (ann.state(), bob.state()) == (SHARED, ["no_connection", "embargo"])
        harness.connect()
        await ann.until(LIVE)
        assert harness.connections.pause(harness.user, harness.id, now_ns())
        await ann.until(SHARED)
        assert harness.connections.resume(harness.user, harness.id, now_ns())
        await ann.until(LIVE)

    run(tmp_path, work)

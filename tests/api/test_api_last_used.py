"""The last use of a key is stored in the background, by the service's clock."""

import asyncio
from pathlib import Path

import pytest
from tests.api.harness import (
    SECOND,
    SERVER_SECRET,
    START_NS,
    HandClock,
    MemoryAccounts,
    build_harness,
    served,
)
from tests.timeouts import until

from outcry.access.keys import ApiKeys
from outcry.access.local_limiter import SlidingWindowLimiter
from outcry.api import last_used
from outcry.api.last_used import LastUsedWriter
from outcry.database import migrate as migration
from outcry.database.database import Database, open_engine, sqlite_url
from outcry.database.errors import StoreBusy
from outcry.people.browser_sessions import NOTED_NS, BrowserSessions, Origin
from outcry.people.store import SqlIdentityStore


class BusyOnce(MemoryAccounts):
    """Store that fails the first time uses are recorded."""

    failed = False

    def used_keys(self, times):  # type: ignore[no-untyped-def]
        if not self.failed:
            self.failed = True
            raise StoreBusy
        super().used_keys(times)


def ring_of(accounts: MemoryAccounts, clock: HandClock) -> ApiKeys:
    ring = ApiKeys(accounts, SERVER_SECRET, clock)
    for _ in range(3):
        ring.create("ann@example.com", "free", START_NS)
    return ring


def test_uses_are_written_by_this_machines_clock_whatever_the_limiter_goes_by() -> None:
    accounts, machine, steady = MemoryAccounts(), HandClock(), HandClock(5 * SECOND)
    ring, limiter = ring_of(accounts, machine), SlidingWindowLimiter(steady.now_ns)
    limiter.take("key:1", 30)
    limiter.take("ip:192.0.2.1", 30)
    steady.at_ns += 20 * SECOND
    moves = accounts.moves
    asyncio.run(LastUsedWriter(limiter, lambda: ["key:3", "visitor:192.0.2.1"], ring, None).write())
    assert [row.last_used_ns for row in accounts.rows] == [START_NS - 20 * SECOND, None, START_NS]
    assert accounts.moves == moves


def test_a_store_that_is_busy_is_told_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts, clock = BusyOnce(), HandClock()
    limiter = SlidingWindowLimiter(clock.now_ns)
    monkeypatch.setattr(last_used, "INTERVAL_S", 0.01)
    ring = ring_of(accounts, clock)
    limiter.take("key:2", 30)

    async def run() -> None:
        writer = LastUsedWriter(limiter, list, ring, None)
        writer.start()
        await until(lambda: accounts.rows[1].last_used_ns is not None)
        await writer.stop()

    asyncio.run(run())
    assert accounts.failed
    assert [row.last_used_ns for row in accounts.rows] == [None, START_NS, None]


def test_a_service_that_stops_writes_down_the_last_uses() -> None:
    with served(build_harness()) as harness:
        asked, idle = harness.key(), harness.key()
        assert harness.get("/api/levels?symbol=ES", asked).status == 200
        assert harness.accounts.rows[0].last_used_ns is None
    used = {row.prefix: row.last_used_ns for row in harness.accounts.rows}
    assert used == {asked[:15]: START_NS, idle[:15]: None}


def test_a_browsers_use_is_written_once_and_counts_on_after_that(tmp_path: Path) -> None:
    """A use that was stored but not read back must not make the session look idle."""
    engine = open_engine(sqlite_url(tmp_path))
    migration.migrate(engine)
    store = SqlIdentityStore(Database(engine))
    user = store.add_user("ann@example.com", "member", "free", b"handle", START_NS)
    assert user is not None
    browser_sessions = BrowserSessions(store, SERVER_SECRET, HandClock())
    token = browser_sessions.open(user, Origin("192.0.2.1", "a browser"), START_NS).token
    used_ns = START_NS + 2 * NOTED_NS
    assert browser_sessions.find(token, used_ns) is not None
    browser_sessions.write_seen()
    (row,) = store.sessions()
    assert row.seen_ns == used_ns
    (mine,) = browser_sessions.of(user.id, used_ns)
    found = browser_sessions.find(token, START_NS + 14 * 24 * 3600 * SECOND)
    assert found is not None, "fourteen days after it began, not after its last use"
    assert mine.id == row.id
    engine.dispose()

"""Supervisor of connections: where they may run, isolation of their faults, and what remains when they end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.feeds.broker_harness import ES, BrokerHarness, open_broker_harness
from tests.feeds.memory_vendor import CAPS, MemoryPeer
from tests.timeouts import within

from outcry.connections import sign_in_attempts, supervisor
from outcry.connections.feed_factory import ConnectionPolicy
from outcry.connections.model import CheckStep, ConnectionPhase, ConnectionRefused
from outcry.database.errors import StoreBusy
from outcry.feeds.pushed import PushedFeed
from outcry.market.instruments import Contract
from outcry.trades.feed import Feed

LIVE, FAILED = ConnectionPhase.LIVE, ConnectionPhase.FAILED


def run(folder: Path, work: Callable[[BrokerHarness], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with open_broker_harness(folder, MemoryPeer) as harness:
            await within(work(harness), 180)

    asyncio.run(whole())


def elsewhere(harness: BrokerHarness) -> None:
    """Restrict the broker to its user's machine; this service is another one."""
    adapter = harness.peer.adapter
    adapter.broker = replace(adapter.broker, hosted=False)
    object.__setattr__(harness.connections._parts, "rules", ConnectionPolicy(local=False))


def test_a_server_never_connects_brokers_of_the_users_machine(
    tmp_path: Path,
) -> None:
    async def work(harness: BrokerHarness) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        elsewhere(harness)
        with pytest.raises(ConnectionRefused, match="not_hosted"):
            harness.connections.renew(harness.user, harness.id, harness.peer.given, harness.clock.now_ns())
        logins = harness.peer.logins
        assert harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
        await harness.until_phase(FAILED)
        assert harness.row.code == "not_hosted"
        found = await harness.connections.check(harness.user, harness.id)
        assert found is not None
        assert [(one.step, one.passed, one.code) for one in found] == [
            (CheckStep.SIGN_IN, False, "not_hosted")
        ]
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        with pytest.raises(ConnectionRefused, match="not_hosted"):
            harness.connect()
        assert harness.peer.logins == logins

    run(tmp_path, work)


def test_a_connection_that_fails_to_start_affects_no_other(tmp_path: Path) -> None:
    """The first user's credentials crash the adapter, and the second user's connection is still live."""

    async def work(harness: BrokerHarness) -> None:
        usual = harness.peer.adapter.feed

        def feed(given, context) -> Feed:
            if given["key"].endswith("broken"):
                raise OSError("a disk")
            return usual(given, context)

        first = harness.user
        broken = harness.connections.connect(first, "memory", "", harness.peer.given, ["ES", "NQ"], 0)
        harness.peer.adapter.feed = feed
        sealed = harness.installation.vault.seal(first, "memory", {"key": "memory-broken"})
        assert harness.connections._store.renew(broken, "", sealed)
        assert harness.connections.resume(first, broken, 1)
        harness.user = harness.installation.store.ensure_user("bob@example.com", 1)
        harness.connect()
        await harness.until_phase(LIVE)
        assert any("connection_start_failed" in said and "OSError" in said for said in harness.reports)
        assert "memory-broken" not in str(harness.reports)

    run(tmp_path, work)


def test_a_busy_store_is_queried_once_per_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(harness: BrokerHarness) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        usual, asked = harness.connections._store.rows, []

        def busy(user_id: int | None = None):
            asked.append(user_id)
            raise StoreBusy("locked")

        harness.seen = []
        number, harness.id = harness.id, 0
        monkeypatch.setattr(harness.connections._store, "rows", busy)
        began_s = asyncio.get_running_loop().time()
        await harness.until(lambda: asked, "a look")
        await asyncio.sleep(0.5)
        looks = (asyncio.get_running_loop().time() - began_s) / (supervisor.CHECK_INTERVAL_S / 20)
        assert 1 <= len(asked) <= 2 * looks
        monkeypatch.setattr(harness.connections._store, "rows", usual)
        harness.id = number
        await harness.until_phase(LIVE)

    run(tmp_path, work)


def test_a_failed_stream_makes_its_connection_not_live(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        usual = harness.engine._streams.acquire_for

        async def begun(key, feed):
            if key.contract.root == "NQ":
                raise ValueError("a damaged log")
            return await usual(key, feed)

        harness.engine._streams.acquire_for = begun
        harness.connect()
        await harness.until_phase(ConnectionPhase.DEGRADED)
        assert harness.row.code == "disconnected"
        found = await harness.connections.check(harness.user, harness.id)
        assert found is not None
        assert ("NQZ2026", False) in [(one.contract, one.passed) for one in found]
        harness.engine._streams.acquire_for = usual
        await harness.until_phase(LIVE)  # it is retried without intervention

    run(tmp_path, work)


def test_an_agents_feed_with_a_brokers_name_stays_visible(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        await asyncio.sleep(0.2)  # the supervisor has begun
        feed = PushedFeed("memory", CAPS, "a run")
        task = harness.engine.attach_contract(harness.user, feed, ES)
        await asyncio.wait([task])  # without a push, the supervisor refuses
        await asyncio.sleep(0.5)  # many checks
        assert [row.label for row in harness.connections.connections(harness.user)] == ["memory"]

    run(tmp_path, work)


def test_an_ended_connection_disappears_and_its_streams_are_released_later(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        await harness.close_the_day()
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        harness.id = 0
        await harness.until(lambda: not harness.connections.connections(harness.user), "nothing shown")
        await harness.play(harness.peer.now_ns + 3600 * 10**9, 10 * 60 * 10**9)
        await harness.until(lambda: not harness.engine.runners, "the streams let go")
        assert harness.session(ES) is not None

    run(tmp_path, work)


def test_added_products_are_followed_and_removed_ones_are_not(tmp_path: Path) -> None:
    async def work(harness: BrokerHarness) -> None:
        harness.connect(["ES"])
        await harness.until_phase(LIVE)
        assert harness.connections.choose(harness.user, harness.id, ["NQ"], "other")
        key = f"{harness.user}/memory/{Contract('NQ', 2026, 12).key}"
        await harness.until(lambda: key in harness.engine._feeds.followed, "NQ followed")
        await harness.until_phase(LIVE)
        shown = {
            channel.channel.key.contract.root
            for channel in harness.installation.registry.channels(harness.scope)
        }
        assert shown == {"NQ"}

    run(tmp_path, work)


def test_refused_logins_are_not_retried_on_every_request(tmp_path: Path) -> None:
    """Thirty requests in an hour, for one connection and its successors, reach the vendor eight times."""

    async def work(harness: BrokerHarness) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        await harness.peer.expire(on=True)
        await harness.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        before = harness.peer.refusals
        said: list[str] = []
        for _ in range(30):
            try:
                harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
            except ConnectionRefused as problem:
                said.append(problem.code)
            else:
                await harness.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        assert said == ["too_soon"] * (30 - (sign_in_attempts.MAX_PER_HOUR - 1))
        assert harness.peer.refusals - before <= 2 * (sign_in_attempts.MAX_PER_HOUR - 1)
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        with pytest.raises(ConnectionRefused, match="too_soon"):
            harness.connect()
        await harness.play(harness.peer.now_ns + 3601 * 10**9, 600 * 10**9)
        harness.connect()  # another hour

    run(tmp_path, work)

"""What runs connections: where they may run at all, that one's fault is no other's, and what is left when they end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.feeds.broker_harness import ES, Stage, staged
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


def run(folder: Path, work: Callable[[Stage], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with staged(folder, MemoryPeer) as stage:
            await within(work(stage), 180)

    asyncio.run(whole())


def elsewhere(stage: Stage) -> None:
    """From now on the broker is one that runs on its user's machine only, and this service is not there."""
    adapter = stage.peer.adapter
    adapter.broker = replace(adapter.broker, hosted=False)
    object.__setattr__(stage.connections._parts, "rules", ConnectionPolicy(local=False))


def test_a_broker_of_the_users_machine_is_neither_connected_nor_renewed_nor_tried_by_a_server(
    tmp_path: Path,
) -> None:
    async def work(stage: Stage) -> None:
        stage.connect()
        await stage.until_phase(LIVE)
        elsewhere(stage)
        with pytest.raises(ConnectionRefused, match="not_hosted"):
            stage.connections.renew(stage.user, stage.id, stage.peer.given, stage.clock.now_ns())
        logins = stage.peer.logins
        assert stage.connections.resume(stage.user, stage.id, stage.clock.now_ns())
        await stage.until_phase(FAILED)
        assert stage.row.code == "not_hosted"
        found = await stage.connections.check(stage.user, stage.id)
        assert found is not None
        assert [(one.step, one.passed, one.code) for one in found] == [
            (CheckStep.SIGN_IN, False, "not_hosted")
        ]
        assert stage.connections.disconnect(stage.user, stage.id, stage.clock.now_ns())
        with pytest.raises(ConnectionRefused, match="not_hosted"):
            stage.connect()
        assert stage.peer.logins == logins

    run(tmp_path, work)


def test_a_connection_that_cannot_be_begun_costs_no_other(tmp_path: Path) -> None:
    """The first user's entries make the adapter fall over; the second user's connection is live all the same."""

    async def work(stage: Stage) -> None:
        usual = stage.peer.adapter.feed

        def feed(given, context) -> Feed:
            if given["key"].endswith("broken"):
                raise OSError("a disk")
            return usual(given, context)

        first = stage.user
        broken = stage.connections.connect(first, "memory", "", stage.peer.given, ["ES", "NQ"], 0)
        stage.peer.adapter.feed = feed
        sealed = stage.installation.vault.seal(first, "memory", {"key": "memory-broken"})
        assert stage.connections._store.renew(broken, "", sealed)
        assert stage.connections.resume(first, broken, 1)
        stage.user = stage.installation.store.ensure_user("bob@example.com", 1)
        stage.connect()
        await stage.until_phase(LIVE)
        assert any("connection_start_failed" in said and "OSError" in said for said in stage.told)
        assert "memory-broken" not in str(stage.told)

    run(tmp_path, work)


def test_a_store_that_is_busy_is_asked_at_each_look_and_not_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(stage: Stage) -> None:
        stage.connect()
        await stage.until_phase(LIVE)
        usual, asked = stage.connections._store.rows, []

        def busy(user_id: int | None = None):
            asked.append(user_id)
            raise StoreBusy("locked")

        stage.seen = []
        number, stage.id = stage.id, 0
        monkeypatch.setattr(stage.connections._store, "rows", busy)
        began_s = asyncio.get_running_loop().time()
        await stage.until(lambda: asked, "a look")
        await asyncio.sleep(0.5)
        looks = (asyncio.get_running_loop().time() - began_s) / (supervisor.CHECK_INTERVAL_S / 20)
        assert 1 <= len(asked) <= 2 * looks
        monkeypatch.setattr(stage.connections._store, "rows", usual)
        stage.id = number
        await stage.until_phase(LIVE)

    run(tmp_path, work)


def test_a_contract_whose_stream_met_a_fault_is_no_live_connection(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        usual = stage.engine._streams.acquire_for

        async def begun(key, feed):
            if key.contract.root == "NQ":
                raise ValueError("a damaged log")
            return await usual(key, feed)

        stage.engine._streams.acquire_for = begun
        stage.connect()
        await stage.until_phase(ConnectionPhase.DEGRADED)
        assert stage.row.code == "disconnected"
        found = await stage.connections.check(stage.user, stage.id)
        assert found is not None
        assert ("NQZ2026", False) in [(one.contract, one.passed) for one in found]
        stage.engine._streams.acquire_for = usual
        await stage.until_phase(LIVE)  # it is tried again by itself

    run(tmp_path, work)


def test_what_an_agent_pushes_under_a_brokers_name_stays_shown(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await asyncio.sleep(0.2)  # the supervisor has begun
        feed = PushedFeed("memory", CAPS, "a run")
        task = stage.engine.attach_contract(stage.user, feed, ES)
        await asyncio.wait([task])  # nothing was pushed: it refuses
        await asyncio.sleep(0.5)  # many looks
        assert [row.label for row in stage.connections.connections(stage.user)] == ["memory"]

    run(tmp_path, work)


def test_an_ended_connection_leaves_nothing_shown_and_in_time_nothing_kept(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.connect()
        await stage.until_phase(LIVE)
        await stage.close_the_day()
        assert stage.connections.disconnect(stage.user, stage.id, stage.clock.now_ns())
        stage.id = 0
        await stage.until(lambda: not stage.connections.connections(stage.user), "nothing shown")
        await stage.play(stage.peer.now_ns + 3600 * 10**9, 10 * 60 * 10**9)
        await stage.until(lambda: not stage.engine.runners, "the streams let go")
        assert stage.session(ES) is not None

    run(tmp_path, work)


def test_other_products_are_brought_and_those_given_up_are_not(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.connect(["ES"])
        await stage.until_phase(LIVE)
        assert stage.connections.choose(stage.user, stage.id, ["NQ"], "other")
        key = f"{stage.user}/memory/{Contract('NQ', 2026, 12).key}"
        await stage.until(lambda: key in stage.engine._feeds.followed, "NQ followed")
        await stage.until_phase(LIVE)
        shown = {
            channel.channel.key.contract.root for channel in stage.installation.registry.channels(stage.scope)
        }
        assert shown == {"NQ"}

    run(tmp_path, work)


def test_a_login_that_is_refused_is_not_tried_at_each_press(tmp_path: Path) -> None:
    """Thirty presses in an hour, on one connection and on those made after it, reach the vendor eight times."""

    async def work(stage: Stage) -> None:
        stage.connect()
        await stage.until_phase(LIVE)
        await stage.peer.expire(on=True)
        await stage.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        before = stage.peer.refusals
        said: list[str] = []
        for _ in range(30):
            try:
                stage.connections.resume(stage.user, stage.id, stage.clock.now_ns())
            except ConnectionRefused as problem:
                said.append(problem.code)
            else:
                await stage.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        assert said == ["too_soon"] * (30 - (sign_in_attempts.MAX_PER_HOUR - 1))
        assert stage.peer.refusals - before <= 2 * (sign_in_attempts.MAX_PER_HOUR - 1)
        assert stage.connections.disconnect(stage.user, stage.id, stage.clock.now_ns())
        with pytest.raises(ConnectionRefused, match="too_soon"):
            stage.connect()
        await stage.play(stage.peer.now_ns + 3601 * 10**9, 600 * 10**9)
        stage.connect()  # another hour

    run(tmp_path, work)

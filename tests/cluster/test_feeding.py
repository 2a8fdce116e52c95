"""Feeds in separate processes: the folded trades equal those of the vendor, whichever process dies."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest
from support.engines.jetstream import JetStream
from tests.cluster.feeding_harness import Cluster, FeedsProcess, LocalCalls, PunctualPeer, clustered
from tests.feeds.broker_harness import ES, MINUTE, NQ, OPEN_NS, SECOND, BrokerHarness, open_broker_harness
from tests.timeouts import within

from outcry.access.licences import OPERATOR
from outcry.base.errors import InvalidRequest, StoreUnavailable
from outcry.cluster.stream_owner.client import ForwardingIntake, StreamOwnerClient
from outcry.connections.model import CheckStep, ConnectionPhase
from outcry.feeds import push_queue
from outcry.live import entries as log
from outcry.live.model import StreamKey
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Backfill,
    CaughtUp,
    Cursor,
    Event,
    FeedCaps,
    Heartbeat,
    Resume,
    Trades,
)
from outcry.trades.push_format import Again, Origin, Push
from outcry.trades.records import Quality, Rows

LIVE = ConnectionPhase.LIVE


def run(
    folder: Path, work: Callable[[Cluster], Awaitable[None]], peer: PunctualPeer | None = None, urls: str = ""
) -> None:
    async def whole() -> None:
        async with clustered(folder, peer, urls) as harness:
            await within(work(harness), 180)

    asyncio.run(whole())


def reported_statuses(harness: BrokerHarness) -> list[tuple[str, str, int, int]]:
    """Return all alerts, ordered by contract and time."""
    rows = harness.installation.alerts.alerts([harness.user])
    return sorted((row.contract, row.key, row.at_ns, row.price_e9) for row in rows)


def folded(harness: BrokerHarness) -> list[tuple[str, str, bytes]]:
    """Return both stored sessions of the day of both products."""
    found = []
    for contract in (ES, NQ):
        for kind in SessionKind:
            session = harness.session(contract, kind)
            assert session is not None
            found.append((contract.key, kind.value, bytes(session.profile)))
    return found


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> tuple[list, list]:
    """Return the results of a single process for the day."""

    async def whole() -> tuple[list, list]:
        async with open_broker_harness(tmp_path_factory.mktemp("embedded"), PunctualPeer) as harness:
            harness.connect()
            await harness.until_phase(LIVE)
            await harness.close_the_day()
            harness.equals_the_tape()
            return reported_statuses(harness), folded(harness)

    return asyncio.run(within(whole(), 180))


async def kill_all_day(harness: Cluster, chance: random.Random, moments: int) -> None:
    """Kill or transfer the engine or the feed process at many moments of the day."""
    harness.connect()
    await harness.until_phase(LIVE)
    for _ in range(moments):
        await harness.play(harness.peer.now_ns + chance.randrange(5, 180) * SECOND)
        await chance.choice([harness.kill_engine, harness.kill_feeds, harness.move])()
        if chance.random() < 0.3:
            await harness.peer.drop()
        for _ in range(chance.randrange(8)):
            await asyncio.sleep(0)
    await harness.caught()
    await harness.until_phase(LIVE, 40)
    await harness.close_the_day()
    harness.equals_the_tape()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
def test_the_day_is_the_tape_whoever_is_killed(
    tmp_path: Path, embedded: tuple[list, list], seed: int
) -> None:
    async def work(harness: Cluster) -> None:
        await kill_all_day(harness, random.Random(seed), 40)
        assert (reported_statuses(harness), folded(harness)) == embedded

    run(tmp_path, work)


def test_the_day_is_the_tape_over_a_real_bus(
    tmp_path: Path, embedded: tuple[list, list], jetstream: JetStream
) -> None:
    async def work(harness: Cluster) -> None:
        await kill_all_day(harness, random.Random(3), 12)
        assert (reported_statuses(harness), folded(harness)) == embedded

    run(tmp_path, work, urls=jetstream.urls)


def test_who_takes_a_connection_over_asks_the_vendor_for_what_is_missing_and_no_more(tmp_path: Path) -> None:
    """A process that takes over a connection requests only missing data.

    The first process also needed yesterday's session with its overnight. The second starts two seconds before the
    newest trade.
    """
    peer = PunctualPeer()

    async def work(harness: Cluster) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        begins_ns = OPEN_NS - (41 * 60 + 15) * MINUTE  # the overnight of the day before: from 16:15 on
        assert [since_ns for _, since_ns in peer.asked] == [begins_ns] * 2
        await harness.play(harness.peer.now_ns + 5 * MINUTE)
        await harness.caught()
        known = {
            c: rows["ts_event"][rows["ts_event"] < harness.peer.now_ns] for c, rows in harness.tapes.items()
        }
        await harness.move()
        await harness.until(lambda: len(peer.asked) == 4, "the other process asks")
        newest = {contract: int(times[-1]) for contract, times in known.items()}
        assert {contract: since_ns + 2 * SECOND for contract, since_ns in peer.asked[2:]} == newest
        await harness.until(lambda: harness.peer.logins == 2, "the other process signs in")
        await harness.until_phase(LIVE)
        assert harness.peer.logins == 2
        assert not harness.feeds[0].spool.queues  # nothing remains where it ran before

    run(tmp_path, work, peer)


def test_what_a_person_does_on_a_page_reaches_the_process_that_runs_the_connection(tmp_path: Path) -> None:
    async def work(harness: Cluster) -> None:
        harness.connect(["ES"])
        await harness.until_phase(LIVE)
        assert harness.connections.choose(harness.user, harness.id, ["NQ"], "other")
        shown = harness.installation.registry
        await harness.until(
            lambda: [key.contract for key in shown.keys(harness.user)] == [NQ], "NQ alone is shown"
        )
        await harness.until_phase(LIVE)
        found = await harness.connections.check(harness.user, harness.id)
        assert found is not None
        assert [(one.step, one.contract, one.passed) for one in found] == [
            (CheckStep.SIGN_IN, "", True),
            (CheckStep.SUBSCRIBED, NQ.key, True),
            (CheckStep.HISTORY, NQ.key, True),
            (CheckStep.LIVE, NQ.key, True),
        ]
        logins = harness.peer.logins
        given = {"key": "memory-of-another"}
        assert harness.connections.renew(harness.user, harness.id, given, harness.clock.now_ns())
        await harness.until_phase(ConnectionPhase.NEEDS_SIGN_IN)
        assert harness.peer.logins == logins + 2  # asked twice, as a vendor's first no may be a hiccup
        (channel,) = [seen.channel for seen in shown.channels(harness.scope)]
        await harness.until(lambda: channel.availability.reason == harness.row.code, "the stream says why")
        assert harness.connections.renew(harness.user, harness.id, harness.peer.given, harness.clock.now_ns())
        await harness.until_phase(LIVE)
        assert harness.connections.pause(harness.user, harness.id, harness.clock.now_ns())
        await harness.until(lambda: not harness.peer.calls, "the vendor is left alone")
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        harness.id = 0
        await harness.until(lambda: not shown.keys(harness.user), "nothing is shown")
        assert not [line for line in harness.reports if "failed" in line or "un" in line.split(" ")[0]]

    run(tmp_path, work)


def test_a_connection_removed_before_its_pause_is_confirmed_is_not_shown(tmp_path: Path) -> None:
    """The owner of a stream confirms the pause only after the supervisor has seen the removal."""

    async def work(harness: Cluster) -> None:
        harness.connect(["ES"])
        await harness.until_phase(LIVE)
        owners, asked, confirmed = harness.feeds[0].streams._owners, asyncio.Event(), asyncio.Event()
        refuse = owners.refuse

        async def refuse_late(key: StreamKey, code: str) -> None:
            asked.set()
            await confirmed.wait()
            await refuse(key, code)

        owners.refuse = refuse_late
        assert harness.connections.pause(harness.user, harness.id, harness.clock.now_ns())
        await within(asked.wait(), 60)
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        supervisor = harness.feeds[0].supervisor
        await harness.until(lambda: not supervisor._rows, "the supervisor sees the removal")
        await asyncio.sleep(0)
        confirmed.set()
        harness.id = 0
        await harness.until(lambda: not harness.installation.registry.keys(harness.user), "nothing is shown")

    run(tmp_path, work)


def test_with_the_bus_away_from_the_pages_the_store_says_it_all_the_same(tmp_path: Path) -> None:
    async def work(harness: Cluster) -> None:
        assert harness.web is not None
        await harness.web.cut()
        harness.connect()
        await harness.until_phase(LIVE)
        logins = harness.peer.logins
        # A running connection starts again.
        assert harness.connections.resume(harness.user, harness.id, harness.clock.now_ns())
        await harness.until(lambda: harness.peer.logins == logins + 1, "it signs in anew")
        await harness.until_phase(LIVE)
        found = await harness.connections.check(harness.user, harness.id)
        assert found is not None
        assert [(one.passed, one.code) for one in found] == [(False, "unreachable")]

    run(tmp_path, work)


def test_a_contract_that_is_gone_while_nobody_ran_the_connection_is_retired_by_who_comes_next(
    tmp_path: Path,
) -> None:
    async def work(harness: Cluster) -> None:
        harness.connect()
        await harness.until_phase(LIVE)
        victim = harness.bringing
        harness.feeds.remove(victim)
        await victim.kill()
        assert harness.connections.disconnect(harness.user, harness.id, harness.clock.now_ns())
        harness.id = 0
        assert len(harness.installation.registry.keys(harness.user)) == 2
        await harness.hand.give(harness.feeds[0].seat)
        await harness.until(lambda: not harness.installation.registry.keys(harness.user), "nothing is shown")

    run(tmp_path, work)


def test_a_program_may_not_push_under_a_brokers_name_but_the_service_may(tmp_path: Path) -> None:
    """A refusal has the same text as in a single process; without an owner the error is retryable."""
    caps = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False)

    def push(first: int = 0, session: str = "a" * 20, again: Again | None = None) -> Push:
        return Push(session, ES, caps, first, (Heartbeat(OPEN_NS),), again)

    async def work(harness: Cluster) -> None:
        harness.reserved[harness.user] = {"memory"}
        intake = ForwardingIntake(
            harness.installation.reference.universe, StreamOwnerClient(LocalCalls(harness.bus))
        )
        assert await intake.take(harness.user, "mine", push()) == 1
        for feed, reason in (
            ("memory", "connected"),
            ("simulator", "feed"),
            ("scid", "feed"),
            ("A!", "feed"),
        ):
            with pytest.raises(InvalidRequest) as refused:
                await intake.take(harness.user, feed, push())
            assert refused.value.details == {"reason": reason}
        with pytest.raises(InvalidRequest) as refused:
            await intake.take(harness.user, "mine", push(7))
        assert refused.value.details == {"reason": "hole", "next": 1}
        assert await intake.take(harness.user, "memory", push(), Origin.RUNNER) == 1
        # A sole follower need not wait for its predecessor, which is informed and may not return at once.
        assert await intake.take(harness.user, "memory", push(session="b" * 20), Origin.RUNNER) == 1
        with pytest.raises(InvalidRequest) as refused:
            await intake.take(harness.user, "memory", push(1), Origin.RUNNER)
        assert refused.value.details == {"reason": "replaced"}
        with pytest.raises(InvalidRequest) as refused:
            await intake.take(OPERATOR, "scid", push(1), Origin.PROCESS)
        assert refused.value.details == {"reason": "hole", "next": 0}
        assert harness.owner is not None
        await harness.owner._served.aclose()
        with pytest.raises(StoreUnavailable):
            await intake.take(harness.user, "mine", push(1))

    run(tmp_path, work)


class Written:
    """File that two processes follow: the rows written, and those to come. Implements `Feed`."""

    name, run = "scid", ""
    caps = FeedCaps(1, False, True, Backfill.TICKS, 2**62, Resume.BY_TIME, False)

    def __init__(self, rows: list[Rows], came: asyncio.Condition) -> None:
        self._rows, self._came = rows, came

    async def contracts(self) -> list[Contract]:
        return [ES]

    async def open(self, contract: Contract, since: Cursor) -> AsyncIterator[Event]:
        count = len(self._rows)
        for rows in self._rows[:count]:
            recent_rows = rows[rows["ts_event"] >= since.since_ns]
            if len(recent_rows):
                yield Trades(recent_rows)
        yield CaughtUp(int(self._rows[count - 1]["ts_event"][-1]), Quality.TICKS)
        while True:
            async with self._came:
                while len(self._rows) == count:
                    await self._came.wait()
            yield Trades(self._rows[count])
            count += 1

    async def close(self) -> None:
        pass


def test_of_two_processes_with_one_file_the_other_goes_on_when_the_first_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every trade arrives once and in order: 60 trades, one a second, three deaths, the third after 50 trades."""
    monkeypatch.setattr(push_queue, "SILENCE_S", 0.5)

    async def work(harness: Cluster) -> None:
        written: list[Rows] = []
        came = asyncio.Condition()

        async def write(second: int) -> None:
            row = np.zeros(1, LIVE_TRADE)
            row["ts_event"] = row["ts_recv"] = harness.peer.now_ns - (120 - second) * SECOND
            row["price"], row["size"], row["side"] = 6_700_000_000_000 + second * 250_000_000, 1, b"N"
            async with came:
                written.append(row)
                came.notify_all()

        def feeding() -> list[FeedsProcess]:
            refused = {one: one.streams.sender.refused.get(key, "") for one in harness.feeds}
            assert set(refused.values()) <= {"", "occupied"}
            lines = {one: one.spool.queues.get(key) for one in harness.feeds}
            return [one for one, line in lines.items() if not refused[one] and line is not None and line.next]

        key = StreamKey(OPERATOR, "scid", ES)
        await write(0)
        for process in harness.feeds:
            process.streams.attach(OPERATOR, Written(written, came))
        for second in range(1, 60):
            await write(second)
            await asyncio.sleep(0.01)
            if second in {20, 35, 50}:
                await harness.until(lambda: len(feeding()) == 1, "one feeds, the other waits")
                (victim,) = feeding()
                harness.feeds.remove(victim)
                await victim.kill()
                another = await harness.begin_feeds()
                another.streams.attach(OPERATOR, Written(written, came))
        newest_ns = int(written[-1]["ts_event"][0])
        await harness.until(
            lambda: harness.engine.runners[key.text].stream.latest_ns == newest_ns, "all is taken"
        )
        logged = [log.decode(frame) for frame in harness.installation.log.read(key.text, 0)]
        times = [
            at for one in logged if isinstance(one, log.TradeRows) for at in one.rows["ts_event"].tolist()
        ]
        assert times == [int(row["ts_event"][0]) for row in written]

    run(tmp_path, work)

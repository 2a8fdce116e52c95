"""Replicas of streams that run in other processes: equal to the owner's state, or marked as stale."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.live.engine_harness import (
    ES,
    MINUTE,
    OWN_CLOCK,
    SECOND,
    CaughtUp,
    Ended,
    EngineHarness,
    Heartbeat,
    Quality,
    ScriptFeed,
    Trades,
    play_feed,
    rows,
    run,
)
from tests.live.test_engine import OPEN
from tests.memory_bus import Bus
from tests.sample_live_session import (
    ANN,
    ESH26,
    LADDER,
    LAST_NS,
    LIVE,
    NOW_NS,
    OPENING,
    REFERENCE,
    VIEW,
    alert_row,
    query,
)
from tests.timeouts import until
from tests.virtual_time import VirtualTimeLoop, run_in_virtual_time

from outcry.app.installation import Installation
from outcry.cluster import replica as mirror
from outcry.cluster import state_publisher
from outcry.cluster.latest import Latest
from outcry.cluster.replica import StateReplica
from outcry.cluster.state_publisher import StatePublisher
from outcry.cluster.wire_state import ALIVE, ProcessHeartbeat, state_of
from outcry.live import entries
from outcry.live.model import LogTakenOver, StreamKey
from outcry.live.partitions import PARTITIONS, partition_of_stream
from outcry.live.registry import Channel, Registry
from outcry.market.live_view import Capture
from outcry.trades.feed import Status

KEY = StreamKey(0, "script", ES)
PARTITION = partition_of_stream(KEY.text)
CAUGHT = CaughtUp(OPEN, Quality.TICKS)
FIRST = Trades(rows((OPEN, 22_000, 3), (OPEN + 1, 22_004, 2)))


class Clock:
    """Clock set by the test."""

    def __init__(self, now_ns: int) -> None:
        self.ns = now_ns

    def now_ns(self) -> int:
        return self.ns


def key_of(text: str) -> StreamKey:
    owner, feed, contract = text.split("/")
    return StreamKey(int(owner), feed, REFERENCE.universe.contract(contract))


@asynccontextmanager
async def running(*work: Awaitable[None]) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for end in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(end, asyncio.CancelledError), end


@dataclass
class Pair:
    """An engine that publishes states, and a process that answers requests."""

    harness: EngineHarness
    bus: Bus
    out: StatePublisher
    registry: Registry
    mirror: StateReplica
    clock: Clock
    reports: list[str]

    def mirrored(self, key: StreamKey = KEY) -> Channel:
        (found,) = [c for c in every(self.registry) if c.key == key]
        return found

    def same(self) -> bool:
        """Return whether both answer the same."""
        engine, here = every(self.harness.registry), every(self.registry)
        return [shown(c) for c in engine] == [shown(c) for c in here]


def every(registry: Registry) -> list[Channel]:
    channels = registry._channels.values()  # pyright: ignore[reportPrivateUsage]
    return sorted(
        (c for roots in channels for ones in roots.values() for c in ones.values()), key=lambda c: c.key
    )


def shown(channel: Channel) -> object:
    availability = channel.availability
    stands = (availability.live, availability.reason, availability.trade_date)
    return channel.key, channel.simulated, channel.feed_code, stands, channel.view()


@asynccontextmanager
async def paired(harness: EngineHarness, bus: Bus | None = None, name: str = "one") -> AsyncIterator[Pair]:
    bus, registry, clock, reports = bus or Bus(), Registry(), Clock(OPEN), list[str]()
    out = StatePublisher(harness.registry, harness.engine.runners, harness.log, bus, bus, name)
    into = StateReplica(registry, bus, bus, key_of, clock, lambda event, **more: reports.append(event))
    await out.take_up(PARTITION)
    async with running(out.run(), into.run()):
        yield Pair(harness, bus, out, registry, into, clock, reports)


def test_another_process_shows_what_the_engine_shows(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            more = Trades(rows((OPEN + MINUTE, 22_010, 5), (OPEN + 32 * MINUTE, 21_990, 7)))
            feed = ScriptFeed([[FIRST, CAUGHT, 0.1, more, Heartbeat(OPEN + 33 * MINUTE), 1e9]])
            harness.engine.attach(0, feed)
            await until(lambda: pair.same() and every(pair.registry) and pair.mirrored().view())
            await until(
                lambda: (view := pair.mirrored().view()) and view.last_ticks == 21_990 and pair.same()
            )
            found = pair.mirrored()
            assert found.availability.live == harness.channel().availability.live
            assert found.availability.market_ns >= OPEN + 33 * MINUTE, "a recording's own clock is told too"

    run(installation, work)


def test_a_standing_is_told_at_once_and_a_reason_with_it(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            script = [FIRST, CAUGHT, 0.2, Status(subscribed=False, code="no_permission"), 1e9]
            harness.engine.attach(0, ScriptFeed([script]))
            await until(
                lambda: every(pair.registry) and pair.mirrored().availability.reason == "unsubscribed"
            )
            assert pair.mirrored().feed_code == "no_permission"
            before = pair.registry.generation
            await asyncio.sleep(0.5)
            assert pair.registry.generation == before, "nothing stands otherwise: cached answers hold"

    run(installation, work)


def test_what_leaves_the_registry_leaves_the_others_and_may_come_back(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)])
            await until(lambda: every(pair.registry) and pair.same())
            runner = harness.engine.runners[KEY.text]
            harness.registry.drop(KEY)
            await until(lambda: not every(pair.registry))
            harness.registry.put(runner.channel)
            await until(lambda: every(pair.registry) and pair.same())
            harness.registry.drop(KEY)  # and back at once: the earlier alerts are still discarded
            pair.registry.post([alert_row(3, feed="script", contract=ES.key)])
            harness.registry.put(runner.channel)
            await until(lambda: not pair.registry.alerts_after(0)[0])
            await until(lambda: every(pair.registry) and pair.same())

    run(installation, work)


def test_a_recording_played_anew_is_shown_from_its_beginning(installation: Installation) -> None:
    """The log starts again, and with it the positions that order the states."""

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)], run="one")
            await until(lambda: every(pair.registry) and pair.same())
            await play_feed(
                harness, [Trades(rows((OPEN, 23_000, 1))), CAUGHT, Ended(OPEN + SECOND)], run="two"
            )
            await until(lambda: every(pair.registry) and pair.same())
            view = pair.mirrored().view()
            assert view is not None
            assert view.last_ticks == 23_000

    run(installation, work)


def test_nothing_is_told_before_the_log_has_it(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)])
            await until(lambda: every(pair.registry) and pair.same())
            written = asyncio.get_running_loop().create_future()
            harness.log.pending_write = lambda _key: written  # type: ignore[method-assign]
            published = len(pair.bus.puts)
            runner = harness.engine.runners[KEY.text]
            runner.log(entries.Taken("x"))
            await asyncio.sleep(0.3)
            assert len(pair.bus.puts) == published
            written.set_result(None)
            await until(lambda: len(pair.bus.puts) > published)

    run(installation, work)


def test_what_cannot_be_told_is_not_shown_as_live(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is full: the process runs, and reports the stream that it cannot publish."""
    monkeypatch.setattr(state_publisher, "_LATE_S", 0.1)
    monkeypatch.setattr(state_publisher, "HEARTBEAT_INTERVAL_S", 0.05)

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            feed = ScriptFeed([[FIRST, CAUGHT, 0.5, Trades(rows((OPEN + SECOND, 22_001, 1))), 1e9]])
            harness.engine.attach(0, feed)
            await until(
                lambda: every(pair.registry) and pair.mirrored().availability.reason in {"live", "no_prior"}
            )
            written = asyncio.get_running_loop().create_future()
            harness.log.pending_write = lambda _key: written  # type: ignore[method-assign]
            await until(lambda: pair.mirrored().availability.reason == "stale_link")
            assert not pair.mirrored().availability.answers
            written.set_result(None)
            harness.log.pending_write = lambda _key: None  # type: ignore[method-assign]
            await until(lambda: pair.mirrored().availability.reason in {"live", "no_prior"})

    run(installation, work)


def test_a_silent_engine_is_not_believed_until_it_is_heard_again(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_publisher, "HEARTBEAT_INTERVAL_S", 0.05)
    monkeypatch.setattr(mirror, "SILENT_S", 0.5)

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            harness.engine.attach(0, ScriptFeed([[FIRST, CAUGHT, 1e9]]))
            await until(
                lambda: every(pair.registry) and pair.mirrored().availability.reason in {"live", "no_prior"}
            )
            reason = pair.mirrored().availability.reason
            for fault in ("silent", "down"):
                setattr(pair.bus, fault, True)
                await until(lambda: pair.mirrored().availability.reason == "stale_link")
                setattr(pair.bus, fault, False)
                await until(lambda reason=reason: pair.mirrored().availability.reason == reason)
            pair.out.let_go(PARTITION)  # it runs, but no longer owns the stream
            await until(lambda: pair.mirrored().availability.reason == "stale_link")
            assert pair.mirrored().view() is not None

    run(installation, work)


def test_states_of_before_are_not_believed_until_their_engine_is_heard(installation: Installation) -> None:
    """A process starts and finds the state of an engine that died an hour ago."""

    async def work(harness: EngineHarness) -> None:
        bus = Bus()
        async with paired(harness, bus) as pair:
            harness.engine.attach(0, ScriptFeed([[FIRST, CAUGHT, 1e9]]))
            await until(
                lambda: every(pair.registry) and pair.mirrored().availability.reason in {"live", "no_prior"}
            )
        registry = Registry()
        late = StateReplica(registry, bus, bus, key_of, Clock(OPEN))
        async with running(late.run()):
            await until(lambda: late.complete)
            (found,) = every(registry)
            assert found.availability.reason == "stale_link"
            assert found.view() == harness.channel().view()
            await bus.tell(ALIVE, msgspec.msgpack.encode(ProcessHeartbeat("one", [PARTITION], [])))
            assert found.availability.reason != "stale_link"

    run(installation, work)


def test_the_markets_clock_goes_on_where_it_is_the_present(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_TICK_S", 0.01)

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            harness.engine.attach(0, ScriptFeed([[CAUGHT, 1e9]], caps=replace(OWN_CLOCK, own_clock=False)))
            await until(lambda: every(pair.registry) and pair.mirrored().availability.reason != "connecting")
            for _ in range(3):
                pair.clock.ns += 60 * SECOND
                await until(lambda: pair.mirrored().availability.market_ns == pair.clock.ns)

    run(installation, work)


def test_states_are_told_again_now_and_then_and_what_is_not_is_let_go(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are republished, so that a restarted bus has them again; those of a removed engine expire."""
    monkeypatch.setattr(state_publisher, "AGAIN_S", 0.2)
    monkeypatch.setattr(mirror, "RETENTION_S", 1.0)
    monkeypatch.setattr(mirror, "_TICK_S", 0.01)

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)])
            await until(lambda: every(pair.registry) and pair.same())
            published = len(pair.bus.puts)
            await until(lambda: len(pair.bus.puts) > published + 7)
            assert pair.same()
            pair.out.let_go(PARTITION)
            await until(lambda: not every(pair.registry))

    run(installation, work)


def test_what_could_not_be_put_is_put_when_the_bus_is_back(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            pair.bus.down = True
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)])
            await asyncio.sleep(0.2)
            assert not pair.bus.puts
            pair.bus.down = False
            await until(lambda: every(pair.registry) and pair.same())

    run(installation, work)


def test_whose_stream_it_is_the_log_says_when_another_shows_a_newer_state(installation: Installation) -> None:
    """The log decides between two publishers of a stream.

    If the stream is still ours, our states are newer from then on. Otherwise its owner is informed, and we publish no
    more.
    """
    lost: list[str] = []

    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            pair.out._lost = lost.append  # pyright: ignore[reportPrivateUsage]
            await play_feed(harness, [FIRST, CAUGHT, Ended(OPEN + SECOND)])
            await until(lambda: every(pair.registry) and pair.same())
            await pair.bus.put([Latest(KEY.text, (10**6, 3), pair.bus.puts[-1].body)])
            runner = harness.engine.runners[KEY.text]
            runner.channel.version += 1
            await until(lambda: pair.bus.puts[-1].order[0] == 10**6 + 1)
            assert runner.stream.position > runner.channel.acquired_at > 0
            await until(pair.same)

            await pair.bus.put([Latest(KEY.text, (10**7, 3), pair.bus.puts[-1].body)])
            taken = asyncio.get_running_loop().create_future()
            taken.set_exception(LogTakenOver(KEY.text))
            harness.log.pending_write = lambda _key: None if runner.stream.position == before else taken  # type: ignore[method-assign]
            before = runner.stream.position
            runner.channel.version += 1
            await until(lambda: lost)
            published = len(pair.bus.puts)
            runner.channel.version += 1
            await asyncio.sleep(0.3)
            assert len(pair.bus.puts) == published

    run(installation, work)
    assert lost == [KEY.text]


def test_every_answer_is_the_same_over_a_mirrored_registry() -> None:
    captured = Capture(OPENING, LADDER, LAST_NS, False, VIEW.bias, VIEW.scenarios, 3, overnight_ladder=LADDER)

    async def main() -> None:
        bus, here, there = Bus(), Registry(), Registry()
        channel = Channel(StreamKey(0, "demo", ESH26), simulated=True, peek=captured.view)
        here.put(channel)
        here.set_availability(channel, LIVE)
        into = StateReplica(there, bus, bus, key_of, Clock(LAST_NS))
        async with running(into.run()):
            body = state_of(channel, captured, "one", own_clock=False)
            await bus.put([Latest(channel.key.text, (1, 1), body)])
            alive = ProcessHeartbeat("one", [partition_of_stream(channel.key.text)], [])
            await until(lambda: every(there))
            await bus.tell(ALIVE, msgspec.msgpack.encode(alive))
            for registry in (here, there):
                registry.post([alert_row(1), alert_row(2)])
            direct, mirrored = query(here), query(there)
            for symbol in ("ES", "ESH26"):
                for ask, more in (("levels", ()), ("context", ()), ("profile", (None,)), ("chart", (None,))):
                    said = [
                        msgspec.json.encode(getattr(one, ask)(ANN, symbol, *more, NOW_NS).answer)
                        for one in (direct, mirrored)
                    ]
                    assert said[0] == said[1]
                    assert b"6913" in said[1], "the last price, or its row"
            assert there.alerts(ANN) == here.alerts(ANN) != []

    asyncio.run(main())


def test_a_mirror_that_ends_leaves_nothing_that_stands_live_and_goes_on_where_it_was(
    installation: Installation,
) -> None:
    async def work(harness: EngineHarness) -> None:
        bus, registry = Bus(), Registry()
        into = StateReplica(registry, bus, bus, key_of, Clock(OPEN))
        out = StatePublisher(harness.registry, harness.engine.runners, harness.log, bus, bus, "one")
        await out.take_up(PARTITION)
        harness.engine.attach(0, ScriptFeed([[FIRST, CAUGHT, 1e9]]))
        async with running(out.run()):
            async with running(into.run()):
                await until(lambda: [one.availability.reason for one in every(registry)] == ["no_prior"])
            assert [one.availability.reason for one in every(registry)] == ["stale_link"]
            assert not into.complete
            async with running(into.run()):
                await until(lambda: [one.availability.reason for one in every(registry)] == ["no_prior"])

    run(installation, work)


def test_many_that_move_take_a_part_of_the_time_and_hold_up_none_that_stands_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Publishing busy streams takes a bounded share of time and does not delay changed states.

    Six hundred busy streams take a millisecond each, 0.6 s in total, so the next round starts 2.4 s later. A stream
    with a changed status is published in between.
    """

    async def main() -> None:
        loop = cast("VirtualTimeLoop", asyncio.get_running_loop())
        monkeypatch.setattr(state_publisher, "perf_counter", loop.time)
        bus, registry, busy_s = Bus(), Registry(), 0.0
        runners: dict[str, Any] = {}

        def capture() -> None:
            nonlocal busy_s
            loop.spend(0.001)
            busy_s += 0.001

        for owner in range(600):
            key = StreamKey(owner, "script", ES)
            channel = Channel(key, simulated=False, peek=lambda: None)
            stream = SimpleNamespace(own_clock=False, position=1, amended=False, capture=capture)
            runners[key.text] = SimpleNamespace(key=key, channel=channel, stream=stream)
        log: Any = SimpleNamespace(pending_write=lambda _key: None)
        out = StatePublisher(registry, runners, log, bus, bus, "one")
        for partition in range(PARTITIONS):
            await out.take_up(partition)
        for runner in runners.values():
            registry.put(runner.channel)
        async with running(out.run()):
            await until(lambda: len(bus.puts) >= 600)
            began_s, before_s, took_s = loop.time(), busy_s, list[float]()
            for count, runner in enumerate(list(runners.values())[:20]):
                for one in runners.values():
                    one.channel.version += 1
                asked_s, puts = loop.time(), len(bus.puts)
                registry.set_availability(
                    runner.channel, replace(runner.channel.availability, reason=f"reason {count}")
                )
                await until(lambda puts=puts, text=runner.key.text: text in {p.key for p in bus.puts[puts:]})
                took_s.append(loop.time() - asked_s)
                await asyncio.sleep(0.2)
            assert sorted(took_s)[len(took_s) // 2] < 0.3, took_s
            assert max(took_s) < 1.5, "one waited for the next round"
            assert busy_s - before_s < 0.4 * (loop.time() - began_s)

    run_in_virtual_time(main())


def test_a_mirror_takes_no_more_than_its_share_and_the_newest_of_it() -> None:
    """A replica accepts at most 2,000 states a second, and finally the newest one of each stream.

    A burst may add 200 states and one batch of 50. The test publishes 300 streams at full speed.
    """

    async def main() -> None:
        bus, registry, taken = Bus(), Registry(), 0
        into = StateReplica(registry, bus, bus, key_of, Clock(OPEN))
        bodies = [
            state_of(Channel(KEY, simulated=False, peek=lambda: None), None, "one", own_clock=own)
            for own in (False, True)
        ]
        keys = [f"{owner}/script/{ES.key}" for owner in range(300)]
        async with running(into.run()):
            await until(lambda: into.complete)
            take = into._take  # pyright: ignore[reportPrivateUsage]

            def counted(latest: Latest | None) -> None:
                nonlocal taken
                taken += 1
                take(latest)

            into._take = counted  # type: ignore[method-assign]
            loop = asyncio.get_running_loop()
            began_s, count = loop.time(), 0
            while loop.time() - began_s < 0.8:
                count += 1
                await bus.latest.put([Latest(key, (0, count), bodies[0]) for key in keys])
                await asyncio.sleep(0)
            most = 2000 * (loop.time() - began_s) + 250
            assert taken <= most < 300 * count
            await bus.latest.put([Latest(key, (0, count + 1), bodies[1]) for key in keys])
            await until(lambda: all(one.state.own_clock for one in into._known.values()))

    asyncio.run(main())


def test_a_state_of_another_edition_is_told_of_once_and_not_believed(installation: Installation) -> None:
    async def work(harness: EngineHarness) -> None:
        async with paired(harness) as pair:
            harness.engine.attach(0, ScriptFeed([[FIRST, CAUGHT, 1e9]]))
            await until(
                lambda: every(pair.registry) and pair.mirrored().availability.reason in {"live", "no_prior"}
            )
            for body in (msgspec.msgpack.encode(["2.9", 1, 2]), b"\xff", msgspec.msgpack.encode({}), b"\x90"):
                first, count = pair.bus.puts[-1].order
                await pair.bus.put([Latest(KEY.text, (first, count + 1), body)])
                await until(lambda: pair.mirrored().availability.reason == "stale_link")
            await pair.bus.put([Latest("0/script/NOSUCHZ2026", (0, 1), pair.bus.puts[0].body)])
            await until(lambda: len(pair.reports) == 2)

    run(installation, work)

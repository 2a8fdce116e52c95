"""The log on JetStream: one writer at a time, whatever is lost between the processes and NATS."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import pytest
from support.engines.jetstream import JetStream
from tests.contract.lossy_proxy import Between
from tests.contract.trade_logs import KEY, OTHER, frames, jetstream_log
from tests.timeouts import wait_until

from outcry.base.log_events import discard
from outcry.cluster.calls import BusDown
from outcry.cluster.nats import log_format
from outcry.cluster.nats.blocking import BlockingBus
from outcry.cluster.nats.log import STREAM, JetStreamLog
from outcry.cluster.nats.log_stream import LogStream
from outcry.cluster.nats.message_store import MessageStore, WriteConflict
from outcry.cluster.nats.thread import LinkThread
from outcry.database.errors import StoreBusy
from outcry.live.model import Frame, LogDamaged, LogTakenOver

T = TypeVar("T")
SUBJECT = log_format.subject_of("log", KEY)


@contextmanager
def reached_by(url: str, **options: int) -> Iterator[tuple[JetStreamLog, LinkThread]]:
    """Return the log of a process with its own connection to the bus."""
    with LinkThread(url, discard) as thread:
        yield JetStreamLog(thread, discard, **options), thread


@contextmanager
def messages_of(server: JetStream) -> Iterator[Callable[..., object]]:
    """Return the stored messages: call a method of `MessageStore` and wait for it."""
    with LinkThread(server.urls, discard) as thread:
        thread.call(thread.link.up(), 10)
        wait_written = MessageStore(thread.link, STREAM)
        yield lambda name, *given: thread.call(getattr(wait_written, name)(*given), 10)


def wait_written(log: JetStreamLog, key: str = KEY, patience_s: float = 60.0) -> None:
    """Wait for written entries as the engine does."""

    async def wait() -> None:
        if (unkept := log.pending_write(key)) is not None:
            async with asyncio.timeout(patience_s):
                await unkept

    asyncio.run(wait())


def patiently(work: Callable[[], T], patience_s: float = 90.0) -> T:
    """Retry work while the bus is busy, as three servers are just after their start."""
    end_s = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except StoreBusy:
            assert time.monotonic() < end_s


def is_written(log: JetStreamLog, key: str = KEY) -> bool:
    async def ask() -> bool:
        waiting = log.pending_write(key)
        if waiting is None:
            return True
        assert isinstance(waiting, asyncio.Future)
        waiting.cancel()
        return False

    return asyncio.run(ask())


def test_whoever_took_a_stream_up_has_it_and_the_other_is_told(jetstream: JetStream) -> None:
    with jetstream_log(jetstream) as a, jetstream_log(jetstream) as b:
        a.append(KEY, 0, 3, b"a")
        wait_written(a)
        assert b.last(KEY) == 3
        a.check_ownership(KEY)
        b.check_ownership(KEY)
        b.append(KEY, 3, 1, b"b takes over")
        wait_written(b)
        with pytest.raises(LogTakenOver):
            a.check_ownership(KEY)
        a.append(KEY, 3, 2, b"a goes on")
        with pytest.raises(LogTakenOver):
            wait_written(a)
        with pytest.raises(LogTakenOver):  # and again for a later reader
            wait_written(a)
        with pytest.raises(LogTakenOver):
            a.append(KEY, 5, 1, b"void")
        assert frames(a) == frames(b) == [(0, 3, b"a"), (3, 1, b"b takes over")]
        b.append(KEY, 4, 1, b"b")
        wait_written(b)
        with pytest.raises(LogTakenOver):
            a.check_ownership(KEY)
        assert a.last(KEY) == 5  # it is checked again
        a.check_ownership(KEY)
        a.append(KEY, 5, 1, b"a takes it back")
        wait_written(a)
        b.append(KEY, 5, 1, b"late")
        with pytest.raises(LogTakenOver):
            wait_written(b)
        assert frames(b)[-1] == (5, 1, b"a takes it back")


def test_who_stood_still_while_another_wrote_adds_nothing(jetstream: JetStream) -> None:
    with Between(jetstream.ports[0]) as line, reached_by(line.url) as (a, _), jetstream_log(jetstream) as b:
        a.append(KEY, 0, 1, b"a")
        wait_written(a)
        line.hold()
        a.append(KEY, 1, 1, b"written while nothing comes through")
        assert not is_written(a)
        b.last(KEY)
        b.append(KEY, 1, 7, b"b")
        wait_written(b)
        line.go_on()
        with pytest.raises(LogTakenOver):
            wait_written(a)
        assert frames(b) == [(0, 1, b"a"), (1, 7, b"b")]


def race(at: int, logs: dict[str, JetStreamLog]) -> list[str]:
    """Let both append concurrently; return which of them was acknowledged."""
    together, won = threading.Barrier(len(logs)), list[str]()

    def add(name: str) -> None:
        together.wait()
        logs[name].append(KEY, at, 1, name.encode())
        with suppress(LogTakenOver):
            wait_written(logs[name])
            won.append(name)

    both = [threading.Thread(target=add, args=(name,)) for name in logs]
    for one in both:
        one.start()
    for one in both:
        one.join(30)
    return won


def test_of_two_at_once_one_wins_and_the_other_is_told(jetstream: JetStream) -> None:
    with jetstream_log(jetstream) as a, jetstream_log(jetstream) as b:
        won: list[str] = []
        for at in range(30):
            assert a.last(KEY) == b.last(KEY) == at
            (winner,) = race(at, {"a": a, "b": b})
            won.append(winner)
        a.last(KEY)
        assert frames(a) == [(at, 1, name.encode()) for at, name in enumerate(won)]


def test_what_was_written_though_nobody_heard_so_is_not_written_twice(jetstream: JetStream) -> None:
    with Between(jetstream.ports[0]) as line, reached_by(line.url) as (log, _), messages_of(jetstream) as ask:
        log.append(KEY, 0, 1, b"first")
        wait_written(log)
        for n in range(1, 4):
            line.hold(answers_only=True)
            log.append(KEY, n, 1, b"%d" % n)
            while len(ask("some", SUBJECT, 1)) <= n:  # type: ignore[arg-type]
                time.sleep(0.01)
            line.cut()  # the acknowledgement is lost
            line.go_on()
            wait_written(log)
        assert len(ask("some", SUBJECT, 1)) == 4  # type: ignore[arg-type]
        assert frames(log) == [(0, 1, b"first"), (1, 1, b"1"), (2, 1, b"2"), (3, 1, b"3")]


@pytest.mark.parametrize("nodes", ["jetstream", "jetstream_cluster"])
@pytest.mark.parametrize("wait_s", [0.0, 0.4])
def test_a_message_sent_again_is_known_by_its_name(
    request: pytest.FixtureRequest, nodes: str, wait_s: float
) -> None:
    """A repeated message is recognised within JetStream's 200 ms for duplicates and after them.

    One server and three do so in a different order.
    """
    server: JetStream = request.getfixturevalue(nodes)
    with LinkThread(server.urls, discard) as thread:
        thread.call(thread.link.up(), 10)
        stream, asking = (
            MessageStore(thread.link, {**STREAM, "duplicate_window": 200_000_000}),
            BlockingBus(thread, "log"),
        )

        def add(body: bytes, after: int, name: str) -> int:
            return patiently(lambda: asking(lambda: stream.add("log.1.x", body, after, name)))

        first = add(b"one", 0, "a.1")
        second = add(b"two", first, "a.2")
        time.sleep(wait_s)
        assert add(b"two", first, "a.2") == second
        with pytest.raises(WriteConflict):
            add(b"of another", first, "b.1")
        add(b"three", second, "b.2")
        time.sleep(wait_s)
        if wait_s:
            with pytest.raises(WriteConflict):  # it was written, but another writer has continued from there
                add(b"two", first, "a.2")
        assert [one.body for one in thread.call(stream.some("log.1.x", 1), 10)] == [b"one", b"two", b"three"]


def test_a_stream_is_forgotten_only_by_who_has_it(jetstream: JetStream) -> None:
    with jetstream_log(jetstream) as a, jetstream_log(jetstream) as b:
        a.append(KEY, 0, 3, b"a")
        wait_written(a)
        b.last(KEY)
        b.append(KEY, 3, 1, b"b")
        wait_written(b)
        with pytest.raises(LogTakenOver):
            a.forget(KEY)
        assert frames(b) == [(0, 3, b"a"), (3, 1, b"b")]
        a.last(KEY)
        a.forget(KEY)
        assert (a.last(KEY), list(a.keys())) == (0, [])
        b.append(KEY, 4, 1, b"late")
        with pytest.raises(LogTakenOver):
            wait_written(b)
        assert (a.last(KEY), frames(a)) == (0, [])
        a.append(KEY, 0, 1, b"anew")
        wait_written(a)
        b.drop(KEY, 4)  # of the earlier stream
        assert frames(a) == [(0, 1, b"anew")]


def test_what_one_dropped_is_not_more_than_it_knew_of(jetstream: JetStream) -> None:
    with jetstream_log(jetstream) as a, jetstream_log(jetstream) as b:
        for first in range(4):
            a.append(KEY, first, 1, b"old")
            wait_written(a)
        assert b.last(KEY) == 4
        b.forget(KEY)
        for first in range(6):
            b.append(KEY, first, 1, b"new")
            wait_written(b)
        a.drop(KEY, 3)
        assert len(frames(b)) == 6


def test_forgetting_that_was_interrupted_is_finished_by_the_next(jetstream: JetStream) -> None:
    with messages_of(jetstream) as ask, jetstream_log(jetstream) as log:
        log.append(KEY, 0, 3, b"a")
        wait_written(log)
        newest = ask("newest", SUBJECT)
        ask("add", SUBJECT, log_format.encode([]), newest.seq, "it died here")  # type: ignore[attr-defined]
        with jetstream_log(jetstream) as other:
            assert other.last(KEY) == 0
            assert (frames(other), list(other.keys())) == ([], [])
            other.append(KEY, 0, 1, b"anew")
            assert frames(other) == [(0, 1, b"anew")]


def test_while_the_bus_is_away_entries_wait_and_no_more_than_may(jetstream: JetStream) -> None:
    """Up to 5000 bytes may be pending: 41 of the 100 entries of 20 + 100 bytes."""
    with Between(jetstream.ports[0]) as line, reached_by(line.url, max_pending_bytes=5000) as (log, thread):
        log.append(KEY, 0, 1, b"x" * 100)
        wait_written(log)
        assert log.pending_write(KEY) is None
        line.hold()
        fit = 5000 // 120
        for first in range(1, 1 + fit):
            log.append(KEY, first, 1, b"x" * 100)
        for _ in range(2):
            with pytest.raises(OSError, match="buffer of unacknowledged entries"):
                log.append(KEY, 1 + fit, 1, b"x" * 100)
        assert not is_written(log)
        while thread.link.connected:
            time.sleep(0.01)
        line.cut()
        line.go_on()
        wait_written(log)
        log.append(KEY, 1 + fit, 1, b"and on")
        wait_written(log)
        assert [frame[0] for frame in frames(log)] == [*range(2 + fit)]


def test_nobody_waits_for_what_is_kept_though_its_writer_has_not_noticed(
    jetstream: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test waits between the acknowledgement of the last message and the writer's next check."""
    with jetstream_log(jetstream) as log:
        looked, asked = threading.Event(), threading.Event()
        usual = log._take

        def late(stream: LogStream) -> bool:
            if not stream.pending:
                looked.set()
                asked.wait(10)
            return usual(stream)

        monkeypatch.setattr(log, "_take", late)
        log.append(KEY, 0, 1, b"a")
        assert looked.wait(10)
        try:
            assert is_written(log)
        finally:
            asked.set()
        log.append(KEY, 1, 1, b"b")
        wait_written(log)
        assert frames(log) == [(0, 1, b"a"), (1, 1, b"b")]


def test_a_bus_that_is_there_and_takes_nothing_is_told_of_and_that_it_does_again(
    jetstream: JetStream,
) -> None:
    reports: list[str] = []
    with LinkThread(jetstream.urls, discard) as thread:
        log = JetStreamLog(thread, lambda event, **_: reports.append(event))
        log.append(KEY, 0, 1, b"a")
        wait_written(log)
        usual = log._store.add

        async def refuse(*_: object) -> int:
            raise BusDown("no leader")

        log._store.add = refuse  # type: ignore[method-assign]
        log.append(KEY, 1, 1, b"b")
        wait_until(lambda: log.stuck)
        log._store.add = usual  # type: ignore[method-assign]
        wait_written(log)
        assert not log.stuck
        assert reports == ["nats_log_stalled", "nats_log_resumed"]


def test_what_comes_while_a_message_is_on_its_way_goes_in_the_next(jetstream: JetStream) -> None:
    with Between(jetstream.ports[0]) as line, reached_by(line.url) as (log, _), messages_of(jetstream) as ask:
        log.append(KEY, 0, 1, b"alone")
        wait_written(log)
        line.hold(answers_only=True)
        log.append(KEY, 1, 1, b"on its way")
        while len(ask("some", SUBJECT, 1)) < 2:  # type: ignore[arg-type]
            time.sleep(0.01)
        for first in range(2, 202):
            log.append(KEY, first, 1, b"%d" % first)
        log.cut(KEY)
        log.append(KEY, 202, 1, b"after the cut")
        line.go_on()
        wait_written(log)
        stored = [len(list(log_format.decode(one.body))) for one in ask("some", SUBJECT, 1)]  # type: ignore[attr-defined]
        assert stored == [1, 1, 200, 1]
        assert [frame[0] for frame in frames(log)] == [*range(203)]


def test_reading_does_not_wait_for_what_is_on_its_way(jetstream: JetStream) -> None:
    with Between(jetstream.ports[0]) as line, reached_by(line.url) as (log, _):
        log.append(KEY, 0, 2, b"kept")
        wait_written(log)
        line.hold(answers_only=True)
        log.append(KEY, 2, 1, b"not yet")
        log.append(KEY, 3, 1, b"nor this")
        assert frames(log, 2) == [(2, 1, b"not yet"), (3, 1, b"nor this")]
        line.go_on()
        assert frames(log) == [(0, 2, b"kept"), (2, 1, b"not yet"), (3, 1, b"nor this")]


def test_a_log_that_cannot_be_reached_says_so(jetstream: JetStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outcry.cluster.nats.blocking.PATIENCE_S", 0.3)
    with Between(jetstream.ports[0]) as line, reached_by(line.url) as (log, _):
        line.hold()
        for use in (log.keys, lambda: log.last(KEY), lambda: log.read(KEY, 0), lambda: log.forget(KEY)):
            with pytest.raises(StoreBusy):
                use()
        with pytest.raises(OSError, match="cannot be reached"):
            log.append(KEY, 0, 1, b"")
        # The connection takes a moment to recover.
        monkeypatch.setattr("outcry.cluster.nats.blocking.PATIENCE_S", 10.0)
        line.go_on()
        line.cut()
        assert log.last(KEY) == 0
        monkeypatch.setattr("outcry.cluster.nats.blocking.PATIENCE_S", 0.3)
        log.append(KEY, 0, 1, b"")
        wait_written(log)
        line.hold()
        log.append(KEY, 1, 1, b"")
        with pytest.raises(OSError, match="acknowledge"):
            log.sync()
        line.go_on()
        line.cut()
        wait_written(log)


def test_an_entry_that_the_server_does_not_take_is_refused_at_once(jetstream: JetStream) -> None:
    with jetstream_log(jetstream) as log:
        log.append(KEY, 0, 1, b"x" * (2 << 20))
        with pytest.raises(OSError, match="max_payload"):
            log.append(KEY, 1, 1, b"x" * (8 << 20))
        log.append(KEY, 1, 1, b"goes on")
        wait_written(log)
        assert [len(frame[2]) for frame in frames(log)] == [2 << 20, 7]


def test_a_long_log_is_read_in_parts_from_any_entry(jetstream: JetStream) -> None:
    """Read 3000 messages, mixed with those of another stream, from the positions of three readers."""
    with jetstream_log(jetstream) as log:
        for n in range(3000):
            log.append(KEY, 2 * n, 2, b"%d" % n)
            log.append(OTHER, n, 1, b"other")
            log.cut(KEY)
        wait_written(log)
        whole = frames(log)
        assert whole == [(2 * n, 2, b"%d" % n) for n in range(3000)]
        for first in (1, 777, 5998, 5999, 6000):
            assert frames(log, first) == whole[first // 2 :]
        log.drop(KEY, 2001)
        assert frames(log) == whole[1000:]
        assert frames(log, 500) == whole[1000:]


def test_what_was_written_twice_is_read_once_and_what_is_no_log_is_told(jetstream: JetStream) -> None:
    with messages_of(jetstream) as ask, jetstream_log(jetstream) as log:
        one, two = Frame(0, 2, b"one"), Frame(2, 1, b"two")
        at = ask("add", SUBJECT, log_format.encode([one]), 0, "1")
        at = ask("add", SUBJECT, log_format.encode([one, two]), at, "2")
        assert frames(log) == [(0, 2, b"one"), (2, 1, b"two")]
        at = ask("add", SUBJECT, log_format.encode([Frame(9, 1, b"")]), at, "3")
        log.last(KEY)
        with pytest.raises(LogDamaged, match="3 to 9 are missing"):
            frames(log)
        ask("add", SUBJECT, b"\7what", at, "4")
        with pytest.raises(LogDamaged, match="form"):
            log.last(KEY)


def test_a_node_that_dies_takes_nothing_along(jetstream_cluster: JetStream) -> None:
    """Kill and restart each node while eight streams are appended to: no acknowledged entry is lost."""
    keys = [f"0/demo/ES{month}2026" for month in "FGHJKMNQ"]
    done = threading.Event()
    acknowledged = dict.fromkeys(keys, 0)
    longest_s = [0.0]

    async def follow(log: JetStreamLog, key: str) -> None:
        while not done.is_set():
            at = acknowledged[key]
            log.append(key, at, 1, b"%s %d" % (key.encode(), at))
            begun_s = time.monotonic()
            if (unkept := log.pending_write(key)) is not None:
                async with asyncio.timeout(60):
                    await unkept
            longest_s[0] = max(longest_s[0], time.monotonic() - begun_s)
            acknowledged[key] = at + 1
            await asyncio.sleep(0.001)

    async def follow_all(log: JetStreamLog) -> None:
        await asyncio.gather(*(follow(log, key) for key in keys))

    with jetstream_log(jetstream_cluster) as log:
        for key in keys:
            assert patiently(lambda key=key: log.last(key)) == 0
        worker = threading.Thread(target=lambda: asyncio.run(follow_all(log)))
        worker.start()
        for node in range(3):
            before = min(acknowledged.values())
            jetstream_cluster.kill(node)
            while min(acknowledged.values()) < before + 20:
                assert worker.is_alive()
                time.sleep(0.01)
            jetstream_cluster.start(node)
            jetstream_cluster.ready()
        done.set()
        worker.join(70)
    with jetstream_log(jetstream_cluster) as log:
        for key in keys:
            assert frames(log, key=key) == [
                (n, 1, b"%s %d" % (key.encode(), n)) for n in range(acknowledged[key])
            ]
    assert longest_s[0] < 30.0, longest_s
    assert min(acknowledged.values()) > 60

"""Concurrent processes on one PostgreSQL, and calls while the server does not respond."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from signal import Signals

import pytest
from sqlalchemy import inspect, text
from support.engines.postgres import Postgres
from tests.contract.databases import Place, Places
from tests.contract.outbox_harness import BEGIN_NS, EVERYONE, LEASE_NS, Harness, S

from outcry.access.licences import Grant, resolve
from outcry.database.database import Database, open_engine
from outcry.database.errors import StoreBusy
from outcry.database.migrate import NotUnicode, migrate
from outcry.delivery.fan_out import OutboxEntries
from outcry.delivery.outbox import SqlOutbox
from outcry.delivery.outbox_model import EntryPhase
from outcry.live.model import AlertRow, FanOut
from outcry.live.store import LiveStore
from outcry.sessions.store import SqlStore


@pytest.fixture
def place(places: Places, tmp_path: Path) -> Iterator[Place]:
    with places.place("postgresql", tmp_path) as made:
        yield made


def all_at_once(works: Sequence[Callable[[], object]], patience_s: float = 90.0) -> None:
    """Run each in a separate thread, as processes would; raise the first error."""
    gate, faults = threading.Barrier(len(works)), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        gate.wait(30)
        try:
            work()
        except BaseException as fault:  # noqa: BLE001 - told to the test
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
    assert not any(thread.is_alive() for thread in threads)
    if faults:
        raise faults[0]


# -- a database created by an operator


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_text_is_refused_by_name_and_left_empty(
    postgres: Postgres, encoding: str
) -> None:
    name = postgres.database(encoding=encoding)
    engine = open_engine(postgres.url(name))
    try:
        with pytest.raises(NotUnicode, match=f"{encoding}.*createdb"):
            migrate(engine)
        assert inspect(engine).get_table_names() == []
    finally:
        engine.dispose()
        postgres.drop(name)


# -- concurrency


def test_whoever_reads_alerts_by_number_misses_none_however_many_record(place: Place) -> None:
    """Four processes record 60 alerts each; a fifth reads those after the last number it saw and misses none."""
    harness = Harness(place.open())
    over, read = threading.Event(), list[AlertRow]()

    def record(number: int) -> None:
        live = LiveStore(place.open(), OutboxEntries())
        for n in range(30):
            rows = [replace(harness.alert(), key=f"{number}:{n}:{half}") for half in range(2)]
            assert len(live.record_alerts(rows, {f"{number}/demo/ES": n})) == 2

    def records() -> None:
        try:
            all_at_once([lambda number=number: record(number) for number in range(4)])
        finally:
            over.set()

    def reads() -> None:
        live = LiveStore(place.open(), OutboxEntries())
        ended = False
        while not ended:
            ended = over.is_set()  # before the last read
            read.extend(live.alerts([0], after_seq=read[-1].seq if read else 0))

    all_at_once([records, reads])
    wanted = {f"{number}:{n}:{half}" for number in range(4) for n in range(30) for half in range(2)}
    assert Counter(row.key for row in read) == Counter(wanted)


def test_workers_of_several_processes_deliver_each_message_once_and_never_two_of_a_lane(place: Place) -> None:
    """Meanwhile alerts are recorded, some are sent again, and subscriptions are changed and removed."""
    harness = Harness(place.open())
    lanes = [harness.subscribe() for _ in range(40)]
    changing, removed = lanes[:4], lanes[4:8]
    over, guard = threading.Event(), threading.Lock()
    busy, sent = set[int](), Counter[tuple[int, str]]()

    def record() -> None:
        live = LiveStore(place.open(), OutboxEntries())
        for _ in range(30):
            rows = [harness.alert() for _ in range(2)]
            live.record_alerts(rows, {}, FanOut(lambda _owner, _root: EVERYONE, BEGIN_NS))

    def change() -> None:
        for n in range(20):
            for number in changing:
                harness.change(number, label=str(n), ordered=bool(n % 2))
        for number in removed:
            harness.subscriptions.remove_subscription(1, number)

    def records() -> None:
        try:
            all_at_once([record, record, change])
        finally:
            over.set()

    def deliver(worker: str) -> None:
        outbox, now_ns = SqlOutbox(place.open()), BEGIN_NS
        while True:
            ended = over.is_set()
            # After the second in which alerts are collected. Leases are longer than the whole test.
            now_ns += 2 * S
            messages = outbox.claim(worker, now_ns, 1000 * LEASE_NS, 5, 5)
            numbers = {message.subscription.id for message in messages}
            with guard:
                assert not numbers & busy, "a queue was claimed that another holds"
                busy.update(numbers)
                sent.update((p.subscription.id, entry.alert.key) for p in messages for entry in p.entries)
            with guard:
                busy.difference_update(numbers)
            outbox.record(
                [
                    replace(harness.done(message), queue=replace(message.queue, sent_ns=now_ns))
                    for message in messages
                ]
            )
            if ended and not messages:
                return

    all_at_once([records, *(lambda n=n: deliver(f"w{n}") for n in range(4))])
    stay = [number for number in lanes if number not in removed]
    assert Counter({place_: n for place_, n in sent.items() if place_[0] in stay and n != 1}) == Counter()
    assert Counter(number for number, _ in sent if number in stay) == Counter(dict.fromkeys(stay, 120))
    assert {harness.outbox.backlog(1, number).waiting for number in stay} == {0}


def test_no_two_wait_for_each_other_whatever_is_done_to_the_same_lanes(place: Place) -> None:
    """All transactions lock rows in the same order, so the database never ends one because of a deadlock."""
    harness = Harness(place.open())
    numbers = [harness.subscribe() for _ in range(12)]
    harness.fire(2)

    def sends() -> None:
        outbox = SqlOutbox(place.open())
        for n in range(40):
            messages = outbox.claim("w", BEGIN_NS + n * 2 * S, LEASE_NS, 12, 12)
            outbox.record([harness.done(message, EntryPhase.DEAD) for message in messages])

    def fires() -> None:
        live = LiveStore(place.open(), OutboxEntries())
        for _ in range(20):
            live.record_alerts([harness.alert()], {}, FanOut(lambda _owner, _root: EVERYONE, BEGIN_NS))

    def asks(which: Sequence[int]) -> None:
        outbox = SqlOutbox(place.open())
        for _ in range(4):
            for number in which:
                outbox.resend_failed(1, number, 0, BEGIN_NS)

    def sweeps() -> None:
        outbox = SqlOutbox(place.open())
        for _ in range(20):
            outbox.forget_old(BEGIN_NS + S)

    def forgets() -> None:
        database = place.open()
        sessions, live = SqlStore(database), LiveStore(database, OutboxEntries())
        for _ in range(4):
            sessions.forget_source("demo", live.forget_feed)

    def removes() -> None:
        for number in numbers[::3]:
            harness.subscriptions.remove_subscription(1, number)

    all_at_once([
        sends, sends, fires, fires, lambda: asks(numbers), lambda: asks(numbers[::-1]), sweeps, sweeps, forgets, removes
    ])  # fmt: skip
    with harness.database.reading() as connection:
        rows = connection.execute(
            text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        )
        assert rows.scalar_one() == 0


def test_what_is_asked_for_twice_at_once_is_entered_once_and_numbered_without_a_gap(place: Place) -> None:
    harness = Harness(place.open())
    harness.fire(50)
    number = harness.subscribe()
    sees = resolve(1, 0, "free", [Grant("everyone", "live", (), None, None)])
    counts: list[int] = []

    def asks() -> None:
        counts.append(SqlOutbox(place.open()).resend_missing(sees, number, 0, BEGIN_NS))

    def fires() -> None:
        harness.fire(10)

    all_at_once([asks, asks, asks, fires])
    numbers = list[int]()
    harness.now_ns += 2 * S
    while messages := harness.claim():
        numbers += [entry.number for message in messages for entry in message.entries]
        for message in messages:
            harness.finish(message)
        harness.now_ns += 2 * S
    assert sum(counts) == 50
    assert sorted(numbers) == list(range(1, 61))


# -- while it does not respond


@contextmanager
def silent(server: Postgres) -> Iterator[None]:
    """Stop the server while every connection is open."""
    server.pause()
    try:
        yield
    finally:
        server.go_on()


def refused(work: Callable[[], object]) -> None:
    """Assert that a call ends as `StoreBusy`, while the server does not respond."""
    with pytest.raises(StoreBusy):
        work()


def test_after_it_was_started_again_the_next_call_works(place: Place, postgres: Postgres) -> None:
    database = place.open()
    store = SqlStore(database)
    # the pool has several connections
    all_at_once([store.revision] * 5)
    for how in (Signals.SIGINT, Signals.SIGQUIT):
        postgres.restart(how)
        all_at_once([store.revision] * 5)
        assert store.ensure_user("a@example.com", 1) == 1


def test_a_transaction_that_it_is_lost_in_is_told_as_busy_and_keeps_nothing(
    place: Place, postgres: Postgres
) -> None:
    store = SqlStore(place.open())
    before = store.revision()

    def interrupted(database: Database) -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO users (email, created_ns, handle) VALUES ('x', 1, '')"))
            postgres.restart()
            connection.execute(text("SELECT 1"))

    with pytest.raises(StoreBusy):
        interrupted(place.open())
    assert (store.revision(), store.find_user("x")) == (before, None)


def test_while_it_is_down_a_call_is_refused_at_once(place: Place, postgres: Postgres) -> None:
    store = SqlStore(place.open())
    store.revision()
    postgres.stop()
    try:
        with pytest.raises(StoreBusy):
            store.revision()
    finally:
        postgres.start()
    assert store.revision() >= 1


def test_calls_to_a_suspended_server_end_as_busy(place: Place, postgres: Postgres) -> None:
    store, elsewhere = SqlStore(place.open()), SqlStore(place.open())
    all_at_once([store.revision] * 5)
    with silent(postgres):
        # from the pool; newly connected; and forty at once, more than the size of the pool
        refused(store.revision)
        refused(elsewhere.revision)
        all_at_once([partial(refused, store.revision)] * 40)
    assert store.revision() == elsewhere.revision()


def test_a_running_statement_ends_as_busy_when_the_server_is_suspended(
    place: Place, postgres: Postgres
) -> None:
    database = place.open()
    with pytest.raises(StoreBusy), database.write() as connection, silent(postgres):
        connection.execute(text("SELECT 1"))
    assert database.revision() >= 1


def test_a_process_that_stands_still_in_a_transaction_holds_up_the_others_for_seconds(place: Place) -> None:
    store = SqlStore(place.open())
    engine = open_engine(place.url)
    with engine.connect() as paused:
        paused.execute(text("UPDATE revision SET n = n + 1"))
        # its row is locked; the server ends transactions that are idle for five seconds
        end_s = time.monotonic() + 30
        made = None
        while made is None and time.monotonic() < end_s:
            try:
                made = store.ensure_user("a@example.com", 1)
            except StoreBusy:
                continue
        paused.invalidate()
    engine.dispose()
    assert made == 1

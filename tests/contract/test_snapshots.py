"""Contract of snapshot stores: the newest state of a stream, never replaced by an older one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from support.engines.jetstream import JetStream
from tests.contract.databases import KINDS, Places

from outcry.base.log_events import discard
from outcry.cluster.nats.snapshots import JetStreamSnapshots
from outcry.cluster.nats.thread import LinkThread
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.model import Snapshots
from outcry.live.store import LiveStore

ES, NQ = "0/demo/ESH2026", "0/de.mo/NQH2026"


@contextmanager
def on_jetstream(server: JetStream) -> Iterator[Snapshots]:
    with LinkThread(server.urls, discard) as thread:
        yield JetStreamSnapshots(thread)


Opened = Callable[[], AbstractContextManager[Snapshots]]


@pytest.fixture(params=[*KINDS, "jetstream"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Opens the snapshots as one process, and again as another."""
    if request.param == "jetstream":
        server: JetStream = request.getfixturevalue("jetstream")
        yield lambda: on_jetstream(server)
    else:
        places: Places = request.getfixturevalue("places")
        with places.place(request.param, tmp_path) as place:
            yield lambda: nullcontext(LiveStore(place.open(), OutboxEntries()))


@pytest.fixture
def store(opened: Opened) -> Iterator[Snapshots]:
    with opened() as made:
        yield made


def test_a_snapshot_is_not_replaced_by_an_older_one(store: Snapshots) -> None:
    assert store.snapshot(ES) is None
    store.save_snapshots([(ES, 10, b"ten\x00"), (NQ, 1, b"")])
    store.save_snapshots([(ES, 9, b"nine"), (NQ, 2, b"two")])
    assert store.snapshot(ES) == (10, b"ten\x00")
    assert store.snapshot(NQ) == (2, b"two")
    store.save_snapshots([(ES, 10, b"again")])
    assert store.snapshot(ES) == (10, b"again")
    store.save_snapshots([(ES, 12, b"twelve"), (ES, 11, b"eleven")])
    assert store.snapshot(ES) == (12, b"twelve")
    store.save_snapshots([])


def test_one_process_does_not_replace_what_another_has_kept_since(opened: Opened) -> None:
    with opened() as a, opened() as b:
        a.save_snapshots([(ES, 5, b"a5")])
        b.save_snapshots([(ES, 9, b"b9")])
        a.save_snapshots([(ES, 8, b"a8")])  # it has not seen the other's snapshot yet
        assert a.snapshot(ES) == b.snapshot(ES) == (9, b"b9")
        a.save_snapshots([(ES, 11, b"a11")])
        b.save_snapshots([(ES, 10, b"b10")])
        assert a.snapshot(ES) == b.snapshot(ES) == (11, b"a11")
    with opened() as later:
        assert later.snapshot(ES) == (11, b"a11")


def test_a_forgotten_snapshot_is_gone_and_another_may_be_older(opened: Opened) -> None:
    with opened() as a, opened() as b:
        a.save_snapshots([(ES, 5, b"5"), (NQ, 5, b"5")])
        b.forget_snapshot(ES)
        assert (a.snapshot(ES), b.snapshot(NQ)) == (None, (5, b"5"))
        b.forget_snapshot(ES)
        a.save_snapshots([(ES, 6, b"of a process that does not know")])
        b.forget_snapshot(ES)
        b.save_snapshots([(ES, 1, b"anew")])
        assert a.snapshot(ES) == (1, b"anew")


def test_a_large_snapshot_is_kept_whole(store: Snapshots) -> None:
    """Store two million bytes without repetition."""
    buffer = b"".join((n * n).to_bytes(8, "little") for n in range(250_000))
    store.save_snapshots([(ES, 1, buffer)])
    assert store.snapshot(ES) == (1, buffer)


def test_of_many_writers_the_newest_stays(opened: Opened) -> None:
    with opened() as a, opened() as b:

        def write(store: Snapshots, start: int) -> None:
            for position in range(start, 60, 2):
                store.save_snapshots([(ES, position, b"%d" % position)])

        threads = [threading.Thread(target=write, args=(store, n)) for n, store in enumerate((a, b))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert a.snapshot(ES) == b.snapshot(ES) == (59, b"59")

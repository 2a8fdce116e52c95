"""One queue of the spool between a feed and a service with interruptions: what is sent, when, and no losses.

Trades are distinguished by their price: the `n`-th has price `n` and happens `n` seconds after the start.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from outcry.agent import spooled_queue
from outcry.agent.spool import Spool
from outcry.agent.spooled_queue import SpooledQueue
from outcry.client.errors import Unreachable
from outcry.live.file_log import FileLog
from outcry.live.model import StreamKey
from outcry.market.instruments import Contract
from outcry.trades.feed import (
    LIVE_TRADE,
    Amend,
    Backfill,
    Bars,
    CaughtUp,
    Event,
    FeedCaps,
    Gap,
    Heartbeat,
    Resume,
    Status,
    Trades,
)
from outcry.trades.push_format import Again, Push
from outcry.trades.records import BAR, Quality
from outcry.trades.reference_tables import load_reference

ES = Contract("ES", 2026, 12)
CAPS = FeedCaps(1, False, True, Backfill.TICKS, 0, Resume.BY_TIME, False)
START_NS = 1_767_366_245_000_000_000
SECOND = 1_000_000_000


def trades(first: int, count: int = 1) -> Trades:
    rows = np.zeros(count, LIVE_TRADE)
    rows["price"], rows["size"], rows["side"] = np.arange(first, first + count), 1, b"N"
    rows["ts_event"] = rows["ts_recv"] = START_NS + np.arange(first, first + count) * SECOND
    return Trades(rows)


def numbers(events: tuple[Event, ...]) -> list[int]:
    return [n for event in events if isinstance(event, Trades) for n in event.rows["price"].tolist()]


class SpoolFolder:
    """A spool in a folder that tests open repeatedly."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open_log: FileLog | None = None

    def start(self, limit_bytes: int = 1 << 30) -> tuple[Spool, SpooledQueue]:
        self.log = FileLog(self.folder)
        self._open_log = self.log
        self._lock = self.log.exclusively()
        self._lock.__enter__()
        spool = Spool(self.log, self.folder, limit_bytes)
        return spool, spool.queue(StreamKey(0, "mine", ES), CAPS)

    def stop(self) -> None:
        if self._open_log is not None:
            self._lock.__exit__(None, None, None)
            self._open_log = None


@pytest.fixture
def spools(tmp_path: Path) -> Iterator[SpoolFolder]:
    made = SpoolFolder(tmp_path)
    yield made
    made.stop()


def add_all(queue: SpooledQueue, some: range) -> None:
    for number in some:
        queue.add(trades(number))


def drained(queue: SpooledQueue, service: dict[str, int] | None = None) -> list[Push]:
    """Push until a service that accepts everything has received all events."""
    known, sent = service if service is not None else {}, []
    while queue.waiting:
        push = queue.push()
        sent.append(push)
        known[push.session] = max(known.get(push.session, push.first), push.first + len(push.events))
        queue.accepted(push, known[push.session])
    return sent


def test_what_is_added_is_sent_in_order_and_once(spools: SpoolFolder) -> None:
    _, queue = spools.start()
    for number in range(100):
        queue.add(trades(number))
    pushes = drained(queue)
    assert [n for push in pushes for n in numbers(push.events)] == list(range(100))
    assert (pushes[0].first, pushes[0].again) == (0, None)
    assert queue.waiting == 0
    assert queue.push().events == ()


def test_a_new_start_goes_on_from_the_run_before(spools: SpoolFolder) -> None:
    """A restart resends all stored events, because it does not know which ones the service accepted.

    It names the run that it continues, and marks all events as possibly known. The former end-of-history event is only
    a heartbeat by then.
    """
    _, queue = spools.start()
    for event in (
        Status(subscribed=True, code="subscribed"),
        CaughtUp(START_NS, Quality.TICKS),
        trades(0, 3),
        trades(3),
    ):
        queue.add(event)
    before = queue.session
    spools.stop()
    _, queue = spools.start()
    assert queue.session != before
    push = queue.push()
    assert push.again is not None
    assert (push.first, push.again.until, push.again.caught_up, push.again.after) == (0, 4, None, before)
    assert push.events[1] == Heartbeat(START_NS)
    assert numbers(push.events) == [0, 1, 2, 3]
    assert queue.position.latest_ns == START_NS + 3 * SECOND
    assert queue.position.recent["price"].tolist() == [1, 2, 3]  # two seconds before the newest
    queue.add(CaughtUp(START_NS + 9 * SECOND, Quality.TICKS))
    drained(queue)
    assert queue.again is None
    assert queue.caught_up == CaughtUp(START_NS + 9 * SECOND, Quality.TICKS)


def test_a_service_that_has_forgotten_is_sent_the_last_five_seconds_again(spools: SpoolFolder) -> None:
    _, queue = spools.start()
    queue.add(CaughtUp(START_NS, Quality.TICKS))
    for number in range(20):
        queue.add(trades(number))
    drained(queue)
    queue.add(trades(20))
    push = queue.push()
    assert queue.rewind(push)
    push = queue.push()
    assert numbers(push.events) == [14, 15, 16, 17, 18, 19, 20]
    assert push.again is not None
    assert (push.again.until, push.again.caught_up) == (22, CaughtUp(START_NS, Quality.TICKS))
    assert not queue.rewind(push)  # it just ran
    drained(queue)


def test_the_next_service_learns_which_events_the_dead_one_may_have_had(spools: SpoolFolder) -> None:
    """A third service may find trades in the log that only the second one received.

    The first of two services that fail one after the other has accepted everything. The second receives what the first
    lost and one more trade, and does not respond again.
    """
    _, queue = spools.start()
    add_all(queue, range(20))
    drained(queue)
    queue.add(trades(20))
    assert queue.rewind(queue.push())
    queue.add(trades(21))
    push = queue.push()
    assert push.again is not None
    assert (push.again.until, push.first + len(push.events)) == (22, 22)


def test_what_another_brought_while_a_line_had_to_wait_may_be_known(spools: SpoolFolder) -> None:
    """Two processes follow one feed and start anew at a new owner; it accepts the trades of one, which then dies."""
    _, queue = spools.start()
    queue.add(CaughtUp(START_NS, Quality.TICKS))
    add_all(queue, range(20))
    drained(queue)
    queue.renew()
    refused = queue.push()
    add_all(queue, range(20, 30))
    push = queue.push()
    assert (refused.again, push.again) == (
        Again(21, CaughtUp(START_NS, Quality.TICKS), refused.again.after),
        Again(31, CaughtUp(START_NS, Quality.TICKS), refused.again.after),
    )
    drained(queue)
    assert queue.again is None
    add_all(queue, range(30, 31))
    assert queue.push().again is None


def test_who_comes_after_a_service_that_took_some_is_sent_the_seconds_before_too(spools: SpoolFolder) -> None:
    """A service that takes over receives the preceding seconds again.

    The first of two services that fail one after the other accepted part of its lost events. The second finds that part
    in the log, and without the preceding seconds could mistake a new trade for an identical old one.
    """
    _, queue = spools.start()
    add_all(queue, range(20))
    drained(queue)
    queue.renew()
    push = queue.push()
    assert numbers(push.events) == [14, 15, 16, 17, 18, 19]
    assert queue.accepted(push, push.first + 4)
    push = queue.push()
    assert (numbers(push.events), push.again) == ([18, 19], None)
    assert queue.rewind(push)
    push = queue.push()
    assert numbers(push.events) == [14, 15, 16, 17, 18, 19]
    assert push.again == Again(20)


def test_an_answer_that_cannot_be_is_none(spools: SpoolFolder) -> None:
    _, queue = spools.start()
    queue.add(trades(0))
    push = queue.push()
    for until in (-1, 2, 2**62):
        with pytest.raises(Unreachable, match="counts"):
            queue.accepted(push, until)
    queue.renew()
    assert queue.accepted(push, 99)  # an answer to a finished run has no effect
    assert queue.waiting == 1


def test_a_backlog_larger_than_memory_is_read_from_disk(
    spools: SpoolFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_queue, "READY_BYTES", 4000)
    _, queue = spools.start()
    for number in range(0, 3000, 3):
        queue.add(trades(number, 3))
    found = [n for push in drained(queue) for n in numbers(push.events)]
    assert found == list(range(3000))


def test_what_is_taken_is_let_go_of_but_for_the_last_seconds(
    spools: SpoolFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_queue, "SEGMENT_BYTES", 2000)
    _, queue = spools.start()
    for number in range(1000):
        queue.add(trades(number))
        drained(queue)
    assert queue.size < 6000
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert on_disk < 8000
    spools.stop()
    _, queue = spools.start()
    assert numbers(queue.push().events)[-6:] == [994, 995, 996, 997, 998, 999]
    assert queue.position.latest_ns == START_NS + 999 * SECOND


def test_a_full_spool_drops_the_oldest_and_reports_a_gap(
    spools: SpoolFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full spool reports its dropped trades as one gap, also after a restart, until the service has received it.

    Of 1,000 trades, one a second, about the last hundred fit. The gap includes the corrections in it and the end of
    history.
    """
    monkeypatch.setattr(spooled_queue, "SEGMENT_BYTES", 2000)
    spool, queue = spools.start(limit_bytes=10_000)
    queue.add(CaughtUp(START_NS, Quality.TICKS))
    queue.add(Amend(5, "cancel"))
    for number in range(1000):
        queue.add(trades(number))
        spool.make_room()
    assert spool.size <= 10_000
    events = queue.push().events
    gap = events[0]
    assert isinstance(gap, Gap)
    first = (gap.to_ns - 1 - START_NS) // SECOND + 1
    assert first > 800
    assert gap == Gap(START_NS, START_NS + (first - 1) * SECOND + 1, "aged_out")
    assert events[1:3] == (Amend(5, "cancel"), CaughtUp(START_NS, Quality.TICKS))
    spools.stop()
    spool, queue = spools.start(limit_bytes=10_000)
    push = queue.push()
    assert push.events[0] == gap
    found = [n for one in drained(queue) for n in numbers(one.events)]
    assert found == list(range(first, 1000))
    spools.stop()
    _, queue = spools.start()
    assert not any(isinstance(event, Gap) for event in queue.push().events)  # the service accepted it


def test_a_full_disk_holds_nothing_up_until_the_memory_is_full_too(
    spools: SpoolFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spooled_queue, "MAX_UNSAVED_BYTES", 1500)
    spool, queue = spools.start()
    queue.add(trades(0))
    append = spools.log.append

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(spools.log, "append", full)
    for number in range(1, 10):
        queue.add(trades(number))
    assert queue.unsaved
    assert [n for push in drained(queue) for n in numbers(push.events)] == list(range(10))
    with pytest.raises(OSError, match="no space"):
        add_all(queue, range(10, 100))
    known = queue.end
    monkeypatch.setattr(spools.log, "append", append)
    spool.sync()
    assert not queue.unsaved
    assert spools.log.last("0/mine/ES" + "Z2026") == known
    queue.add(trades(known))
    assert [n for push in drained(queue) for n in numbers(push.events)] == list(range(10, known + 1))


def test_bars_are_known_again_after_a_start(spools: SpoolFolder) -> None:
    _, queue = spools.start()
    rows = np.zeros(2, BAR)
    rows["ts_event"] = START_NS, START_NS + 60 * SECOND
    queue.add(Bars(rows, Quality.BARS_1M, backfill=True))
    spools.stop()
    _, queue = spools.start()
    assert (queue.position.last_bar_ns, queue.position.barred_ns) == (
        START_NS + 60 * SECOND,
        START_NS + 120 * SECOND,
    )
    assert queue.position.latest_ns == queue.position.barred_ns


def test_lines_left_over_are_found_with_what_their_feed_could_do(spools: SpoolFolder) -> None:
    _, queue = spools.start()
    queue.add(trades(0))
    spools.stop()
    log = FileLog(spools.folder)
    with log.exclusively():
        spool = Spool(log, spools.folder, 1 << 30)
        assert spool.left_over(load_reference().universe) == [(StreamKey(0, "mine", ES), CAPS)]
        spool.forget(StreamKey(0, "mine", ES))
        assert spool.left_over(load_reference().universe) == []

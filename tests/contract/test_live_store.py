"""Contract of live stream stores: alerts are recorded once, and positions never decrease."""

import threading
from dataclasses import dataclass, replace
from datetime import date

import pytest
from tests.contract.databases import Place

from outcry.database.errors import StoreBusy
from outcry.delivery.fan_out import OutboxEntries
from outcry.live.model import AlertRow, StreamKey
from outcry.live.store import LiveStore
from outcry.market.alerts.machine import AlertType
from outcry.market.calendar import SessionKind
from outcry.market.instruments import Contract
from outcry.sessions.store import SqlStore

DAY = date(2026, 1, 2)
ES, NQ = "0/demo/ESH2026", "0/demo/NQH2026"
ALERT = AlertRow(
    owner=0, feed="demo", contract="ESH2026", symbol="ES", type=AlertType.IB_BREAK_UP, severity="critical",
    session=SessionKind.RTH, trade_date=DAY, key="ES:ib-break-up:1767366245123", at_ns=1_767_366_245_123_456_789,
    price_e9=-37_630_000_000, ref="IBH", params={"ibHigh": 2**62, "brackets": [1, 2], "label": "é", "none": None},
    invented=True,
)  # fmt: skip


@dataclass
class Both:
    """A store of streams, and the store of sessions in the same database."""

    live: LiveStore
    sessions: SqlStore


@pytest.fixture
def both(place: Place) -> Both:
    database = place.open()
    return Both(LiveStore(database, OutboxEntries()), SqlStore(database))


@pytest.fixture
def store(both: Both) -> LiveStore:
    return both.live


def numbered(count: int, **changes: object) -> list[AlertRow]:
    return [replace(ALERT, key=f"ES:ib-break-up:{n}", at_ns=n, **changes) for n in range(count)]


def test_an_alert_is_read_back_whole(store: LiveStore) -> None:
    (recorded,) = store.record_alerts([ALERT], {ES: 7})
    assert recorded == replace(ALERT, seq=recorded.seq)
    assert recorded.seq > 0
    (read,) = store.alerts([0])
    assert read == recorded
    assert isinstance(read.type, AlertType)
    assert isinstance(read.session, SessionKind)
    assert read.invented is True
    assert store.position(ES) == 7


def test_when_an_alert_was_recorded_is_kept_of_the_first_time_only(store: LiveStore) -> None:
    late = replace(ALERT, recorded_ns=ALERT.at_ns + 9)
    (recorded,) = store.record_alerts([late], {ES: 7})
    assert recorded.recorded_ns == ALERT.at_ns + 9
    assert store.record_alerts([replace(ALERT, recorded_ns=ALERT.at_ns + 99)], {ES: 8}) == []
    assert [row.recorded_ns for row in store.alerts([0])] == [ALERT.at_ns + 9]


def test_what_was_recorded_is_not_recorded_again(store: LiveStore) -> None:
    """A replay repeats the old alert and adds a new one: only the new one is returned, the old one is unchanged."""
    (old,) = store.record_alerts([ALERT], {ES: 7})
    changed = replace(ALERT, price_e9=5)
    new = replace(ALERT, key="ES:ib-break-down:1", type=AlertType.IB_BREAK_DOWN)
    returned = store.record_alerts([changed, new, new], {ES: 9})
    assert [(row.key, row.seq > old.seq) for row in returned] == [(new.key, True)]
    assert store.alerts([0]) == [old, *returned]
    assert store.record_alerts([changed, new], {ES: 9}) == []


def test_the_same_key_of_another_feed_or_owner_is_another_alert(store: LiveStore) -> None:
    rows = [ALERT, replace(ALERT, feed="replay"), replace(ALERT, owner=3)]
    assert [row.feed for row in store.record_alerts(rows, {})] == ["demo", "replay", "demo"]
    assert [row.owner for row in store.alerts([3])] == [3]
    assert store.alerts([]) == []
    assert store.alerts([4]) == []


def test_hundreds_of_alerts_are_numbered_in_the_order_given(store: LiveStore) -> None:
    rows = numbered(350)
    recorded = store.record_alerts(rows, {})
    assert [row.key for row in recorded] == [row.key for row in rows]
    seqs = [row.seq for row in recorded]
    assert seqs == sorted(set(seqs))
    assert store.last_seq() == seqs[-1]
    assert store.record_alerts(rows, {}) == []


def test_alerts_are_chosen_by_number_symbol_and_date(store: LiveStore) -> None:
    later = date(2026, 1, 5)
    a, b, c = store.record_alerts(
        [ALERT, replace(ALERT, key="b", symbol="NQ"), replace(ALERT, key="c", trade_date=later)], {}
    )
    assert store.alerts([0], after_seq=a.seq) == [b, c]
    assert store.alerts([0], after_seq=c.seq) == []
    assert store.alerts([0], before_seq=c.seq) == [a, b]
    assert store.alerts([0], before_seq=c.seq, newest_first=True, limit=1) == [b]
    assert store.alerts([0], limit=2) == [a, b]
    assert store.alerts([0], symbol="NQ") == [b]
    assert store.alerts([0], first=later) == [c]
    assert store.alerts([0], last=DAY, newest_first=True) == [b, a]
    assert store.alerts([0], first=DAY, last=later, symbol="ES") == [a, c]
    assert store.alerts([0], symbol="") == []
    assert store.alerts([0], before_seq=0) == []


def test_positions_go_forwards_only(store: LiveStore) -> None:
    assert store.position(ES) == 0
    store.record_alerts([], {ES: 5, NQ: 2})
    store.record_alerts([], {ES: 3, NQ: 4})
    assert (store.position(ES), store.position(NQ)) == (5, 4)
    store.record_alerts([], {})


def test_everybodys_alerts_are_read_in_order(store: LiveStore) -> None:
    rows = [replace(ALERT, owner=n % 5, key=f"ES:ib-break-up:{n}", at_ns=n) for n in range(20)]
    recorded = store.record_alerts(rows, {})
    assert list(store.alerts(None)) == list(recorded)
    assert list(store.alerts(None, after_seq=recorded[11].seq, limit=5)) == list(recorded[12:17])
    assert list(store.alerts(None, limit=2, newest_first=True)) == [recorded[19], recorded[18]]
    assert store.alerts([]) == []


def test_alerts_and_position_are_kept_together_or_not_at_all(store: LiveStore) -> None:
    broken = replace(ALERT, key="broken", at_ns=None)  # type: ignore[arg-type]
    with pytest.raises(StoreBusy):
        store.record_alerts([ALERT, broken], {ES: 5})
    assert store.alerts([0]) == []
    assert store.position(ES) == 0
    assert store.last_seq() == 0


def test_a_forgotten_stream_keeps_its_alerts(store: LiveStore) -> None:
    store.record_alerts([ALERT], {ES: 5, NQ: 5})
    store.save_snapshots([(ES, 5, b"5"), (NQ, 5, b"5")])
    store.forget_snapshot(ES)
    store.forget_stream(ES)
    assert (store.snapshot(ES), store.position(ES)) == (None, 0)
    assert (store.snapshot(NQ), store.position(NQ)) == ((5, b"5"), 5)
    assert len(store.alerts([0])) == 1
    store.save_snapshots([(ES, 1, b"anew")])
    assert store.snapshot(ES) == (1, b"anew")


def test_a_stream_that_begins_anew_fires_its_alerts_again_and_no_others(store: LiveStore) -> None:
    ours = StreamKey(ALERT.owner, ALERT.feed, Contract(ALERT.symbol, int(ALERT.contract[-4:]), 3))
    assert ours.contract.key == ALERT.contract
    stored = [
        replace(ALERT, owner=3),
        replace(ALERT, feed="other"),
        replace(ALERT, contract="ESM2026", key="another"),
    ]
    store.record_alerts([ALERT, *stored], {ES: 5})
    store.forget_alerts(ours)
    assert [(row.owner, row.feed, row.contract) for row in store.alerts([0, 3])] == [
        (row.owner, row.feed, row.contract) for row in stored
    ]
    assert [row.key for row in store.record_alerts([ALERT], {ES: 6})] == [ALERT.key]


def test_nothing_here_moves_the_revision(both: Both) -> None:
    before = both.sessions.revision()
    both.live.save_snapshots([(ES, 5, b"5")])
    both.live.record_alerts([ALERT], {ES: 5})
    both.live.forget_snapshot(ES)
    both.live.forget_stream(ES)
    assert both.sessions.revision() == before


def test_a_forgotten_source_takes_its_streams_along_and_no_number_is_used_again(both: Both) -> None:
    """Feeds whose names contain one another, or `%` and `_`, are distinguished."""
    other = replace(ALERT, feed="demo_2")
    rows = both.live.record_alerts([other, replace(ALERT, owner=3), ALERT], {ES: 5, "3/demo/ESH2026": 5})
    keep = ("0/demo_2/ESH2026", "0/d_mo/ESH2026", "0/replay/demo")
    both.live.record_alerts([], dict.fromkeys(keep, 6))
    both.live.save_snapshots([(stream, 6, b"6") for stream in (*keep, ES, "3/demo/ESH2026")])
    assert both.sessions.forget_source("demo", both.live.forget_feed) == []
    assert both.live.alerts([0, 3]) == [rows[0]]
    assert [both.live.position(stream) for stream in (*keep, ES, "3/demo/ESH2026")] == [6, 6, 6, 0, 0]
    assert [both.live.snapshot(stream) for stream in (ES, "3/demo/ESH2026")] == [None, None]
    assert both.live.snapshot("0/d_mo/ESH2026") == (6, b"6")
    (again,) = both.live.record_alerts([ALERT], {})
    assert again.seq > rows[-1].seq


def test_writers_in_several_threads_record_each_alert_once(store: LiveStore) -> None:
    rows, found = numbered(60), list[AlertRow]()

    def write(start: int) -> None:
        for n in range(60):
            found.extend(store.record_alerts([rows[(start + n) % 60]], {ES: start + n}))

    threads = [threading.Thread(target=write, args=(start,)) for start in (0, 20, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(row.key for row in found) == sorted(row.key for row in rows)
    assert store.alerts([0]) == sorted(found, key=lambda row: row.seq)
    assert store.position(ES) == 99
